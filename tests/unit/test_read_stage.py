"""The stage on the executors, called in this process: what leaves early, what goes on, what is noted."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semel.judging.columns import INTERNAL, feed_schema, open_schema
from semel.judging.identify import EventRules, Identifier
from semel.judging.read_stage import ReadStage, SliceNote, TaskNote
from semel.ledgers.base import Found, Lookup
from semel.ledgers.keys import Keys, keys_of
from semel.model.block import Block, SliceDone
from semel.model.canonical import parse_object
from semel.model.schema import parse_schema
from semel.model.splits import place_of, plan_slices
from semel.model.times import from_iso
from semel.sources.files.reader import FilesReader, PlannedFile

MODIFIED = 1_700_000_000_000_000_000
RULES = EventRules(
    id=("id",),
    composite=False,
    time="at",
    unit=None,
    exclude=(),
    hash="sha256",
    fingerprint_field=None,
    schema=parse_schema("amount INT"),
    as_text=False,
    latest=from_iso("2024-01-03"),
)
EXTRAS = pa.schema([("score", pa.float64())])
LINES = {
    "open": b'{"id":"a","at":"2024-01-02","amount":1}',
    "text": b'{"id":"b","at":"2024-01-02","amount":"x"}',
    "bytes": b"\xff\xfe",
    "stale": b'{"id":"c","at":"2023-12-31","amount":3}',
    "seen": b'{"id":"d","at":"2024-01-02","amount":4}',
    "known": b'{"id":"e","at":"2024-01-02","amount":5}',
    "no id": b'{"at":"2023-01-01"}',
    "at the mark": b'{"id":"f","at":"2024-01-01","amount":6}',
    "not JSON": b"nonsense",
}
OFFSETS = {name: sum(len(line) + 1 for line in list(LINES.values())[:place]) for place, name in enumerate(LINES)}


@dataclass(frozen=True)
class Remembered(Lookup):
    """A ledger of a handful of identities, with none of a store's ways."""

    seen: tuple[tuple[str, str], ...]
    known: tuple[str, ...]

    def find(self, keys: Keys) -> Found:
        pairs = keys_of([pair[0] for pair in self.seen], [pair[1] for pair in self.seen])
        others = keys_of(self.known, ["0" * 64] * len(self.known))
        accepted = set(zip(pairs.high.tolist(), pairs.print.tolist(), strict=True))
        asked = zip(keys.high.tolist(), keys.print.tolist(), strict=True)
        return Found(np.array([pair in accepted for pair in asked]), np.isin(keys.high, others.high))


def fingerprint(name: str) -> str:
    record = parse_object(LINES[name])
    block = Block([0], [""], 0, [record], [None], [b""])
    (found,) = Identifier(RULES).identify(block).prints
    assert found is not None
    return found


LEDGER = Remembered((("d", fingerprint("seen")),), ("e",))


def stage(tmp_path: Path, **changes: Any) -> ReadStage:
    content = b"\n".join(LINES.values())
    (tmp_path / "in.jsonl").write_bytes(content)
    planned = PlannedFile("in.jsonl", str(tmp_path / "in.jsonl"), len(content), MODIFIED)
    tasks = plan_slices([(len(content), True)], changes.pop("split", 1 << 20))
    reader = FilesReader("r1", "p.yaml", "jsonl", (planned,), tuple(tasks))
    made = ReadStage(
        reader=reader,
        rules=RULES,
        mark=from_iso("2024-01-01"),
        lookup=LEDGER,
        folder=str(tmp_path / "attempt"),
        extras=EXTRAS,
    )
    assert pickle.loads(pickle.dumps(made)) == made
    return replace(made, **changes)


def handed_on(stage: ReadStage, task: int = 0) -> list[dict[str, Any]]:
    rows = []
    for batch in stage.read(task):
        assert batch.schema == open_schema(stage.rules.schema)
        assert batch.num_rows
        rows += batch.to_pylist()
    return rows


