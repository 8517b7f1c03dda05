"""What a ledger promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import NamedTuple

from semel.books.records import Commit, State
from semel.ledgers.keys import Flags, Keys


class Found(NamedTuple):
    """What a ledger knows of each key: is this identity in it, and is the id in it under another fingerprint?"""

    seen: Flags
    known: Flags


class Lookup(ABC):
    """A view of a ledger as of one commit and one low-water mark, made on the driver and used by executors.

    - It pickles, and any number of executors may use their copies at once.
    - An entry counts if its commit is in the view and its event time is not below the mark, stored or not; nothing
      else counts. `seen` is exact for the pair, `known` is true if a counting entry has the id and another
      fingerprint.
    - It finds every counting entry or raises; a part that is missing or altered is an error, never empty.
    - The same question gets the same answer for as long as the run is open, whatever is added meanwhile.
    """

    @abstractmethod
    def find(self, keys: Keys) -> Found: ...


class Ledger(ABC):
    """The memory of accepted identities: (event id, fingerprint) to event time.

    - A ledger is a copy of what the commits say. Nothing is written to it before the run's commit stands, except where
      nobody looks; `apply` after the commit is idempotent and may be repeated by anybody.
    - It belongs to one pipeline's books: `claim` refuses others.
    - Entries below the mark of the last commit may be forgotten at any time, others never.
    """

    segments: Path | None
    """Where the segments of runs are kept, as `<run>/<attempt>/`; None if runs leave none."""

    @abstractmethod
    def claim(self, books: str, pipeline: str) -> None:
        """Bind the place to these books; refuse one that is bound to others."""

    @abstractmethod
    def check(self, state: State) -> None:
        """Raise LedgerDamaged unless the ledger has everything that the books name."""

    @abstractmethod
    def lookup(self, state: State, mark: int | None) -> Lookup | None:
        """The view of a run planned on `state`; None if no entry can count."""

    @abstractmethod
    def apply(self, commit: Commit) -> None:
        """Bring the ledger to this commit."""

    @abstractmethod
    def clean(self, run: str, winner: str | None) -> None:
        """Remove what attempts at a committed run left behind, except the winner's."""


class NoLedger(Ledger):
    """Remembers nothing: duplicates are found within a run only."""

    segments = None

    def claim(self, books: str, pipeline: str) -> None:
        pass

    def check(self, state: State) -> None:
        pass

    def lookup(self, state: State, mark: int | None) -> Lookup | None:
        return None

    def apply(self, commit: Commit) -> None:
        pass

    def clean(self, run: str, winner: str | None) -> None:
        pass
