"""The rules for one value: what a column of each type takes from JSON, from text and from Arrow."""

from __future__ import annotations

import binascii
import re
import struct
from collections.abc import Callable
from datetime import date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from enum import Enum, auto
from math import isfinite
from typing import Any, Final, TypeAlias

import msgspec

from semel.model.schema import ArrayType, DecimalType, MapType, ScalarType, StringType, StructType, Type
from semel.model.times import EARLIEST, LATEST, micros

SHOWN_CHARACTERS: Final = 80

Rule: TypeAlias = Callable[[Any], Any]
"""Gives what the column holds for a value that is not null, or raises one of `REFUSED`."""

REFUSED: Final = (ValueError, TypeError, ArithmeticError, LookupError, RecursionError, msgspec.MsgspecError)
INTEGER_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_BOOLEAN_TEXTS: Final = {"true": True, "false": False, "1": True, "0": False}
_INTEGER_TEXT: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER_TEXT: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE_TEXT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ISO_TEXT: Final = re.compile(
    r"""(?:\d{4}-\d\d-\d\d|\d{8})
        (?:[Tt\ ] \d\d (?::?\d\d (?::?\d\d (?:[.,]\d+)?)?)? (?:[Zz]|[+-]\d\d(?::?[0-5]\d)?)?)?""",
    re.ASCII | re.VERBOSE,
)
_encode_json = msgspec.json.Encoder(decimal_format="number").encode
_decode_json = msgspec.json.Decoder(float_hook=Decimal).decode


class Origin(Enum):
    """Where values come from: JSON and Arrow have types of their own, text has none."""

    JSON = auto()
    TEXT = auto()
    ARROW = auto()


class MisfitError(ValueError):
    """A value, at a path below its column, does not fit its type."""

    def __init__(self, value: Any, kind: Type) -> None:
        super().__init__(value, kind)
        self.value = value
        self.kind = kind
        self.path = ""

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.path}: null or missing, but NOT NULL"
        name = self.kind.ddl()
        return f"{self.path}: {_shown(self.value)} is not {'an' if name[0] in 'AI' else 'a'} {name}"


def rule_for(kind: Type, origin: Origin) -> Rule:
    """The rule for one value that is not null."""
    native = _native_rule(kind, origin)
    if origin is Origin.JSON or isinstance(kind, StringType):
        return native
    text = _text_rule(kind)
    if origin is Origin.TEXT:
        return text
    return lambda value: text(value) if type(value) is str else native(value)


def _native_rule(kind: Type, origin: Origin) -> Rule:
    match kind:
        case ScalarType("BOOLEAN"):
            return _boolean
        case ScalarType("FLOAT" | "DOUBLE" as name):
            return _floating(single=name == "FLOAT", finite=origin is not Origin.ARROW)
        case ScalarType("BINARY"):
            return _binary
        case ScalarType("DATE"):
            return _date
        case ScalarType("TIMESTAMP"):
            return _timestamp
        case ScalarType("TIMESTAMP_NTZ"):
            return _timestamp_ntz
        case ScalarType(name):
            return _integer(INTEGER_BITS[name])
        case StringType():
            return _string(kind.max_length)
        case DecimalType():
            return _decimal(kind)
        case ArrayType():
            return _array(kind, origin)
        case MapType():
            return _map(kind, origin)
        case StructType():
            return _struct(kind, origin)


def _text_rule(kind: Type) -> Rule:
    native = _native_rule(kind, Origin.JSON)
    match kind:
        case ScalarType("BOOLEAN"):
            return lambda text: _BOOLEAN_TEXTS[_text(text).lower()]
        case ScalarType(name) if name in INTEGER_BITS:
            return lambda text: native(int(text)) if _INTEGER_TEXT.fullmatch(text) else _refuse()
        case ScalarType("FLOAT" | "DOUBLE"):
            return lambda text: native(float(text)) if _NUMBER_TEXT.fullmatch(text) else _refuse()
        case DecimalType():
            return lambda text: native(Decimal(text)) if _NUMBER_TEXT.fullmatch(text) else _refuse()
        case ArrayType() | MapType() | StructType():
            return lambda text: native(_decode_json(text))
    return native


