"""What an audit says: problems, each with its place and the way out, and the totals of the books."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from semel.books.records import Counts

NAMED: Final = 20
"""So many problems of a kind are named; the rest is counted."""


@dataclass(frozen=True)
class Problem:
    """Something on disk that the books do not account for, or the other way round."""

    kind: str
    where: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where} {self.what}; {self.remedy}"


@dataclass(frozen=True)
class AuditReport:
    balanced: bool
    counts: Counts
    runs: int
    problems: list[Problem]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        return {
            "balanced": self.balanced,
            **self.counts.as_dict(),
            "runs": self.runs,
            "problems": [str(problem) for problem in self.problems],
            "notes": self.notes,
        }


@dataclass
class Findings:
    """Gathers problems. A damage that touches a million records is still a report that can be read."""

    notes: list[str] = field(default_factory=list)
    _named: dict[str, list[Problem]] = field(default_factory=dict)
    _unnamed: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, where: str, what: str, remedy: str) -> None:
        named = self._named.setdefault(kind, [])
        if len(named) < NAMED:
            named.append(Problem(kind, where, what, remedy))
        else:
            self.add_unnamed(kind, 1)

    def add_sample(self, kind: str, total: int, examples: Iterable[tuple[str, str]], remedy: str) -> None:
        """Examples of a kind, as where and what, and how many there are altogether."""
        given = 0
        for where, what in examples:
            self.add(kind, where, what, remedy)
            given += 1
        if total > given:
            self.add_unnamed(kind, total - given)

    def add_unnamed(self, kind: str, count: int) -> None:
        self._unnamed[kind] = self._unnamed.get(kind, 0) + count

    def note(self, text: str) -> None:
        self.notes.append(text)

    @property
    def problems(self) -> list[Problem]:
        problems = []
        for kind, named in self._named.items():
            problems += named
            rest = self._unnamed.get(kind, 0)
            if rest:
                remedy = "mend the named ones and run `semel audit` again"
                problems.append(Problem(kind, f"{rest} more", f"have the problem {kind!r}", remedy))
        return problems
