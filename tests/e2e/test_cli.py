"""The commands as a user calls them: output, exit status, one clear line for what is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines import DEFAULT, Place, event
from semel.books.books import CHECKPOINT_EVERY, Books, run_id
from semel.books.records import Commit, Counts, State, Status, digest, replaced, sealed
from semel.books.storage import LocalStorage
from semel.cli.main import run as semel
from semel.model.crashpoints import CrashPoint
from semel.testing.faults import crash_at


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = semel(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("pipeline: Clicks!\n" + DEFAULT.split("\n", 1)[1], ["clicks.yaml:1", "pipeline"]),
        (DEFAULT.replace("path: in/", "path: in/, format: jsonll"), ["clicks.yaml:2", "did you mean 'jsonl'"]),
        (DEFAULT + "horizn: 3d\n", ["clicks.yaml:10", "horizn", "did you mean 'horizon'"]),
        (DEFAULT + "horizon: 3\n", ["clicks.yaml:10", "horizon", "d"]),
        (DEFAULT + "ledger: redis://host/0\n", ["clicks.yaml:10", "not available in this version"]),
        (DEFAULT.replace("path: in/", "path: nowhere/"), ["source.path", "nowhere", "does not exist"]),
        (DEFAULT.replace("amount DOUBLE", "amount DUBLE"), ["event.schema", "DUBLE", "DOUBLE"]),
        (DEFAULT + "feeds: parquet:in/\n", ["feeds", "source"]),
        ("just text", ["mapping"]),
    ],
)  # fmt: skip
def test_a_wrong_configuration_gets_one_clear_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str, words: list[str]
) -> None:
    place = Place(tmp_path, wrong)
    status, out, err = call(capsys, "run", str(place.file), "--json")
    assert status == 2
    assert out == ""
    assert err.startswith("semel: ")
    assert len(err.strip().splitlines()) == 1, err
    for word in words:
        assert word in err
    assert not (tmp_path / "books").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["rnu"],
        ["run"],
        ["run", "nowhere.yaml"],
        ["run", "x.yaml", "--once", "--follow"],
        ["audit", "--nope"],
        ["generate", "f", "--bad", "2"],
    ],
)
def test_a_wrong_call_exits_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, *arguments)
    assert (status, out) == (2, "")
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (("id: id", "id: note"), "id"),
        (("time: time", "time: at"), "time"),
        (("exclude: [sent]", "exclude: [note]"), "fingerprint"),
        (("{path: in/}", "{path: in/, format: csv}"), "format"),
        (("pipeline: clicks", "pipeline: other"), "pipeline"),
    ],
)
def test_what_may_not_change_is_refused(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], key: str
) -> None:
    place = Place(tmp_path)
    assert call(capsys, "run", str(place.file), "--json")[0] == 0
    place.file.write_text(DEFAULT.replace(*change))
    status, _, err = call(capsys, "run", str(place.file))
    assert status == 2
    assert key in err
    assert "set it back" in err or "books of its own" in err


def test_horizon_may_shrink_and_not_grow_at_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path, DEFAULT + "horizon: 10d\n")
    for name, time_ in (("a", "2026-01-01"), ("b", "2026-01-20"), ("c", "2026-01-21")):
        place.write(f"{name}.jsonl", [event(name, time=time_)])
        assert call(capsys, "run", str(place.file))[0] == 0
    place.write("d.jsonl", [event("d", time="2026-01-12")])
    place.file.write_text(DEFAULT + "horizon: 20d\n")
    status, _, err = call(capsys, "run", str(place.file))
    assert status == 2
    assert "horizon is 20d" in err
    place.file.write_text(DEFAULT + "horizon: 5d\n")
    assert call(capsys, "run", str(place.file))[0] == 0
    assert place.verdicts()["in/d.jsonl:0"] == "stale"


def test_new_books_on_old_feeds_are_refused(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path)
    place.write("a.jsonl", [event("e1")])
    assert call(capsys, "run", str(place.file))[0] == 0
    (tmp_path / "books").rename(tmp_path / "lost")
    status, _, err = call(capsys, "run", str(place.file))
    assert status == 2
    assert "belongs to other books" in err


def test_json_of_run_runs_and_audit(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path)
    assert json.loads(call(capsys, "run", str(place.file), "--json")[1]) == {
        "pipeline": "clicks", "balanced": True, "runs": [],
    }  # fmt: skip
    place.write("a.jsonl", [event("e1"), event("e1"), event("e1", 2), event("e2", -1), "x"])
    status, out, _ = call(capsys, "run", str(place.file), "--json")
    report = json.loads(out)
    counts = {"read": 5, "accepted": 2, "conflicts": 1, "duplicates": 1, "stale": 0, "rejected": 1, "bad": 1}
    assert status == 0
    assert report["balanced"] is True
    assert [{key: run[key] for key in ("status", *counts)} for run in report["runs"]] == [
        {"status": "committed", **counts}
    ]

    status, out, _ = call(capsys, "audit", str(place.file), "--json")
    audited = json.loads(out)
    assert status == 0
    assert {key: audited[key] for key in ("balanced", "problems", *counts)} == {
        "balanced": True,
        "problems": [],
        **counts,
    }
    next((tmp_path / "out" / "bad").rglob("*.parquet")).unlink()
    status, out, _ = call(capsys, "audit", str(place.file), "--quick", "--json")
    assert status == 1
    assert len(json.loads(out)["problems"]) == 1

    with crash_at(CrashPoint.AFTER_PLAN):
        place.write("b.jsonl", [event("e3")])
        place.pipeline().run(spark)
    history = json.loads(call(capsys, "runs", str(place.file), "--json")[1])["runs"]
    assert [run["status"] for run in history] == ["committed", "open"]
    status, _, err = call(capsys, "void", str(place.file), history[1]["run"])
    assert status == 2
    assert "--yes" in err
    assert call(capsys, "void", str(place.file), history[1]["run"], "--yes")[0] == 0
    assert "void" in call(capsys, "runs", str(place.file), "--last", "1")[1]


def test_nothing_new_does_not_start_spark(tmp_path: Path) -> None:
    place = Place(tmp_path)
    code = (
        "import sys; from semel.cli.main import run; status = run(sys.argv[1:]);"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j', 'boto3')]; sys.exit(status)"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code, "run", str(place.file)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout.strip()) == (0, "nothing new to read"), done.stderr


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_follow_goes_on_until_it_is_told_to_stop(tmp_path: Path, stop: signal.Signals) -> None:
    place = Place(tmp_path)
    place.write("a.jsonl", [event("e1")])
    command = [
        sys.executable,
        "-m",
        "semel.cli.main",
        "run",
        str(place.file),
        "--follow",
        "--every",
        "200ms",
        "--json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    first: dict[str, Any] = json.loads(process.stdout.readline())
    place.write(".b.jsonl", [event("e1"), event("e2")]).rename(tmp_path / "in" / "b.jsonl")
    second: dict[str, Any] = json.loads(process.stdout.readline())
    assert [first["runs"][0]["accepted"], second["runs"][0]["accepted"], second["runs"][0]["duplicates"]] == [
        1,
        1,
        1,
    ]
    time.sleep(0.5)
    process.send_signal(stop)
    assert process.wait(timeout=60) == 0
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()


def test_a_hundred_thousand_booked_files_and_nothing_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkpoint says what was booked; the files that are there are looked at once, and nothing is started."""
    place = Place(tmp_path)
    assert call(capsys, "run", str(place.file))[0] == 0
    books = Books(LocalStorage(tmp_path / "books"))
    number = CHECKPOINT_EVERY * 3125
    names = [f"in/{index % 100:02d}/{index:06d}.jsonl" for index in range(100_000)]
    for folder in {name.rpartition("/")[0] for name in names}:
        (tmp_path / folder).mkdir()
    for name in names[:2000]:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, ns=(1, 1))
    last = sealed(
        Commit(number=number, run=run_id(number, "2026-01-01T00:00:00"), books=books.load().books, status=Status.VOID,
               attempt="a", moment="", mark=None, reference=None, horizon_seconds=1.0, counts=Counts(), files=[],
               feeds={}, segment=None, sinks=["parquet:out/"], ledger="lake:books/ledger", columns={}, previous="")
    )  # fmt: skip
    books.make_commit(last)
    booked = dict.fromkeys(names, (0, 1, 0))
    content = (tmp_path / "books" / "commits" / f"{number:09d}.json").read_bytes()
    state = replaced(State.empty(last.books), number=number, digest=digest(content), booked=booked, runs=number)
    books.checkpoint(state)
    tracemalloc.start()
    status, out, _ = call(capsys, "run", str(place.file), "--json")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert status == 0
    assert json.loads(out)["runs"] == []
    assert peak < 150 * 1024 * 1024


