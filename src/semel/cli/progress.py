"""How far a run has come: a line that changes on a terminal, plain lines in a pipe. Always on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TextIO

from semel.pipeline.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from semel.books.records import Plan

_REFRESH: Final = 0.3


class Display(Progress):
    """Plain lines; also the base of the changing line."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def step(self, run: str, text: str) -> None:
        self.stream.write(f"{run}: {text}\n" if run else f"{text}\n")
        self.stream.flush()


class TerminalDisplay(Display):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._text = ""
        self._started = time.monotonic()
        self._work: tuple[SparkSession, Plan] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_stopped, daemon=True)

    def __enter__(self) -> Display:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.stream.write("\r\x1b[K")
        self.stream.flush()

    def step(self, run: str, text: str) -> None:
        self._text = f"{run}  {text}" if run else text

    @contextmanager
    def working(self, spark: SparkSession, plan: Plan) -> Iterator[None]:
        self._work = (spark, plan)
        try:
            yield
        finally:
            self._work = None

    def _draw_until_stopped(self) -> None:
        while not self._stop.wait(_REFRESH):
            work = self._work
            detail = f"  {_spark_detail(work[0])}" if work is not None else ""
            elapsed = time.monotonic() - self._started
            self.stream.write(f"\r\x1b[K{self._text}{detail}  {elapsed:.0f} s"[:200])
            self.stream.flush()


def display() -> Display:
    return TerminalDisplay(sys.stderr) if sys.stderr.isatty() else Display(sys.stderr)


def _spark_detail(spark: SparkSession) -> str:
    """The active stage, its tasks and rows; the status store has them, and nothing else in Python does."""
    try:
        context: Any = spark.sparkContext
        tracker = context.statusTracker()
        stages = tracker.getActiveStageIds()
        if not stages:
            return ""
        info = tracker.getStageInfo(stages[0])
        data = context._jsc.sc().statusStore().lastStageAttempt(stages[0])
        rows = max(data.shuffleWriteRecords(), data.shuffleReadRecords(), data.outputRecords())
        return f"{rows:,} rows  stage {stages[0]}  {info.numCompletedTasks}/{info.numTasks} tasks"
    except Exception:
        return ""  # a display never stops a run
