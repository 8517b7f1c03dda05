"""Records into events: ids, times, fingerprints and typed columns, or the reason why not."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.judging.identify import EventRules, Identified, Identifier, field_reader
from semel.model.block import Block
from semel.model.canonical import NotReadable, parse_object
from semel.model.schema import parse_schema
from semel.model.times import from_iso
from semel.sources.files.tables import rows_of

NOON = "2024-01-02T12:00:00Z"
RULES = EventRules(
    id=("id",),
    composite=False,
    time="at",
    unit=None,
    exclude=(),
    hash="sha256",
    fingerprint_field=None,
    schema=None,
    as_text=False,
    latest=from_iso("2024-01-03T00:00:00Z"),
)


def block(*records: dict[str, Any] | None, table: Any = None) -> Block:
    count = len(records)
    return Block(
        list(range(count)),
        [f"in:{i}" for i in range(count)],
        0,
        list(records),
        [None if record is not None else "not JSON" for record in records],
        [b"{}"] * count,
        table,
    )


def identify(*records: dict[str, Any] | None, rules: EventRules = RULES) -> Identified:
    return Identifier(rules).identify(block(*records))


def of_lines(*lines: str, rules: EventRules = RULES) -> Identified:
    return identify(*(parse_object(line.encode()) for line in lines), rules=rules)


def prints(*records: dict[str, Any], rules: EventRules = RULES) -> list[str | None]:
    found = identify(*(dict(record) for record in records), rules=rules)
    assert found.reasons == [None] * len(records)
    return found.prints


# Ids


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("e1", "e1"),
        (" ", " "),
        (7, "7"),
        (-7, "-7"),
        (0, "0"),
        (10**40, "1" + "0" * 40),
        ("x" * 1024, "x" * 1024),
        ("é" * 512, "é" * 512),
        ("😀" * 256, "😀" * 256),
        ("null", "null"),
        ("\x00", "\x00"),
    ],
)
def test_ids(value: Any, text: str) -> None:
    found = identify({"id": value, "at": NOON})
    assert (found.ids, found.reasons) == ([text], [None])


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({}, "the id id is missing"),
        ({"id": None}, "the id id is missing"),
        ({"id": ""}, "the id id is empty"),
        ({"id": 1.5}, "the id id is a float, neither text nor integer"),
        ({"id": 1.0}, "the id id is a float, neither text nor integer"),
        ({"id": Decimal("1e400")}, "the id id is a decimal, neither text nor integer"),
        ({"id": True}, "the id id is a truth value, neither text nor integer"),
        ({"id": ["e1"]}, "the id id is a list, neither text nor integer"),
        ({"id": {"id": "e1"}}, "the id id is an object, neither text nor integer"),
        ({"id": "x" * 1025}, "the id id is longer than 1024 bytes"),
        ({"id": "é" * 513}, "the id id is longer than 1024 bytes"),
        ({"id": "😀" * 257}, "the id id is longer than 1024 bytes"),
        ({"id": 10**1024}, "the id id is longer than 1024 bytes"),
    ],
)
def test_bad_ids_have_their_reason(record: dict[str, Any], reason: str) -> None:
    found = identify({**record, "at": NOON}, {"id": "good", "at": NOON})
    assert found.reasons == [reason, None]
    assert found.ids == [None, "good"]
    assert found.prints[0] is None
    assert found.good.tolist() == [False, True]


@pytest.mark.parametrize(
    ("path", "record", "value"),
    [
        ("a", {"a": 1}, 1),
        ("a.b", {"a": {"b": 1}}, 1),
        ("a.b.c", {"a": {"b": {"c": 1}}}, 1),
        ("a.b", {"a.b": 1}, 1),
        ("a.b", {"a.b": 1, "a": {"b": 2}}, 1),
        ("a.b", {"a.b": None, "a": {"b": 2}}, None),
        ("a.b", {"a": 5}, None),
        ("a.b", {"a": [{"b": 1}]}, None),
        ("a.b", {"a": None}, None),
        ("a.b", {}, None),
        ("a.b.c", {"a": {"b.c": 1}}, None),
    ],
)
def test_fields_are_read_by_name_or_dotted_path(path: str, record: dict[str, Any], value: Any) -> None:
    assert field_reader(path)(record) == value


def test_id_and_time_by_dotted_path() -> None:
    rules = replace(RULES, id=("meta.id",), time="meta.at")
    found = identify({"meta": {"id": 5, "at": NOON}}, {"meta": {"at": NOON}}, {"meta": {"id": 5}}, rules=rules)
    assert found.ids == ["5", None, "5"]
    assert found.times == [from_iso(NOON), from_iso(NOON), None]
    assert found.reasons == [None, "the id meta.id is missing", "the time is missing"]


COMPOSITE = replace(RULES, id=("shop", "order.no"), composite=True)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"shop": "s", "order": {"no": 7}}, '["s","7"]'),
        ({"shop": 's","7', "order": {"no": "x"}}, '["s\\",\\"7","x"]'),
        ({"shop": "é", "order.no": "1"}, '["é","1"]'),
    ],
)
def test_composite_ids(record: dict[str, Any], text: str) -> None:
    assert identify({**record, "at": NOON}, rules=COMPOSITE).ids == [text]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"shop": "s"}, "the id order.no is missing"),
        ({"shop": "", "order.no": 1}, "the id shop is empty"),
        ({"shop": 1.5, "order.no": 1}, "the id shop is a float, neither text nor integer"),
        ({"shop": "x" * 600, "order.no": "y" * 600}, "the id shop, order.no is longer than 1024 bytes"),
    ],
)
def test_bad_composite_ids(record: dict[str, Any], reason: str) -> None:
    assert identify({**record, "at": NOON}, rules=COMPOSITE).reasons == [reason]


def test_a_list_of_one_field_is_composite_too() -> None:
    assert identify({"id": "e1", "at": NOON}, rules=replace(RULES, composite=True)).ids == ['["e1"]']


# Times


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "the time is missing"),
        ("", "the time is missing"),
        ("soon", "the time 'soon' is not ISO 8601"),
        (1704196800, "the time is a number; give its unit: s, ms or us"),
        (True, "the time is a truth value, not text"),
        ([], "the time is a list, not text"),
        ({}, "the time is an object, not text"),
        (
            "2024-01-03T00:00:00.000001Z",
            "the time 2024-01-03T00:00:00.000001Z is too far ahead; the latest that this run takes is "
            "2024-01-03T00:00:00.000000Z",
        ),
        (
            "9999-12-31T00:00:00Z",
            "the time 9999-12-31T00:00:00.000000Z is too far ahead; the latest that this run takes is "
            "2024-01-03T00:00:00.000000Z",
        ),
    ],
)
def test_bad_times_have_their_reason(value: Any, reason: str) -> None:
    found = identify({"id": "e1", "at": value}, {"id": "e2", "at": NOON})
    assert found.reasons == [reason, None]
    assert found.ids == ["e1", "e2"]
    assert found.times == [from_iso(value) if "too far ahead" in reason else None, from_iso(NOON)]


@pytest.mark.parametrize("value", ["9999-12-31T23:59:59-23:59", "9999-12-31T23:59:60Z", "0001-01-01T00:00:00+23:59"])
def test_a_time_at_the_ends_of_the_calendar_is_bad(value: str) -> None:
    found = identify({"id": "e1", "at": value})
    assert found.reasons[0] is not None
    assert found.times == [None]


@pytest.mark.parametrize("text", ["1e999999", "1e400", "-1e999999", "1" + "0" * 300, "1e-999999"])
def test_a_number_of_any_size_as_time_is_bad_or_read(text: str) -> None:
    found = of_lines(f'{{"id":"e1","at":{text}}}', rules=replace(RULES, unit="s"))
    assert (found.reasons[0] is None) == (text == "1e-999999")


def test_the_latest_time_is_still_good() -> None:
    found = identify({"id": "e1", "at": "2024-01-03T01:00:00+01:00"})
    assert (found.times, found.reasons) == ([RULES.latest], [None])


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        ("s", 1704196800),
        ("ms", 1704196800000),
        ("us", 1704196800000000),
        ("s", "1704196800"),
        ("s", 1704196800.0),
    ],
)
def test_numbers_as_times(unit: str, value: Any) -> None:
    found = identify({"id": "e1", "at": value}, rules=replace(RULES, unit=unit))
    assert found.times == [from_iso(NOON)]


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (datetime(2024, 1, 2, 12, tzinfo=UTC), NOON),
        (datetime(2024, 1, 2, 12), NOON),
        (date(2024, 1, 2), "2024-01-02T00:00:00Z"),
    ],
)
@pytest.mark.parametrize("unit", [None, "ms"])
def test_times_of_tables(value: Any, time: str, unit: str | None) -> None:
    found = identify({"id": "e1", "at": value}, rules=replace(RULES, unit=unit))
    assert found.times == [from_iso(time)]


def test_the_id_is_looked_at_before_the_time() -> None:
    found = identify({"id": None, "at": None}, None)
    assert found.reasons == ["the id id is missing", "not JSON"]


# Fingerprints


def test_the_fingerprint_is_the_hash_of_every_field() -> None:
    expected = hashlib.sha256(b'{"at":"2024-01-02T12:00:00Z","id":"e1","x":[1.5]}').hexdigest()
    found = of_lines('{"x":[1.50],"id":"e1","at":"2024-01-02T12:00:00Z"}')
    assert found.prints == [expected]


@pytest.mark.parametrize(("name", "length"), [("md5", 32), ("sha1", 40), ("sha256", 64), ("sha512", 128)])
def test_every_hash(name: str, length: int) -> None:
    (found,) = prints({"id": "e1", "at": NOON}, rules=replace(RULES, hash=name))
    assert found == hashlib.new(name, b'{"at":"2024-01-02T12:00:00Z","id":"e1"}').hexdigest()
    assert len(found) == length


@pytest.mark.parametrize(
    ("exclude", "one", "other", "same"),
    [
        (("sent",), {"sent": 1}, {"sent": 2}, True),
        (("sent",), {"sent": 1}, {}, True),
        (("sent",), {"x": 1}, {"x": 2}, False),
        (("meta.sent",), {"meta": {"sent": 1, "x": 1}}, {"meta": {"sent": 2, "x": 1}}, True),
        (("meta.sent",), {"meta": {"sent": 1, "x": 1}}, {"meta": {"x": 1}}, True),
        (("meta.sent",), {"meta": {"sent": 1, "x": 1}}, {"meta": {"sent": 1, "x": 2}}, False),
        (("meta.sent",), {"sent": 1}, {"sent": 2}, False),
        (("meta.sent",), {"meta": [{"sent": 1}]}, {"meta": [{"sent": 2}]}, False),
        (("meta.sent",), {"meta": None}, {"meta": 5}, False),
        (("meta.sent",), {"meta.sent": 1}, {"meta.sent": 2}, True),
        (("a.b.c",), {"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}, True),
        (("a.b.c",), {"a": {"b": 1}}, {"a": {"b": 2}}, False),
        (("sent", "etl"), {"sent": 1, "etl": 1}, {"sent": 2, "etl": 2}, True),
        (("absent",), {"x": 1}, {"x": 1}, True),
        ((), {"sent": 1}, {"sent": 2}, False),
    ],
)
def test_excluded_fields_do_not_count(
    exclude: tuple[str, ...], one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    base = {"id": "e1", "at": NOON}
    first, second = prints({**base, **one}, {**base, **other}, rules=replace(RULES, exclude=exclude))
    assert (first == second) == same


def test_excluded_id_and_time_are_read_first() -> None:
    rules = replace(RULES, exclude=("id", "at"))
    found = identify({"id": "e1", "at": NOON, "x": 1}, {"id": "e2", "at": "2024-01-02", "x": 1}, rules=rules)
    assert found.ids == ["e1", "e2"]
    assert found.prints[0] == found.prints[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([Decimal("1.5")]), pa.array([Decimal("1.50")])),
        (pa.array([Decimal("0.00")]), pa.array([Decimal("0.0")])),
        (pa.array([[Decimal("100.0")]]), pa.array([[Decimal("100.00")]])),
        (pa.array([0.0]), pa.array([-0.0])),
        (pa.array([{"y": 0.0}]), pa.array([{"y": -0.0}])),
    ],
)
def test_table_values_of_the_same_value_have_one_fingerprint(one: pa.Array, other: pa.Array) -> None:
    """A column may have another scale in another file."""
    rows = [rows_of(pa.RecordBatch.from_arrays([column], ["x"]))[0][0] for column in (one, other)]
    first, second = prints(*({"id": "e1", "at": NOON, **(row or {})} for row in rows))
    assert first == second


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("00FF", "00ff"),
        ("00ff", "00ff"),
        ("ABCDEF0123456789ABCDEF0123456789", "abcdef0123456789abcdef0123456789"),
        ("Not-Hex", "Not-Hex"),
        (" AB ", " AB "),
        (1234, "1234"),
        (-5, "-5"),
    ],
)
def test_a_given_fingerprint_is_taken(given: Any, taken: str) -> None:
    rules = replace(RULES, fingerprint_field="fp")
    assert prints({"id": "e1", "at": NOON, "fp": given}, rules=rules) == [taken]


@pytest.mark.parametrize("given", ["", None, True, 1.5, [], {}])
def test_without_a_given_fingerprint_it_is_computed(given: Any) -> None:
    rules = replace(RULES, fingerprint_field="meta.fp")
    record = {"id": "e1", "at": NOON, "meta": {"fp": given}}
    assert prints(record, rules=rules) == prints(record)
    assert prints({"id": "e1", "at": NOON}, rules=rules) == prints({"id": "e1", "at": NOON})


# Typed columns

TYPED = replace(RULES, schema=parse_schema("user STRING, amount INT NOT NULL"))


def test_typed_columns() -> None:
    base = {"id": "e1", "at": NOON}
    found = identify(
        {**base, "user": "a", "amount": 1},
        {**base, "amount": "x"},
        {**base, "user": "c"},
        None,
        {"id": None, "user": "d", "amount": 4},
        {**base, "user": None, "amount": 5},
        rules=TYPED,
    )
    assert found.reasons == [
        None,
        "amount: 'x' is not an INT",
        "amount: null or missing, but NOT NULL",
        "not JSON",
        "the id id is missing",
        None,
    ]
    assert [column.to_pylist()[0] for column in found.typed] == ["a", 1]
    assert [column.to_pylist()[5] for column in found.typed] == [None, 5]
    assert all(column.to_pylist()[1] is None for column in found.typed)
    assert found.ids[1:3] == ["e1", "e1"]
    assert found.prints[1:4] == [None, None, None]


def test_typed_columns_of_text() -> None:
    rules = replace(RULES, schema=parse_schema("amount DOUBLE, when DATE"), as_text=True)
    base = {"id": "e1", "at": NOON}
    found = identify(
        {**base, "amount": "1.5", "when": "2024-01-02"},
        {**base, "amount": ""},
        {**base, "amount": "x"},
        rules=rules,
    )
    assert found.reasons == [None, None, "amount: 'x' is not a DOUBLE"]
    assert [column.to_pylist() for column in found.typed] == [
        [1.5, None, None],
        [date(2024, 1, 2), None, None],
    ]


def test_typed_columns_of_a_table() -> None:
    batch = pa.RecordBatch.from_pydict({"id": ["e1", "e2"], "at": [NOON, NOON], "amount": [1, 2**40]})
    found = Identifier(TYPED).identify(block(*batch.to_pylist(), table=batch))
    assert found.reasons == [None, "amount: 1099511627776 is not an INT"]
    assert found.typed[1].to_pylist() == [1, None]


def test_an_empty_block() -> None:
    found = identify(rules=TYPED)
    assert (found.ids, found.good.tolist(), [len(column) for column in found.typed]) == ([], [], [0, 0])


@settings(deadline=None)
@given(
    st.binary(max_size=40) | st.sampled_from([b'{"id":%s,"at":"2024-01-02"}', b'{"id":"a","at":%s}']),
    st.data(),
)
def test_any_line_is_an_event_or_has_a_reason(line: bytes, data: st.DataObject) -> None:
    if b"%s" in line:
        values = st.sampled_from(
            [
                b"1e400",
                b"-0.0",
                b'"\\ud800"',
                b"[]",
                b"null",
                b'"9999-12-31T23:59:59-23:00"',
                b"9" * 5000,
                b'"x"',
            ]
        )
        line = line.replace(b"%s", data.draw(values))
    try:
        record = parse_object(line)
    except NotReadable as error:
        assert str(error)  # noqa: PT017
        return
    found = identify(record)
    if found.reasons == [None]:
        assert found.ids[0]
        assert found.prints[0]
        assert found.times[0] is not None
    else:
        assert found.reasons[0]
        assert found.prints == [None]
