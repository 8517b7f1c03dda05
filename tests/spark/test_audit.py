"""The audit finds every damage, names it, and says what to do; and finds none where there is none."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipelines import Place, event
from semel.books.books import Books
from semel.books.records import NO_COMMIT, Commit, State, digest, encode, replaced, sealed
from semel.books.state import advance
from semel.books.storage import LocalStorage
from semel.ledgers.keys import keys_of
from semel.ledgers.lake.segment import map_part, write_part
from semel.observe import audit_rows
from semel.observe.audit import AuditReport, audit
from semel.observe.audit_records import FeedPlaces
from semel.observe.audit_report import NAMED, Findings
from semel.pipeline.config import load_config
from semel.pipeline.report import Report

CONFIG = """\
pipeline: clicks
source: {path: in/}
event:
  id: id
  time: time
  fingerprint: {exclude: [sent, time]}
  schema: "amount DOUBLE, note STRING"
horizon: 10d
reject:
  negative amount: amount < 0
"""
LATER = "2026-01-20T00:00:00Z"
LAST = "2026-01-21T00:00:00Z"
FIRST_RUN: list[Any] = [
    event("a1"),
    event("a1", sent=2),
    event("a2"),
    event("a2", amount=2),
    event("a3", note="ü"),
    event("a4", amount=-1),
    b"no json",
    b'{"id": "\xff"}',
]
SECOND_RUN = [
    event("b1", time=LATER),
    event("a2", sent=3),
    event("b2", time=LATER),
    event("b1", amount=3, time=LATER),
]
THIRD_RUN = [event("c1", time=LAST), event("a1"), event("b2", time=LAST), event("a3", note="ü", time=LAST)]
"""Accepted, stale, duplicate, and once more accepted: its first copy lies below the mark."""


@dataclass(frozen=True)
class Healthy:
    place: Place
    reports: list[Report]


@pytest.fixture(scope="module")
def healthy(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Healthy:
    place = Place(tmp_path_factory.mktemp("audit") / "a b%20[ü]", CONFIG)
    reports = []
    place.write("ä 1%41.jsonl", FIRST_RUN)
    reports.append(place.pipeline().run(spark))
    lines = "".join(json.dumps(record) + "\n" for record in SECOND_RUN)
    (place.folder / "in" / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    reports.append(place.pipeline().run(spark))
    place.write("c.jsonl", THIRD_RUN)
    reports.append(place.pipeline().run(spark))
    return Healthy(place, reports)


class Copy:
    """A pipeline folder to be damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.books = Books(LocalStorage(folder / "books"))

    def commit(self, number: int) -> Commit:
        commit = self.books.commit(number)
        assert commit is not None
        return commit

    def commit_file(self, number: int) -> Path:
        return self.folder / f"books/commits/{number:09d}.json"

    def part(self, feed: str, number: int) -> Path:
        (file,) = self.commit(number).feeds[feed]
        return self.folder / "out" / feed / f"run={self.commit(number).run}" / file.name

    def segment(self, number: int) -> Path:
        segment = self.commit(number).segment
        assert segment is not None
        return self.folder / "books/ledger" / segment.folder / segment.parts[0].name

    def reseal(self, change: Callable[[Commit], Commit]) -> None:
        """Forge the books: change commits and make checksums and chain fit again."""
        previous = NO_COMMIT
        for path in sorted((self.folder / "books/commits").iterdir()):
            commit = change(msgspec.json.decode(path.read_bytes(), type=Commit))
            content = encode(sealed(replaced(commit, previous=previous, checksum="")))
            path.write_bytes(content)
            previous = digest(content)

    def rewrite(self, feed: str, number: int, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        """Change the rows of a part, and forge the books to fit the file, counts included."""
        path = self.part(feed, number)
        table = pq.read_table(path, partitioning=None)
        pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), table.schema), path)
        content = path.read_bytes()
        rows = pq.read_metadata(path).num_rows
        counted = "accepted" if feed == "events" else feed

        def forge(commit: Commit) -> Commit:
            if commit.number != number:
                return commit
            (file,) = commit.feeds[feed]
            made = replaced(file, rows=rows, size=len(content), crc32=zlib.crc32(content))
            counts = replaced(commit.counts, **{counted: rows})
            return replaced(commit, feeds={**commit.feeds, feed: [made]}, counts=counts)

        self.reseal(forge)

    def audit(self, spark: SparkSession | None = None, quick: bool = False) -> AuditReport:
        return audit(load_config(self.folder / "clicks.yaml"), spark, quick=quick)


