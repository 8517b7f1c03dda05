"""The pass over the source, on the executors: read, identify, look up in the ledger.

A record leaves as soon as its verdict is certain: bad, stale and what the ledger has seen are written to their feeds
right here, in Arrow batches. The rest goes on to the judge. For each task a note says what it read and wrote; a task
that runs twice writes two notes and two sets of files, and exactly one of the two is taken.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from semel.books.storage import LocalStorage
from semel.judging.columns import TIMESTAMP, feed_schema, open_schema
from semel.judging.identify import EventRules, Identified, Identifier
from semel.ledgers.base import Lookup
from semel.ledgers.keys import keys_of
from semel.model.block import Block, SliceDone
from semel.model.canonical import is_text
from semel.model.crashpoints import CrashPoint, reached
from semel.model.schema import Schema
from semel.model.verdicts import Feed, Verdict

NOTES: Final = "notes"
EARLY: Final = "early"
SEEN: Final = "accepted in an earlier run"


class Reader(Protocol):
    """A source, on an executor. `read` gives the same records each time it is asked for the same task."""

    def read(self, task: int) -> Iterator[Block | SliceDone]: ...


class SliceNote(msgspec.Struct, frozen=True):
    file: int
    start: int
    end: int
    crc32: int
    records: int


class TaskNote(msgspec.Struct, frozen=True):
    """What a task read, what it wrote itself, and how many records it handed on."""

    task: int
    slices: list[SliceNote]
    early: dict[str, tuple[str, int]]
    """Feed to the file below the attempt's folder and its rows."""
    handed_on: int


@dataclass(frozen=True)
class ReadStage:
    """Picklable; called by Spark with batches of task numbers."""

    reader: Reader
    rules: EventRules
    mark: int | None
    lookup: Lookup | None
    folder: str
    """Where the attempt writes."""
    extras: pa.Schema
    """Columns that `process` adds to the feeds; null in what leaves before it."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from self.read(task)

    def read(self, task: int) -> Iterator[pa.RecordBatch]:
        early = EarlyFeeds(Path(self.folder), task, self.rules.schema, self.extras)
        identifier = Identifier(self.rules)
        slices: list[SliceNote] = []
        handed_on = 0
        for item in self.reader.read(task):
            if isinstance(item, SliceDone):
                slices.append(SliceNote(*item))
                continue
            reached(CrashPoint.READING)
            batch = self._judge(item, identifier.identify(item), early)
            handed_on += batch.num_rows
            if batch.num_rows:
                yield batch
        note = TaskNote(task, slices, early.close(), handed_on)
        name = f"{NOTES}/{task:06d}-{secrets.token_hex(4)}.json"
        LocalStorage(Path(self.folder)).create(name, msgspec.json.encode(note))

    def _judge(self, block: Block, events: Identified, early: EarlyFeeds) -> pa.RecordBatch:
        is_open = events.good
        times = np.array([0 if time is None else time for time in events.times], dtype=np.int64)
        early.write(Feed.BAD, Verdict.BAD, block, events, np.flatnonzero(~is_open), list(events.reasons))
        if self.mark is not None:
            stale = is_open & (times < self.mark)
            early.write(Feed.STALE, Verdict.STALE, block, events, np.flatnonzero(stale), "before the low-water mark")
            is_open &= ~stale
        chosen = np.flatnonzero(is_open)
        keys = keys_of([events.ids[i] or "" for i in chosen], [events.prints[i] or "" for i in chosen])
        known = np.zeros(len(chosen), dtype=np.bool_)
        if self.lookup is not None and len(chosen):
            found = self.lookup.find(keys)
            early.write(Feed.DUPLICATES, Verdict.DUPLICATE, block, events, chosen[found.seen], SEEN)
            unseen = ~found.seen
            chosen, keys, known = chosen[unseen], keys.take(unseen), found.known[unseen]
        return self._handed_on(block, events, chosen, keys.high, known)

    def _handed_on(
        self, block: Block, events: Identified, chosen: NDArray[np.intp], high: NDArray[np.uint64], known: Any
    ) -> pa.RecordBatch:
        rows = chosen.tolist()
        internal = pa.StructArray.from_arrays(
            [
                pa.array([block.places[i] for i in rows], pa.int64()),
                pa.array(high.view(np.int64)),
                pa.array(known),
            ],
            ["place", "high", "known"],
        )
        columns = [
            pa.array([events.ids[i] for i in rows], pa.string()),
            pa.array([events.prints[i] for i in rows], pa.string()),
            pa.array([events.times[i] for i in rows], TIMESTAMP),
            pa.array([block.arrival] * len(rows), TIMESTAMP),
            pa.array([block.positions[i] for i in rows], pa.string()),
            pa.array([block.payloads[i] for i in rows], pa.string()),
            *(column.take(pa.array(chosen)) for column in events.typed),
            internal,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=open_schema(self.rules.schema))


class EarlyFeeds:
    """The feed files that a task writes itself, one a feed, opened when the first record comes."""

    def __init__(self, folder: Path, task: int, schema: Schema | None, extras: pa.Schema) -> None:
        self.folder = folder
        self.name = f"part-{task:06d}-{secrets.token_hex(4)}.parquet"
        self.typed = [] if schema is None else [column.name for column in schema.columns]
        self.columns = pa.schema([*feed_schema(schema), *extras])
        self.writers: dict[str, pq.ParquetWriter] = {}
        self.rows: dict[str, int] = {}

    def write(
        self,
        feed: Feed,
        verdict: Verdict,
        block: Block,
        events: Identified,
        chosen: NDArray[np.intp],
        reason: str | list[str | None],
    ) -> None:
        rows = chosen.tolist()
        if not rows:
            return
        texts = [_text(block.payloads[i]) for i in rows] if feed is Feed.BAD else [block.payloads[i] for i in rows]
        columns = {
            "event_id": [events.ids[i] for i in rows],
            "fingerprint": [events.prints[i] for i in rows],
            "event_time": [events.times[i] for i in rows],
            "arrival_time": [block.arrival] * len(rows),
            "position": [block.positions[i] for i in rows],
            "verdict": [verdict.value] * len(rows),
            "reason": [reason] * len(rows) if isinstance(reason, str) else [reason[i] for i in rows],
            "payload": texts,
            "raw": [block.payloads[i] if text is None else None for i, text in zip(rows, texts, strict=True)],
        }
        typed = dict(zip(self.typed, events.typed, strict=True))
        arrays = []
        for field in self.columns:
            if field.name in typed:
                arrays.append(typed[field.name].take(pa.array(chosen)))
            elif field.name in columns:
                arrays.append(pa.array(columns[field.name], field.type))
            else:
                arrays.append(pa.nulls(len(rows), field.type))
        self._writer(feed.value).write_batch(pa.RecordBatch.from_arrays(arrays, schema=self.columns))
        self.rows[feed.value] = self.rows.get(feed.value, 0) + len(rows)

    def close(self) -> dict[str, tuple[str, int]]:
        for writer in self.writers.values():
            writer.close()
        return {feed: (f"{EARLY}/{feed}/{self.name}", rows) for feed, rows in self.rows.items()}

    def _writer(self, feed: str) -> pq.ParquetWriter:
        if feed not in self.writers:
            folder = self.folder / EARLY / feed
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            self.writers[feed] = pq.ParquetWriter(folder / self.name, self.columns, compression="snappy")
        return self.writers[feed]


def _text(payload: bytes) -> bytes | None:
    return payload if is_text(payload) else None
