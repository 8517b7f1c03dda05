"""Parsed records, CSV rows and Arrow batches as the typed columns of a schema.

The rules for one value are what counts. A column is built by Arrow in one go only where that gives the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final, TypeAlias, cast

from semel.model.rules import INTEGER_BITS, REFUSED, MisfitError, Origin, misfit_of, rule_for
from semel.model.schema import (
    ArrayType,
    Column,
    DecimalType,
    MapType,
    ScalarType,
    Schema,
    StringType,
    StructType,
    Type,
)
from semel.model.times import EARLIEST, LATEST

Misfits: TypeAlias = dict[int, MisfitError]


class Converter:
    """Columns for records of one schema: an Arrow array a column, and a message where a record does not fit.

    `columns` takes dicts of parsed JSON, or with `text` of CSV texts; `cast` takes Arrow batches. A record
    with a message is null in every column.
    """

    def __init__(self, schema: Schema, text: bool = False) -> None:
        self.schema = schema
        self.text = text
        origin = Origin.TEXT if text else Origin.JSON
        self._from_records = [_ColumnBuilder(column, origin) for column in schema.columns]
        self._from_arrow = [_ColumnBuilder(column, Origin.ARROW) for column in schema.columns]

    def __reduce__(self) -> tuple[Any, ...]:
        return Converter, (self.schema, self.text)

    def columns(
        self, records: Sequence[dict[str, Any] | None], *, by_value: bool = False
    ) -> tuple[list[Any], list[str | None]]:
        """The columns of records, of which None is bad already; `by_value` takes no short cuts."""
        unreadable = frozenset[int]()
        if type(None) in set(map(type, records)):
            unreadable = frozenset(i for i, record in enumerate(records) if record is None)
        rows = [record or {} for record in records] if unreadable else cast("Sequence[dict[str, Any]]", records)
        outcome = _Outcome(len(rows), unreadable)
        for builder in self._from_records:
            name = builder.column.name
            outcome.add(builder.column, *builder.build([row.get(name) for row in rows], by_value))
        return outcome.finish()

    def cast(self, batch: Any) -> tuple[list[Any], list[str | None]]:
        """The columns of a `pyarrow.RecordBatch`, taken by name; one that is absent is null."""
        import pyarrow as pa

        outcome = _Outcome(batch.num_rows)
        for builder in self._from_arrow:
            places = batch.schema.get_all_field_indices(builder.column.name)
            array = batch.column(places[-1]) if places else pa.nulls(batch.num_rows)
            outcome.add(builder.column, *builder.cast(array))
        return outcome.finish()


class _Outcome:
    """The arrays and messages of one batch, gathered column by column."""

    def __init__(self, size: int, unreadable: frozenset[int] = frozenset()) -> None:
        self._arrays: list[Any] = []
        self._messages: list[str | None] = [None] * size
        self._unreadable = unreadable

    def add(self, column: Column, array: Any, misfits: Misfits) -> None:
        self._arrays.append(array)
        if not column.nullable and array.null_count:
            nulls = array.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist()
            misfits = {i: MisfitError(None, column.type) for i in nulls if i not in self._unreadable} | misfits
        for i, misfit in misfits.items():
            if self._messages[i] is None:
                misfit.path = column.name + misfit.path
                self._messages[i] = str(misfit)

    def finish(self) -> tuple[list[Any], list[str | None]]:
        if self._messages.count(None) < len(self._messages):
            import pyarrow as pa

            kept = [i if message is None else None for i, message in enumerate(self._messages)]
            indices = pa.array(kept, pa.int64())
            self._arrays = [array.take(indices) for array in self._arrays]
        return self._arrays, self._messages


class _ColumnBuilder:
    """One column's values to an Arrow array, and the misfits among them by their place."""

    def __init__(self, column: Column, origin: Origin) -> None:
        self.column = column
        self._rule = rule_for(column.type, origin)
        self._text = origin is Origin.TEXT

    def build(self, values: list[Any], by_value: bool) -> tuple[Any, Misfits]:
        if self._text and not isinstance(self.column.type, StringType):
            values = [value or None for value in values]
        array = None if by_value else _at_once(self.column.type, values, self._text)
        return self._by_value(values) if array is None else (array, {})

    def cast(self, array: Any) -> tuple[Any, Misfits]:
        import pyarrow as pa

        array = _plain(array)
        if _casts_exactly(array.type, self.column.type):
            try:
                return array.cast(self.column.type.arrow()), {}
            except pa.ArrowException:
                pass
        return self._by_value(_python_values(array))

    def _by_value(self, values: list[Any]) -> tuple[Any, Misfits]:
        import pyarrow as pa

        rule = self._rule
        fitted: list[Any] = []
        misfits: Misfits = {}
        for i, value in enumerate(values):
            try:
                fitted.append(None if value is None else rule(value))
            except REFUSED as error:
                fitted.append(None)
                misfits[i] = misfit_of(error, value, self.column.type)
        return pa.array(fitted, self.column.type.arrow()), misfits


