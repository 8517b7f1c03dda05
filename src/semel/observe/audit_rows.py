"""The rows of the feeds, looked at one by one where they lie: verdict, mark, derived id, ledger entry.

What a row says of itself is checked here, without moving it; what rows say together is in `audit_records`.
Only tallies and a few examples of what is wrong leave a task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from semel.ledgers.keys import I64, Flags, Keys, keys_of
from semel.ledgers.lake.segment import Part, map_part
from semel.model.identity import derived_id
from semel.model.times import iso
from semel.model.verdicts import FEED_OF, Feed, Verdict
from semel.observe.audit_files import FeedPart
from semel.observe.audit_report import NAMED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESENT: Final = "resend/"
"""The position of a record that was judged again begins so, and is no place in an input file."""
_COLUMNS: Final = ("event_id", "original_event_id", "fingerprint", "event_time", "position", "verdict")
_ROWS: Final = 16384
_ALONE: Final = 64
"""Up to so many files are looked at by the driver: starting a job takes longer."""
_ALONE_BYTES: Final = 32 * 1024 * 1024


class RunFacts(NamedTuple):
    """What the books say of a run, as far as its rows have to fit it."""

    run: str
    mark: int | None
    recorded: bool
    """Was it judged against a ledger, and remembered by it?"""
    segment: tuple[str, ...] | None
    """The parts of its ledger segment, if they are live and whole."""


class Sample(msgspec.Struct):
    """How often something is wrong, and the first examples: where and what."""

    total: int = 0
    examples: list[tuple[str, str]] = []

    def add(self, total: int, examples: Iterable[tuple[str, str]]) -> None:
        self.total += total
        self.examples = nsmallest(NAMED, [*self.examples, *examples])


class Tally(msgspec.Struct):
    """What was found in some files; tallies add up in any order."""

    rows: dict[str, int] = msgspec.field(default_factory=dict)
    """By run number and feed, as `3/events`."""
    conflicts: dict[int, int] = msgspec.field(default_factory=dict)
    inputs: dict[str, int] = msgspec.field(default_factory=dict)
    """Input path to the number of its records in the feeds."""
    samples: dict[str, Sample] = msgspec.field(default_factory=dict)
    unreadable: list[int] = msgspec.field(default_factory=list)

    def add(self, other: Tally) -> None:
        for mine, theirs in ((self.rows, other.rows), (self.inputs, other.inputs)):
            for key, count in theirs.items():
                mine[key] = mine.get(key, 0) + count
        for number, count in other.conflicts.items():
            self.conflicts[number] = self.conflicts.get(number, 0) + count
        for kind, sample in other.samples.items():
            self.wrong(kind, sample.total, sample.examples)
        self.unreadable += other.unreadable

    def wrong(self, kind: str, total: int, examples: Iterable[tuple[str, str]]) -> None:
        self.samples.setdefault(kind, Sample()).add(total, examples)


@dataclass(frozen=True)
class RowStage:
    """Picklable; called by Spark with batches of indexes into `parts`."""

    parts: tuple[FeedPart, ...]
    runs: dict[int, RunFacts]
    booked: dict[str, int]
    """Input path to the number of the run that booked it."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = Tally()
        for batch in batches:
            for index in batch.column(0).to_pylist():
                self.look_at(index, tally)
        yield pa.RecordBatch.from_pydict({"tally": pa.array([msgspec.json.encode(tally)], pa.binary())})

    def look_at(self, index: int, tally: Tally) -> None:
        part = self.parts[index]
        found = Tally()
        try:
            with pq.ParquetFile(part.path) as parquet:
                for batch in parquet.iter_batches(batch_size=_ROWS, columns=list(_COLUMNS)):
                    _Rows(part, self.runs[part.number], batch, found).check(self.booked)
        except (OSError, KeyError, pa.ArrowException) as error:
            what = f"cannot be read as a feed ({' '.join(str(error).split())})"
            found = Tally(unreadable=[index])
            found.wrong("feed file", 1, [(part.shown, what)])
        tally.add(found)


