"""What the records of all runs say together: each read record in one feed once, each identity accepted once.

Two shuffles: one on the position, of what is in the feeds and what the input files have; one on the identity,
of what was accepted and what was called a duplicate of it. Examples and counts of what is wrong come back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.window import Window

from semel.model.block import Block
from semel.model.splits import OFFSET_BITS, OPENING_COSTS, plan_slices
from semel.model.times import EARLIEST, LATEST
from semel.model.verdicts import Feed
from semel.observe.audit_files import FeedPart, Input
from semel.observe.audit_rows import RESENT, RunFacts, Sample
from semel.pipeline.config import PipelineConfig
from semel.sources.files.discover import locate
from semel.sources.files.reader import FilesReader, PlannedFile, can_be_cut

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FEEDS: Final = tuple(feed.value for feed in Feed)
_READ: Final = -1
"""Stands for a feed in rows that come from an input file."""
_NOT_COMPARED, _COMPARED, _NEVER_BOOKED = 0, 1, 2
_PLACES: Final = pa.schema(
    [
        ("position", pa.string()),
        ("digest", pa.binary()),
        ("feed", pa.int32()),
        ("number", pa.int32()),
        ("compared", pa.int32()),
    ]
)
_COPIES: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("by_id", pa.bool_()),
        ("print", pa.binary()),
        ("number", pa.int32()),
        ("mark", pa.int64()),
        ("remembered", pa.int64()),
        ("accepted", pa.bool_()),
        ("position", pa.string()),
    ]
)
_ROWS: Final = 1024
_SMALLEST_SPLIT: Final = 1024 * 1024
_TASK_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True)
class FeedPlaces:
    """The rows of the feeds: where each was read, and what it holds. Called with indexes into `parts`."""

    parts: tuple[FeedPart, ...]
    compared: dict[str, bool]
    """Booked input path: was it read again?"""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part, batch in _batches(self.parts, batches, ("position", "payload", "raw")):
            count = batch.num_rows
            positions = [position or "" for position in batch.column("position").to_pylist()]
            content = pc.coalesce(batch.column("payload").cast(pa.binary()), batch.column("raw"))
            columns = [
                pa.array(positions, pa.string()),
                pa.array([_digest(data or b"") for data in content.to_pylist()], pa.binary()),
                pa.array([FEEDS.index(part.feed)] * count, pa.int32()),
                pa.array([part.number] * count, pa.int32()),
                pa.array([self.comparison(position) for position in positions], pa.int32()),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=_PLACES)

    def comparison(self, position: str) -> int:
        """What can be said of a record if no input has it: nothing, or that it was invented."""
        known = self.compared.get(position.rpartition(":")[0])
        if known is None:
            return _NOT_COMPARED if position.startswith(RESENT) else _NEVER_BOOKED
        return _COMPARED if known else _NOT_COMPARED


@dataclass(frozen=True)
class InputPlaces:
    """The records as the input files have them. Picklable; called with batches of task numbers."""

    reader: FilesReader
    complete: tuple[bool, ...]
    """By file: are the feeds of its run whole, so that a record that is not in them is lost?"""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for block in self.reader.read(task):
                    if isinstance(block, Block) and block.places:
                        yield self._rows(block)

    def _rows(self, block: Block) -> pa.RecordBatch:
        count = len(block.places)
        compared = _COMPARED if self.complete[block.places[0] >> OFFSET_BITS] else _NOT_COMPARED
        columns = [
            pa.array(block.positions, pa.string()),
            pa.array([_digest(payload) for payload in block.payloads], pa.binary()),
            pa.array([_READ] * count, pa.int32()),
            pa.nulls(count, pa.int32()),
            pa.array([compared] * count, pa.int32()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_PLACES)


@dataclass(frozen=True)
class Copies:
    """Accepted events and their duplicates, by identity; accepted ones also by the id that consumers see.

    Called with indexes into `parts`.
    """

    parts: tuple[FeedPart, ...]
    runs: dict[int, RunFacts]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = ("event_id", "original_event_id", "fingerprint", "event_time", "position")
        for part, batch in _batches(self.parts, batches, columns):
            ids = [text or "" for text in batch.column("event_id").to_pylist()]
            sent = [original or known for original, known in zip(batch.column(1).to_pylist(), ids, strict=True)]
            prints = [(text or "").encode() for text in batch.column("fingerprint").to_pylist()]
            identities = [_digest(text.encode() + b"\x1f" + mark) for text, mark in zip(sent, prints, strict=True)]
            yield self._rows(part, batch, identities, identities, by_id=False)
            if part.feed == Feed.EVENTS:
                yield self._rows(part, batch, [_digest(text.encode()) for text in ids], identities, by_id=True)

    def _rows(
        self, part: FeedPart, batch: pa.RecordBatch, keys: list[bytes], identities: list[bytes], by_id: bool
    ) -> pa.RecordBatch:
        count = batch.num_rows
        run = self.runs[part.number]
        is_accepted = part.feed == Feed.EVENTS
        mark = LATEST + 1 if not run.recorded else EARLIEST if run.mark is None else run.mark
        times = batch.column("event_time").cast(pa.int64())
        columns = [
            pa.array(keys, pa.binary()),
            pa.array([by_id] * count),
            pa.array(identities, pa.binary()),
            pa.array([part.number] * count, pa.int32()),
            pa.array([mark] * count, pa.int64()),
            times if is_accepted and run.recorded else pa.nulls(count, pa.int64()),
            pa.array([is_accepted] * count),
            batch.column("position"),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_COPIES)


def compare_places(
    spark: SparkSession,
    config: PipelineConfig,
    parts: tuple[FeedPart, ...],
    inputs: list[Input],
    incomplete: set[int],
) -> dict[str, Sample]:
    """Is every record that was read in exactly one feed, once and unaltered, and nothing else?"""
    compared = {each.file.path: each.intact for each in inputs}
    places = _over_parts(spark, FeedPlaces(parts, compared), parts, _PLACES)
    again = [each for each in inputs if each.intact]
    if again:
        files = tuple(
            PlannedFile(each.file.path, str(locate(each.file.path, config.base)), each.file.size, each.file.modified)
            for each in again
        )
        cores = spark.sparkContext.defaultParallelism
        total = sum(file.size for file in files)
        split = min(config.source.split, max(_SMALLEST_SPLIT, math.ceil(total / (2 * cores))))
        tasks = tuple(plan_slices([(file.size, can_be_cut(file.path)) for file in files], split))
        source = config.source
        reader = FilesReader("audit", config.origin, source.format, files, tasks, source.delimiter, source.columns)
        stage = InputPlaces(reader, tuple(each.number not in incomplete for each in again))
        places = places.unionByName(
            spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(stage, from_arrow_schema(_PLACES))
        )
    return _samples(_misplaced(places))


def _misplaced(places: DataFrame) -> DataFrame:
    is_read = sql.col("feed") == _READ
    gathered = places.groupBy("position").agg(
        sql.count_if(is_read).alias("reads"),
        sql.count_if(~is_read).alias("rows"),
        sql.bit_or(sql.when(~is_read, sql.expr("shiftleft(1, feed)"))).alias("feeds"),
        sql.max("number").alias("number"),
        sql.max(sql.when(is_read, sql.col("compared"))).alias("wanted"),
        sql.max(sql.when(~is_read, sql.col("compared"))).alias("compared"),
        sql.min("digest").alias("least"),
        sql.max("digest").alias("greatest"),
    )
    names = sql.concat_ws(
        " and ",
        *(sql.when(sql.col("feeds").bitwiseAND(1 << bit) != 0, feed) for bit, feed in enumerate(FEEDS)),
    )
    rows, reads = sql.col("rows"), sql.col("reads")
    kind = (
        sql.when(rows > 1, "doubled")
        .when((rows == 0) & (sql.col("wanted") == _COMPARED), "lost")
        .when((reads == 0) & (sql.col("compared") >= _COMPARED), "invented")
        .when((reads > 0) & (rows == 1) & (sql.col("least") != sql.col("greatest")), "altered")
    )
    what = (
        sql.when(kind == "doubled", sql.concat(sql.lit("is "), rows, sql.lit(" times in the feeds: in "), names))
        .when(kind == "lost", "was read and is in no feed")
        .when(
            kind == "invented",
            sql.concat(sql.lit("is in the feed "), names, sql.lit(", but not in its input")),
        )
        .when(kind == "altered", sql.concat(sql.lit("is not the same in its input and in the feed "), names))
    )
    return _findings(gathered, kind, what)


def compare_copies(
    spark: SparkSession, parts: tuple[FeedPart, ...], runs: dict[int, RunFacts], complete: bool
) -> dict[str, Sample]:
    """Is every identity, and every id that consumers see, accepted once within the horizon?

    And has each duplicate its original?
    An original can only be missed if all of the feed `events` is there: `complete`.
    """
    chosen = tuple(part for part in parts if part.feed in (Feed.EVENTS, Feed.DUPLICATES))
    copies = _over_parts(spark, Copies(chosen, runs), chosen, _COPIES)
    of_key = Window.partitionBy("key", "by_id")
    earlier = of_key.orderBy("number").rangeBetween(Window.unboundedPreceding, -1)
    up_to_now = of_key.orderBy("number").rangeBetween(Window.unboundedPreceding, Window.currentRow)
    in_run = of_key.orderBy("number").rangeBetween(Window.currentRow, Window.currentRow)
    judged = copies.select(
        "*",
        sql.max("remembered").over(earlier).alias("newest"),
        sql.count_if(sql.col("accepted")).over(in_run).alias("in_run"),
        sql.count_if(sql.col("accepted")).over(up_to_now).alias("originals"),
        sql.min("print").over(up_to_now).alias("least"),
        sql.max("print").over(up_to_now).alias("greatest"),
    )
    again = (sql.col("newest") >= sql.col("mark")) | (sql.col("in_run") > 1)
    kind = (
        sql.when(~sql.col("accepted") & (sql.col("originals") == 0) & sql.lit(complete), "duplicate of nothing")
        .when(sql.col("accepted") & ~sql.col("by_id") & again, "accepted twice")
        .when(sql.col("by_id") & again & (sql.col("least") != sql.col("greatest")), "id twice")
    )
    what = (
        sql.when(
            kind == "duplicate of nothing",
            "is called a duplicate, but no event with its id and fingerprint was accepted",
        )
        .when(
            kind == "accepted twice",
            "was accepted, but the same id and fingerprint was accepted before within the horizon",
        )
        .when(
            kind == "id twice",
            "was accepted under an id that another event within the horizon has in the feed events",
        )
    )
    return _samples(_findings(judged, kind, what))


class SampleStage:
    """Counts findings and keeps the first of each kind. Picklable; called with batches of findings."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        samples: dict[str, Sample] = {}
        for batch in batches:
            kinds, places, texts = (column.to_pylist() for column in batch.columns)
            for kind, place, text in zip(kinds, places, texts, strict=True):
                samples.setdefault(kind, Sample()).add(1, [(place, text)])
        if samples:
            yield pa.RecordBatch.from_pydict({"samples": pa.array([msgspec.json.encode(samples)], pa.binary())})


