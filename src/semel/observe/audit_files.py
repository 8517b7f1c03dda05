"""Is everything on disk that the books name, byte for byte, and nothing else where readers look?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from semel.books.books import object_name, run_number
from semel.books.claims import CLAIM, Claim
from semel.books.records import BookedFile, FeedFile, SegmentPart
from semel.errors import LedgerDamaged
from semel.ledgers.lake.segment import map_part, verify_part
from semel.model.verdicts import Feed
from semel.observe.audit_books import BooksFound
from semel.observe.audit_report import Findings
from semel.pipeline.config import PipelineConfig
from semel.pipeline.urls import parse_feed
from semel.sinks.parquet import ParquetSink
from semel.sources.files.checksum import crc32_of
from semel.sources.files.discover import locate, stat_file

_THREADS: Final = min(16, 2 * (os.cpu_count() or 1))
_RESTORE_FEED: Final = "restore it from a backup of the feeds"
_RESTORE_LEDGER: Final = "without it duplicates would be accepted: restore it from a backup of the ledger"
_MOVE_AWAY: Final = "move it out of the feed, where readers take it for records"
_UNCOMMITTED: Final = "if its commit was lost, restore the books from a backup; else move it out of the feed"
_PUT_BACK: Final = "put it back as it was, and bring new records under another name"

Item = TypeVar("Item")
Result = TypeVar("Result")


class FeedPart(NamedTuple):
    """A file of a feed that is what its commit says."""

    path: str
    shown: str
    feed: str
    number: int
    """Of the run."""
    size: int


class Input(NamedTuple):
    """A booked input file; it can be read again if it is still there, unchanged."""

    file: BookedFile
    number: int
    is_there: bool
    intact: bool


@dataclass(frozen=True)
class FeedsFound:
    parts: list[FeedPart]
    incomplete: set[int]
    """Numbers of runs of which a file is missing or damaged."""


class _Named(NamedTuple):
    """A file that a commit names, in one of the places that it was published to."""

    path: Path
    feed: str
    number: int
    file: FeedFile


class FilesCheck:
    def __init__(self, config: PipelineConfig, books: BooksFound, findings: Findings) -> None:
        self.config = config
        self.books = books
        self.findings = findings

    def feeds(self, is_committed: Callable[[int], bool]) -> FeedsFound:
        """Check every file of every feed; `is_committed` says whether there is a commit by now."""
        roots = {feed.location.local(self.config.base): None for feed in self.config.feeds}
        named: list[_Named] = []
        for entry in self.books.committed:
            for root in self._roots(entry.commit.sinks, entry.commit.number):
                roots.setdefault(root)
                sink = ParquetSink(root)
                for feed in Feed:
                    files = entry.commit.feeds.get(feed.value, [])
                    folder = sink.run_folder(feed.value, entry.commit.run)
                    if files and not folder.is_dir():
                        what = f"is missing: commit {entry.commit.number} names {len(files)} file(s) in it"
                        self.findings.add("feed file", self._shown(folder), what, _RESTORE_FEED)
                        continue
                    named += [_Named(folder / file.name, feed.value, entry.commit.number, file) for file in files]
        for root in roots:
            self._check_claim(root, "feeds")
            self._check_strays(root, {item.path for item in named}, is_committed)
        return self._intact(named)

    def ledger(self, root: Path) -> dict[int, tuple[str, ...]]:
        """Check the live segments; the paths of the parts of each that is whole, by the number of its run."""
        if self.books.entries:
            self._check_claim(root, "ledger")
        live = self.books.state.segments
        parts = [
            (segment.number, root / segment.folder / part.name, part) for segment in live for part in segment.parts
        ]

        damaged = set()
        for (number, path, _), trouble in _in_parallel(_segment_trouble, parts):
            if trouble is not None:
                damaged.add(number)
                self.findings.add("ledger", self._shown(path), f"cannot be used ({trouble})", _RESTORE_LEDGER)
        whole: dict[int, tuple[str, ...]] = {}
        for number, path, _ in parts:
            if number not in damaged:
                whole[number] = (*whole.get(number, ()), str(path))
        return whole

    def inputs(self) -> list[Input]:
        """Check the booked input files that are still there."""
        booked = [(file, entry.commit.number) for entry in self.books.committed for file in entry.commit.files]
        found = []
        for (file, number), (is_there, trouble) in _in_parallel(self._input_trouble, booked):
            if trouble is not None:
                self.findings.add("input", file.path, trouble, _PUT_BACK)
            found.append(Input(file, number, is_there, is_there and trouble is None))
        return found

    def _input_trouble(self, item: tuple[BookedFile, int]) -> tuple[bool, str | None]:
        file = item[0]
        try:
            now = stat_file(file.path, self.config.base)
            if now is None:
                return False, None
            if now.size != file.size:
                return True, f"had {file.size} bytes when it was booked and has {now.size} now"
            modified = self.books.state.booked.get(file.path, (0, file.modified, 0))[1]
            if now.modified != modified and crc32_of(locate(file.path, self.config.base)) != file.crc32:
                return True, "was changed after it was booked"
        except OSError as error:
            return True, f"cannot be read ({error.strerror})"
        return True, None

    def _roots(self, sinks: Iterable[str], number: int) -> Iterator[Path]:
        for text in sinks:
            try:
                yield parse_feed(text).location.local(self.config.base)
            except ValueError as error:
                where = object_name("commits", number)
                self.findings.add("commit", where, f"names feeds that are none ({error})", "restore it from a backup")

    def _intact(self, named: list[_Named]) -> FeedsFound:
        """Of several copies in several places, one that is whole is enough to read the records from."""
        whole: dict[tuple[int, str, str], FeedPart] = {}
        for item, trouble in _in_parallel(_file_trouble, named):
            if trouble is not None:
                self.findings.add("feed file", self._shown(item.path), trouble, _RESTORE_FEED)
                continue
            part = FeedPart(str(item.path), self._shown(item.path), item.feed, item.number, item.file.size)
            whole.setdefault((item.number, item.feed, item.file.name), part)
        incomplete = {
            entry.commit.number
            for entry in self.books.committed
            for feed in Feed
            if any(
                (entry.commit.number, feed.value, file.name) not in whole
                for file in entry.commit.feeds.get(feed.value, ())
            )
        }
        return FeedsFound(list(whole.values()), incomplete)

    def _check_claim(self, root: Path, key: str) -> None:
        try:
            claim = msgspec.json.decode((root / CLAIM).read_bytes(), type=Claim)
        except FileNotFoundError:
            if self.books.entries:
                what = "is missing: it says whose folder this is"
                self.findings.add("claim", self._shown(root / CLAIM), what, f"restore it from a backup of the {key}")
            return
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            what = f"cannot be read ({error})"
            self.findings.add("claim", self._shown(root / CLAIM), what, f"restore it from a backup of the {key}")
            return
        if self.books.state.books and claim.books != self.books.state.books:
            what = f"says that the folder belongs to other books, of pipeline {claim.pipeline!r}"
            self.findings.add("claim", self._shown(root / CLAIM), what, f"set `{key}` to this pipeline's own folder")

    def _check_strays(self, root: Path, expected: set[Path], is_committed: Callable[[int], bool]) -> None:
        folders = {path.parent for path in expected}
        for feed in Feed:
            for child in _children(root / feed.value):
                run = child.name.removeprefix("run=")
                if child in folders:
                    for path in _children(child):
                        if path not in expected:
                            what = f"is named by no commit, nor is it a part of run {run}"
                            self.findings.add("stray", self._shown(path), what, _MOVE_AWAY)
                elif run == child.name or run_number(run) is None:
                    self.findings.add("stray", self._shown(child), "is named by no commit", _MOVE_AWAY)
                elif run not in self.books.unreadable_runs and not self._is_new(run, is_committed):
                    what = f"is of a run that no commit books in the feed {feed.value}"
                    self.findings.add("stray", self._shown(child), what, _UNCOMMITTED)

    def _is_new(self, run: str, is_committed: Callable[[int], bool]) -> bool:
        """A run that was committed while the audit is under way is left to the next one."""
        number = run_number(run)
        return number is not None and number > self.books.last and is_committed(number)

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self.config.base)) if path.is_relative_to(self.config.base) else str(path)


def _file_trouble(item: _Named) -> str | None:
    """What is wrong with a file of a feed, or None."""
    file = item.file
    try:
        size = item.path.stat().st_size
        if size != file.size:
            return f"has {size} bytes instead of {file.size}"
        if crc32_of(item.path) != file.crc32:
            return "was changed after it was committed: its checksum is wrong"
        rows = pq.read_metadata(item.path).num_rows
    except FileNotFoundError:
        return f"is missing, but commit {item.number} names it"
    except (OSError, pa.ArrowException) as error:
        return f"cannot be read ({' '.join(str(error).split())})"
    return None if rows == file.rows else f"has {rows} rows instead of {file.rows}"


def _segment_trouble(item: tuple[int, Path, SegmentPart]) -> str | None:
    _, path, part = item
    trouble = verify_part(path, part)
    if trouble is not None:
        return trouble
    try:
        entries = len(map_part(str(path)).time)
    except LedgerDamaged as error:
        return error.message
    return None if entries == part.entries else f"it has {entries} entries instead of {part.entries}"


def _in_parallel(check: Callable[[Item], Result], items: list[Item]) -> Iterator[tuple[Item, Result]]:
    """Each item with what came out; the interpreter is free while bytes are read and summed."""
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from zip(items, pool.map(check, items), strict=True)


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
