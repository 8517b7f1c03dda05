"""Event times: ISO 8601 text or a number with a unit, as microseconds since 1970 in UTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LEAP_SECOND: Final = re.compile(r"^(.*[T ]\d\d:?59:?)60(.*)$", re.ASCII)
_FRACTION_OF_A_SECOND: Final = re.compile(r"[Tt ](?:\d\d:\d\d:\d\d|\d{6})[.,]\d", re.ASCII)
_LENGTH_OF_A_DATE: Final = 10
_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_PER_UNIT: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
EARLIEST: Final = -62_135_596_800_000_000
LATEST: Final = 253_402_300_799_999_999


class NotATime(ValueError):
    """The value is not a time; the message is the reason in the bad feed."""


def micros(moment: datetime) -> int:
    """Microseconds since 1970; a time without an offset is taken as UTC.

    >>> micros(datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // _MICROSECOND


def moment_of(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def iso(value: int) -> str:
    """The text form that the books use.

    >>> iso(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    return moment_of(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def from_iso(text: str) -> int:
    """Any ISO 8601 form that Python reads right; a leap second is the second after it."""
    try:
        value = micros(datetime.fromisoformat(text))
    except OverflowError:
        raise NotATime(f"the time {text[:80]!r} is out of range") from None
    except ValueError:
        value = _unusual(text)
    if ("." in text or "," in text) and not _FRACTION_OF_A_SECOND.search(text):
        raise NotATime(f"the time {text[:80]!r} has a fraction, but not of a second")
    if len(text) > _LENGTH_OF_A_DATE and "T" not in text and " " not in text and "t" not in text:
        raise NotATime(f"the time {text[:80]!r} is not ISO 8601")
    if not EARLIEST <= value <= LATEST:
        raise NotATime(f"the time {text[:80]!r} is out of range")
    return value


def _unusual(text: str) -> int:
    """A leap second, or small letters."""
    upper = text.upper()
    leap = _LEAP_SECOND.match(upper)
    try:
        if leap:
            return micros(datetime.fromisoformat(f"{leap[1]}59{leap[2]}")) + 1_000_000
        return micros(datetime.fromisoformat(upper))
    except (ValueError, OverflowError):
        raise NotATime(f"the time {text[:80]!r} is not ISO 8601") from None


def parse_text(value: Any) -> int:
    if type(value) is not str:
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            raise NotATime("the time is a number; give its unit: s, ms or us")
        raise NotATime(f"the time is {_kind(value)}, not text")
    return from_iso(value)


def parse_number(unit: str) -> Callable[[Any], int]:
    """A reader for numbers of that unit; digits as text are taken too, since CSV has nothing else."""
    factor = _PER_UNIT[unit]

    def parse(value: Any) -> int:
        if type(value) is int:
            result = value * factor
        elif isinstance(value, float | Decimal | str):
            try:
                if isinstance(value, str) and not _NUMBER.fullmatch(value):
                    raise ValueError(value)
                exact = Decimal(repr(value) if isinstance(value, float) else value)
                scaled = exact * factor
                inside = EARLIEST <= scaled <= LATEST  # checked first: an integer of a million digits takes long
                result = int(scaled.to_integral_value(ROUND_FLOOR)) if inside else LATEST + 1
            except (ArithmeticError, ValueError):
                raise NotATime(f"the time {str(value)[:80]!r} is not a number") from None
        else:
            raise NotATime(f"the time is {_kind(value)}, not a number")
        if not EARLIEST <= result <= LATEST:
            raise NotATime(f"the time {str(value)[:80]} is out of range")
        return result

    return parse


def _kind(value: Any) -> str:
    if value is None:
        return "missing"
    return {bool: "a truth value", list: "a list", dict: "an object"}.get(type(value), f"a {type(value).__name__}")