@pytest.fixture
def copy(healthy: Healthy, tmp_path: Path) -> Copy:
    return Copy(Path(shutil.copytree(healthy.place.folder, tmp_path / "a b%20[ü]")))


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> SparkSession:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("semel.pipeline.session.build_session", refuse)


Damage = Callable[[Copy], str]
"""Does it, and returns how the audit has to name it."""


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def part_lost(copy: Copy) -> str:
    path = copy.part("events", 2)
    path.unlink()
    return path.name


def run_folder_lost(copy: Copy) -> str:
    folder = copy.part("duplicates", 3).parent
    shutil.rmtree(folder)
    return f"out/duplicates/{folder.name} is missing"


def part_copied(copy: Copy) -> str:
    shutil.copy(copy.part("events", 2), copy.part("events", 2).with_name("part-copy.parquet"))
    return "part-copy.parquet"


def part_shortened(copy: Copy) -> str:
    path = copy.part("rejected", 1)
    path.write_bytes(path.read_bytes()[:-10])
    return path.name


def part_flipped(copy: Copy) -> str:
    path = copy.part("bad", 1)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    return path.name


def no_parquet(copy: Copy) -> str:
    path = copy.part("stale", 3)
    path.write_bytes(b"x" * 100)

    def forge(commit: Commit) -> Commit:
        if commit.number != 3:
            return commit
        made = replaced(commit.feeds["stale"][0], size=100, crc32=zlib.crc32(b"x" * 100))
        return replaced(commit, feeds={**commit.feeds, "stale": [made]})

    copy.reseal(forge)
    return path.name


def stray_file(copy: Copy) -> str:
    (copy.folder / "out/events/notes.txt").write_text("mine")
    return "out/events/notes.txt"


def stray_run(copy: Copy) -> str:
    folder = copy.part("stale", 3).parent
    shutil.copytree(folder, folder.with_name("run=r000000009-20260101T000000Z"))
    return "run=r000000009-20260101T000000Z"


def claim_lost(copy: Copy) -> str:
    (copy.folder / "out/_semel.json").unlink()
    return "out/_semel.json"


def identity_lost(copy: Copy) -> str:
    (copy.folder / "books/pipeline.json").unlink()
    return "pipeline.json"


def segment_gone(copy: Copy) -> str:
    copy.segment(2).unlink()
    return copy.commit(2).run


def segment_altered(copy: Copy) -> str:
    path = copy.segment(3)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    return copy.commit(3).run


def segment_forged(copy: Copy, ids: list[str] | None = None, shift: int = 0) -> None:
    """Another segment of run 3, and the books to fit it."""
    path = copy.segment(3)
    rows = pq.read_table(copy.part("events", 3), partitioning=None).to_pylist()
    keys = keys_of(ids or [row["event_id"] for row in rows], [row["fingerprint"] for row in rows])
    made = write_part(path, keys, np.sort(map_part(str(path)).time) + shift)

    def forge(commit: Commit) -> Commit:
        if commit.number != 3:
            return commit
        assert commit.segment is not None
        assert made is not None
        return replaced(commit, segment=replaced(commit.segment, parts=[made]))

    copy.reseal(forge)


def segment_of_others(copy: Copy) -> str:
    segment_forged(copy, ids=["x1", "x2"])
    return "in/c.jsonl:0"


def segment_of_other_times(copy: Copy) -> str:
    segment_forged(copy, shift=1)
    return "in/c.jsonl:0"


def commit_edited(copy: Copy) -> str:
    edited(copy.commit_file(2), '"accepted": 3', '"accepted": 4')
    return "commits/000000002.json was changed"


