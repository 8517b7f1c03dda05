"""The schema's DDL, and the conversion of JSON, CSV and Arrow values to its columns."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.model.convert import Converter
from semel.model.schema import ArrayType, Column, ScalarType, Schema, StringType, parse_schema

REFUSED = object()


@pytest.mark.parametrize(
    ("ddl", "rendered"),
    [
        ("user STRING, amount DOUBLE", "`user` STRING, `amount` DOUBLE"),
        ("user: string", "`user` STRING"),
        ("  a\tint\n,\nb Integer ", "`a` INT, `b` INT"),
        ("a BYTE, b SHORT, c LONG, d REAL", "`a` TINYINT, `b` SMALLINT, `c` BIGINT, `d` FLOAT"),
        ("a tinyint, b smallint, c bigint, d float", "`a` TINYINT, `b` SMALLINT, `c` BIGINT, `d` FLOAT"),
        ("a DECIMAL, b dec(5), c NUMERIC(38, 38)", "`a` DECIMAL(10,0), `b` DECIMAL(5,0), `c` DECIMAL(38,38)"),
        ("a VARCHAR(3), b char(20)", "`a` VARCHAR(3), `b` CHAR(20)"),
        ("a BOOLEAN, b BINARY, c DATE", "`a` BOOLEAN, `b` BINARY, `c` DATE"),
        ("a TIMESTAMP, b timestamp_ntz", "`a` TIMESTAMP, `b` TIMESTAMP_NTZ"),
        ("a INT NOT NULL COMMENT 'it''s \\'one\\'', b INT COMMENT \"x, y\"", "`a` INT NOT NULL, `b` INT"),
        ("`a``b.c 'd' \"e\"` INT", "`a``b.c 'd' \"e\"` INT"),
        ("`not` INT, comment INT, date DATE", "`not` INT, `comment` INT, `date` DATE"),
        ("größe INT, 2nd INT", "`größe` INT, `2nd` INT"),
        ("a ARRAY<ARRAY<INT>>", "`a` ARRAY<ARRAY<INT>>"),
        ("a map < string , array<double> >", "`a` MAP<STRING,ARRAY<DOUBLE>>"),
        (
            "a STRUCT<x: INT, `y z` STRING NOT NULL COMMENT 'c', event_id: INT>",
            "`a` STRUCT<`x`: INT, `y z`: STRING NOT NULL, `event_id`: INT>",
        ),
    ],
)
def test_ddl_is_read_and_rendered(ddl: str, rendered: str) -> None:
    schema = parse_schema(ddl)
    assert schema.ddl(constraints=True) == rendered
    assert parse_schema(rendered) == schema


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("", "the schema is empty"),
        (" \n", "the schema is empty"),
        ("user STRNG", "unknown type 'STRNG' at character 6; did you mean STRING? The types are BOOLEAN,"),
        ("user ZZZ", "unknown type 'ZZZ' at character 6; the types are BOOLEAN,"),
        ("a INT, A STRING", "the name 'A' at character 8 is already taken; case does not count"),
        ("a STRUCT<b: INT, B: INT>", "the name 'B' at character 18 is already taken"),
        ("Event_ID STRING", "the name 'Event_ID' at character 1 is reserved"),
        ("a INT, `_SEMEL` INT", "the name '_SEMEL' at character 8 is reserved"),
        ("a", "expected a type, found the end at character 2"),
        ("a INT b INT", "expected ',' or the end of the schema, found 'b' at character 7"),
        (
            "a INT,",
            "expected a name, in backquotes unless it has only letters, digits and '_', found the end",
        ),
        ("12 INT", "expected a name"),
        ("`` INT", "expected a name"),
        ("a-b INT", "an unexpected '-' at character 2; a name with such characters goes in backquotes"),
        ("a INT, `b INT", "an open quote at character 8"),
        ("a INT NOT 3", "expected NULL after NOT, found '3' at character 11"),
        ("a INT COMMENT b", "expected a quoted text after COMMENT"),
        ("a INT DEFAULT 3", "expected ',' or the end of the schema, found 'DEFAULT'"),
        ("a DECIMAL(39)", "DECIMAL at character 3 wants (precision, scale) with a precision from 1 to 38"),
        ("a DECIMAL(5,6)", "DECIMAL at character 3 wants"),
        ("a DECIMAL(1,1,1)", "DECIMAL at character 3 wants"),
        ("a DECIMAL(x)", "expected a number, found 'x' at character 11"),
        ("a DECIMAL(5", "expected ')', found the end"),
        ("a VARCHAR", "VARCHAR at character 3 wants one length of at least 1, as in VARCHAR(20)"),
        ("a CHAR(0)", "CHAR at character 3 wants one length"),
        ("a ARRAY", "expected '<', found the end at character 8"),
        ("a ARRAY<INT", "expected '>', found the end"),
        ("a MAP<INT, INT>", "the keys of the MAP at character 7 must be STRING"),
        ("a MAP<STRING>", "expected ',', found '>'"),
        ("a STRUCT<>", "expected a name"),
    ],
)
def test_wrong_ddl_is_refused_with_the_place(ddl: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_schema(ddl)
    assert message in str(refused.value)


def test_the_columns_of_a_feed_are_nullable_and_plain() -> None:
    schema = parse_schema("a VARCHAR(3) NOT NULL, b STRUCT<c: CHAR(2) NOT NULL>, d MAP<STRING, DECIMAL(5,2)>")
    assert schema.ddl() == "`a` STRING, `b` STRUCT<`c`: STRING>, `d` MAP<STRING,DECIMAL(5,2)>"
    assert schema.arrow() == pa.schema(
        {
            "a": pa.string(),
            "b": pa.struct({"c": pa.string()}),
            "d": pa.map_(pa.string(), pa.decimal128(5, 2)),
        }
    )


def test_schema_is_a_value() -> None:
    schema = parse_schema("a ARRAY<STRING> NOT NULL, t TIMESTAMP, n TIMESTAMP_NTZ")
    assert schema.columns[0] == Column("a", ArrayType(StringType()), nullable=False)
    assert schema.columns[1].type == ScalarType("TIMESTAMP")
    assert schema.arrow().types[1:] == [pa.timestamp("us", tz="UTC"), pa.timestamp("us")]
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert hash(schema) == hash(Schema(schema.columns))


def test_converter_pickles() -> None:
    converter = pickle.loads(pickle.dumps(Converter(parse_schema("a INT"), text=True)))
    assert converter.columns([{"a": "7"}])[0][0].to_pylist() == [7]


def test_import_loads_neither_spark_nor_arrow() -> None:
    program = (
        "import sys, semel.model.schema, semel.model.convert; "
        "sys.exit(any(m in sys.modules for m in ('pyspark', 'pyarrow')))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def moment(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


JSON_VALUES: list[tuple[str, Any, Any]] = [
    ("BOOLEAN", True, True),
    ("BOOLEAN", False, False),
    ("BOOLEAN", 1, REFUSED),
    ("BOOLEAN", "true", REFUSED),
    ("TINYINT", 127, 127),
    ("TINYINT", -128, -128),
    ("TINYINT", 128, REFUSED),
    ("SMALLINT", 32767, 32767),
    ("SMALLINT", -32769, REFUSED),
    ("INT", 2**31 - 1, 2**31 - 1),
    ("INT", 2**31, REFUSED),
    ("INT", 1.0, REFUSED),
    ("INT", Decimal("1"), REFUSED),
    ("INT", True, REFUSED),
    ("INT", "1", REFUSED),
    ("BIGINT", -(2**63), -(2**63)),
    ("BIGINT", 2**63, REFUSED),
    ("BIGINT", 10**30, REFUSED),
    ("DOUBLE", 1, 1.0),
    ("DOUBLE", 2.5, 2.5),
    ("DOUBLE", Decimal("2.5"), 2.5),
    ("DOUBLE", 2**53 + 1, float(2**53)),
    ("DOUBLE", 10**30, 1e30),
    ("DOUBLE", Decimal("1e400"), REFUSED),
    ("DOUBLE", float("inf"), REFUSED),
    ("DOUBLE", float("nan"), REFUSED),
    ("DOUBLE", 10**400, REFUSED),
    ("DOUBLE", "NaN", REFUSED),
    ("DOUBLE", True, REFUSED),
    ("DOUBLE", [1], REFUSED),
    ("FLOAT", 0.5, 0.5),
    ("FLOAT", 2**24 + 1, float(2**24)),
    ("FLOAT", 1e39, REFUSED),
    ("DECIMAL(5,2)", 1, Decimal("1.00")),
    ("DECIMAL(5,2)", 1.25, Decimal("1.25")),
    ("DECIMAL(5,2)", 0.1, Decimal("0.10")),
    ("DECIMAL(5,2)", Decimal("999.99"), Decimal("999.99")),
    ("DECIMAL(5,2)", Decimal("1.500"), Decimal("1.50")),
    ("DECIMAL(5,2)", Decimal("-1E+2"), Decimal("-100.00")),
    ("DECIMAL(5,2)", Decimal("1.555"), REFUSED),
    ("DECIMAL(5,2)", 1000, REFUSED),
    ("DECIMAL(5,2)", Decimal("1e999999"), REFUSED),
    ("DECIMAL(5,2)", Decimal("1e-999999"), REFUSED),
    ("DECIMAL(5,2)", float("nan"), REFUSED),
    ("DECIMAL(5,2)", True, REFUSED),
    ("DECIMAL(5,2)", "1.5", REFUSED),
    ("DECIMAL(38,0)", 10**38 - 1, Decimal(10**38 - 1)),
    ("DECIMAL(38,0)", 10**38, REFUSED),
    ("STRING", "é", "é"),
    ("STRING", "", ""),
    ("STRING", 1, "1"),
    ("STRING", 10**30, str(10**30)),
    ("STRING", 1.0, "1.0"),
    ("STRING", Decimal("1.10"), "1.10"),
    ("STRING", True, "true"),
    ("STRING", {"b": 1, "a": [None, "x"]}, '{"b":1,"a":[null,"x"]}'),
    ("VARCHAR(3)", "éèê", "éèê"),
    ("VARCHAR(3)", "abcd", REFUSED),
    ("VARCHAR(3)", 1234, REFUSED),
    ("BINARY", "YWI=", b"ab"),
    ("BINARY", "", b""),
    ("BINARY", "YWI", REFUSED),
    ("BINARY", "Y WI=", REFUSED),
    ("BINARY", 1, REFUSED),
    ("DATE", "2024-02-29", date(2024, 2, 29)),
    ("DATE", "2023-02-29", REFUSED),
    ("DATE", "0000-01-01", REFUSED),
    ("DATE", "20240229", REFUSED),
    ("DATE", "2024-W01-1", REFUSED),
    ("DATE", "2024-01-01T00:00:00", REFUSED),
    ("DATE", 19000, REFUSED),
    ("TIMESTAMP", "2024-01-01T10:00:00Z", moment(2024, 1, 1, 10)),
    ("TIMESTAMP", "2024-01-01t10:00:00.5z", moment(2024, 1, 1, 10, 0, 0, 500000)),
    ("TIMESTAMP", "2024-01-01 10:00:00+05:30", moment(2024, 1, 1, 4, 30)),
    ("TIMESTAMP", "2024-01-01T10:00:00", moment(2024, 1, 1, 10)),
    ("TIMESTAMP", "2024-01-01T10:00", moment(2024, 1, 1, 10)),
    ("TIMESTAMP", "2024-01-01", moment(2024, 1, 1)),
    ("TIMESTAMP", "20240101T100000Z", moment(2024, 1, 1, 10)),
    ("TIMESTAMP", "2024-01-01T10:00:00.123456789Z", moment(2024, 1, 1, 10, 0, 0, 123456)),
    ("TIMESTAMP", "1969-12-31T23:59:59.999999999Z", moment(1969, 12, 31, 23, 59, 59, 999999)),
    ("TIMESTAMP", "2024-01-01x10:00:00Z", REFUSED),
    ("TIMESTAMP", "2024-01-01T25:00:00Z", REFUSED),
    ("TIMESTAMP", "2024-01-01T10:00:00+00:75", REFUSED),
    ("TIMESTAMP", "2024-W01-1T10:00:00Z", REFUSED),
    ("TIMESTAMP", "0000-01-01T00:00:00Z", REFUSED),
    ("TIMESTAMP", "0001-01-01T00:00:00+05:00", REFUSED),
    ("TIMESTAMP", "9999-12-31T23:59:59-05:00", REFUSED),
    ("TIMESTAMP", "", REFUSED),
    ("TIMESTAMP", 1704103200, REFUSED),
    ("TIMESTAMP_NTZ", "2024-01-01T10:00:00", datetime(2024, 1, 1, 10)),
    ("TIMESTAMP_NTZ", "2024-01-01T10:00:00Z", REFUSED),
    ("ARRAY<INT>", [1, None, 2], [1, None, 2]),
    ("ARRAY<INT>", [], []),
    ("ARRAY<INT>", [1, "2"], REFUSED),
    ("ARRAY<INT>", {"a": 1}, REFUSED),
    ("MAP<STRING, INT>", {"a": 1, "b": None}, [("a", 1), ("b", None)]),
    ("MAP<STRING, INT>", {"a": 1.5}, REFUSED),
    ("MAP<STRING, INT>", [["a", 1]], REFUSED),
    ("STRUCT<a: INT, b: STRING>", {"a": 1, "z": 2}, {"a": 1, "b": None}),
    ("STRUCT<a: INT NOT NULL>", {}, REFUSED),
    ("STRUCT<a: DATE>", {"a": "x"}, REFUSED),
    ("STRUCT<a: DATE>", "{}", REFUSED),
    ("ARRAY<STRUCT<t: TIMESTAMP>>", [{"t": "2024-01-01"}], [{"t": moment(2024, 1, 1)}]),
]

TEXT_VALUES: list[Any] = [
    ("STRING", "", ""),
    ("STRING", "x", "x"),
    ("VARCHAR(1)", "xy", REFUSED),
    ("INT", "", None),
    ("DATE", "", None),
    ("ARRAY<INT>", "", None),
    ("BOOLEAN", "TRUE", True),
    ("BOOLEAN", "0", False),
    ("BOOLEAN", "yes", REFUSED),
    ("INT", "12", 12),
    ("INT", "-012", -12),
    ("INT", "+1", 1),
    ("INT", "1_000", REFUSED),
    ("INT", " 1", REFUSED),
    ("INT", "1e3", REFUSED),
    ("INT", "1.0", REFUSED),
    ("INT", "0x1F", REFUSED),
    ("INT", "0X1F", REFUSED),
    ("INT", "٣", REFUSED),
    ("INT", "2147483648", REFUSED),
    pytest.param("BIGINT", "9" * 5000, REFUSED, id="5000 digits"),
    ("DOUBLE", "1e3", 1000.0),
    ("DOUBLE", ".5", 0.5),
    ("DOUBLE", "1.", 1.0),
    ("DOUBLE", "+1", 1.0),
    ("DOUBLE", "1e400", REFUSED),
    ("DOUBLE", "nan", REFUSED),
    ("DOUBLE", "Infinity", REFUSED),
    ("DOUBLE", "1_0", REFUSED),
    ("DOUBLE", "1 ", REFUSED),
    ("DOUBLE", "1\n", REFUSED),
    ("FLOAT", "1e39", REFUSED),
    ("DECIMAL(5,2)", "1.5", Decimal("1.50")),
    ("DECIMAL(5,2)", "1.555", REFUSED),
    ("DECIMAL(5,2)", "NaN", REFUSED),
    ("BINARY", "YWI=", b"ab"),
    ("DATE", "2024-01-01", date(2024, 1, 1)),
    ("TIMESTAMP", "2024-01-01T10:00:00+01:00", moment(2024, 1, 1, 9)),
    ("ARRAY<DECIMAL(20,19)>", "[0.1234567890123456789, null]", [Decimal("0.1234567890123456789"), None]),
    ("MAP<STRING, INT>", '{"a": 1}', [("a", 1)]),
    ("STRUCT<a: INT>", '{"a": 1}', {"a": 1}),
    ("STRUCT<a: INT>", '{"a": 1', REFUSED),
    ("STRUCT<a: INT>", "[1]", REFUSED),
    pytest.param("ARRAY<INT>", "[" * 100_000, REFUSED, id="nested deeply"),
]


def convert_one(converter: Converter, value: Any, by_value: bool) -> Any:
    [array], [message] = converter.columns([{"v": value}], by_value=by_value)
    assert array.type == converter.schema.arrow().types[0]
    if message is None:
        return array[0].as_py()
    assert message.startswith("v")
    assert array[0].as_py() is None
    return REFUSED


@pytest.mark.parametrize("by_value", [False, True])
@pytest.mark.parametrize(("kind", "value", "expected"), JSON_VALUES)
def test_json_values(kind: str, value: Any, expected: Any, by_value: bool) -> None:
    assert convert_one(Converter(parse_schema(f"v {kind}")), value, by_value) == expected


@pytest.mark.parametrize("by_value", [False, True])
@pytest.mark.parametrize(("kind", "value", "expected"), TEXT_VALUES)
def test_text_values(kind: str, value: Any, expected: Any, by_value: bool) -> None:
    assert convert_one(Converter(parse_schema(f"v {kind}"), text=True), value, by_value) == expected


def test_a_record_that_does_not_fit_is_null_everywhere() -> None:
    converter = Converter(parse_schema("user STRING NOT NULL, amount DOUBLE, tags ARRAY<INT>"))
    arrays, messages = converter.columns(
        [
            {"user": "ann", "amount": 1.5, "tags": [1], "other": 1},
            {"user": "bob", "amount": "abc"},
            None,
            {"amount": 2},
            {"user": "cid", "AMOUNT": 3},
            {"user": None, "amount": []},
        ]
    )
    assert messages == [
        None,
        "amount: 'abc' is not a DOUBLE",
        None,
        "user: null or missing, but NOT NULL",
        None,
        "user: null or missing, but NOT NULL",
    ]
    assert [array.to_pylist() for array in arrays] == [
        ["ann", None, None, None, "cid", None],
        [1.5, None, None, None, None, None],
        [[1], None, None, None, None, None],
    ]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("INT", True, "v: true is not an INT"),
        ("ARRAY<INT>", {"a": None}, 'v: {"a":null} is not an ARRAY<INT>'),
        ("ARRAY<INT>", [1, 2.5], "v[1]: 2.5 is not an INT"),
        ("MAP<STRING, ARRAY<INT>>", {"it's": [None, "x"]}, "v[\"it's\"][1]: 'x' is not an INT"),
        ("STRUCT<a: STRUCT<b: INT NOT NULL>>", {"a": {}}, "v.a.b: null or missing, but NOT NULL"),
        ("DECIMAL(3,1)", "x", "v: 'x' is not a DECIMAL(3,1)"),
        pytest.param("DATE", "x" * 1000, "v: '" + "x" * 78 + "… is not a DATE", id="long"),
    ],
)
def test_message_names_the_place_and_the_value(kind: str, value: Any, message: str) -> None:
    assert Converter(parse_schema(f"v {kind}")).columns([{"v": value}])[1] == [message]


def test_names_are_plain_fields_not_paths() -> None:
    converter = Converter(parse_schema("`a.b` INT"))
    arrays, _ = converter.columns([{"a.b": 1, "a": {"b": 2}}, {"a": {"b": 2}}, {}])
    assert arrays[0].to_pylist() == [1, None, None]


def test_no_records() -> None:
    schema = parse_schema("a INT NOT NULL, t TIMESTAMP, d DOUBLE, s VARCHAR(2), j ARRAY<INT>")
    for text in (False, True):
        arrays, messages = Converter(schema, text=text).columns([])
        assert [array.type for array in arrays] == schema.arrow().types
        assert messages == []


NANOSECONDS = 1_704_103_200_123_456_789
CUT = moment(2024, 1, 1, 10) + timedelta(microseconds=123456)
ARROW_VALUES: list[tuple[str, pa.DataType, list[Any], list[Any]]] = [
    ("INT", pa.int64(), [1, 2**31, None], [1, REFUSED, None]),
    ("INT", pa.uint8(), [255], [255]),
    ("INT", pa.float64(), [1.0], [REFUSED]),
    ("INT", pa.bool_(), [True], [REFUSED]),
    ("INT", pa.string(), ["1", "x", ""], [1, REFUSED, REFUSED]),
    ("INT", pa.dictionary(pa.int8(), pa.string()), ["1", "1", "x"], [1, 1, REFUSED]),
    ("INT", pa.null(), [None, None], [None, None]),
    ("BOOLEAN", pa.int8(), [1], [REFUSED]),
    ("DOUBLE", pa.int64(), [1, 2**53 + 1], [1.0, float(2**53)]),
    ("DOUBLE", pa.float32(), [0.5], [0.5]),
    ("DOUBLE", pa.float64(), [1.5, float("inf")], [1.5, float("inf")]),
    ("DOUBLE", pa.decimal128(5, 2), [Decimal("1.25")], [1.25]),
    ("DOUBLE", pa.string(), ["1e3", "inf"], [1000.0, REFUSED]),
    ("FLOAT", pa.float64(), [0.5, 1e39, float("-inf")], [0.5, REFUSED, float("-inf")]),
    ("DECIMAL(5,2)", pa.decimal128(10, 3), [Decimal("1.250"), Decimal("1.255")], [Decimal("1.25"), REFUSED]),
    ("DECIMAL(5,2)", pa.int64(), [1, 1000], [Decimal("1.00"), REFUSED]),
    ("DECIMAL(5,2)", pa.float64(), [0.1, 1.555], [Decimal("0.10"), REFUSED]),
    ("STRING", pa.large_string(), ["a", None], ["a", None]),
    ("STRING", pa.int64(), [1], ["1"]),
    ("STRING", pa.bool_(), [True], ["true"]),
    ("STRING", pa.float64(), [1.0, float("nan")], ["1.0", REFUSED]),
    ("STRING", pa.binary(), [b"ab", b"\xff"], ["ab", REFUSED]),
    ("STRING", pa.date32(), [date(2024, 1, 1)], ["2024-01-01"]),
    ("STRING", pa.list_(pa.int8()), [[1, 2]], ["[1,2]"]),
    ("VARCHAR(2)", pa.string(), ["ab", "abc"], ["ab", REFUSED]),
    ("BINARY", pa.binary(2), [b"ab"], [b"ab"]),
    ("BINARY", pa.string(), ["YWI=", "?"], [b"ab", REFUSED]),
    ("DATE", pa.date64(), [date(2024, 1, 1)], [date(2024, 1, 1)]),
    ("DATE", pa.timestamp("us"), [datetime(2024, 1, 1)], [REFUSED]),
    ("DATE", pa.string(), ["2024-01-01", "x"], [date(2024, 1, 1), REFUSED]),
    ("TIMESTAMP", pa.timestamp("ms", tz="Europe/Berlin"), [moment(2024, 1, 1)], [moment(2024, 1, 1)]),
    ("TIMESTAMP", pa.timestamp("us"), [datetime(2024, 1, 1)], [moment(2024, 1, 1)]),
    ("TIMESTAMP", pa.timestamp("ns", tz="UTC"), [NANOSECONDS], [CUT]),
    ("TIMESTAMP", pa.date32(), [date(2024, 1, 1)], [moment(2024, 1, 1)]),
    ("TIMESTAMP", pa.int64(), [1], [REFUSED]),
    ("TIMESTAMP", pa.string(), ["2024-01-01T00:00:00Z", "x"], [moment(2024, 1, 1), REFUSED]),
    ("TIMESTAMP_NTZ", pa.timestamp("s"), [datetime(2024, 1, 1)], [datetime(2024, 1, 1)]),
    ("TIMESTAMP_NTZ", pa.timestamp("us", tz="UTC"), [moment(2024, 1, 1)], [REFUSED]),
    ("ARRAY<BIGINT>", pa.list_(pa.field("element", pa.int32())), [[1, None], None], [[1, None], None]),
    ("ARRAY<TINYINT>", pa.list_(pa.int32()), [[1], [300]], [[1], REFUSED]),
    ("ARRAY<TIMESTAMP>", pa.list_(pa.timestamp("ns", tz="UTC")), [[NANOSECONDS]], [[CUT]]),
    ("MAP<STRING, BIGINT>", pa.map_(pa.string(), pa.int32()), [[("a", 1)]], [[("a", 1)]]),
    (
        "MAP<STRING, TINYINT>",
        pa.map_(pa.string(), pa.int32()),
        [[("a", 1)], [("a", 300)]],
        [[("a", 1)], REFUSED],
    ),
    ("MAP<STRING, INT>", pa.map_(pa.int32(), pa.int32()), [[(1, 1)]], [REFUSED]),
    ("MAP<STRING, FLOAT>", pa.map_(pa.string(), pa.float64()), [[("a", 1.0), ("a", 2.0)]], [REFUSED]),
    (
        "STRUCT<b: INT, c: INT>",
        pa.struct({"a": pa.int32(), "b": pa.int64()}),
        [{"b": 1}],
        [{"b": 1, "c": None}],
    ),
    ("STRUCT<a: BIGINT>", pa.struct({"a": pa.int32()}), [{"a": 1}, None], [{"a": 1}, None]),
    ("STRUCT<a: INT NOT NULL>", pa.struct({"a": pa.int32()}), [{"a": 1}, {"a": None}], [{"a": 1}, REFUSED]),
]


@pytest.mark.parametrize(("kind", "source", "values", "expected"), ARROW_VALUES)
def test_arrow_casts(kind: str, source: pa.DataType, values: list[Any], expected: list[Any]) -> None:
    batch = pa.record_batch({"v": pa.array(values, source)})
    converter = Converter(parse_schema(f"v {kind}"))
    [array], messages = converter.cast(batch)
    assert array.type == converter.schema.arrow().types[0]
    got = [value if message is None else REFUSED for value, message in zip(array.to_pylist(), messages, strict=True)]
    assert got == expected


def test_arrow_batch_by_name() -> None:
    batch = pa.record_batch(
        [pa.array(["x", "y", None]), pa.array([1, 1000, 2]), pa.array([0, 0, 0])],
        names=["user", "n", "extra"],
    )
    arrays, messages = Converter(parse_schema("n TINYINT, user STRING NOT NULL, absent DATE")).cast(batch)
    assert [array.to_pylist() for array in arrays] == [[1, None, None], ["x", None, None], [None, None, None]]
    assert messages == [None, "n: 1000 is not a TINYINT", "user: null or missing, but NOT NULL"]


def test_arrow_values_that_python_cannot_hold() -> None:
    far = pa.array([10**7, 0], pa.int32()).cast(pa.date32())
    arrays, messages = Converter(parse_schema("d DATE, s STRING")).cast(pa.record_batch({"d": far, "s": far}))
    assert arrays[1].to_pylist() == [None, "1970-01-01"]
    assert messages == ["s: a date32[day] that Python cannot hold is not a STRING", None]


COLUMNS = parse_schema(
    "bo BOOLEAN, ti TINYINT, bi BIGINT, fl FLOAT, do DOUBLE, de DECIMAL(6,3), s STRING, vc VARCHAR(3),"
    "bn BINARY, da DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, ar ARRAY<INT>, ma MAP<STRING, DOUBLE>,"
    "sc STRUCT<x: INT, y: STRING>"
).columns
NUMBERS = st.one_of(
    st.booleans(),
    st.integers(-200, 200),
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.floats(width=32, allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=2),
)
MOMENTS = st.one_of(
    st.datetimes().map(datetime.isoformat),
    st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
    st.dates().map(date.isoformat),
    st.from_regex(r"\d{4}-[01]\d-[0-3]\d[T ]\d\d(:\d\d){1,2}(\.\d{1,9})?(Z|[+-]\d\d(:?\d\d)?)?", fullmatch=True),
)
NUMERALS = st.one_of(
    st.from_regex(r"[+-]?[0-9]{1,20}(\.[0-9]{0,5})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["", "true", "0", "1", "-0", "0x1", "0X1f", "nan", "-inf", "1_0", " 1", "1 ", ".5", "1."]),
)
TEXTS = st.one_of(st.text(max_size=5), MOMENTS, NUMERALS)
SCALARS = st.one_of(st.none(), NUMBERS, TEXTS)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.sampled_from("xyz"), SCALARS, max_size=3))


def assert_both_ways_agree(converter: Converter, records: Sequence[dict[str, Any] | None]) -> None:
    fast, fast_messages = converter.columns(records)
    slow, slow_messages = converter.columns(records, by_value=True)
    assert fast_messages == slow_messages
    for quick, careful in zip(fast, slow, strict=True):
        assert quick.type == careful.type
        assert quick.to_pylist() == careful.to_pylist()
        quick.validate(full=True)


def column_values(*values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Values of one kind, for which Arrow's way is mostly taken, or of all kinds."""
    return st.one_of(*(st.lists(kind, max_size=5) for kind in values))


@given(st.sampled_from(COLUMNS), st.booleans(), column_values(VALUES, NUMBERS, TEXTS, MOMENTS))
def test_json_at_once_is_json_value_by_value(column: Column, nullable: bool, values: list[Any]) -> None:
    schema = Schema((replace(column, nullable=nullable),))
    assert_both_ways_agree(Converter(schema), [{column.name: value} for value in values])


@given(st.sampled_from(COLUMNS), st.booleans(), column_values(TEXTS | st.none(), MOMENTS, NUMERALS))
def test_text_at_once_is_text_value_by_value(column: Column, nullable: bool, values: list[Any]) -> None:
    schema = Schema((replace(column, nullable=nullable),))
    assert_both_ways_agree(Converter(schema, text=True), [{column.name: value} for value in values])


RECORDS = st.dictionaries(st.sampled_from([column.name for column in COLUMNS]), VALUES, max_size=3)


@given(st.lists(st.none() | RECORDS, max_size=4))
def test_records_at_once_are_records_value_by_value(records: list[dict[str, Any] | None]) -> None:
    assert_both_ways_agree(Converter(Schema(COLUMNS)), records)
