"""Durations and sizes as people write them, always with a unit.

>>> parse_duration("90m")
datetime.timedelta(seconds=5400)
>>> format_duration(parse_duration("48h"))
'2d'
>>> parse_size("64MiB")
67108864
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

DURATION_UNITS: Mapping[str, timedelta] = MappingProxyType(
    {
        "ms": timedelta(milliseconds=1),
        "s": timedelta(seconds=1),
        "m": timedelta(minutes=1),
        "h": timedelta(hours=1),
        "d": timedelta(days=1),
        "w": timedelta(weeks=1),
    }
)
SIZE_UNITS: Mapping[str, int] = MappingProxyType(
    {
        "B": 1,
        "kB": 10**3,
        "KB": 10**3,
        "KiB": 2**10,
        "MB": 10**6,
        "MiB": 2**20,
        "GB": 10**9,
        "GiB": 2**30,
        "TB": 10**12,
        "TiB": 2**40,
    }
)
_FORMAT_UNITS = ("d", "h", "m", "s", "ms")
_AMOUNT = re.compile(r"(-?)([0-9]{1,15})([A-Za-z]*)")


def parse_duration(text: str) -> timedelta:
    """The duration that `text` says, such as 500ms, 10s, 90m, 24h, 30d, 2w or 0; else a ValueError."""
    number, unit = _split(text, DURATION_UNITS, example="30d")
    try:
        return number * DURATION_UNITS[unit]
    except OverflowError:
        raise ValueError(f"{text!r} is too long a time") from None


def format_duration(duration: timedelta) -> str:
    """The shortest text, in one unit of at most days, that `parse_duration` reads as this duration."""
    if duration < timedelta(0):
        raise ValueError(f"{duration!r} is negative")
    if not duration:
        return "0s"
    for unit in _FORMAT_UNITS:
        number, rest = divmod(duration, DURATION_UNITS[unit])
        if not rest:
            return f"{number}{unit}"
    raise ValueError(f"{duration!r} is not a whole number of milliseconds")


def parse_size(text: str) -> int:
    """The number of bytes that `text` says, such as 512B, 10MB, 64MiB, 1GiB or 0; else a ValueError."""
    number, unit = _split(text, SIZE_UNITS, example="64MiB")
    return number * SIZE_UNITS[unit]


def _split(text: str, units: Mapping[str, object], example: str) -> tuple[int, str]:
    advice = f"write a whole number and one of {', '.join(units)}, as in {example}"
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} cannot be read; {advice}")
    sign, digits, unit = match.groups()
    number = int(digits)
    if sign:
        raise ValueError(f"{text!r} is negative; {advice}")
    if not unit:
        if number:
            raise ValueError(f"{text!r} has no unit; {advice}")
        unit = next(iter(units))
    if unit not in units:
        raise ValueError(f"{text!r} has an unknown unit {unit!r}; {advice}")
    return number, unit
