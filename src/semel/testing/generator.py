"""Events with known truth: input files, and beside them the verdict that each of their records must get.

The truth holds if each batch is judged as one run, in order, with the pipeline file that is written along,
which has `conflict: rename` and `clock: event`. Batches can be generated one at a time, by different
processes; the bytes are the same as if all were generated at once.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from semel.testing.records import CSV_HEADER, Columns, Filler, csv_lines, json_lines, table_columns
from semel.testing.settings import Compression, Format, GeneratorSettings
from semel.testing.slots import Block, Outcome, Plan

__all__ = [
    "VERDICTS",
    "Compression",
    "Format",
    "GeneratorSettings",
    "Truth",
    "expected_counts",
    "generate",
    "pipeline_text",
    "read_truth",
]

VERDICTS: Final = tuple(outcome.name.lower() for outcome in Outcome)
PIPELINE_FILE: Final = "pipeline.yaml"
_BLOCK_RECORDS: Final = 1 << 16
_BLOCK_BYTES: Final = 1 << 26

_TRUTH_SCHEMA: Final = pa.schema(
    [
        ("file", pa.dictionary(pa.int32(), pa.string())),
        ("offset", pa.int64()),
        ("event_id", pa.string()),
        ("verdict", pa.dictionary(pa.int8(), pa.string())),
        ("batch", pa.int32()),
    ]
)
_TABLE_SCHEMA: Final = pa.schema(
    [
        ("event_id", pa.string()),
        ("event_time", pa.string()),
        ("user", pa.string()),
        ("amount", pa.float64()),
        ("page", pa.string()),
        ("sent_at", pa.int64()),
        ("seq", pa.int64()),
        ("note", pa.string()),
    ]
)


@dataclass(frozen=True)
class Truth:
    """How many records of each batch get which verdict; `accepted` does not include conflicts."""

    by_batch: Mapping[int, Mapping[str, int]]

    def counts(self, batch: int) -> dict[str, int]:
        return dict(self.by_batch[batch])

    @property
    def totals(self) -> dict[str, int]:
        return {verdict: sum(each[verdict] for each in self.by_batch.values()) for verdict in VERDICTS}


def generate(
    folder: Path, settings: GeneratorSettings, batch: range | None = None, *, overwrite_pipeline: bool = False
) -> Truth:
    """Writes in/, truth/ and pipeline.yaml below the folder; all batches, or those asked for.

    A file appears under its name when it is complete, and its truth before it. The files of a batch that was
    generated before are replaced; a pipeline file that exists is kept unless told otherwise.
    """
    batches = range(settings.batches) if batch is None else batch
    if any(not 0 <= number < settings.batches for number in batches):
        raise ValueError(f"batch {batches} is outside of the {settings.batches} batches of the settings")
    for name in ("in", "truth"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    pipeline = folder / PIPELINE_FILE
    if overwrite_pipeline or not pipeline.exists():
        with _appearing(pipeline) as hidden:
            hidden.write_text(pipeline_text(settings), encoding="utf-8")
    plan = Plan(settings)
    filler = Filler(plan)
    return Truth({number: _generate_batch(folder, plan, filler, number) for number in batches})


def read_truth(folder: Path) -> pa.Table:
    """The truth of everything generated so far, in the order of the input."""
    return pa.concat_tables([_TRUTH_SCHEMA.empty_table(), *(_read(path) for path in _truth_files(folder))])


def expected_counts(folder: Path, batch: int | None = None) -> dict[str, int]:
    """What the report of a batch's run must say, or of all batches together."""
    codes = dict.fromkeys(VERDICTS, 0)
    for path in _truth_files(folder):
        if batch is None or int(path.stem.split("-")[1]) == batch:
            for counted in _read(path, columns=["verdict"])["verdict"].value_counts().to_pylist():
                codes[counted["values"]] += counted["counts"]
    return {
        "read": sum(codes.values()),
        "accepted": codes["accepted"] + codes["conflict"],
        "conflicts": codes["conflict"],
        "duplicates": codes["duplicate"],
        "stale": codes["stale"],
        "rejected": codes["rejected"],
        "bad": codes["bad"],
    }


def pipeline_text(settings: GeneratorSettings) -> str:
    """A pipeline file that fits what these settings generate."""
    return f"""\
pipeline: generated
source:
  kind: files
  path: in/
  format: {settings.format}
event:
  id: event_id
  time: event_time
  fingerprint:
    exclude: [sent_at]
  schema: "user STRING, amount DOUBLE, page STRING"
horizon: {_duration_text(settings.horizon)}
clock: event
conflict: rename
reject:
  negative amount: amount < 0
feeds: parquet:out/
books: books/
"""


def _duration_text(duration: timedelta) -> str:
    seconds = duration // timedelta(seconds=1)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _truth_files(folder: Path) -> list[Path]:
    return sorted((folder / "truth").glob("batch-*.parquet"))


