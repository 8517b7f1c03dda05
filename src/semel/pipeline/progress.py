"""Who wants to know how far a run has come."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from semel.books.records import Plan
    from semel.pipeline.report import RunReport


class Progress:
    """Does nothing; a display overrides what it shows."""

    def step(self, run: str, text: str) -> None:
        """A step of the protocol begins."""

    def working(self, spark: SparkSession, plan: Plan) -> AbstractContextManager[None]:
        """Spark works while this is entered."""
        return nullcontext()

    def finished(self, report: RunReport) -> None:
        """A run is committed and published, by this process or another."""
