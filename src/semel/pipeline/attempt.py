"""One try at a plan: read, judge, write where nobody looks, and say what a commit would say."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

import semel.errors
from semel.books.records import BookedFile, Commit, Counts, FeedFile, Plan, Segment, State, Status, sealed
from semel.books.state import later
from semel.books.storage import make_folder, sync_folder
from semel.errors import RunFailed, SemelError
from semel.judging.columns import feed_schema
from semel.judging.decide import FEED, decide
from semel.judging.identify import EventRules
from semel.judging.read_stage import EARLY, NOTES, ReadStage, TaskNote
from semel.judging.source_frame import open_events
from semel.judging.validate import Validation
from semel.model.crashpoints import CrashPoint, reached
from semel.model.splits import Slice, join_crc32, plan_slices
from semel.model.times import from_iso
from semel.model.verdicts import ConflictRule, Feed
from semel.pipeline.config import PipelineConfig
from semel.pipeline.inputs import check_input
from semel.pipeline.progress import Progress
from semel.pipeline.seal import Sealed, SealStage, seal_files
from semel.pipeline.workspace import Workspace, config_schema, schema_columns
from semel.sources.files.discover import locate
from semel.sources.files.reader import FilesReader, PlannedFile, can_be_cut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("semel")

JUDGED: Final = "judged"
_PARTITION_BYTES: Final = 64 * 1024 * 1024
_SPREAD_BYTES: Final = 8 * 1024 * 1024
_SMALLEST_SPLIT: Final = 1024 * 1024
_COMPRESSED: Final = 6
_FROM_EXECUTOR: Final = re.compile(r"semel\.errors\.(\w+): (.*)")


@dataclass(frozen=True)
class Attempt:
    """Everything that one try needs; `extras` are the columns that `process` adds."""

    workspace: Workspace
    plan: Plan
    state: State
    id: str
    spark: SparkSession
    validation: Validation
    extras: pa.Schema
    progress: Progress

    @property
    def config(self) -> PipelineConfig:
        return self.workspace.config

    @property
    def folder(self) -> Path:
        return self.workspace.attempt_folder(self.plan.feeds, self.plan.run, self.id)

    def carry_out(self, clock: Callable[[], str]) -> Commit:
        """Steps 2 and 3 of the protocol. Returns the commit to make; nothing has happened yet."""
        check_input(self.plan, self.config)
        self.workspace.ledger.check(self.state)
        make_folder(self.folder)
        tasks = self._tasks()
        with self.progress.working(self.spark, self.plan):
            self._write(tasks)
            reached(CrashPoint.AFTER_WRITE)
            notes = read_notes(self.folder, len(tasks))
            self.validation.confirm(sum(note.handed_on for note in notes.values()))
            self._add_empty_feeds(notes)
            files = self._written(notes)
            results = seal_files(self.spark, SealStage(str(self.folder), files, self._segment_folder()))
        self._sync()
        reached(CrashPoint.AFTER_SEAL)
        check_input(self.plan, self.config)
        return self._commit(notes, results, clock())

    def _tasks(self) -> list[tuple[Slice, ...]]:
        cores = self.spark.sparkContext.defaultParallelism
        total = sum(file.size for file in self.plan.files)
        split = min(self.config.source.split, max(_SMALLEST_SPLIT, math.ceil(total / (2 * cores))))
        return plan_slices([(file.size, can_be_cut(file.path)) for file in self.plan.files], split)

    def _write(self, tasks: list[tuple[Slice, ...]]) -> None:
        mark = None if self.plan.mark is None else from_iso(self.plan.mark)
        schema = config_schema(self.config)
        stage = ReadStage(
            reader=self._reader(tasks),
            rules=event_rules(self.config, self.plan),
            mark=mark,
            lookup=self.workspace.ledger.lookup(self.state, mark),
            folder=str(self.folder),
            extras=self.extras,
        )
        events = self.validation.apply(open_events(self.spark, stage, len(tasks), schema))
        judged = decide(events, ConflictRule(self.config.conflict), self._partition_bits())
        judged.write.partitionBy(FEED).parquet(f"file://{self.folder}/{JUDGED}")

    def _reader(self, tasks: list[tuple[Slice, ...]]) -> FilesReader:
        source = self.config.source
        files = tuple(
            PlannedFile(file.path, str(locate(file.path, self.config.base)), file.size, file.modified)
            for file in self.plan.files
        )
        return FilesReader(
            self.plan.run,
            self.config.origin,
            source.format,
            files,
            tuple(tasks),
            source.delimiter,
            source.columns,
        )

    def _partition_bits(self) -> int:
        """The shuffle has a power of two of partitions: each is a range of the id's hash."""
        total = sum(file.size * (1 if can_be_cut(file.path) else _COMPRESSED) for file in self.plan.files)
        wanted = total / _PARTITION_BYTES
        if total > _SPREAD_BYTES:
            wanted = max(wanted, self.spark.sparkContext.defaultParallelism)
        return max(0, math.ceil(math.log2(wanted))) if wanted > 1 else 0

    def _segment_folder(self) -> str | None:
        root = self.workspace.ledger.segments
        return None if root is None else str(root / self.plan.run / self.id)

    def _add_empty_feeds(self, notes: dict[int, TaskNote]) -> None:
        """The first run leaves a file in every feed, so that every feed can be read from then on."""
        if self.state.runs:
            return
        present = {feed for note in notes.values() for feed in note.early} | set(_judged_feeds(self.folder))
        columns = pa.schema([*feed_schema(config_schema(self.config)), *self.extras])
        for feed in Feed:
            if feed.value not in present:
                folder = self.folder / EARLY / feed.value
                folder.mkdir(parents=True, exist_ok=True)
                pq.write_table(columns.empty_table(), folder / "part-empty.parquet")

    def _written(self, notes: dict[int, TaskNote]) -> tuple[tuple[str, str], ...]:
        early = [(feed, path) for note in notes.values() for feed, (path, _) in note.early.items()]
        empty = [
            (path.parent.name, str(path.relative_to(self.folder)))
            for path in sorted(self.folder.glob(f"{EARLY}/*/part-empty.parquet"))
        ]
        judged = [
            (feed, str(path.relative_to(self.folder)))
            for feed, paths in _judged_feeds(self.folder).items()
            for path in paths
        ]
        return tuple(early + empty + judged)

    def _sync(self) -> None:
        """Every folder on the way to what was written; the files were synced when they were looked at."""
        for folder in [self.folder, *(path for path in self.folder.rglob("*") if path.is_dir())]:
            sync_folder(folder)
        sync_folder(self.folder.parent)
        segment = self._segment_folder()
        if segment is not None:
            sync_folder(Path(segment))
            sync_folder(Path(segment).parent)

    def _commit(self, notes: dict[int, TaskNote], results: Sequence[Sealed], moment: str) -> Commit:
        files = booked_files(self.plan, notes)
        feeds: dict[str, list[FeedFile]] = {feed.value: [] for feed in Feed}
        for result in results:
            feeds[result.feed].append(result.file)
        counts = self._counts(files, feeds, sum(result.conflicts for result in results))
        newest = max((result.newest for result in results if result.newest is not None), default=None)
        parts = [result.part for result in results if result.part is not None]
        segment = None
        if parts:
            segment = Segment(number=self.plan.number, folder=f"{self.plan.run}/{self.id}", parts=parts)
        return sealed(
            Commit(
                number=self.plan.number,
                run=self.plan.run,
                books=self.plan.books,
                status=Status.COMMITTED,
                attempt=self.id,
                moment=moment,
                mark=self.plan.mark,
                reference=later(self.state.reference, newest),
                horizon_seconds=self.plan.horizon_seconds,
                counts=counts,
                files=files,
                feeds=feeds,
                segment=segment,
                sinks=self.plan.feeds,
                ledger=self.plan.ledger,
                columns=schema_columns(self.config),
                previous=self.state.digest,
                touched=self.plan.touched,
            )
        )

    def _counts(self, files: list[BookedFile], feeds: dict[str, list[FeedFile]], conflicts: int) -> Counts:
        rows = {feed: sum(file.rows for file in written) for feed, written in feeds.items()}
        counts = Counts(
            read=sum(file.records for file in files),
            accepted=rows[Feed.EVENTS],
            conflicts=conflicts,
            duplicates=rows[Feed.DUPLICATES],
            stale=rows[Feed.STALE],
            rejected=rows[Feed.REJECTED],
            bad=rows[Feed.BAD],
        )
        if not counts.balanced:
            raise RunFailed(
                f"run {self.plan.run} read {counts.read} records but wrote {counts.as_dict()}; nothing was committed. "
                "This is a fault in semel: please report it"
            )
        return counts


