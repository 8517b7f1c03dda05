"""What a sink promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from semel.books.records import Commit


class Sink(ABC):
    """Where feeds become visible.

    - `publish` makes exactly the files that a commit names visible, and nothing before it is called. Anybody may call
      it, any number of times, two processes at once; it is called for commits in their order, and not for void ones.
    - It belongs to one pipeline's books: `claim` refuses others.
    - `clean` removes what attempts left behind, of runs that are committed and published and of no others.
    """

    @abstractmethod
    def claim(self, books: str, pipeline: str) -> None:
        """Bind the place to these books; refuse one that is bound to others."""

    @abstractmethod
    def publish(self, commit: Commit, attempt: Path) -> None:
        """Make the commit's files, which the winning attempt wrote below `attempt`, visible."""

    @abstractmethod
    def clean(self, is_done: Callable[[int], bool]) -> None:
        """Remove the attempts at runs whose numbers are done."""
