"""What every source hands over: records with their place, some of them not readable."""

from __future__ import annotations

from typing import Any, NamedTuple


class Block(NamedTuple):
    """Parallel lists, one entry a record, in the order of the source."""

    places: list[int]
    positions: list[str]
    arrival: int
    records: list[dict[str, Any] | None]
    """None where the record cannot be read."""
    reasons: list[str | None]
    """Why not."""
    payloads: list[bytes]
    """The record as read, or a table row as JSON."""
    table: Any = None
    """The pyarrow.RecordBatch that a table format has read."""


class SliceDone(NamedTuple):
    """A slice was read to its end."""

    file: int
    start: int
    end: int
    crc32: int
    records: int