def event_rules(config: PipelineConfig, plan: Plan) -> EventRules:
    event = config.event
    return EventRules(
        id=event.id,
        composite=event.composite,
        time=event.time,
        unit=event.unit,
        exclude=event.fingerprint.exclude,
        hash=event.fingerprint.hash,
        fingerprint_field=event.fingerprint.field,
        schema=config_schema(config),
        as_text=config.source.format == "csv",
        latest=from_iso(plan.moment) + config.max_ahead // timedelta(microseconds=1),
    )


def read_notes(folder: Path, tasks: int) -> dict[int, TaskNote]:
    """One note for each task: of several attempts at a task, all of which read the same, one is taken."""
    notes: dict[int, TaskNote] = {}
    for path in sorted((folder / NOTES).glob("[0-9]*.json")):
        note = msgspec.json.decode(path.read_bytes(), type=TaskNote)
        notes.setdefault(note.task, note)
    missing = sorted(set(range(tasks)) - notes.keys())
    if missing:
        raise RunFailed(
            f"task {missing[0]} did not read its input to the end; if `process` takes only a part of the rows "
            "(a limit, a sample), let it return all of them"
        )
    return notes


def booked_files(plan: Plan, notes: dict[int, TaskNote]) -> list[BookedFile]:
    """Each planned file with the checksum and the number of the records that were read from it."""
    slices = sorted(
        (piece for note in notes.values() for piece in note.slices),
        key=lambda piece: (piece.file, piece.start),
    )
    pieces: dict[int, list[tuple[int, int]]] = {}
    records: dict[int, int] = {}
    for piece in slices:
        pieces.setdefault(piece.file, []).append((piece.crc32, piece.end - piece.start))
        records[piece.file] = records.get(piece.file, 0) + piece.records
    return [
        BookedFile(
            path=file.path,
            size=file.size,
            modified=file.modified,
            crc32=join_crc32(pieces[index]),
            records=records[index],
        )
        for index, file in enumerate(plan.files)
    ]


def from_spark(error: Exception) -> SemelError | None:
    """The error that was raised on an executor, if it was one of ours."""
    found = _FROM_EXECUTOR.findall(str(error))
    if not found:
        return None
    name, message = found[-1]
    kind = getattr(semel.errors, name, RunFailed)
    return kind(message.strip()) if isinstance(kind, type) and issubclass(kind, SemelError) else None


def _judged_feeds(folder: Path) -> dict[str, list[Path]]:
    """The files that Spark's job has written, by feed."""
    return {
        path.name.removeprefix(f"{FEED}="): sorted(path.glob("part-*.parquet"))
        for path in sorted((folder / JUDGED).glob(f"{FEED}=*"))
    }