@dataclass
class _Rows:
    """A batch of one file."""

    part: FeedPart
    run: RunFacts
    batch: pa.RecordBatch
    tally: Tally
    positions: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.positions = [position or "" for position in self.batch.column("position").to_pylist()]

    def check(self, booked: dict[str, int]) -> None:
        if self.batch.num_rows == 0:
            return
        key = f"{self.part.number}/{self.part.feed}"
        self.tally.rows[key] = self.tally.rows.get(key, 0) + self.batch.num_rows
        times = self.batch.column("event_time").cast(pa.int64())
        self._verdicts()
        self._places(booked)
        if self.part.feed != Feed.BAD:
            self._times(times)
        if self.part.feed == Feed.EVENTS:
            self._conflicts()
            self._ledger(times)

    def _verdicts(self) -> None:
        fitting = [verdict.value for verdict, feed in FEED_OF.items() if feed.value == self.part.feed]
        verdicts = self.batch.column("verdict")
        strange = ~_flags(pc.is_in(verdicts, value_set=pa.array(fitting)))
        self._wrong("verdict", strange, lambda i: f"has the verdict {verdicts[i].as_py()}, but is in {self._feed}")

    def _places(self, booked: dict[str, int]) -> None:
        paths = [position.rpartition(":")[0] for position in self.positions]
        for path, count in Counter(paths).items():
            self.tally.inputs[path] = self.tally.inputs.get(path, 0) + count
        number = self.part.number
        strays = {path for path in set(paths) if booked.get(path, number) != number}
        if strays:
            elsewhere = np.array([path in strays for path in paths])
            self._wrong("run", elsewhere, lambda i: f"is in {self._feed}, but run {booked[paths[i]]} has read it")

    def _times(self, times: Any) -> None:
        """Below the mark is stale, and nothing else is."""
        timeless = _flags(times.is_null())
        self._wrong("verdict", timeless, lambda i: f"is in {self._feed} and has no event time")
        is_stale = np.zeros(len(times), dtype=np.bool_)
        if self.run.mark is not None:
            is_stale = times.fill_null(self.run.mark).to_numpy() < self.run.mark
        wrong = is_stale != (self.part.feed == Feed.STALE)
        side = "before" if self.part.feed != Feed.STALE else "not before"
        mark = "there is none" if self.run.mark is None else iso(self.run.mark)
        self._wrong("mark", wrong & ~timeless, lambda i: f"is in {self._feed} and {side} the low-water mark ({mark})")

    def _conflicts(self) -> None:
        ids, originals = self.batch.column("event_id"), self.batch.column("original_event_id")
        prints = self.batch.column("fingerprint")
        renamed = _flags(pc.equal(self.batch.column("verdict"), Verdict.CONFLICT.value))
        count = int(renamed.sum())
        if count:
            self.tally.conflicts[self.part.number] = self.tally.conflicts.get(self.part.number, 0) + count
        odd = renamed == _flags(originals.is_null())
        self._wrong(
            "conflict",
            odd,
            lambda i: "has an original id exactly if it is no conflict; it should be the reverse",
        )
        wrong = np.zeros(len(renamed), dtype=np.bool_)
        for i in np.flatnonzero(renamed & ~odd).tolist():
            wrong[i] = ids[i].as_py() != derived_id(originals[i].as_py(), prints[i].as_py() or "")
        self._wrong(
            "conflict",
            wrong,
            lambda i: f"has the id {ids[i].as_py()}, which is not derived from its original one",
        )

    def _ledger(self, times: Any) -> None:
        if self.run.segment is None:
            return
        ids = pc.coalesce(self.batch.column("original_event_id"), self.batch.column("event_id"))
        prints = self.batch.column("fingerprint")
        keys = keys_of([text or "" for text in ids.to_pylist()], [text or "" for text in prints.to_pylist()])
        known = np.zeros(len(ids), dtype=np.bool_)
        for path in self.run.segment:
            known |= _is_entry(map_part(path), keys, times.fill_null(0).to_numpy())
        self._wrong("ledger", ~known, lambda i: "was accepted, but the ledger segment of its run has no such entry")

    @property
    def _feed(self) -> str:
        return f"the feed {self.part.feed} of run {self.run.run}"

    def _wrong(self, kind: str, flags: Flags, what: Any) -> None:
        rows = np.flatnonzero(flags).tolist()
        if rows:
            examples = [(f"record {self.positions[i]}", what(i)) for i in rows[:NAMED]]
            self.tally.wrong(kind, len(rows), examples)


def tally_rows(spark: SparkSession, stage: RowStage) -> Tally:
    """Look at all files."""
    total = Tally()
    count = len(stage.parts)
    if count <= _ALONE and sum(part.size for part in stage.parts) <= _ALONE_BYTES:
        for index in range(count):
            stage.look_at(index, total)
        return total
    tasks = min(count, 8 * spark.sparkContext.defaultParallelism)
    for row in spark.range(0, count, 1, tasks).mapInArrow(stage, "tally BINARY").collect():
        total.add(msgspec.json.decode(row[0], type=Tally))
    return total


def _is_entry(part: Part, keys: Keys, times: I64) -> Flags:
    """Which identities are in a segment with exactly this time: a merge of both in one order."""
    first = int(np.searchsorted(part.high, keys.high.min(), side="left"))
    last = int(np.searchsorted(part.high, keys.high.max(), side="right"))
    entries = last - first
    columns: list[Any] = [
        np.concatenate((part.high[first:last], keys.high)),
        np.concatenate((part.low[first:last], keys.low)),
        np.concatenate((part.print[first:last], keys.print)),
        np.concatenate((part.time[first:last], times)),
    ]
    order = np.lexsort(columns[::-1])  # stable: an entry comes before the identities that equal it
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in columns])
    leaders = order[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    known = np.empty(len(order), dtype=np.bool_)
    known[order] = leaders < entries
    return known[entries:]


def _flags(array: Any) -> Flags:
    """As numpy; null is False."""
    result: Flags = array.fill_null(False).to_numpy(zero_copy_only=False)
    return result