def commit_garbled(copy: Copy) -> str:
    copy.commit_file(2).write_text("{")
    return "commits/000000002.json"


def commit_miscounted(copy: Copy) -> str:
    copy.reseal(lambda commit: replaced(commit, counts=replaced(commit.counts, read=commit.counts.read + 1)))
    return "commits/000000003.json does not balance"


def commit_overstated(copy: Copy) -> str:
    """It balances, and both sides are wrong."""

    def forge(commit: Commit) -> Commit:
        counts = commit.counts
        return replaced(commit, counts=replaced(counts, read=counts.read + 1, stale=counts.stale + 1))

    copy.reseal(forge)
    return "commits/000000003.json counts 2 stale"


def conflicts_understated(copy: Copy) -> str:
    def forge(commit: Commit) -> Commit:
        return replaced(commit, counts=replaced(commit.counts, conflicts=0))

    copy.reseal(forge)
    return "commits/000000001.json counts 0 conflicts"


def commit_replaced(copy: Copy) -> str:
    """Sealed, but not the one that the next commit follows."""
    commit = copy.commit(2)
    copy.commit_file(2).write_bytes(encode(sealed(replaced(commit, moment="2026-02-02T00:00:00.000000Z", checksum=""))))
    return "commits/000000003.json does not follow"


def commit_missing(copy: Copy) -> str:
    copy.commit_file(2).unlink()
    return "commits/000000002.json is missing"


def last_commit_missing(copy: Copy) -> str:
    run = copy.commit(3).run
    copy.commit_file(3).unlink()
    return f"out/events/run={run}"


def plan_missing(copy: Copy) -> str:
    (copy.folder / "books/plans/000000002.json").unlink()
    return "plans/000000002.json"


def plan_unlike(copy: Copy) -> str:
    edited(copy.folder / "books/plans/000000003.json", '"in/c.jsonl"', '"in/d.jsonl"')
    return "commits/000000003.json books other files"


def plan_ahead(copy: Copy) -> str:
    shutil.copy(copy.folder / "books/plans/000000003.json", copy.folder / "books/plans/000000005.json")
    return "plans/000000005.json"


def booked_twice(copy: Copy) -> str:
    def forge(commit: Commit) -> Commit:
        return replaced(commit, files=copy.commit(2).files) if commit.number == 3 else commit

    copy.reseal(forge)
    return "in/b.jsonl.gz was booked by two runs"


def input_grown(copy: Copy) -> str:
    with (copy.folder / "in/c.jsonl").open("ab") as file:
        file.write(b"{}\n")
    return "in/c.jsonl had"


def input_changed(copy: Copy) -> str:
    path = copy.folder / "in/c.jsonl"
    content = path.read_bytes().replace(b"c1", b"c2")
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    return "in/c.jsonl was changed"


def checkpoint(copy: Copy, change: Callable[[State], State]) -> str:
    state = State.empty(copy.commit(1).books)
    for commit, content_digest in copy.books.commits():
        state = advance(state, commit, content_digest)
    body = msgspec.json.encode(change(state))
    folder = copy.folder / "books/checkpoints"
    folder.mkdir(exist_ok=True)
    (folder / "000000003.json.gz").write_bytes(gzip.compress(digest(body).encode() + b"\n" + body))
    return "checkpoints/000000003.json.gz"


def checkpoint_wrong(copy: Copy) -> str:
    return checkpoint(copy, lambda state: replaced(state, totals=replaced(state.totals, read=1)))


def checkpoint_unreadable(copy: Copy) -> str:
    name = checkpoint(copy, lambda state: state)
    (copy.folder / "books" / name).write_bytes(b"no gzip")
    return name


def row_altered_on_disk(copy: Copy) -> str:
    kept = {number: copy.commit_file(number).read_bytes() for number in (1, 2, 3)}
    copy.rewrite("events", 2, with_first(payload="{}"))
    for number, content in kept.items():
        copy.commit_file(number).write_bytes(content)
    return copy.part("events", 2).name


def with_first(**changes: Any) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda rows: [{**rows[0], **changes}, *rows[1:]]