def notes(tmp_path: Path) -> list[TaskNote]:
    paths = sorted((tmp_path / "attempt/notes").iterdir())
    return [msgspec.json.decode(path.read_bytes(), type=TaskNote) for path in paths]


def early(tmp_path: Path, note: TaskNote) -> dict[str, list[dict[str, Any]]]:
    """The rows that a task wrote itself, by feed."""
    tables = {feed: pq.read_table(tmp_path / "attempt" / path) for feed, (path, _) in note.early.items()}
    return {feed: table.to_pylist() for feed, table in tables.items()}


def test_what_is_open_is_handed_on(tmp_path: Path) -> None:
    rows = handed_on(stage(tmp_path))
    assert [row["event_id"] for row in rows] == ["a", "e", "f"]
    first = rows[0]
    high = int(keys_of(["a"], [fingerprint("open")]).high.view(np.int64)[0])
    assert first == {
        "event_id": "a",
        "fingerprint": fingerprint("open"),
        "event_time": first["event_time"],
        "arrival_time": first["arrival_time"],
        "position": "in.jsonl:0",
        "payload": LINES["open"].decode(),
        "amount": 1,
        INTERNAL: {"place": place_of(0, 0), "high": high, "known": False},
    }
    assert first["event_time"].isoformat() == "2024-01-02T00:00:00+00:00"
    assert first["arrival_time"].timestamp() == MODIFIED / 1e9
    assert [row[INTERNAL]["known"] for row in rows] == [False, True, False]
    assert [row[INTERNAL]["place"] for row in rows] == [OFFSETS[name] for name in ("open", "known", "at the mark")]


def test_what_is_certain_leaves_early(tmp_path: Path) -> None:
    handed_on(stage(tmp_path))
    (note,) = notes(tmp_path)
    feeds = early(tmp_path, note)
    reasons = {
        feed: [(row["position"], row["event_id"], row["verdict"], row["reason"]) for row in rows]
        for feed, rows in feeds.items()
    }
    at = {name: f"in.jsonl:{offset}" for name, offset in OFFSETS.items()}
    bad = reasons.pop("bad")
    assert bad[:3] == [
        (at["text"], "b", "bad", "amount: 'x' is not an INT"),
        (at["bytes"], None, "bad", "not UTF-8"),
        (at["no id"], None, "bad", "the id id is missing"),
    ]
    assert bad[3][:3] == (at["not JSON"], None, "bad")
    assert bad[3][3].startswith("not JSON: ")
    assert reasons == {
        "stale": [(at["stale"], "c", "stale", "before the low-water mark")],
        "duplicates": [(at["seen"], "d", "duplicate", "accepted in an earlier run")],
    }


def test_early_rows_have_every_column_of_a_feed(tmp_path: Path) -> None:
    handed_on(stage(tmp_path))
    (note,) = notes(tmp_path)
    for path, rows in note.early.values():
        table = pq.read_table(tmp_path / "attempt" / path)
        assert table.schema.equals(pa.schema([*feed_schema(RULES.schema), *EXTRAS]))
        assert table.num_rows == rows
    feeds = early(tmp_path, note)
    seen = feeds["duplicates"][0]
    assert seen["fingerprint"] == fingerprint("seen")
    assert seen["event_time"].isoformat() == "2024-01-02T00:00:00+00:00"
    assert (seen["payload"], seen["raw"]) == (LINES["seen"].decode(), None)
    assert (seen["amount"], seen["score"], seen["original_event_id"], seen["contexts"]) == (
        4,
        None,
        None,
        None,
    )
    text, unreadable, *_ = feeds["bad"]
    assert (text["payload"], text["raw"], text["amount"]) == (LINES["text"].decode(), None, None)
    assert (unreadable["payload"], unreadable["raw"]) == (None, b"\xff\xfe")


