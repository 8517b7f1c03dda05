"""`semel demo`: generate, run two batches, kill the third in the middle, run it again, audit."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from semel.books.records import Counts
from semel.cli.display import table_lines
from semel.errors import ConfigError, RunFailed
from semel.model.crashpoints import CrashPoint
from semel.observe.audit import audit
from semel.pipeline.config import load_config
from semel.pipeline.report import Report
from semel.pipeline.runner import Pipeline
from semel.pipeline.session import JAVA_OPTIONS, QUICK_START, build_session
from semel.testing.faults import CRASH_AT
from semel.testing.generator import GeneratorSettings, expected_counts, generate
from semel.testing.truth import differences

_MARKER = ".semel-demo"
_COLUMNS = ("feed", "rows", "truth")
_BATCHES = 3


def demo(options: Namespace) -> int:
    folder = Path(options.folder).absolute()
    try:
        settings = GeneratorSettings(events=options.events, batches=_BATCHES, seed=options.seed)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    _make_room(folder)
    os.environ.setdefault(JAVA_OPTIONS, QUICK_START)
    started = time.monotonic()
    total = Counts()

    with _step(f"generating batches 1 and 2, {options.events:,} events each"):
        generate(folder, settings, range(2))
    with _step("starting Spark"):
        spark = build_session()
    pipeline = Pipeline(load_config(folder / "pipeline.yaml", ["source.max_files=1"]))
    with _step("running them, each as a run of its own"):
        report = pipeline.run(spark)
    total += report.totals
    _say_runs(report)

    with _step("generating batch 3"):
        generate(folder, settings, range(2, 3))
    with _step("running it in another process, and killing that in the middle"):
        _run_and_crash(folder)
    _say("it died after the feeds were written, before the commit: nothing of the run is visible")
    with _step("running again: the open run is taken up under its own id"):
        report = pipeline.run(spark)
    total += report.totals
    _say_runs(report)

    with _step("auditing: every record against its feed, every feed against the books"):
        audited = audit(pipeline.config, spark)
    for line in table_lines(_COLUMNS, _compare(total, expected_counts(folder))):
        _say(line)
    wrong = differences(folder, folder / "out")
    _say("")
    _say("the books balance" if audited.balanced else "THE BOOKS DO NOT BALANCE")
    for problem in audited.problems:
        _say(f"problem: {problem}")
    _say("every record is in the feed where it belongs, once" if not wrong else f"A FEED DIFFERS: {wrong[0]}")
    _say(f"done in {time.monotonic() - started:.0f} s; look into {folder}:")
    _say("  in/           what was delivered: duplicates, conflicts, late and broken records among it")
    _say("  out/          the five feeds, as Parquet")
    _say("  books/        plans and commits, as JSON")
    _say(f"  pipeline.yaml the pipeline file: semel run {shlex.quote(str(folder / 'pipeline.yaml'))}")
    return 0 if audited.balanced and not wrong else 1


def _make_room(folder: Path) -> None:
    """An earlier demo is replaced; anything else is left alone."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--folder: {folder} is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / _MARKER).exists():
            raise ConfigError(f"--folder: {folder} is not empty and not an earlier demo; name another one")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARKER).touch()


def _run_and_crash(folder: Path) -> None:
    command = [sys.executable, "-m", "semel.cli.main", "run", str(folder / "pipeline.yaml")]
    done = subprocess.run(
        command,
        env={**os.environ, CRASH_AT: CrashPoint.BEFORE_COMMIT.value},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != -signal.SIGKILL:
        raise RunFailed(f"the run that was to be killed ended with {done.returncode}: {done.stderr[-500:]}")


def _compare(counts: Counts, truth: dict[str, int]) -> list[dict[str, object]]:
    feeds = {
        "events": "accepted",
        "  of them conflicts": "conflicts",
        "duplicates": "duplicates",
        "stale": "stale",
    }
    feeds |= {"rejected": "rejected", "bad": "bad", "all that was read": "read"}
    found = counts.as_dict()
    return [{"feed": feed, "rows": found[key], "truth": truth[key]} for feed, key in feeds.items()]


def _say_runs(report: Report) -> None:
    for run in report.runs:
        counts = ", ".join(f"{value:,} {key}" for key, value in run.counts.as_dict().items())
        _say(f"{run.run}: {run.status}; {counts}")


@contextmanager
def _step(text: str) -> Iterator[None]:
    print(f"* {text} ...", end="", flush=True)
    started = time.monotonic()
    try:
        yield
    except BaseException:
        print(flush=True)
        raise
    print(f" {time.monotonic() - started:.1f} s", flush=True)


def _say(text: str) -> None:
    print(f"  {text}", flush=True)
