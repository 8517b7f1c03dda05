"""`semel run`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from argparse import Namespace
from contextlib import redirect_stdout
from types import FrameType

from semel.cli.display import show_table
from semel.cli.progress import display
from semel.errors import ConfigError, SemelError
from semel.model.units import parse_duration
from semel.pipeline.config import load_config
from semel.pipeline.report import Report, RunReport
from semel.pipeline.runner import Pipeline

COLUMNS = ("run", "status", "read", "accepted", "conflicts", "duplicates", "stale", "rejected", "bad")


def run(options: Namespace) -> int:
    progress = display()
    pipeline = Pipeline(load_config(options.pipeline, options.overrides), progress=progress)
    with progress:
        return _follow(pipeline, options) if options.follow else _once(pipeline, options)


def _once(pipeline: Pipeline, options: Namespace) -> int:
    reports: list[RunReport] = []
    failure: SemelError | None = None
    before = signal.signal(signal.SIGINT, _end_at_once)
    try:
        with redirect_stdout(sys.stderr):  # what a process function prints is not part of the answer
            for report in pipeline.runs():
                reports.append(report)
    except SemelError as error:
        if not reports:
            raise
        failure = error
    finally:
        signal.signal(signal.SIGINT, before)
    result = Report(pipeline.config.name, tuple(reports))
    if options.json:
        print(json.dumps(result.as_dict() if failure is None else {**result.as_dict(), "error": str(failure)}))
    elif not reports:
        print("nothing new to read")
    else:
        show_table(COLUMNS, [report.as_dict() for report in reports])
    if failure is not None:
        raise failure
    return 0 if result.balanced else 1


def _end_at_once(_signal: int, _frame: FrameType | None) -> None:
    """A crash is safe anywhere, and quicker than waiting for Spark to notice."""
    print("\nsemel: interrupted; what was not committed can be run again", file=sys.stderr, flush=True)
    os._exit(130)


def _follow(pipeline: Pipeline, options: Namespace) -> int:
    """Run after run until a signal comes; the run under way is finished first."""
    try:
        pause = parse_duration(options.every).total_seconds()
    except ValueError as error:
        raise ConfigError(f"--every: {error}") from None
    stop = threading.Event()

    def told_to_stop(received: int, frame: FrameType | None) -> None:
        if stop.is_set():
            _end_at_once(received, frame)
        stop.set()

    before = {name: signal.signal(name, told_to_stop) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not stop.is_set():
            with redirect_stdout(sys.stderr):
                report, more = pipeline.step()
            if report is not None:
                _say(pipeline, report, options.json)
            if not more:
                stop.wait(pause)
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
    return 0


def _say(pipeline: Pipeline, report: RunReport, as_json: bool) -> None:
    if as_json:
        print(json.dumps(Report(pipeline.config.name, (report,)).as_dict()))
    else:
        print("  ".join(f"{key} {value}" for key, value in report.as_dict().items()))
    sys.stdout.flush()
