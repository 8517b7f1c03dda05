"""How each kind of value in a pipeline file is read, and how a JSON Schema describes it.

A parser takes what the file says and raises a ValueError that says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from semel.model.units import DURATION_UNITS, SIZE_UNITS, format_duration, parse_duration, parse_size
from semel.pipeline.urls import (
    FeedUrl,
    Location,
    StoreUrl,
    check_word,
    one_of,
    parse_feed,
    parse_folder,
    parse_location,
    parse_store,
    presentable,
    shown,
)
from semel.pipeline.yaml_lines import as_text, as_written

_LONGEST = timedelta(days=36500)
_VARIABLE = r"\$\{"


class MisplacedError(ValueError):
    """A wrong value at a place below the one that is read."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True, eq=False)
class Parsed:
    """Makes pydantic read a field with `parse` and describe it with `schema`."""

    parse: Callable[[Any], Any]
    schema: Mapping[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return dict(self.schema)


def pattern(regex: str, advice: str) -> Parsed:
    """Text that matches as a whole."""

    def parse(value: object) -> str:
        text = as_text(value)
        if not re.fullmatch(regex, text):
            raise ValueError(f"{shown(text)} is not allowed; {advice}")
        return text

    return Parsed(parse, _matching(regex))


def word(setting: str, literal: Any) -> Parsed:
    """One of the words of a Literal."""
    allowed = get_args(literal)

    def parse(value: object) -> str:
        try:
            written = as_written(value)
        except ValueError as error:
            raise ValueError(f"{error}; {one_of(allowed)}") from None
        check_word(setting, written, allowed)
        return written

    return Parsed(parse, {"anyOf": [{"enum": list(allowed)}, {"type": "string", "pattern": _VARIABLE}]})


def field_path(value: object) -> str:
    text = as_text(value)
    if not all(part.strip() for part in text.split(".")):
        raise ValueError(f"{shown(text)} is not a field; write a name or a dotted path, as in user.id")
    return text


def _matching(regex: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^(?:{regex})$|{_VARIABLE}"}


def _amount(units: Mapping[str, object]) -> dict[str, Any]:
    return _matching(f"[0-9]{{1,15}}(?:{'|'.join(units)})")


def _some(parse: Callable[[object], Any]) -> Callable[[object], tuple[Any, ...]]:
    def parse_list(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError("must be a list with at least one entry")
        items: list[Any] = []
        for index, entry in enumerate(value):
            try:
                item = parse(entry)
            except ValueError as error:
                raise MisplacedError(str(error), index) from error
            if item in items:
                raise MisplacedError(f"{shown(str(item))} is given twice", index)
            items.append(item)
        return tuple(items)

    return parse_list


def _one_or_some(parse: Callable[[object], Any]) -> Callable[[object], tuple[Any, ...]]:
    parse_list = _some(parse)
    return lambda value: parse_list(value) if isinstance(value, list) else (parse(value),)


def _key(value: object) -> str | tuple[str, ...]:
    return _some(field_path)(value) if isinstance(value, list) else field_path(value)


def _fields(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list of fields")
    return () if not value else _some(field_path)(value)


def _duration(value: object) -> timedelta:
    written = presentable(as_written(value))
    duration = parse_duration(written)
    if duration > _LONGEST:
        raise ValueError(f"{shown(written)} is too long; write at most {format_duration(_LONGEST)}")
    return duration


def _positive_duration(value: object) -> timedelta:
    duration = _duration(value)
    if not duration:
        raise ValueError("must be more than 0")
    return duration


def _size(value: object) -> int:
    size = parse_size(presentable(as_written(value)))
    if not size:
        raise ValueError("must be more than 0")
    return size


def _character(value: object) -> str:
    written = as_written(value)
    if len(written) != 1 or written in '"\r\n':
        raise ValueError(f"{shown(written)} is not allowed; write one character, in quotes")
    return written


def _count(value: object) -> int:
    written = as_written(value)
    if not re.fullmatch(r"[1-9][0-9]{0,9}", written):
        raise ValueError(f"{shown(written)} is not allowed; write a whole number from 1 up")
    return int(written)


def _rules(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("must be a mapping from reason to SQL condition, as in `negative amount: amount < 0`")
    rules: dict[str, str] = {}
    for reason, condition in value.items():
        if not reason.strip():
            raise MisplacedError("a reason must not be empty")
        try:
            rules[reason] = as_text(condition)
        except ValueError as error:
            raise MisplacedError(str(error), reason) from None
    return rules


def _ddl(value: object) -> str:
    from semel.model.schema import parse_schema

    text = as_text(value)
    parse_schema(text)
    return text


def _source_path(value: object) -> str:
    return parse_location(as_text(value), "path: ").text


def _ledger(value: object) -> StoreUrl:
    return parse_store(as_text(value), "ledger")


def _witness(value: object) -> StoreUrl | None:
    store = parse_store(as_text(value), "witness")
    return None if store.kind == "none" else store


def _feed(value: object) -> FeedUrl:
    return parse_feed(as_text(value))


def _books(value: object) -> Location:
    return parse_folder(as_text(value), "books: ")


_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True}
_TEXT_OR_TEXTS = {"anyOf": [_TEXT, _TEXTS]}
_FEED = _matching("parquet:.+")

FIELD = Parsed(field_path, _TEXT)
FIELDS = Parsed(_fields, {**_TEXTS, "minItems": 0})
KEY = Parsed(_key, _TEXT_OR_TEXTS)
NAMES = Parsed(_some(as_text), _TEXTS)
DURATION = Parsed(_duration, {"anyOf": [_amount(DURATION_UNITS), {"enum": [0, "0"]}]})
POSITIVE_DURATION = Parsed(_positive_duration, _amount(DURATION_UNITS))
SIZE = Parsed(_size, _amount(SIZE_UNITS))
CHARACTER = Parsed(_character, _matching(r'[^"\r\n]'))
COUNT = Parsed(_count, {"anyOf": [{"type": "integer", "minimum": 1}, _matching("[1-9][0-9]{0,9}")]})
RULES = Parsed(_rules, {"type": "object", "additionalProperties": _TEXT})
DDL = Parsed(_ddl, _TEXT)
SOURCE_PATHS = Parsed(_one_or_some(_source_path), _TEXT_OR_TEXTS)
LEDGER = Parsed(_ledger, _matching("lake:.+|none"))
WITNESS = Parsed(_witness, _TEXT)
FEEDS = Parsed(_one_or_some(_feed), {"anyOf": [_FEED, {**_TEXTS, "items": _FEED}]})
BOOKS = Parsed(_books, _TEXT)
