"""Killed anywhere, run again: the feeds equal the truth, and a second rerun changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.books.books import CHECKPOINT_EVERY, Books, run_id
from semel.books.records import Commit, Counts, Plan, Status, sealed
from semel.books.storage import LocalStorage
from semel.model.crashpoints import CrashPoint
from semel.model.times import iso
from semel.observe.audit import audit
from semel.pipeline.config import load_config
from semel.pipeline.runner import Pipeline
from semel.testing.faults import CRASH_AT, CRASH_PROCESS, WORKER
from semel.testing.generator import GeneratorSettings, generate
from semel.testing.truth import differences

SETTINGS = GeneratorSettings(events=300, batches=2, seed=11)


def semel(*arguments: str, crash_at: CrashPoint | None = None) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own; returns when that and everything that it started is gone."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    if crash_at is not None:
        environment[CRASH_AT] = crash_at.value
    started = subprocess.Popen(
        [sys.executable, "-m", "semel.cli.main", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    output, errors = started.communicate(timeout=240)
    deadline = time.monotonic() + 60
    while _members(started.pid):
        assert time.monotonic() < deadline, "a process was left behind"
        time.sleep(0.1)
    return subprocess.CompletedProcess(started.args, started.returncode, output, errors)


def _members(session: int) -> list[int]:
    """The processes of a session that still run."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                members.append(int(entry.name))
    return members


def feeds_equal_truth(folder: Path) -> None:
    assert differences(folder, folder / "out") == []


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def void_runs(folder: Path, count: int) -> None:
    """Books in which the first runs are void, so that the next commit is due for a checkpoint."""
    config = load_config(folder / "pipeline.yaml")
    books = Books(LocalStorage(config.books.local(config.base)))
    moment = iso(0)
    identity = books.open(config.name, config.pinned(), moment)
    for number in range(1, count + 1):
        run = run_id(number, moment)
        books.make_plan(
            Plan(number=number, run=run, books=identity.books, pipeline=config.name, moment=moment, reference=None,
                 mark=None, horizon_seconds=1.0, feeds=["parquet:out/"], ledger="lake:books/ledger", files=[])
        )  # fmt: skip
        books.make_commit(
            sealed(
                Commit(number=number, run=run, books=identity.books, status=Status.VOID, attempt="a0", moment=moment,
                       mark=None, reference=None, horizon_seconds=1.0, counts=Counts(), files=[], feeds={},
                       segment=None, ledger="lake:books/ledger", sinks=["parquet:out/"], columns={},
                       previous=books.load().digest)
            )
        )  # fmt: skip


@pytest.mark.parametrize("point", list(CrashPoint))
def test_killed_at(point: CrashPoint, spark: SparkSession, tmp_path: Path) -> None:
    generate(tmp_path, SETTINGS)
    if point is CrashPoint.CHECKPOINT_WRITTEN:
        void_runs(tmp_path, CHECKPOINT_EVERY - 1)
    pipeline = Pipeline(load_config(tmp_path / "pipeline.yaml", ["source.max_files=1"]))

    killed = semel("run", str(tmp_path / "pipeline.yaml"), "--set", "source.max_files=1", crash_at=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    committed = {path.name for path in (tmp_path / "out" / "events").glob("run=*")}
    assert len(committed) <= 1

    pipeline.run(spark)
    feeds_equal_truth(tmp_path)
    assert not list((tmp_path / "out" / "_attempts").glob("*"))
    before = everything(tmp_path)
    assert pipeline.run(spark).runs == ()
    assert everything(tmp_path) == before
    report = audit(pipeline.config, quick=True)
    assert report.problems == []


def test_a_worker_that_dies_fails_the_run_and_nothing_more(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(tmp_path, SETTINGS)
    monkeypatch.setenv(CRASH_PROCESS, WORKER)
    failed = semel("run", str(tmp_path / "pipeline.yaml"), crash_at=CrashPoint.READING)
    assert failed.returncode == 1, failed.stderr
    assert "nothing was committed" in failed.stderr
    monkeypatch.delenv(CRASH_PROCESS)
    Pipeline(load_config(tmp_path / "pipeline.yaml")).run(spark)
    assert len(list((tmp_path / "out" / "events").glob("run=*"))) == 1


def test_two_processes_at_the_same_time(spark: SparkSession, tmp_path: Path) -> None:
    generate(tmp_path, SETTINGS)
    command = [sys.executable, "-m", "semel.cli.main", "run", str(tmp_path / "pipeline.yaml"), "--json"]
    command += ["--set", "source.max_files=1"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    results = [process.communicate(timeout=240) for process in both]
    assert [process.returncode for process in both] == [0, 0], [errors for _, errors in results]
    feeds_equal_truth(tmp_path)
    assert audit(load_config(tmp_path / "pipeline.yaml"), spark).problems == []