def position_of(copy: Copy, feed: str, number: int) -> str:
    position: str = pq.read_table(copy.part(feed, number), partitioning=None).column("position")[0].as_py()
    return position


def row_altered(copy: Copy) -> str:
    copy.rewrite("events", 2, with_first(payload="{}"))
    return f"record {position_of(copy, 'events', 2)} is not the same"


def raw_altered(copy: Copy) -> str:
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "raw": b"\xff"} if row["raw"] else row for row in rows]

    copy.rewrite("bad", 1, change)
    return "is not the same in its input and in the feed bad"


def row_lost(copy: Copy) -> str:
    position = position_of(copy, "events", 2)
    copy.rewrite("events", 2, lambda rows: rows[1:])
    return f"record {position} was read and is in no feed"


def row_invented(copy: Copy) -> str:
    copy.rewrite("stale", 3, with_first(position="in/c.jsonl:1"))
    return "record in/c.jsonl:1 is in the feed stale, but not in its input"


def row_from_nowhere(copy: Copy) -> str:
    copy.rewrite("stale", 3, with_first(position="elsewhere:1"))
    return "record elsewhere:1 is in the feed stale, but not in its input"


def row_doubled(copy: Copy) -> str:
    copy.rewrite("rejected", 1, lambda rows: rows * 2)
    return f"record {position_of(copy, 'rejected', 1)} is 2 times in the feeds: in rejected"


def row_moved(copy: Copy) -> str:
    """From one feed to another, with its verdict as it was."""
    moved: list[dict[str, Any]] = []
    position = position_of(copy, "rejected", 1)
    copy.rewrite("rejected", 1, lambda rows: moved.extend(rows) or [])  # type: ignore[func-returns-value]
    copy.rewrite("bad", 1, lambda rows: [*rows, *moved])
    return f"record {position} has the verdict rejected, but is in the feed bad"


def event_called_duplicate(copy: Copy) -> str:
    """From `events` to `duplicates`, verdict and all: nothing else can tell that it was never accepted."""
    moved: list[dict[str, Any]] = []

    def take(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        moved.extend(row for row in rows if row["event_id"] == "c1")
        return [row for row in rows if row["event_id"] != "c1"]

    copy.rewrite("events", 3, take)
    copy.rewrite("duplicates", 3, lambda rows: [*rows, {**moved[0], "verdict": "duplicate"}])
    return "record in/c.jsonl:0 is called a duplicate"


def stale_called_rejected(copy: Copy) -> str:
    copy.rewrite("stale", 3, with_first(event_time=pq.read_table(copy.part("events", 3))["event_time"][0].as_py()))
    return "is in the feed stale of run"


def other_run(copy: Copy) -> str:
    """A row of run 2 in the folder of run 3."""
    moved: list[dict[str, Any]] = []
    position = position_of(copy, "duplicates", 2)
    copy.rewrite("duplicates", 2, lambda rows: moved.extend(rows) or [])  # type: ignore[func-returns-value]
    copy.rewrite("duplicates", 3, lambda rows: [*rows, *moved])
    return f"record {position} is in the feed duplicates of run {copy.commit(3).run}, but run 2 has read it"


def event_doubled(copy: Copy) -> str:
    """b1 accepted in run 2 and, as another record, in run 3."""
    source = next(row for row in pq.read_table(copy.part("events", 2)).to_pylist() if row["event_id"] == "b1")
    same = {key: source[key] for key in ("event_id", "fingerprint")}

    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, **same} if row["event_id"] == "c1" else row for row in rows]

    copy.rewrite("events", 3, change)
    return "record in/c.jsonl:0 was accepted, but the same id and fingerprint"


def id_doubled(copy: Copy) -> str:
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "event_id": "b1"} if row["event_id"] == "c1" else row for row in rows]

    copy.rewrite("events", 3, change)
    return "record in/c.jsonl:0 was accepted under an id that another event"


def doubled_in_a_run(copy: Copy) -> str:
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        first = next(row for row in rows if row["event_id"] == "c1")
        return [{**row, "event_id": "c1", "fingerprint": first["fingerprint"]} for row in rows]

    copy.rewrite("events", 3, change)
    return "record in/c.jsonl:0 was accepted, but the same id and fingerprint"


