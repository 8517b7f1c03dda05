"""What a run says of itself when it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from semel.books.records import Commit, Counts


@dataclass(frozen=True)
class RunReport:
    run: str
    status: str
    counts: Counts

    @classmethod
    def of(cls, commit: Commit, status: str | None = None) -> RunReport:
        return cls(commit.run, status or commit.status.value, commit.counts)

    def as_dict(self) -> dict[str, Any]:
        return {"run": self.run, "status": self.status, **self.counts.as_dict()}


@dataclass(frozen=True)
class Report:
    """Every run that this call saw through; none if there was nothing new to read."""

    pipeline: str
    runs: tuple[RunReport, ...] = field(default=())

    @property
    def balanced(self) -> bool:
        return all(run.counts.balanced for run in self.runs)

    @property
    def totals(self) -> Counts:
        return sum((run.counts for run in self.runs), Counts())

    def as_dict(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "balanced": self.balanced,
            "runs": [run.as_dict() for run in self.runs],
        }