def test_the_note_says_what_was_read(tmp_path: Path) -> None:
    used = stage(tmp_path)
    handed_on(used)
    (note,) = notes(tmp_path)
    (done,) = [item for item in used.reader.read(0) if isinstance(item, SliceDone)]
    assert note.task == 0
    assert note.slices == [SliceNote(*done)]
    assert note.handed_on == 3
    assert {feed: rows for feed, (_, rows) in note.early.items()} == {"bad": 4, "stale": 1, "duplicates": 1}
    assert note.slices[0].records == note.handed_on + sum(rows for _, rows in note.early.values())


def test_a_task_that_runs_twice_leaves_two_of_everything(tmp_path: Path) -> None:
    used = stage(tmp_path)
    assert handed_on(used) == handed_on(used)
    one, other = notes(tmp_path)
    assert (one.task, one.slices, one.handed_on) == (other.task, other.slices, other.handed_on)
    assert early(tmp_path, one) == early(tmp_path, other)
    paths = [path for note in (one, other) for path, _ in note.early.values()]
    assert len(set(paths)) == len(paths) == 6


def test_tasks_together_read_what_one_would(tmp_path: Path) -> None:
    expected = handed_on(stage(tmp_path))
    (whole,) = notes(tmp_path)
    cut = stage(tmp_path, split=30, folder=str(tmp_path / "cut/attempt"))
    tasks = len(cut.reader.tasks)  # type: ignore[attr-defined]
    assert tasks > 5
    batches = list(cut([pa.RecordBatch.from_pydict({"id": list(range(tasks))})]))
    assert [row for batch in batches for row in batch.to_pylist()] == expected
    found = notes(tmp_path / "cut")
    assert [note.task for note in found] == list(range(tasks))
    together: dict[str, list[dict[str, Any]]] = {}
    for note in found:
        for feed, rows in early(tmp_path / "cut", note).items():
            together.setdefault(feed, []).extend(rows)
    assert together == early(tmp_path, whole)


def test_a_task_that_dies_leaves_no_note(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Dying:
        def read(self, task: int) -> Iterator[Block | SliceDone]:
            yield Block([0], ["x:0"], 0, [None], ["not JSON"], [b"x"])
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        handed_on(stage(tmp_path, reader=Dying()))
    assert not (tmp_path / "attempt/notes").exists()


def test_without_mark_and_ledger_everything_readable_is_open(tmp_path: Path) -> None:
    rows = handed_on(stage(tmp_path, mark=None, lookup=None))
    assert [row["event_id"] for row in rows] == ["a", "c", "d", "e", "f"]
    assert {row[INTERNAL]["known"] for row in rows} == {False}
    (note,) = notes(tmp_path)
    assert set(note.early) == {"bad"}


def test_a_task_without_records_leaves_a_note(tmp_path: Path) -> None:
    used = stage(tmp_path)
    (tmp_path / "in.jsonl").write_bytes(b"")
    planned = PlannedFile("in.jsonl", str(tmp_path / "in.jsonl"), 0, 0)
    reader = FilesReader("r1", "p.yaml", "jsonl", (planned,), tuple(plan_slices([(0, True)], 9)))
    assert handed_on(replace(used, reader=reader)) == []
    assert notes(tmp_path) == [TaskNote(0, [SliceNote(0, 0, 0, 0, 0)], {}, 0)]


@pytest.mark.parametrize("lines", [[b"bad"] * 3, [b'{"id":"c","at":"2023-12-31"}'] * 3])
def test_a_block_of_which_nothing_is_left(tmp_path: Path, lines: list[bytes]) -> None:
    used = stage(tmp_path)
    content = b"\n".join(lines)
    (tmp_path / "in.jsonl").write_bytes(content)
    planned = PlannedFile("in.jsonl", str(tmp_path / "in.jsonl"), len(content), MODIFIED)
    reader = FilesReader("r1", "p.yaml", "jsonl", (planned,), tuple(plan_slices([(len(content), True)], 1000)))
    assert handed_on(replace(used, reader=reader)) == []
    (note,) = notes(tmp_path)
    assert sum(rows for _, rows in note.early.values()) == 3