def derived_wrongly(copy: Copy) -> str:
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "event_id": "mine"} if row["verdict"] == "conflict" else row for row in rows]

    copy.rewrite("events", 1, change)
    return "has the id mine, which is not derived"


def original_missing(copy: Copy) -> str:
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "original_event_id": None} for row in rows]

    copy.rewrite("events", 1, change)
    return "has an original id exactly if it is no conflict"


def columns_missing(copy: Copy) -> str:
    path = copy.part("stale", 3)
    table = pq.read_table(path, partitioning=None)
    copy.rewrite("stale", 3, lambda rows: rows)
    pq.write_table(table.drop_columns(["position"]), path)
    content = path.read_bytes()

    def forge(commit: Commit) -> Commit:
        if commit.number != 3:
            return commit
        made = replaced(commit.feeds["stale"][0], size=len(content), crc32=zlib.crc32(content))
        return replaced(commit, feeds={**commit.feeds, "stale": [made]})

    copy.reseal(forge)
    return f"{path.name} cannot be read as a feed"


ON_DISK = [
    (part_lost, "restore it from a backup"),
    (run_folder_lost, "restore it from a backup"),
    (part_copied, "move it out of the feed"),
    (part_shortened, "restore it from a backup"),
    (part_flipped, "restore it from a backup"),
    (no_parquet, "restore it from a backup"),
    (row_altered_on_disk, "restore it from a backup"),
    (stray_file, "move it out of the feed"),
    (stray_run, "move it out of the feed"),
    (claim_lost, "restore it from a backup"),
    (identity_lost, "restore it from a backup of the books"),
    (segment_gone, "restore it from a backup of the ledger"),
    (segment_altered, "restore it from a backup of the ledger"),
    (commit_edited, "restore it from a backup of the books"),
    (commit_garbled, "restore it from a backup of the books"),
    (commit_miscounted, "restore it from a backup of the books"),
    (commit_overstated, "restore it from a backup of the books"),
    (commit_replaced, "restore both from a backup of the books"),
    (commit_missing, "restore it from a backup of the books"),
    (last_commit_missing, "restore the books from a backup"),
    (plan_missing, "restore it from a backup of the books"),
    (plan_unlike, "restore it from a backup of the books"),
    (plan_ahead, "restore the commits from a backup"),
    (booked_twice, "restore the books from a backup"),
    (input_grown, "put it back as it was"),
    (input_changed, "put it back as it was"),
    (checkpoint_wrong, "delete it"),
    (checkpoint_unreadable, "delete it"),
]
IN_THE_RECORDS = [
    [
        row_altered,
        raw_altered,
        row_doubled,
        row_invented,
        derived_wrongly,
        conflicts_understated,
        segment_of_other_times,
    ],
    [row_lost, row_from_nowhere, row_moved, segment_of_others],
    [other_run, stale_called_rejected, id_doubled, original_missing],
    [doubled_in_a_run, columns_missing],
    [event_doubled],
    [event_called_duplicate],
]
"""Damages that do not touch each other, so that one audit has to find them all."""
REMEDIES: dict[Damage, str] = {
    row_altered: "restore it from a backup",
    raw_altered: "restore it from a backup",
    segment_of_others: "restore the ledger from a backup",
    segment_of_other_times: "restore the ledger from a backup",
    columns_missing: "restore it from a backup of the feeds",
}


def named(report: AuditReport, where: str, remedy: str) -> list[str]:
    return [text for text in map(str, report.problems) if where in text and remedy in text]


