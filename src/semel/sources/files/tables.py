"""Parquet rows into records: the columns are the fields, the payload is the row as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import IO, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

_ROWS: Final = 8192
_encode = msgspec.json.Encoder(decimal_format="number").encode


def row_groups(file: IO[bytes], start: int, end: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of the row groups that begin in bytes `start` to `end`, each with the number of its first row."""
    parquet = pq.ParquetFile(file)
    row = 0
    for index in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(index)
        if start <= _begin(group) < end:
            at = row
            for batch in parquet.iter_batches(batch_size=_ROWS, row_groups=[index]):
                yield at, batch
                at += batch.num_rows
        row += group.num_rows


def _begin(group: Any) -> int:
    if group.num_columns == 0:
        return 4
    column = group.column(0)
    offset = column.data_page_offset
    if column.dictionary_page_offset is not None:
        offset = min(offset, column.dictionary_page_offset)
    return int(offset)


def rows_of(batch: pa.RecordBatch) -> tuple[list[dict[str, Any] | None], list[bytes]]:
    """The rows as records, and as JSON text."""
    columns = [_values(column) for column in batch.columns]
    names = batch.schema.names
    records: list[dict[str, Any] | None] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return records, [_encode(record) for record in records]


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        text = column.cast(pa.string()).to_pylist()
        return [value if value is None else value.replace(" ", "T") for value in text]
    if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_dictionary(kind):
        return [_finite(value) for value in column.to_pylist()]
    return list(column.to_pylist())


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become text, so that they stay apart from null and each other."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return value
