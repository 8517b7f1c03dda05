"""What the event generator is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

Format = Literal["jsonl", "csv", "parquet"]
Compression = Literal["gzip", "zstd"]

_SECOND: Final = timedelta(seconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHARES: Final = ("duplicates", "conflicts", "late", "rejected", "bad")
_SUFFIXES: Final = {None: "", "gzip": ".gz", "zstd": ".zst"}


@dataclass(frozen=True)
class GeneratorSettings:
    """How many events, of which kinds, in which files. The same settings give the same bytes."""

    events: int = 10_000
    """Records in a batch; empty lines are not counted."""
    batches: int = 3
    seed: int = 1
    duplicates: float = 0.1
    """The shares are of all records, and met roughly: with nothing yet to copy, a record is simply new."""
    conflicts: float = 0.02
    late: float = 0.02
    rejected: float = 0.03
    bad: float = 0.01
    horizon: timedelta = timedelta(days=30)
    batch_span: timedelta = timedelta(days=1)
    """The event time that passes in a batch; one batch begins where the last one ended."""
    start: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    """The event time of the first batch. Years ago, so that no event is ahead of the clock on the wall."""
    format: Format = "jsonl"
    files_per_batch: int = 1
    payload_bytes: int = 300
    """Roughly the length of a record."""
    compression: Compression | None = None
    """Of the files; in format parquet, of the columns (None: snappy)."""
    ugly: bool = True
    """In jsonl: CRLF, empty lines, a last line without its end, other white space, key orders and escapes,
    and integers as ids."""

    def __post_init__(self) -> None:
        shares = [getattr(self, name) for name in _SHARES]
        for name, share in zip(_SHARES, shares, strict=True):
            _require(0 <= share < 1, f"{name}: the share is {share}, and must be at least 0 and below 1")
        _require(sum(shares) < 1, f"the shares of {', '.join(_SHARES)} are {sum(shares):g} together, not below 1")
        _require(1 <= self.files_per_batch <= 100, f"files_per_batch is {self.files_per_batch}, not 1 to 100")
        _require(
            self.events >= self.files_per_batch,
            f"events is {self.events}, fewer than one for each file of a batch",
        )
        _require(self.batches >= 1, f"batches is {self.batches}, and must be at least 1")
        _require(self.payload_bytes >= 1, f"payload_bytes is {self.payload_bytes}, and must be at least 1")
        _require(self.start.tzinfo is not None, "start has no time zone")
        _require(self.horizon >= _SECOND and not self.horizon % _SECOND, "horizon is not a whole number of seconds")
        _require(self.batch_span >= _SECOND, "batch_span is shorter than a second")
        _require(self.format in ("jsonl", "csv", "parquet"), f"format is {self.format}, not jsonl, csv or parquet")
        _require(self.compression in _SUFFIXES, f"compression is {self.compression}, not gzip or zstd")

    @property
    def horizon_micros(self) -> int:
        return self.horizon // _MICROSECOND

    @property
    def span_micros(self) -> int:
        return self.batch_span // _MICROSECOND

    @property
    def start_micros(self) -> int:
        return (self.start - _EPOCH) // _MICROSECOND

    @property
    def suffix(self) -> str:
        compressed = "" if self.format == "parquet" else _SUFFIXES[self.compression]
        return f".{self.format}{compressed}"

    @property
    def is_ugly(self) -> bool:
        return self.ugly and self.format == "jsonl"

    def file_stem(self, batch: int, file: int) -> str:
        """Sorts in the order of generation."""
        width = max(3, len(str(self.batches - 1)))
        return f"batch-{batch:0{width}d}-{file:02d}"


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