def test_healthy(healthy: Healthy, copy: Copy, spark: SparkSession) -> None:
    report = copy.audit(spark)
    assert report.problems == []
    assert report.balanced
    expected = [run.counts for each in healthy.reports for run in each.runs]
    assert report.counts == expected[0] + expected[1] + expected[2]
    assert report.counts.as_dict() == {
        "read": 16, "accepted": 9, "conflicts": 2, "duplicates": 3, "stale": 1, "rejected": 1, "bad": 2
    }  # fmt: skip
    assert report.as_dict() == {
        "balanced": True, **report.counts.as_dict(), "runs": 3, "problems": [], "notes": []
    }  # fmt: skip


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(("damage", "remedy"), ON_DISK, ids=lambda value: getattr(value, "__name__", None))
def test_quick_finds_damages_on_disk(copy: Copy, damage: Damage, remedy: str) -> None:
    where = damage(copy)
    report = copy.audit(quick=True)
    assert not report.balanced
    assert named(report, where, remedy), report.as_dict()


@pytest.mark.parametrize(
    "damages",
    [[part_lost, segment_gone, input_changed], [commit_garbled], [commit_missing]],
    ids=lambda each: each[0].__name__,
)
def test_a_damage_does_not_hide_the_rest(copy: Copy, spark: SparkSession, damages: list[Damage]) -> None:
    """The records are compared as far as the damage allows, and nothing is made up."""
    copy.rewrite("rejected", 1, with_first(payload="{}"))
    expected = [damage(copy) for damage in damages]
    report = copy.audit(spark)
    for where in [*expected, "is not the same in its input and in the feed rejected"]:
        assert named(report, where, ""), report.as_dict()
    assert len(report.problems) == len(expected) + 1, report.as_dict()


@pytest.mark.parametrize("damages", IN_THE_RECORDS, ids=lambda each: each[0].__name__)
def test_damages_in_the_records(copy: Copy, spark: SparkSession, damages: list[Damage]) -> None:
    expected = [(damage(copy), REMEDIES.get(damage, "restore feeds and books")) for damage in damages]
    report = copy.audit(spark)
    for where, remedy in expected:
        assert named(report, where, remedy), (where, report.as_dict())


def test_input_that_is_gone_is_counted_and_touched_input_read_again(copy: Copy, spark: SparkSession) -> None:
    (copy.folder / "in/b.jsonl.gz").unlink()
    os.utime(copy.folder / "in/c.jsonl", ns=(1, 1))
    report = copy.audit(spark)
    assert report.balanced, report.as_dict()
    assert [note.partition(";")[0] for note in report.notes] == ["not re-read: 1 file, 4 records"]
    copy.rewrite("duplicates", 2, lambda rows: [])
    report = copy.audit(spark)
    assert named(report, "in/b.jsonl.gz was booked with 4 records, but the feeds have 3", "restore feeds and books")


def test_rows_can_be_looked_at_by_executors(copy: Copy, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_rows, "_ALONE", 0)
    where = segment_of_others(copy)
    report = copy.audit(spark)
    assert named(report, where, "restore the ledger")
    assert {problem.kind for problem in report.problems} == {"ledger"}, report.as_dict()


