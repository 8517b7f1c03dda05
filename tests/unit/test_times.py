"""Event times: ISO 8601 and numbers with a unit, and the text form of the books."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from semel.model.times import (
    EARLIEST,
    LATEST,
    NotATime,
    from_iso,
    iso,
    micros,
    moment_of,
    parse_number,
    parse_text,
)

NOON = "2024-01-02T12:00:00.000000Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Offsets, with and without colon, and none at all.
        ("2024-01-02T12:00:00Z", NOON),
        ("2024-01-02T12:00:00", NOON),
        ("2024-01-02T12:00:00+00:00", NOON),
        ("2024-01-02T12:00:00-00:00", NOON),
        ("2024-01-02T14:00:00+02:00", NOON),
        ("2024-01-02T14:00:00+0200", NOON),
        ("2024-01-02T14:00:00+02", NOON),
        ("2024-01-02T06:30:00-05:30", NOON),
        ("2024-01-02T06:30:00-0530", NOON),
        ("2024-01-03T02:00:00+14:00", NOON),
        ("2024-01-01T16:00:00-20:00", NOON),
        ("2024-01-02T17:45:00+05:45", NOON),
        # Other separators, less precision, the basic format, weeks.
        ("2024-01-02 12:00:00Z", NOON),
        ("2024-01-02T12:00Z", NOON),
        ("2024-01-02T12Z", NOON),
        ("20240102T120000Z", NOON),
        ("20240102T1200Z", NOON),
        ("20240102T140000+0200", NOON),
        ("2024-W01-2T12:00:00Z", NOON),
        # Dates.
        ("2024-01-02", "2024-01-02T00:00:00.000000Z"),
        ("20240102", "2024-01-02T00:00:00.000000Z"),
        ("2024-02-29", "2024-02-29T00:00:00.000000Z"),
        # Fractions: from the seventh digit on they are cut, not rounded.
        ("2024-01-02T12:00:00.1Z", "2024-01-02T12:00:00.100000Z"),
        ("2024-01-02T12:00:00.12Z", "2024-01-02T12:00:00.120000Z"),
        ("2024-01-02T12:00:00.123Z", "2024-01-02T12:00:00.123000Z"),
        ("2024-01-02T12:00:00.1234Z", "2024-01-02T12:00:00.123400Z"),
        ("2024-01-02T12:00:00.12345Z", "2024-01-02T12:00:00.123450Z"),
        ("2024-01-02T12:00:00.123456Z", "2024-01-02T12:00:00.123456Z"),
        ("2024-01-02T12:00:00.1234567Z", "2024-01-02T12:00:00.123456Z"),
        ("2024-01-02T12:00:00.12345678Z", "2024-01-02T12:00:00.123456Z"),
        ("2024-01-02T12:00:00.123456789Z", "2024-01-02T12:00:00.123456Z"),
        ("2024-01-02T12:00:00.999999999Z", "2024-01-02T12:00:00.999999Z"),
        ("2024-01-02T12:00:00,5Z", "2024-01-02T12:00:00.500000Z"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
        # A leap second is the second after it.
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000000Z"),
        ("2016-12-31T23:59:60.25Z", "2017-01-01T00:00:00.250000Z"),
        ("2016-12-31 23:59:60", "2017-01-01T00:00:00.000000Z"),
        ("20161231T235960Z", "2017-01-01T00:00:00.000000Z"),
        ("2017-01-01T01:59:60+02:00", "2017-01-01T00:00:00.000000Z"),
        ("2016-12-31T18:59:60-05:00", "2017-01-01T00:00:00.000000Z"),
        # The ends of time.
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("0001-01-01T01:00:00+01:00", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_text_is_read(text: str, expected: str) -> None:
    assert iso(parse_text(text)) == expected


def not_iso(text: str) -> str:
    return f"the time {text!r} is not ISO 8601"


def out_of_range(text: str) -> str:
    return f"the time {text!r} is out of range"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        *(
            (text, not_iso(text))
            for text in (
                "",
                "yesterday",
                " 2024-01-02",
                "2024-01-02 ",
                "2024-1-2",
                "2024-13-01",
                "2024-02-30",
                "2023-02-29",
                "2024-01-02T25:00:00Z",
                "2024-01-02T12:60:00Z",
                "2024-01-02T12:00:61Z",
                "2024-01-02T12:00:60Z",
                "2024-01-02T12:59:60X",
                "2024-02-30T23:59:60Z",
                "2024-01-02T12:00:00+24:00",
                "2024-01-02T12:00:00Zulu",
                "2024-01-02T12:00:00−02:00",
                "０024-01-02",
                "0000-01-01",
                "10000-01-01T00:00:00Z",
                "1704196800",
                "12:00:00",
            )
        ),
        *(
            (text, out_of_range(text))
            for text in (
                "9999-12-31T23:59:59-01:00",
                "9999-12-31T23:59:60Z",
                "0001-01-01T00:00:00+01:00",
                "0001-01-01T00:59:59.999999+01:00",
            )
        ),
        ("x" * 200, f"the time {'x' * 80!r} is not ISO 8601"),
        (5, "the time is a number; give its unit: s, ms or us"),
        (5.5, "the time is a number; give its unit: s, ms or us"),
        (Decimal(5), "the time is a number; give its unit: s, ms or us"),
        (True, "the time is a truth value, not text"),
        ([NOON], "the time is a list, not text"),
        ({}, "the time is an object, not text"),
        (b"2024-01-02", "the time is a bytes, not text"),
    ],
)
def test_text_that_is_no_time_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(NotATime) as caught:
        parse_text(value)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2024-01-02T12.5Z", "2024-01-02T12:30:00Z"),
        ("2024-01-02T12,5", "2024-01-02T12:30:00Z"),
        ("2024-01-02T12:30.5Z", "2024-01-02T12:30:30Z"),
    ],
)
def test_a_part_of_an_hour_or_minute_is_never_taken_for_one_of_a_second(text: str, meant: str) -> None:
    """ISO 8601 allows it; it is read as what it means, or refused."""
    try:
        found = from_iso(text)
    except NotATime:
        return
    assert iso(found) == iso(from_iso(meant))


SECOND = 1_704_196_800
"""Noon of 2 January 2024."""


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("s", SECOND, SECOND * 1_000_000),
        ("ms", SECOND * 1000, SECOND * 1_000_000),
        ("us", SECOND * 1_000_000, SECOND * 1_000_000),
        ("s", 0, 0),
        ("s", -1, -1_000_000),
        ("ms", -1, -1_000),
        ("s", SECOND + 0.5, SECOND * 1_000_000 + 500_000),
        ("s", 0.1, 100_000),
        ("s", 1704196800.123457, 1_704_196_800_123_457),
        ("ms", 1.5, 1_500),
        ("us", 1.5, 1),
        ("s", 1e9, 1_000_000_000_000_000),
        ("s", "1704196800", SECOND * 1_000_000),
        ("ms", "1704196800000", SECOND * 1_000_000),
        ("s", "1704196800.25", SECOND * 1_000_000 + 250_000),
        ("s", "1704196800.123456789", SECOND * 1_000_000 + 123_456),
        ("s", "1.7041968e9", SECOND * 1_000_000),
        ("s", "-1.5", -1_500_000),
        ("s", Decimal("1704196800.123456"), SECOND * 1_000_000 + 123_456),
        ("ms", Decimal("1704196800123.4567890123456789012345"), SECOND * 1_000_000 + 123_456),
        ("s", Decimal("1.7041968E+9"), SECOND * 1_000_000),
        ("us", LATEST, LATEST),
        ("us", EARLIEST, EARLIEST),
        ("s", 253_402_300_799, 253_402_300_799_000_000),
    ],
)
def test_numbers_are_read_with_their_unit(unit: str, value: Any, expected: int) -> None:
    assert parse_number(unit)(value) == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("x", "the time 'x' is not a number"),
        ("", "the time '' is not a number"),
        (NOON, f"the time '{NOON}' is not a number"),
        ("NaN", "the time 'NaN' is not a number"),
        ("0x10", "the time '0x10' is not a number"),
        (float("nan"), "the time 'nan' is not a number"),
        (10**30, f"the time {10**30} is out of range"),
        (-(10**30), f"the time {-(10**30)} is out of range"),
        (LATEST + 1, f"the time {LATEST + 1} is out of range"),
        (EARLIEST - 1, f"the time {EARLIEST - 1} is out of range"),
        (True, "the time is a truth value, not a number"),
        ([1], "the time is a list, not a number"),
        ({"s": 1}, "the time is an object, not a number"),
    ],
)
def test_what_is_no_number_is_refused(unit: str, value: Any, reason: str) -> None:
    with pytest.raises(NotATime) as caught:
        parse_number(unit)(value)
    assert str(caught.value) == reason


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize(
    "value",
    [
        float("inf"),
        "inf",
        "-Infinity",
        1e300,
        "1e300",
        "9" * 5000,
        Decimal("1E+400"),
        Decimal("-1E+400"),
        Decimal("1E+999999"),
        Decimal("1E+999999999999999999"),
        Decimal("9" * 5000),
    ],
    ids=lambda value: str(value)[:12],
)
def test_numbers_beyond_all_time_are_refused_whatever_their_size(unit: str, value: Any) -> None:
    with pytest.raises(NotATime, match=r"^the time .* is (out of range|not a number)$"):
        parse_number(unit)(value)


@pytest.mark.parametrize("value", [Decimal("1E-999999"), Decimal("1E-400"), "1e-400", 5e-324])
def test_numbers_next_to_zero_are_zero(value: Any) -> None:
    assert parse_number("s")(value) == 0


zones = st.none() | st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@settings(deadline=None)
@given(st.integers(EARLIEST, LATEST))
@example(EARLIEST)
@example(LATEST)
@example(-1)
def test_microseconds_and_text_are_the_same_moment(value: int) -> None:
    assert from_iso(iso(value)) == value
    assert micros(moment_of(value)) == value
    assert len(iso(value)) == 27


@settings(deadline=None)
@given(st.integers(EARLIEST, LATEST), st.integers(EARLIEST, LATEST))
def test_the_text_form_sorts_by_time(one: int, other: int) -> None:
    assert (iso(one) < iso(other)) == (one < other)


@settings(deadline=None)
@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)), zones)
def test_any_offset_is_the_same_moment(moment: datetime, zone: timezone | None) -> None:
    there = moment.replace(tzinfo=UTC) if zone is None else moment.replace(tzinfo=UTC).astimezone(zone)
    assert from_iso(there.isoformat()) == micros(moment)
    assert from_iso(there.isoformat(" ")) == micros(moment)


@settings(deadline=None)
@given(st.integers(EARLIEST, LATEST), st.sampled_from(["s", "ms", "us"]))
def test_a_number_is_the_same_as_int_text_and_decimal(value: int, unit: str) -> None:
    factor = {"s": 1_000_000, "ms": 1_000, "us": 1}[unit]
    exact = Decimal(value) / factor
    assert parse_number(unit)(exact) == value
    assert parse_number(unit)(str(exact)) == value
    assert parse_number(unit)(value // factor) == value // factor * factor


@settings(deadline=None)
@given(st.text(max_size=30) | st.text("0123456789-:TZ+. W,", max_size=30))
def test_any_text_is_a_time_in_range_or_refused(text: str) -> None:
    try:
        found = parse_text(text)
    except NotATime:
        return
    assert EARLIEST <= found <= LATEST
