"""Parquet rows into records: the columns are the fields, the payload is the row as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import IO, Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from semel.model.canonical import exact_number

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


class Rows(NamedTuple):
    records: list[dict[str, Any] | None]
    """None where a text of the row is not UTF-8."""
    reasons: list[str | None]
    payloads: list[bytes]


def rows_of(batch: pa.RecordBatch) -> Rows:
    """The rows as records, and as JSON text."""
    reasons: list[str | None] = [None] * batch.num_rows
    columns = [_values(column, name, reasons) for column, name in zip(batch.columns, batch.schema.names, strict=True)]
    rows = [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]
    payloads = [_encode(row) for row in rows]
    records = [row if reason is None else None for row, reason in zip(rows, reasons, strict=True)]
    return Rows(records, reasons, payloads)


def _values(column: pa.Array, name: str, reasons: list[str | None]) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        text = column.cast(pa.string()).to_pylist()
        return [value if value is None else value.replace(" ", "T") for value in text]
    kept = _without_nanoseconds(kind)
    try:
        values = (column if kept == kind else column.cast(kept)).to_pylist()
    except UnicodeDecodeError:
        values = _readable_values(column, name, reasons)
    except (OverflowError, ValueError):  # a time beyond the year 9999
        values = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).to_pylist()
    needs_care = pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return [_plain(value) for value in values] if needs_care or pa.types.is_dictionary(kind) else list(values)


def _readable_values(column: pa.Array, name: str, reasons: list[str | None]) -> list[Any]:
    """The values that are text; of the others the bytes, which JSON shows as base64, and a reason for their rows."""
    values: list[Any] = []
    for index, scalar in enumerate(column):
        try:
            values.append(scalar.as_py())
        except UnicodeDecodeError:
            reasons[index] = f"the column {name} is not UTF-8"
            is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            values.append(scalar.cast(pa.binary()).as_py() if is_text else None)
    return values


def _without_nanoseconds(kind: pa.DataType) -> pa.DataType:
    """Python's times have microseconds: what is finer becomes a number of nanoseconds."""
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_duration(kind):
        return pa.int64() if kind.unit == "ns" else kind
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_nanoseconds(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_without_nanoseconds(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_without_nanoseconds(kind.value_type)), kind.list_size)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_nanoseconds(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_without_nanoseconds(kind.key_type), _without_nanoseconds(kind.item_type))
    return kind


def _plain(value: Any) -> Any:
    """Equal values alike, different ones apart: JSON has no NaN and no infinity, which become text."""
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else repr(value)
    if isinstance(value, Decimal):
        return exact_number(str(value))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value