@pytest.mark.usefixtures("no_spark")
class TestWithoutSpark:
    def test_nothing_has_been_run(self, tmp_path: Path) -> None:
        place = Place(tmp_path, CONFIG)
        report = audit(load_config(place.file))
        assert report.as_dict() == {
            "balanced": True, "read": 0, "accepted": 0, "conflicts": 0, "duplicates": 0, "stale": 0,
            "rejected": 0, "bad": 0, "runs": 0, "problems": [], "notes": ["nothing has been run yet"],
        }  # fmt: skip

    def test_books_that_are_gone(self, copy: Copy) -> None:
        shutil.rmtree(copy.folder / "books")
        assert named(copy.audit(), "out/events/run=", "restore the books from a backup")

    def test_segments_below_the_mark_may_go(self, copy: Copy) -> None:
        copy.segment(1).unlink()
        assert copy.audit(quick=True).balanced

    def test_a_checkpoint_that_is_right(self, copy: Copy) -> None:
        checkpoint(copy, lambda state: state)
        assert copy.audit(quick=True).balanced

    def test_an_open_run_is_a_note(self, copy: Copy) -> None:
        plan = copy.books.plan(3)
        assert plan is not None
        copy.books.make_plan(replaced(plan, number=4, run="r000000004-20260131T120000Z"))
        report = copy.audit(quick=True)
        assert report.balanced
        assert [note for note in report.notes if "run r000000004-20260131T120000Z is open" in note]

    def test_a_void_run_books_nothing(self, healthy: Healthy, copy: Copy) -> None:
        plan = copy.books.plan(3)
        assert plan is not None
        run = "r000000004-20260131T120000Z"
        copy.books.make_plan(replaced(plan, number=4, run=run))
        place = Place.__new__(Place)
        place.file, place.clock = copy.folder / "clicks.yaml", healthy.place.clock
        place.pipeline().void(run)
        report = copy.audit(quick=True)
        assert (report.balanced, report.runs) == (True, 3), report.as_dict()

    def test_a_commit_that_was_not_published_is(self, copy: Copy) -> None:
        commit = copy.commit(3)
        attempt = copy.folder / "out/_attempts" / commit.run / commit.attempt
        for feed, files in commit.feeds.items():
            folder = copy.folder / "out" / feed / f"run={commit.run}"
            for file in files:
                (attempt / file.source).parent.mkdir(parents=True, exist_ok=True)
                (folder / file.name).rename(attempt / file.source)
            if files:
                folder.rmdir()
        assert not copy.part("events", 3).exists()
        assert copy.audit(quick=True).balanced
        assert copy.part("events", 3).exists()

    def test_a_run_that_is_committed_meanwhile_is_left_alone(self, copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
        """Commit 3 comes after the books were listed."""
        names = copy.books.storage.names

        def earlier(self: LocalStorage, folder: str) -> list[str]:
            return [name for name in names(folder) if not name.startswith("000000003")]

        monkeypatch.setattr(LocalStorage, "names", earlier)
        report = copy.audit(quick=True)
        assert (report.balanced, report.runs) == (True, 2), report.as_dict()

    def test_the_rest_is_counted(self) -> None:
        findings = Findings()
        for number in range(NAMED + 5):
            findings.add("lost", f"record {number}", "is gone", "look for it")
        findings.add_sample("altered", 1000, [("record x", "is not the same")], "look at it")
        texts = [str(problem) for problem in findings.problems]
        assert texts[0] == "record 0 is gone; look for it"
        assert len(texts) == NAMED + 1 + 2
        assert texts[NAMED].startswith("5 more ")
        assert texts[-1].startswith("999 more ")

    def test_resent_records_have_no_input(self) -> None:
        places = FeedPlaces((), {"in/a": True, "in/b": False, "resend/c": True})
        found = [places.comparison(at) for at in ("in/a:0", "in/b:0", "resend/c:0", "resend/r1/in/a:0", "in/x:0")]
        assert found == [1, 0, 1, 0, 2]


def test_without_a_ledger(spark: SparkSession, tmp_path: Path) -> None:
    """Each run remembers nothing of the others, and the audit does not ask it to."""
    place = Place(tmp_path, CONFIG)
    for name in ("a.jsonl", "b.jsonl"):
        place.write(name, [event("a1"), event("a1", sent=2)])
        place.pipeline("ledger=none").run(spark)
    report = audit(load_config(place.file, ("ledger=none",)), spark)
    assert report.balanced, report.as_dict()
    assert report.counts.accepted == 2
    assert any("no ledger" in note for note in report.notes)


def test_two_places_and_a_table_as_input(spark: SparkSession, tmp_path: Path) -> None:
    """A whole copy in one place is enough to compare the records, and the loss in the other is named."""
    place = Place(
        tmp_path,
        CONFIG.replace("{path: in/}", "{path: in/, format: csv}") + "feeds: [parquet:out/, parquet:more/]\n",
    )
    place.write("a.csv", ["id,time,amount,note", "a1,2026-01-01T00:00:00Z,1,x", "a1,2026-01-01T00:00:00Z,x,x", "a2,"])
    place.pipeline().run(spark)
    (lost,) = (tmp_path / "more/events").glob("*/*")
    lost.unlink()
    report = audit(load_config(place.file), spark)
    assert [problem.kind for problem in report.problems] == ["feed file"], report.as_dict()
    assert named(report, f"more/events/{lost.parent.name}/{lost.name} is missing", "restore it")
