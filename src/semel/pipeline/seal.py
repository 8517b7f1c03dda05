"""After the feeds are written: sync and count each file, and make the ledger's segment from the accepted events.

Every file is looked at on its own, on the executors. An events file holds a range of id hashes, so its identities,
sorted, are a part of the segment as they are: there is no second shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from semel.books.records import FeedFile, SegmentPart
from semel.books.storage import make_folder, sync_file
from semel.ledgers.keys import Keys, keys_of
from semel.ledgers.lake.segment import write_part
from semel.model.verdicts import Feed
from semel.sources.files.checksum import crc32_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALONE: Final = 8
"""Up to so many files are looked at by the driver: starting a job takes longer."""
_ALONE_BYTES: Final = 32 * 1024 * 1024


class Sealed(msgspec.Struct, frozen=True):
    feed: str
    file: FeedFile
    conflicts: int
    newest: int | None
    """The highest event time in an events file."""
    part: SegmentPart | None


@dataclass(frozen=True)
class SealStage:
    """Picklable; called by Spark with batches of indexes into `files`."""

    attempt: str
    files: tuple[tuple[str, str], ...]
    """Feed and path below the attempt's folder."""
    segment: str | None
    """Where the segment's parts go."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            results = [msgspec.json.encode(self.seal(index)).decode() for index in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"sealed": pa.array(results, pa.string())})

    def seal(self, index: int) -> Sealed:
        feed, source = self.files[index]
        path = Path(self.attempt) / source
        sync_file(path)
        conflicts, newest, part = 0, None, None
        with pq.ParquetFile(path) as parquet:
            rows = parquet.metadata.num_rows
            if feed == Feed.EVENTS and rows:
                conflicts, newest, part = self._accepted(parquet, index)
        file = FeedFile(name=path.name, rows=rows, size=path.stat().st_size, crc32=crc32_of(path), source=source)
        return Sealed(feed, file, conflicts, newest, part)

    def _accepted(self, parquet: pq.ParquetFile, index: int) -> tuple[int, int, SegmentPart | None]:
        columns = ["event_id", "original_event_id", "fingerprint", "event_time"]
        gathered: list[Keys] = []
        times: list[Any] = []
        conflicts = 0
        for batch in parquet.iter_batches(batch_size=65536, columns=columns):
            originals = batch.column("original_event_id")
            conflicts += len(originals) - originals.null_count
            ids = pc.coalesce(originals, batch.column("event_id"))
            gathered.append(keys_of(ids.to_pylist(), batch.column("fingerprint").to_pylist()))
            times.append(batch.column("event_time").cast(pa.int64()).to_numpy())
        all_times = np.concatenate(times)
        part = None
        if self.segment is not None:
            keys = Keys(*(np.concatenate(column) for column in zip(*gathered, strict=True)))
            part = write_part(Path(self.segment) / f"part-{index:05d}.keys", keys, all_times)
        return conflicts, int(all_times.max()), part


def seal_files(spark: SparkSession, stage: SealStage) -> list[Sealed]:
    """What became of each file, in the order given; only these notes come back to the driver."""
    if stage.segment is not None:
        make_folder(Path(stage.segment))
    total = sum((Path(stage.attempt) / source).stat().st_size for _, source in stage.files)
    if len(stage.files) <= _ALONE and total <= _ALONE_BYTES:
        return [stage.seal(index) for index in range(len(stage.files))]
    tasks = min(len(stage.files), 4 * spark.sparkContext.defaultParallelism)
    rows = spark.range(0, len(stage.files), 1, tasks).mapInArrow(stage, "sealed STRING").collect()
    return [msgspec.json.decode(row[0], type=Sealed) for row in rows]
