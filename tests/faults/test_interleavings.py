"""Two processes at one pipeline: what one does while the other stands still at a point."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import semel
from pipelines import Place, event, ids
from semel.books.storage import LocalStorage
from semel.errors import (
    BooksDamaged,
    ConfigError,
    InputChanged,
    InputVanished,
    LedgerDamaged,
    SettingPinned,
    StoreUnavailable,
)
from semel.model.crashpoints import CrashPoint, arm
from semel.pipeline.runner import COMMITTED_BY_ANOTHER
from semel.testing.faults import crash_at


@contextmanager
def at(point: CrashPoint, act: Callable[[], object]) -> Iterator[None]:
    """Once, when `point` is reached: stand still while `act` happens."""

    def hook(here: CrashPoint) -> None:
        if here is point:
            arm(None)
            act()

    arm(hook)
    try:
        yield
    finally:
        arm(None)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("a.jsonl", [event("e1"), event("e1"), event("e2", -1), event("e3", "x"), event("e1", 2)])
    return place


def settled(place: Place, spark: SparkSession) -> None:
    """Every record is in one feed, once, nothing is left to do and nothing lies around."""
    before = place.files()
    assert place.pipeline().run(spark).runs == ()
    assert place.files() == before
    assert not list((place.folder / "out" / "_attempts").glob("*"))
    commits = [json.loads(path.read_text()) for path in (place.folder / "books" / "commits").glob("*.json")]
    named = {commit["segment"]["folder"] for commit in commits if commit["segment"]}
    assert {str(path.relative_to(place.folder / "books" / "ledger")) for path in ledger_folders(place)} == named


def ledger_folders(place: Place) -> list[Path]:
    return [path for path in (place.folder / "books" / "ledger").glob("*/*") if path.is_dir()]


BEFORE_THE_COMMIT = [
    CrashPoint.BEFORE_PLAN,
    CrashPoint.AFTER_PLAN,
    CrashPoint.AFTER_WRITE,
    CrashPoint.AFTER_SEAL,
    CrashPoint.BEFORE_COMMIT,
]


@pytest.mark.parametrize("point", BEFORE_THE_COMMIT)
def test_the_second_to_the_commit_ends_well(point: CrashPoint, place: Place, spark: SparkSession) -> None:
    with at(point, lambda: place.pipeline().run(spark)):
        report = place.pipeline().run(spark)
    assert [run.status for run in report.runs] == [COMMITTED_BY_ANOTHER]
    assert report.as_dict()["runs"][0]["read"] == 5
    assert len(place.verdicts()) == 5
    settled(place, spark)


@pytest.mark.parametrize("point", [CrashPoint.AFTER_WRITE, CrashPoint.BEFORE_COMMIT])
def test_a_zombie_that_sleeps_through_later_runs(point: CrashPoint, place: Place, spark: SparkSession) -> None:
    def two_more_runs() -> None:
        place.pipeline().run(spark)
        place.write("b.jsonl", [event("e1"), event("e9")])
        place.pipeline().run(spark)

    with at(point, two_more_runs):
        report = place.pipeline().run(spark)
    assert report.runs[0].status == COMMITTED_BY_ANOTHER
    assert len(place.verdicts()) == 7
    assert {"e1", "e9"} < set(ids(place.rows("events")))
    settled(place, spark)


@pytest.mark.parametrize("point", [CrashPoint.AFTER_COMMIT, CrashPoint.PUBLISH_GATHERED, CrashPoint.PUBLISH_FIRST_FEED])
def test_two_publishers(point: CrashPoint, place: Place, spark: SparkSession) -> None:
    with at(point, lambda: place.pipeline().run(spark)):
        report = place.pipeline().run(spark)
    assert [run.status for run in report.runs] == ["committed"]
    assert len(place.verdicts()) == 5
    settled(place, spark)


def test_the_answer_to_the_commit_is_lost(place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    create = LocalStorage.create

    def create_and_lose_the_answer(self: LocalStorage, name: str, content: bytes) -> bool:
        made = create(self, name, content)
        if name.startswith("commits/"):
            raise StoreUnavailable("the connection broke")
        return made

    monkeypatch.setattr(LocalStorage, "create", create_and_lose_the_answer)
    report = place.pipeline().run(spark)
    monkeypatch.undo()
    assert [run.status for run in report.runs] == ["committed"]
    assert len(place.verdicts()) == 5
    settled(place, spark)


def test_a_commit_that_was_not_written_can_be_run_again(
    place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = LocalStorage.create

    def refuse(self: LocalStorage, name: str, content: bytes) -> bool:
        if name.startswith("commits/"):
            raise StoreUnavailable("the store is away")
        return create(self, name, content)

    monkeypatch.setattr(LocalStorage, "create", refuse)
    with pytest.raises(StoreUnavailable):
        place.pipeline().run(spark)
    monkeypatch.undo()
    assert not (place.folder / "out" / "events").exists()
    assert [run.status for run in place.pipeline().run(spark).runs] == ["committed"]
    settled(place, spark)


def test_the_rerun_keeps_the_run_id_and_comes_first(place: Place, spark: SparkSession) -> None:
    with crash_at(CrashPoint.BEFORE_COMMIT):
        place.pipeline().run(spark)
    planned = json.loads((place.folder / "books" / "plans" / "000000001.json").read_text())["run"]
    place.write("b.jsonl", [event("e8")])
    report = place.pipeline().run(spark)
    assert [run.counts.read for run in report.runs] == [5, 1]
    assert report.runs[0].run == planned
    settled(place, spark)


def test_the_next_command_publishes_what_was_committed(place: Place, spark: SparkSession) -> None:
    with crash_at(CrashPoint.AFTER_COMMIT):
        place.pipeline().run(spark)
    assert place.verdicts() == {}
    assert place.pipeline().run(spark).runs == ()
    assert len(place.verdicts()) == 5


def test_input_of_an_open_run_is_gone(place: Place, spark: SparkSession) -> None:
    place.write("b.jsonl", [event("e5")])
    with crash_at(CrashPoint.AFTER_PLAN):
        place.pipeline().run(spark)
    (place.folder / "in" / "a.jsonl").unlink()
    with pytest.raises(InputVanished, match=r"in/a\.jsonl.*semel void") as raised:
        place.pipeline().run(spark)
    run = re.findall(r"r\d{9}-\w+", str(raised.value))[0]

    with pytest.raises(ConfigError, match="the open run is"):
        place.pipeline().void("r000000009-20260101T000000Z")
    assert place.pipeline().void(run).status == "void"
    with pytest.raises(ConfigError, match="no run is open"):
        place.pipeline().void(run)
    report = place.pipeline().run(spark)
    assert [one.counts.accepted for one in report.runs] == [1]
    assert ids(place.rows("events")) == ["e5"]
    settled(place, spark)


def test_a_voided_run_that_a_zombie_still_works_on(place: Place, spark: SparkSession) -> None:
    def void() -> None:
        plan = next((place.folder / "books" / "plans").iterdir()).read_text()
        run = plan.split('"run": "')[1].split('"')[0]
        place.pipeline().void(run)

    with at(CrashPoint.BEFORE_COMMIT, void):
        report = place.pipeline().run(spark)
    assert [run.status for run in report.runs] == ["void", "committed"]
    assert len(place.verdicts()) == 5
    settled(place, spark)


def test_input_that_changes_while_it_is_read(place: Place, spark: SparkSession) -> None:
    with (
        at(CrashPoint.AFTER_WRITE, lambda: place.write("a.jsonl", [event("other")])),
        pytest.raises(InputChanged, match=r"in/a\.jsonl"),
    ):
        place.pipeline().run(spark)
    assert place.verdicts() == {}


def test_input_that_changes_after_it_was_booked(place: Place, spark: SparkSession) -> None:
    place.pipeline().run(spark)
    place.write("a.jsonl", [event("other")])
    with pytest.raises(InputChanged, match=r"in/a\.jsonl"):
        place.pipeline().run(spark)


def test_booked_input_may_be_archived(place: Place, spark: SparkSession) -> None:
    place.pipeline().run(spark)
    shutil.rmtree(place.folder / "in")
    assert place.pipeline().run(spark).runs == ()


def test_the_whole_folder_can_be_moved(place: Place, spark: SparkSession, tmp_path: Path) -> None:
    with crash_at(CrashPoint.AFTER_COMMIT):
        place.pipeline().run(spark)
    copy = tmp_path.parent / f"{tmp_path.name}-copy"
    shutil.copytree(tmp_path, copy)
    there = Place(copy)
    there.write("b.jsonl", [event("e1"), event("e7")])
    there.pipeline().run(spark)
    verdicts = there.verdicts()
    assert [verdicts[key] for key in sorted(verdicts) if key.startswith("in/b.jsonl")] == [
        "duplicate",
        "accepted",
    ]
    assert len(verdicts) == 7


def test_a_lost_commit_is_noticed_before_anything_is_judged(place: Place, spark: SparkSession) -> None:
    for name in ("b.jsonl", "c.jsonl"):
        place.pipeline().run(spark)
        place.write(name, [event(name)])
    place.pipeline().run(spark)
    commit = place.folder / "books" / "commits" / "000000002.json"
    content = commit.read_bytes()
    commit.unlink()
    with pytest.raises(BooksDamaged, match=r"commits/000000002\.json is missing"):
        place.pipeline().run(spark)
    commit.write_bytes(content)
    settled(place, spark)


@pytest.mark.parametrize("plan_too", [False, True])
def test_the_last_commit_is_lost(place: Place, spark: SparkSession, plan_too: bool) -> None:
    """The feeds show a run that the books do not know: noticed before anything is committed in its place."""
    place.pipeline().run(spark)
    next((place.folder / "books" / "commits").iterdir()).unlink()
    if plan_too:
        next((place.folder / "books" / "plans").iterdir()).unlink()
    with pytest.raises(BooksDamaged, match=r"out/events/run=.* is there, but its commit 1 is not in the books"):
        place.pipeline().run(spark)
    assert not list((place.folder / "books" / "commits").iterdir())
    for feed in ("events", "duplicates", "stale", "rejected", "bad"):
        shutil.rmtree(place.folder / "out" / feed)
    place.pipeline().run(spark)
    assert len(place.verdicts()) == 5


def test_the_feeds_are_lost(place: Place, spark: SparkSession) -> None:
    place.pipeline().run(spark)
    shutil.rmtree(place.folder / "out")
    place.write("b.jsonl", [event("e1"), event("e9")])
    for _ in range(2):
        with pytest.raises(BooksDamaged, match="is lost, and with it what earlier runs published"):
            place.pipeline().run(spark)
    report = place.pipeline("feeds=parquet:again/").run(spark)
    assert report.totals.duplicates == 1


def test_feeds_that_change_while_a_run_is_open(place: Place, spark: SparkSession) -> None:
    """The open run goes where it was planned to go, the next one to the new place too; everything can be read."""
    with crash_at(CrashPoint.AFTER_PLAN):
        place.pipeline().run(spark)
    place.write("b.jsonl", [event("e7")])
    place.pipeline("feeds=[parquet:more/, parquet:out/]").run(spark)
    assert len(place.verdicts()) == 6
    place.file.write_text(place.file.read_text() + "feeds: [parquet:more/, parquet:out/]\n")
    events = semel.read(spark, place.file).collect()
    assert len(events) == len(place.rows("events")) == 3


def test_a_ledger_may_not_change_in_the_middle(place: Place, spark: SparkSession) -> None:
    place.pipeline().run(spark)
    place.write("b.jsonl", [event("e1")])
    for ledger in ("none", "lake:elsewhere"):
        with pytest.raises(SettingPinned, match=rf"ledger is {ledger}, but .* in lake:books/ledger .*; set it back"):
            place.pipeline(f"ledger={ledger}").run(spark)
    assert place.pipeline().run(spark).totals.duplicates == 1


@pytest.mark.parametrize("ledger", ["none", "lake:elsewhere"])
def test_a_ledger_may_not_change_under_an_open_plan(place: Place, spark: SparkSession, ledger: str) -> None:
    with crash_at(CrashPoint.AFTER_PLAN):
        place.pipeline().run(spark)
    with pytest.raises(SettingPinned, match="set it back"):
        place.pipeline(f"ledger={ledger}").run(spark)
    assert not (place.folder / "elsewhere").exists()
    place.pipeline().run(spark)
    settled(place, spark)


def test_names_that_look_like_secrets_are_places_like_others(place: Place, spark: SparkSession) -> None:
    overrides = ["feeds=parquet:team@corp/out", "books=./me:pw@host/books"]
    place.pipeline(*overrides).run(spark)
    assert list((place.folder / "team@corp" / "out" / "events").glob("run=*"))
    assert place.pipeline(*overrides).run(spark).runs == ()


def test_a_part_that_is_lost_while_the_attempt_is_there_is_put_back(place: Place, spark: SparkSession) -> None:
    with crash_at(CrashPoint.AFTER_PUBLISH):
        place.pipeline().run(spark)
    before = place.verdicts()
    next((place.folder / "out" / "events").glob("*/*.parquet")).unlink()
    place.pipeline().run(spark)
    assert place.verdicts() == before
    settled(place, spark)


def test_an_altered_ledger_is_noticed_and_never_taken_for_empty(place: Place, spark: SparkSession) -> None:
    place.pipeline().run(spark)
    part = next((place.folder / "books" / "ledger").glob("*/*/*.keys"))
    content = bytearray(part.read_bytes())
    content[70] ^= 1
    part.write_bytes(bytes(content))
    place.write("b.jsonl", [event("e1")])
    with pytest.raises(LedgerDamaged, match=r"part-.*keys.*checksum"):
        place.pipeline().run(spark)


def test_our_own_commit_is_ours_also_when_reading_it_back_failed(
    place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, read = LocalStorage.create, LocalStorage.read
    lost: list[str] = []

    def create_and_lose_the_answer(self: LocalStorage, name: str, content: bytes) -> bool:
        made = create(self, name, content)
        if name.startswith("commits/"):
            lost.append(name)
            raise StoreUnavailable("the connection broke")
        return made

    def fail_once(self: LocalStorage, name: str) -> bytes | None:
        if name in lost:
            lost.remove(name)
            raise StoreUnavailable("the connection is still broken")
        return read(self, name)

    monkeypatch.setattr(LocalStorage, "create", create_and_lose_the_answer)
    monkeypatch.setattr(LocalStorage, "read", fail_once)
    report = place.pipeline().run(spark)
    monkeypatch.undo()
    assert [run.status for run in report.runs] == ["committed"]
    settled(place, spark)


def test_the_rest_is_read_too_when_another_process_planned_less(place: Place, spark: SparkSession) -> None:
    place.write("b.jsonl", [event("e5")])
    with at(CrashPoint.BEFORE_PLAN, lambda: place.pipeline("source.max_files=1").step(spark)):
        report = place.pipeline().run(spark)
    assert [run.status for run in report.runs] == [COMMITTED_BY_ANOTHER, "committed"]
    assert len(place.verdicts()) == 6
