"""Durations and sizes: what is read, what is refused, and that writing and reading agree."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.model.units import DURATION_UNITS, SIZE_UNITS, format_duration, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("10s", timedelta(seconds=10)),
        ("90m", timedelta(minutes=90)),
        ("24h", timedelta(hours=24)),
        ("30d", timedelta(days=30)),
        ("2w", timedelta(days=14)),
        ("0", timedelta(0)),
        ("0d", timedelta(0)),
    ],
)
def test_a_duration_is_read(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512B", 512),
        ("3kB", 3000),
        ("3KB", 3000),
        ("1KiB", 1024),
        ("10MB", 10_000_000),
        ("64MiB", 64 * 2**20),
        ("1GB", 10**9),
        ("1GiB", 2**30),
        ("2TB", 2 * 10**12),
        ("2TiB", 2 * 2**40),
        ("0", 0),
    ],
)
def test_a_size_is_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("30", "has no unit"),
        ("-5d", "is negative"),
        ("-5", "is negative"),
        ("5D", "unknown unit 'D'"),
        ("5min", "unknown unit 'min'"),
        ("1.5h", "cannot be read"),
        ("5 d", "cannot be read"),
        ("", "cannot be read"),
        ("d", "cannot be read"),
        ("٣d", "cannot be read"),
        ("True", "cannot be read"),
    ],
)
def test_a_wrong_duration_is_refused_with_the_units(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        parse_duration(text)
    assert ", ".join(DURATION_UNITS) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("64", "has no unit"),
        ("-1B", "is negative"),
        ("64M", "unknown unit 'M'"),
        ("64mib", "unknown unit"),
        ("1e3B", "cannot be read"),
    ],
)
def test_a_wrong_size_is_refused_with_the_units(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        parse_size(text)
    assert ", ".join(SIZE_UNITS) in str(caught.value)


def test_a_duration_beyond_what_python_counts_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        parse_duration("999999999999999w")


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(hours=24), "1d"),
        (timedelta(weeks=2), "14d"),
        (timedelta(minutes=90), "90m"),
        (timedelta(milliseconds=1500), "1500ms"),
    ],
)
def test_a_duration_is_written_in_its_largest_whole_unit(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text


@pytest.mark.parametrize("duration", [timedelta(microseconds=1), timedelta(seconds=-1)])
def test_a_duration_that_cannot_be_written_is_refused(duration: timedelta) -> None:
    with pytest.raises(ValueError):
        format_duration(duration)


@given(st.integers(min_value=0, max_value=10**14))
def test_a_duration_that_is_written_is_read_as_the_same(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(duration)) == duration


@given(st.integers(min_value=0, max_value=10**6), st.sampled_from(sorted(DURATION_UNITS)))
def test_what_is_read_is_written_as_the_same_duration(number: int, unit: str) -> None:
    duration = parse_duration(f"{number}{unit}")
    assert parse_duration(format_duration(duration)) == duration