def _at_once(kind: Type, values: list[Any], text: bool) -> Any:
    """The array that the rules give, or None where Arrow refuses or may be too lenient."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = set(map(type, values)) - {type(None)}
    try:
        match kind:
            case StringType() if found <= {str}:
                array = pa.array(values, pa.string())
                fits = kind.max_length is None or (pc.max(pc.utf8_length(array)).as_py() or 0) <= kind.max_length
                return array if fits else None
            case ScalarType("DATE") if found <= {str}:
                array = pa.array(values, pa.string()).cast(pa.date32())
                return array if _within(array, date.min, date.max) else None
            case ScalarType("TIMESTAMP" | "TIMESTAMP_NTZ") if found <= {str}:
                array = _timestamps_at_once(pa.array(values, pa.string()), kind)
                return array if _within(array.cast(pa.int64()), EARLIEST, LATEST) else None
            case ScalarType("FLOAT" | "DOUBLE") if found <= ({str} if text else {float, int}):
                if text:
                    array = pa.array(values, pa.string()).cast(pa.float64()).cast(kind.arrow())
                else:
                    array = pa.array(values, kind.arrow())
                return None if pc.any(pc.invert(pc.is_finite(array))).as_py() else array
            case ScalarType(name) if name in INTEGER_BITS and text and found <= {str}:
                array = pa.array(values, pa.string())
                hexadecimal = any(pc.any(pc.match_substring(array, x)).as_py() for x in "xX")
                return None if hexadecimal else array.cast(kind.arrow())
            case ScalarType(name) if name in INTEGER_BITS and found <= {int}:
                return pa.array(values, kind.arrow())
            case ScalarType("BOOLEAN") if found <= {bool}:
                return pa.array(values, kind.arrow())
            case DecimalType() if found <= {int, Decimal}:
                return pa.array(values, kind.arrow())
    except (pa.ArrowException, OverflowError):
        pass
    return None


def _timestamps_at_once(texts: Any, kind: ScalarType) -> Any:
    """Arrow reads TIMESTAMP from texts that all have an offset, TIMESTAMP_NTZ from texts that have none."""
    import pyarrow as pa

    try:
        return texts.cast(kind.arrow())
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("us")).cast(kind.arrow())


def _within(array: Any, low: Any, high: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    low, high = pa.scalar(low, array.type), pa.scalar(high, array.type)
    return not pc.any(pc.or_(pc.less(array, low), pc.greater(array, high))).as_py()


def _plain(array: Any) -> Any:
    """The array without a dictionary, and with times cut to microseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        array = pc.floor_temporal(array, unit="microsecond").cast(pa.timestamp("us", tz=array.type.tz))
    return array


_BYTES: Final = ("binary", "large_binary", "fixed_size_binary")
_EXACT_SOURCES: Final = {
    "BOOLEAN": ("boolean",),
    "TINYINT": ("integer",),
    "SMALLINT": ("integer",),
    "INT": ("integer",),
    "BIGINT": ("integer",),
    "FLOAT": ("integer", "float16", "float32"),
    "DOUBLE": ("integer", "floating"),
    "BINARY": _BYTES,
    "DATE": ("date",),
    "TIMESTAMP": ("date", "timestamp"),
    "TIMESTAMP_NTZ": ("date", "timestamp"),
}


def _casts_exactly(source: Any, kind: Type) -> bool:
    """Whether Arrow's safe cast gives what the rules give, and fails where it would lose something."""
    from pyarrow import types as arrow

    def source_is(*names: str) -> bool:
        return any(getattr(arrow, f"is_{name}")(source) for name in names)

    if source_is("null"):
        return True
    match kind:
        case ArrayType():
            return source_is("list", "large_list") and _casts_exactly(source.value_type, kind.element)
        case MapType():
            keys_fit = source_is("map") and arrow.is_string(source.key_type)
            return keys_fit and _casts_exactly(source.item_type, kind.value)
        case StructType():
            names_fit = source_is("struct") and [part.name for part in source] == [f.name for f in kind.fields]
            return names_fit and all(
                field.nullable and _casts_exactly(part.type, field.type)
                for part, field in zip(source, kind.fields, strict=True)
            )
        case StringType():
            return kind.max_length is None and source_is("string", "large_string", "boolean", "integer", *_BYTES)
        case DecimalType():
            return source_is("decimal")
        case ScalarType(name):
            if source_is("timestamp") and (source.unit == "ns" or (source.tz and name == "TIMESTAMP_NTZ")):
                return False
            return source_is(*_EXACT_SOURCES[name])


class _Unreadable:
    """An Arrow value for which Python has none, such as a date after the year 9999."""

    def __init__(self, scalar: Any) -> None:
        self._scalar = scalar

    def __repr__(self) -> str:
        return f"a {self._scalar.type} that Python cannot hold"


def _python_values(array: Any) -> list[Any]:
    def readable(scalar: Any) -> Any:
        try:
            return scalar.as_py(maps_as_pydicts="strict")
        except (ValueError, OverflowError, KeyError):
            return _Unreadable(scalar)

    try:
        return list(array.to_pylist(maps_as_pydicts="strict"))
    except (ValueError, OverflowError, KeyError):
        return [readable(scalar) for scalar in array]