def _read(path: Path, columns: list[str] | None = None) -> pa.Table:
    with pq.ParquetFile(path) as file:
        return file.read(columns=columns)


def _generate_batch(folder: Path, plan: Plan, filler: Filler, batch: int) -> dict[str, int]:
    settings = plan.settings
    counts = np.zeros(len(VERDICTS), dtype=np.int64)
    first = batch * settings.events
    size = max(1, min(_BLOCK_RECORDS, _BLOCK_BYTES // settings.payload_bytes))
    for file in range(settings.files_per_batch):
        start = first + file * settings.events // settings.files_per_batch
        end = first + (file + 1) * settings.events // settings.files_per_batch
        stem = settings.file_stem(batch, file)
        target = Path("in") / f"{stem}{settings.suffix}"
        with (
            _appearing(folder / target) as hidden,
            _appearing(folder / "truth" / f"{stem}.parquet") as hidden_truth,
            pq.ParquetWriter(hidden_truth, _TRUTH_SCHEMA, use_dictionary=["file", "verdict"]) as truth,
            closing(_writer(hidden, plan, filler)) as records,
        ):
            for at in range(start, end, size):
                block = plan.decide(np.arange(at, min(at + size, end), dtype=np.int64))
                last = at + size >= end
                offsets, ids = records.write(block, cut_last_end=last and (batch + file) % 2 == 1)
                truth.write_batch(_truth_batch(target, offsets, ids, block, batch))
                counts += np.bincount(block.outcomes, minlength=len(VERDICTS))
    return dict(zip(VERDICTS, counts.tolist(), strict=True))


def _truth_batch(
    file: Path, offsets: np.ndarray[Any, Any], ids: list[str | None], block: Block, batch: int
) -> pa.RecordBatch:
    size = len(ids)
    files = pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, dtype=np.int32)), [file.as_posix()])
    verdicts = pa.DictionaryArray.from_arrays(pa.array(block.outcomes), list(VERDICTS))
    batches = np.full(size, batch, dtype=np.int32)
    return pa.record_batch(
        [files, pa.array(offsets), pa.array(ids, pa.string()), verdicts, pa.array(batches)],
        schema=_TRUTH_SCHEMA,
    )


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """A hidden path that takes the name once the file is complete, so that no reader sees half of it."""
    hidden = path.with_name(f".{path.name}.part")
    try:
        yield hidden
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)


class _LineWriter:
    def __init__(self, path: Path, plan: Plan, filler: Filler) -> None:
        self._plan, self._filler = plan, filler
        self._render = csv_lines if plan.settings.format == "csv" else json_lines
        self._outside = path.open("wb")
        self._file: Any = _compressed(self._outside, plan.settings.compression)
        self._position = 0
        if plan.settings.format == "csv":
            self._file.write(CSV_HEADER)
            self._position = len(CSV_HEADER)

    def write(self, block: Block, cut_last_end: bool) -> tuple[np.ndarray[Any, Any], list[str | None]]:
        rendered = self._render(self._plan, block, self._filler)
        lines = rendered.lines
        if cut_last_end and self._plan.settings.is_ugly:
            lines[-1] = lines[-1].rstrip(b"\r\n")
        lengths = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines))
        ends = self._position + np.cumsum(lengths)
        self._file.write(b"".join(lines))
        self._position = int(ends[-1])
        return ends - lengths + rendered.leads, rendered.ids

    def close(self) -> None:
        self._file.close()
        self._outside.close()


class _TableWriter:
    def __init__(self, path: Path, plan: Plan, filler: Filler) -> None:
        self._plan, self._filler = plan, filler
        self._file = pq.ParquetWriter(path, _TABLE_SCHEMA, compression=plan.settings.compression or "snappy")
        self._rows = 0

    def write(self, block: Block, cut_last_end: bool) -> tuple[np.ndarray[Any, Any], list[str | None]]:
        fields, ids = table_columns(self._plan, block, self._filler)
        self._file.write_table(_table(fields))
        offsets = np.arange(self._rows, self._rows + len(ids), dtype=np.int64)
        self._rows += len(ids)
        return offsets, ids

    def close(self) -> None:
        self._file.close()


def _table(fields: Columns) -> pa.Table:
    return pa.table(fields, schema=_TABLE_SCHEMA)


def _writer(path: Path, plan: Plan, filler: Filler) -> _LineWriter | _TableWriter:
    kind = _TableWriter if plan.settings.format == "parquet" else _LineWriter
    return kind(path, plan, filler)


def _compressed(outside: IO[bytes], compression: Compression | None) -> Any:
    """Nothing of the moment or of the file's name gets into the bytes."""
    if compression == "gzip":
        return gzip.GzipFile(filename="", mode="wb", fileobj=outside, compresslevel=6, mtime=0)
    if compression == "zstd":
        return pa.CompressedOutputStream(outside, "zstd")
    return outside
