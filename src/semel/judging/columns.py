"""The columns of the feeds, and those that travel between the stages."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from semel.model.schema import Schema

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

FEED_COLUMNS: Final[tuple[tuple[str, str, pa.DataType], ...]] = (
    ("event_id", "STRING", pa.string()),
    ("original_event_id", "STRING", pa.string()),
    ("fingerprint", "STRING", pa.string()),
    ("event_time", "TIMESTAMP", TIMESTAMP),
    ("arrival_time", "TIMESTAMP", TIMESTAMP),
    ("position", "STRING", pa.string()),
    ("verdict", "STRING", pa.string()),
    ("reason", "STRING", pa.string()),
    ("payload", "STRING", pa.string()),
    ("raw", "BINARY", pa.binary()),
    ("contexts", "STRING", pa.string()),
)

OPEN_COLUMNS: Final = ("event_id", "fingerprint", "event_time", "arrival_time", "position", "payload")
"""What a record whose verdict is still open carries, beside the schema's columns: what `process` sees."""

INTERNAL: Final = "_semel"
"""What the judge needs of a record and a user does not: its place, its id's hash, is the id known to the ledger?"""
_INTERNAL_DDL: Final = "STRUCT<place: BIGINT, high: BIGINT, known: BOOLEAN>"
_INTERNAL_ARROW: Final = pa.struct([("place", pa.int64()), ("high", pa.int64()), ("known", pa.bool_())])


def feed_schema(schema: Schema | None) -> pa.Schema:
    fields = [pa.field(name, kind) for name, _, kind in FEED_COLUMNS]
    return pa.schema([*fields, *_typed(schema)])


def feed_ddl(schema: Schema | None) -> str:
    columns = [f"{name} {kind}" for name, kind, _ in FEED_COLUMNS]
    return ", ".join([*columns, *_typed_ddl(schema)])


def open_schema(schema: Schema | None) -> pa.Schema:
    fields = [pa.field(name, kind) for name, _, kind in FEED_COLUMNS if name in OPEN_COLUMNS]
    fields.sort(key=lambda field: OPEN_COLUMNS.index(field.name))
    return pa.schema([*fields, *_typed(schema), pa.field(INTERNAL, _INTERNAL_ARROW)])


def open_ddl(schema: Schema | None) -> str:
    kinds = {name: kind for name, kind, _ in FEED_COLUMNS}
    columns = [f"{name} {kinds[name]}" for name in OPEN_COLUMNS]
    return ", ".join([*columns, *_typed_ddl(schema), f"{INTERNAL} {_INTERNAL_DDL}"])


def _typed(schema: Schema | None) -> list[pa.Field]:
    return [] if schema is None else [field.with_nullable(True) for field in schema.arrow()]


def _typed_ddl(schema: Schema | None) -> list[str]:
    return [] if schema is None else [schema.ddl()]
