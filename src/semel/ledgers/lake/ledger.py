"""The lake ledger: one segment a run, named by the run's commit.

Guarantee: a segment becomes part of the ledger by the commit that names it, in the same atomic act; there is nothing to
apply. It needs a file system or object store that keeps what it was given.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semel.books.claims import claim_folder
from semel.books.records import Commit, Segment, State
from semel.errors import LedgerDamaged
from semel.ledgers.base import Found, Ledger, Lookup
from semel.ledgers.keys import Keys
from semel.ledgers.lake.segment import open_part, search


@dataclass(frozen=True)
class LakeLookup(Lookup):
    """Every part is searched for the keys that lie in its range."""

    root: str
    segments: tuple[Segment, ...]
    mark: int | None

    def find(self, keys: Keys) -> Found:
        order = np.argsort(keys.high)
        ordered = keys.take(order)
        seen = np.zeros(len(order), dtype=np.bool_)
        known = np.zeros(len(order), dtype=np.bool_)
        for segment in self.segments:
            for part in segment.parts:
                if self.mark is not None and part.newest < self.mark:
                    continue
                first = int(np.searchsorted(ordered.high, np.uint64(part.low), side="left"))
                last = int(np.searchsorted(ordered.high, np.uint64(part.high), side="right"))
                if first == last:
                    continue
                window = ordered.between(first, last)
                found = search(open_part(f"{self.root}/{segment.folder}/{part.name}", part.crc32), window, self.mark)
                seen[first:last] |= found.seen
                known[first:last] |= found.known
        result = Found(np.empty_like(seen), np.empty_like(known))
        result.seen[order] = seen
        result.known[order] = known
        return result


class LakeLedger(Ledger):
    def __init__(self, root: Path) -> None:
        self.root = root
        self.segments = root

    def claim(self, books: str, pipeline: str) -> None:
        claim_folder(self.root, books, pipeline, key="ledger")

    def check(self, state: State) -> None:
        for segment in state.segments:
            for part in segment.parts:
                path = self.root / segment.folder / part.name
                try:
                    size = path.stat().st_size
                except OSError:
                    raise LedgerDamaged(
                        f"ledger segment {path} is missing; without it duplicates would be accepted: restore it "
                        "from a backup of the ledger"
                    ) from None
                if size != part.size:
                    raise LedgerDamaged(
                        f"ledger segment {path} has {size} bytes instead of {part.size}; restore it from a backup "
                        "of the ledger"
                    )

    def lookup(self, state: State, mark: int | None) -> Lookup | None:
        live = tuple(segment for segment in state.segments if mark is None or segment.newest >= mark)
        return LakeLookup(str(self.root), live, mark) if live else None

    def apply(self, commit: Commit) -> None:
        pass

    def clean(self, run: str, winner: str | None) -> None:
        folder = self.root / run
        for attempt in folder.iterdir() if folder.is_dir() else ():
            if attempt.name != winner:
                shutil.rmtree(attempt, ignore_errors=True)
        if winner is None and folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
