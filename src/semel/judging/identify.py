"""Records into events: id, fingerprint, event time and typed columns; or bad, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.model.block import Block
from semel.model.canonical import canonical, hasher
from semel.model.convert import Converter
from semel.model.identity import composite_id
from semel.model.schema import Schema
from semel.model.times import NotATime, iso, micros, parse_number, parse_text

MAX_ID_BYTES: Final = 1024
_HEX: Final = frozenset("0123456789abcdef")


class NotAnId(ValueError):
    """The value is not an id; the message is the reason in the bad feed."""


@dataclass(frozen=True)
class EventRules:
    """What a pipeline file says of an event, and the latest time that its run takes."""

    id: tuple[str, ...]
    composite: bool
    time: str
    unit: str | None
    exclude: tuple[str, ...]
    hash: str
    fingerprint_field: str | None
    schema: Schema | None
    as_text: bool
    """Values are text, as in CSV."""
    latest: int


class Identified(NamedTuple):
    """Parallel to the block; `reasons` is None for a good event, and a bad one has what could be read of it."""

    ids: list[str | None]
    prints: list[str | None]
    times: list[int | None]
    reasons: list[str | None]
    typed: list[pa.Array]

    @property
    def good(self) -> NDArray[np.bool_]:
        return np.fromiter((reason is None for reason in self.reasons), dtype=np.bool_, count=len(self.reasons))


class Identifier:
    def __init__(self, rules: EventRules) -> None:
        self.rules = rules
        self._id = _composite_reader(rules.id) if rules.composite else _id_reader(rules.id[0])
        self._time_value = field_reader(rules.time)
        self._parse_time = parse_text if rules.unit is None else parse_number(rules.unit)
        self._print_value = None if rules.fingerprint_field is None else field_reader(rules.fingerprint_field)
        self._hash = hasher(rules.hash)
        self._droppers = [_dropper(path) for path in rules.exclude]
        self._converter = None if rules.schema is None else Converter(rules.schema, text=rules.as_text)

    def identify(self, block: Block) -> Identified:
        count = len(block.records)
        ids: list[str | None] = [None] * count
        times: list[int | None] = [None] * count
        reasons = list(block.reasons)
        for index, record in enumerate(block.records):
            if record is None:
                continue
            try:
                times[index] = time = self._time(record)
                if time > self.rules.latest:
                    reasons[index] = self._too_far_ahead(time)
            except NotATime as error:
                reasons[index] = str(error)
            try:
                ids[index] = self._id(record)
            except NotAnId as error:
                reasons[index] = str(error)
        typed = self._typed(block, reasons)
        prints: list[str | None] = [None] * count
        for index, record in enumerate(block.records):
            if record is not None and reasons[index] is None:
                prints[index] = self._fingerprint(record)
        return Identified(ids, prints, times, reasons, typed)

    def _time(self, record: dict[str, Any]) -> int:
        value = self._time_value(record)
        if isinstance(value, date):
            time = micros(value if isinstance(value, datetime) else datetime(value.year, value.month, value.day))
        elif value is None or value == "":
            raise NotATime("the time is missing")
        else:
            time = self._parse_time(value)
        return time

    def _too_far_ahead(self, time: int) -> str:
        return f"the time {iso(time)} is too far ahead; the latest that this run takes is {iso(self.rules.latest)}"

    def _typed(self, block: Block, reasons: list[str | None]) -> list[pa.Array]:
        """The schema's columns; a record in which a value does not fit gets its reason."""
        if self._converter is None:
            return []
        if block.table is not None:
            columns, messages = self._converter.cast(block.table)
        else:
            columns, messages = self._converter.columns(block.records)
        for index, message in enumerate(messages):
            if message is not None and reasons[index] is None:
                reasons[index] = message
        return columns

    def _fingerprint(self, record: dict[str, Any]) -> str:
        """Changes the record: the fields that do not count are taken out of it."""
        if self._print_value is not None:
            given = self._print_value(record)
            if isinstance(given, str | int) and not isinstance(given, bool) and given != "":
                text = str(given)
                lower = text.lower()
                return lower if _HEX.issuperset(lower) else text
        for drop in self._droppers:
            drop(record)
        return str(self._hash(canonical(record)).hexdigest())


def field_reader(path: str) -> Callable[[dict[str, Any]], Any]:
    """Reads a field by its name, or, if there is none of that name, by its dotted path.

    >>> field_reader("user.id")({"user": {"id": 7}})
    7
    """
    if "." not in path:
        return lambda record: record.get(path)
    steps = path.split(".")

    def read(record: dict[str, Any]) -> Any:
        if path in record:
            return record[path]
        value: Any = record
        for step in steps:
            if type(value) is not dict:
                return None
            value = value.get(step)
        return value

    return read


def _dropper(path: str) -> Callable[[dict[str, Any]], None]:
    *steps, last = path.split(".")

    def drop(record: dict[str, Any]) -> None:
        if path in record:
            del record[path]
            return
        value: Any = record
        for step in steps:
            value = value.get(step)
            if type(value) is not dict:
                return
        value.pop(last, None)

    return drop


def _id_reader(path: str) -> Callable[[dict[str, Any]], str]:
    read = field_reader(path)
    return lambda record: _checked(_id_text(read(record), path), path)


def _composite_reader(paths: tuple[str, ...]) -> Callable[[dict[str, Any]], str]:
    readers = [(path, field_reader(path)) for path in paths]
    names = ", ".join(paths)
    return lambda record: _checked(composite_id([_id_text(read(record), path) for path, read in readers]), names)


def _id_text(value: Any, path: str) -> str:
    if type(value) is str:
        if not value:
            raise NotAnId(f"the id {path} is empty")
        return value
    if type(value) is int:
        return str(value)
    if value is None:
        raise NotAnId(f"the id {path} is missing")
    kind = {bool: "a truth value", list: "a list", dict: "an object"}.get(
        type(value), f"a {type(value).__name__.lower()}"
    )
    raise NotAnId(f"the id {path} is {kind}, neither text nor integer")


def _checked(text: str, path: str) -> str:
    if len(text) > MAX_ID_BYTES // 4 and len(text.encode()) > MAX_ID_BYTES:
        raise NotAnId(f"the id {path} is longer than {MAX_ID_BYTES} bytes")
    return text
