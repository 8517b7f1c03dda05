"""Which files are there: a file, a folder, a glob, or a list of them.

Files still being written are left alone: hidden ones, `.tmp`, and names that begin with `_`, in folders and globs. A
path is kept as it was given, relative to the pipeline file, so that the whole folder can be moved.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from semel.books.records import InputFile
from semel.errors import ConfigError, InputChanged, RunFailed
from semel.sources.files.checksum import crc32_of

_GLOB: Final = frozenset("*?[")


@dataclass(frozen=True)
class Found:
    new: list[InputFile]
    touched: list[InputFile]
    """Booked files whose time changed and whose content did not."""


def find_files(paths: Iterable[str], base: Path, booked: Mapping[str, tuple[int, int, int]]) -> Found:
    """What no committed run has booked, in the order of the names; booked files are checked for changes."""
    new, touched = [], []
    seen: set[str] = set()
    for path in paths:
        for file in _expand(path, base, booked):
            if file.path in seen:
                continue
            seen.add(file.path)
            known = booked.get(file.path)
            if known is None:
                new.append(file)
            elif known[:2] != (file.size, file.modified):
                _compare(file, known, base)
                touched.append(file)
    new.sort(key=lambda file: file.path.encode())
    return Found(new, touched)


def locate(path: str, base: Path) -> Path:
    """Where a path of the books lies."""
    return base / path


def stat_file(path: str, base: Path) -> InputFile | None:
    """The file as it is now, or None if it is gone."""
    try:
        status = locate(path, base).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return InputFile(path=path, size=status.st_size, modified=status.st_mtime_ns)


def vanished(path: str, run: str, pipeline_file: str) -> str:
    return (
        f"{path}, which run {run} was planned to read, is gone; put it back and run again, or give up the run with "
        f"`semel void {pipeline_file} {run}`: what is still there is then planned again"
    )


def _compare(file: InputFile, known: tuple[int, int, int], base: Path) -> None:
    size, _, crc32 = known
    if file.size != size:
        raise InputChanged(
            f"{file.path} had {size} bytes when it was booked and has {file.size} now; a file is read once: "
            "put it back as it was, and bring new records under another name"
        )
    if crc32_of(locate(file.path, base)) != crc32:
        raise InputChanged(
            f"{file.path} was changed after it was booked; a file is read once: put it back as it was, and bring "
            "new records under another name"
        )


def _expand(path: str, base: Path, booked: Mapping[str, tuple[int, int, int]]) -> Iterator[InputFile]:
    given = unquote(path.removeprefix("file:").removeprefix("//")) if path.startswith("file:") else path
    name = os.path.normpath(given)
    full = locate(name, base)
    if full.is_dir():
        yield from _walk(name, base)
    elif full.exists():
        yield _file(name, full.stat())
    elif _GLOB & set(given):
        yield from _matches(given, base)
    elif not any(known == name or known.startswith(f"{name}/") for known in booked):
        raise ConfigError(f"source.path: {given!r} does not exist; it is looked for at {full}")


def _matches(pattern: str, base: Path) -> Iterator[InputFile]:
    """Files whose path fits, and the files below folders whose path does; each real folder is entered once."""
    wanted = os.path.normpath(pattern).split("/")
    fixed = next(index for index, part in enumerate(wanted) if _GLOB & set(part))
    folder = "/".join(wanted[:fixed]) or ("/" if pattern.startswith("/") else ".")
    named = frozenset(part for part in wanted if not _GLOB & set(part))
    if locate(folder, base).is_dir():
        for file in _walk(folder, base, named):
            parts = file.path.split("/")
            if any(_fits(parts[:length], wanted) for length in range(1, len(parts) + 1)):
                yield file


def _fits(parts: list[str], wanted: list[str]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_fits(parts[skipped:], wanted[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], wanted[0]) and _fits(parts[1:], wanted[1:])


def _walk(folder: str, base: Path, named: frozenset[str] = frozenset()) -> Iterator[InputFile]:
    """Every finished file below a folder, in the order of the names; links are followed, each real folder once.

    `named` are names that the user has written down: those are taken whatever they look like.
    """
    entered: set[tuple[int, int]] = set()
    pending = [folder]
    while pending:
        current = pending.pop()
        try:
            status = locate(current, base).stat()
            entries = sorted(os.scandir(locate(current, base)), key=lambda entry: entry.name)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise RunFailed(f"the folder {current!r} cannot be listed: {error.strerror}") from None
        if (status.st_dev, status.st_ino) in entered:
            continue
        entered.add((status.st_dev, status.st_ino))
        below: list[str] = []
        for entry in entries:
            if _unfinished(entry.name) and entry.name not in named:
                continue
            name = entry.name if current == "." else f"{current.rstrip('/')}/{entry.name}"
            try:
                if entry.is_dir():
                    below.append(name)
                elif stat.S_ISREG((found := entry.stat()).st_mode):
                    yield _file(name, found)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ELOOP):
                    raise RunFailed(f"{name!r} cannot be looked at: {error.strerror}") from None
        pending.extend(reversed(below))


def _unfinished(name: str) -> bool:
    return name.startswith((".", "_")) or name.endswith(".tmp")


def _file(name: str, status: os.stat_result) -> InputFile:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise RunFailed(f"the file name {name!r} is not UTF-8; rename the file") from None
    return InputFile(path=name, size=status.st_size, modified=status.st_mtime_ns)