def _refuse() -> Any:
    raise ValueError


def _boolean(value: Any) -> bool:
    return value if type(value) is bool else _refuse()


def _integer(bits: int) -> Rule:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return lambda value: value if type(value) is int and low <= value <= high else _refuse()


def _floating(single: bool, finite: bool) -> Rule:
    def rule(value: Any) -> float:
        kind = type(value)
        if kind is not float and kind is not int and kind is not Decimal:
            raise TypeError
        number = float(value)
        if not isfinite(number) and (finite or kind is not float):
            raise OverflowError
        if single:
            struct.pack("<f", number)  # raises where the rounded number is infinite
        return number

    return rule


def _decimal(kind: DecimalType) -> Rule:
    unit = Decimal(1).scaleb(-kind.scale)
    context = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])

    def rule(value: Any) -> Decimal:
        if type(value) is float:
            number = Decimal(repr(value))
        elif type(value) is int or type(value) is Decimal:
            number = Decimal(value)
        else:
            raise TypeError
        return number.quantize(unit, context=context) if number.is_finite() else _refuse()

    return rule


def _string(max_length: int | None) -> Rule:
    def rule(value: Any) -> str:
        text = value if type(value) is str else _as_text(value)
        if max_length is not None and len(text) > max_length:
            raise ValueError
        return text

    return rule


def _as_text(value: Any) -> str:
    if type(value) is bytes:
        return value.decode()
    if type(value) is float and not isfinite(value):
        raise ValueError
    text = _encode_json(value)
    return str(msgspec.json.decode(text)) if text.startswith(b'"') else text.decode()


def _binary(value: Any) -> bytes:
    return value if type(value) is bytes else binascii.a2b_base64(_text(value), strict_mode=True)


def _date(value: Any) -> date:
    if type(value) is date:
        return value
    return date.fromisoformat(value) if _DATE_TEXT.fullmatch(_text(value)) else _refuse()


def _timestamp(value: Any) -> int:
    moment = micros(_moment(value))
    return moment if EARLIEST <= moment <= LATEST else _refuse()


def _timestamp_ntz(value: Any) -> int:
    moment = _moment(value)
    return micros(moment) if moment.tzinfo is None else _refuse()


def _moment(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    return datetime.fromisoformat(value.upper()) if _ISO_TEXT.fullmatch(_text(value)) else _refuse()


def _text(value: Any) -> str:
    return value if type(value) is str else _refuse()


def _array(kind: ArrayType, origin: Origin) -> Rule:
    part = _part(kind.element, True, origin, "[{}]".format)

    def rule(value: Any) -> list[Any]:
        if type(value) is not list:
            raise TypeError
        return [part(item, i) for i, item in enumerate(value)]

    return rule


def _map(kind: MapType, origin: Origin) -> Rule:
    part = _part(kind.value, True, origin, lambda key: f"[{_shown(key)}]")

    def rule(value: Any) -> list[tuple[str, Any]]:
        if type(value) is not dict:
            raise TypeError
        return [(_text(key), part(item, key)) for key, item in value.items()]

    return rule


def _struct(kind: StructType, origin: Origin) -> Rule:
    parts = [(field.name, _part(field.type, field.nullable, origin, ".{}".format)) for field in kind.fields]

    def rule(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise TypeError
        return {name: part(value.get(name), name) for name, part in parts}

    return rule


def _part(kind: Type, nullable: bool, origin: Origin, path: Callable[[Any], str]) -> Callable[[Any, Any], Any]:
    """The rule for a value inside another one; to a misfit it adds where it is."""
    rule = rule_for(kind, origin)

    def part(value: Any, place: Any) -> Any:
        if value is None and nullable:
            return None
        try:
            return rule(value) if value is not None else _refuse()
        except REFUSED as error:
            misfit = misfit_of(error, value, kind)
            misfit.path = path(place) + misfit.path
            raise misfit from None

    return part


def misfit_of(error: Exception, value: Any, kind: Type) -> MisfitError:
    return error if isinstance(error, MisfitError) else MisfitError(value, kind)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        text = repr(value[: SHOWN_CHARACTERS + 1])
    else:
        try:
            text = _encode_json(value).decode()
        except REFUSED:
            text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
