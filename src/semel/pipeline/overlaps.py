"""Places in the file system that must not meet: what a pipeline reads, what it writes, and its books."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import Literal, TypeVar

from semel.pipeline.urls import shown
from semel.pipeline.yaml_lines import KeyPath, Problem, dotted

Relation = Literal["is the same place as", "lies inside", "contains"]

_Item = TypeVar("_Item")
_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Claim:
    """A place that a key of the pipeline file lays claim to."""

    key: KeyPath
    text: str
    place: Path

    def __str__(self) -> str:
        return f"{dotted(self.key)} ({shown(self.text)})"


def numbered(key: KeyPath, items: Sequence[_Item]) -> list[tuple[KeyPath, _Item]]:
    """Each item with its key: one alone has the key of the list, which may be written without a list."""
    return [((*key, index) if len(items) > 1 else key, item) for index, item in enumerate(items)]


def contradictions(
    sources: Sequence[Claim], books: Claim, ledger: Claim | None, feeds: Sequence[Claim]
) -> Iterator[Problem]:
    """A problem for each two places of which one would spoil the other; a ledger may lie inside the books."""
    apart = ledger is not None and relation(ledger.place, books.place) != "lies inside"
    outputs = [books, ledger, *feeds] if ledger is not None and apart else [books, *feeds]
    for first, second in combinations(outputs, 2):
        relative = relation(second.place, first.place)
        if relative is None:
            continue
        yield Problem(second.key, f"{shown(second.text)} {relative} {first}; choose separate folders")
    for first, second in combinations(sources, 2):
        if _real(first.place) == _real(second.place):
            yield Problem(second.key, f"{shown(second.text)} is the same place as {first}; give it once")
    for source in sources:
        spoiled = next((output for output in outputs if reaches(source.place, output.place)), None)
        if spoiled is not None:
            yield Problem(
                source.key,
                f"{shown(source.text)} would also read what is written to {spoiled}; choose separate folders",
            )


def relation(one: Path, other: Path) -> Relation | None:
    """How two folders overlap, symbolic links followed."""
    first, second = _real(one), _real(other)
    if first == second:
        return "is the same place as"
    if first.is_relative_to(second):
        return "lies inside"
    if second.is_relative_to(first):
        return "contains"
    return None


def reaches(source: Path, folder: Path) -> bool:
    """Whether reading `source`, a file, a whole folder or a glob, may come upon what is in `folder`."""
    parts = source.parts
    fixed = next((index for index, part in enumerate(parts) if _GLOB.search(part)), len(parts))
    root, target = _real(Path(*parts[:fixed])), _real(folder)
    if root.is_relative_to(target):
        return True
    if not target.is_relative_to(root):
        return False
    for pattern, name in zip(parts[fixed:], target.relative_to(root).parts, strict=False):
        if pattern == "**":
            return True
        if not fnmatchcase(name, pattern):
            return False
    return True


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