def test_what_a_process_function_prints_is_not_in_the_answer(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path)
    module = f"talking_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text("print('hello')\ndef go(df):\n    print('there')\n    return df\n")
    place.write("a.jsonl", [event("e1")])
    status, out, err = call(capsys, "run", str(place.file), "--json", "--set", f"process={module}:go")
    assert status == 0
    assert json.loads(out)["runs"][0]["accepted"] == 1
    assert "hello" in err


def test_values_of_variables_are_not_shown(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "hunter2")
    for wrong in ('ledger: "${PW}"', "clock: ${PW}", "max_ahead: 1${PW}"):
        status, out, err = call(capsys, "run", str(Place(tmp_path, DEFAULT + wrong + "\n").file))
        assert (status, out) == (2, "")
        assert "hunter2" not in err
        assert "${PW}" in err
    place = Place(tmp_path, DEFAULT + "  secret: \"note = '${PW}' and nothing\"\n")
    place.write("a.jsonl", [event("e1")])
    status, _, err = call(capsys, "run", str(place.file))
    assert status == 2
    assert "hunter2" not in err


def test_an_interrupt_ends_the_command_at_once(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("a.jsonl", [event(f"e{n}") for n in range(20_000)])
    command = [sys.executable, "-m", "semel", "run", str(place.file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "reading" not in process.stderr.readline():
        pass
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "semel: interrupted; what was not committed can be run again" in err
    assert "Traceback" not in err