def _samples(findings: DataFrame) -> dict[str, Sample]:
    total: dict[str, Sample] = {}
    for row in findings.mapInArrow(SampleStage(), "samples BINARY").collect():
        for kind, sample in msgspec.json.decode(row[0], type=dict[str, Sample]).items():
            total.setdefault(kind, Sample()).add(sample.total, sample.examples)
    return total


def _findings(rows: DataFrame, kind: Column, what: Column) -> DataFrame:
    where = sql.concat(sql.lit("record "), sql.col("position"))
    return rows.select(kind.alias("kind"), where.alias("where"), what.alias("what")).filter("kind IS NOT NULL")


def _over_parts(spark: SparkSession, stage: Any, parts: tuple[FeedPart, ...], schema: pa.Schema) -> DataFrame:
    size = sum(part.size + OPENING_COSTS for part in parts)
    tasks = max(1, min(len(parts), math.ceil(size / _TASK_BYTES)))
    return spark.range(0, len(parts), 1, tasks).mapInArrow(stage, from_arrow_schema(schema))


def _batches(
    parts: tuple[FeedPart, ...], batches: Iterable[pa.RecordBatch], columns: tuple[str, ...]
) -> Iterator[tuple[FeedPart, pa.RecordBatch]]:
    for indexes in batches:
        for index in indexes.column(0).to_pylist():
            part = parts[index]
            with pq.ParquetFile(part.path) as parquet:
                for batch in parquet.iter_batches(batch_size=_ROWS, columns=list(columns)):
                    yield part, batch.select(list(columns))


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
