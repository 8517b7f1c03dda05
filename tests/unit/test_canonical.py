"""JSON objects: which bytes are read, which numbers are the same, and the one form of equal values."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from semel.model.canonical import MAX_DEPTH, NotReadable, canonical, hasher, is_text, parse_object

LONG = "9" * 5000
FORTY = "1234567890123456789012345678901234567890"


def form(text: str | bytes) -> bytes:
    return canonical(parse_object(text.encode() if isinstance(text, str) else text))


def number_form(text: str) -> bytes:
    return form(f'{{"n":{text}}}')


def refusal(line: bytes) -> str:
    with pytest.raises(NotReadable) as caught:
        parse_object(line)
    return str(caught.value)


SAME_OBJECTS = [
    ("key order", '{"a":1,"b":2}', '{"b":2,"a":1}'),
    ("nested key order", '{"x":[{"a":1,"b":2}]}', '{"x":[{"b":2,"a":1}]}'),
    ("white space", '{"a":[1,2]}', ' {\t"a" : [ 1 ,\r 2 ] } '),
    ("carriage return at the end", '{"a":1}', '{"a":1}\r'),
    ("escaped letter", '{"a":"é"}', '{"\\u0061":"\\u00E9"}'),
    ("upper and lower hex", '{"a":"\\u00e9"}', '{"a":"\\u00E9"}'),
    ("escaped slash", '{"a":"/"}', '{"a":"\\/"}'),
    ("surrogate pair", '{"a":"😀"}', '{"a":"\\ud83d\\ude00"}'),
    ("short and long escape", '{"a":"\\n\\t\\"\\\\"}', '{"a":"\\u000a\\u0009\\u0022\\u005c"}'),
    ("of duplicate keys the last", '{"a":2}', '{"a":1,"a":2}'),
    ("duplicates by escape", '{"a":2}', '{"a":1,"\\u0061":2}'),
    ("duplicates, the last first in order", '{"a":2,"b":3}', '{"a":1,"b":3,"a":2}'),
    ("a nested duplicate", '{"x":{"a":[]}}', '{"x":{"a":{"b":1},"a":[]}}'),
    ("delete character", '{"a":"\x7f"}', '{"a":"\\u007f"}'),
]


@pytest.mark.parametrize(("what", "one", "other"), SAME_OBJECTS, ids=[row[0] for row in SAME_OBJECTS])
def test_the_way_it_is_written_does_not_count(what: str, one: str, other: str) -> None:
    assert form(one) == form(other)


DIFFERENT_OBJECTS = [
    ("order in a list", '{"a":[1,2]}', '{"a":[2,1]}'),
    ("null and absent", '{"a":null}', "{}"),
    ("text and number", '{"a":"1"}', '{"a":1}'),
    ("truth and number", '{"a":true}', '{"a":1}'),
    ("empty list and object", '{"a":[]}', '{"a":{}}'),
    ("composed and decomposed", '{"a":"\\u00e9"}', '{"a":"e\\u0301"}'),
    ("upper and lower case", '{"a":"x"}', '{"a":"X"}'),
    ("case of keys", '{"a":1}', '{"A":1}'),
    ("NUL and nothing", '{"a":"\\u0000"}', '{"a":""}'),
    ("white space within text", '{"a":"x y"}', '{"a":"x  y"}'),
    ("dotted and nested", '{"a.b":1}', '{"a":{"b":1}}'),
]


@pytest.mark.parametrize(("what", "one", "other"), DIFFERENT_OBJECTS, ids=[row[0] for row in DIFFERENT_OBJECTS])
def test_what_is_another_value_stays_apart(what: str, one: str, other: str) -> None:
    assert form(one) != form(other)


@pytest.mark.parametrize(
    "texts",
    [
        ("1.5", "1.50", "15e-1", "0.15E1", "1.5e+0"),
        ("1e2", "100.0", "1E2", "1e+2", "10e1", "1e02"),
        ("0.0", "-0.0", "0e0", "-0e5", "0.000e-7"),
        ("1e400", "10e399", "1000e397"),
        ("1e-400", "10e-401", "0.1e-399"),
        (f"{FORTY}.5", f"{FORTY}.50", f"{FORTY}5e-1"),
        ("1e22", "10000000000000000000000.0"),
        ("123456789012345.6", "1234567890123456e-1"),
        ("-2.5", "-2.50", "-25e-1"),
    ],
    ids=lambda texts: texts[0],
)
def test_one_value_has_one_form(texts: tuple[str, ...]) -> None:
    assert {number_form(text) for text in texts} == {number_form(texts[0])}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FORTY, f"{FORTY[:-1]}1"),
        (f"{FORTY}.0", f"{FORTY[:-1]}1.0"),
        (f"0.{FORTY}1", f"0.{FORTY}2"),
        ("0.1", "0.1000000000000000055511151231257827"),
        ("0.3", "0.30000000000000004"),
        ("1e-400", "2e-400"),
        ("1e-400", "0.0"),
        ("1e400", "2e400"),
        ("1e400", "1e401"),
        ("-1e400", "1e400"),
        ("9007199254740992.0", "9007199254740993.0"),
        ("9007199254740992", "9007199254740993"),
        ("18446744073709551615", "18446744073709551616"),
        ("18446744073709551616", "18446744073709551617"),
        ("5e-324", "4e-324"),
        ("1.7976931348623157e308", "1.7976931348623158e308"),
        ("-1.5", "1.5"),
        ("1e1000000", "1e1000001"),
    ],
)
def test_numbers_that_differ_stay_apart(one: str, other: str) -> None:
    assert number_form(one) != number_form(other)


@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_of_thousands_of_digits_are_read(sign: str) -> None:
    assert number_form(f"{sign}{LONG}") == f'{{"n":{sign}{LONG}}}'.encode()
    assert number_form(f"{sign}{LONG}") != number_form(f"{sign}{LONG[:-1]}8")
    assert form(f'{{"n":{sign}{LONG},"a":[{LONG},1.50]}}') == form(f'{{"a":[{LONG},1.5],"n":{sign}{LONG}}}')


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"n":%s,"b":"\xff"}', "not UTF-8"),
        (b'{"n":%s,"b":"\\ud800"}', "a lone surrogate"),
        (b'{"n":%s,"b":NaN}', "not JSON"),
        (b'{"n":%s,"b":"\x01"}', "not JSON"),
        (b"[%s]", "not a JSON object"),
    ],
)
def test_beside_a_long_integer_reasons_stay_the_same(line: bytes, reason: str) -> None:
    assert refusal(line % LONG.encode()).startswith(reason)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON: "),
        (b" ", "not JSON: "),
        (b"{", "not JSON: "),
        (b'{"a":1', "not JSON: "),
        (b'{"a":1,}', "not JSON: "),
        (b'{"a":01}', "not JSON: "),
        (b'{"a":.5}', "not JSON: "),
        (b'{"a":1.}', "not JSON: "),
        (b'{"a":+1}', "not JSON: "),
        (b"{a:1}", "not JSON: "),
        (b"{'a':1}", "not JSON: "),
        (b'{"a":NaN}', "not JSON: "),
        (b'{"a":Infinity}', "not JSON: "),
        (b'{"a":-Infinity}', "not JSON: "),
        (b'{"a":1}x', "not JSON: "),
        (b'{"a":1}{"a":1}', "not JSON: "),
        (b'{"a":"\x00"}', "not JSON: "),
        (b'{"a":"\x1f"}', "not JSON: "),
        (b'{"a":"\\x41"}', "not JSON: "),
        (b'{"a":"\\u12"}', "not JSON: "),
        (b'\x00{"a":1}', "not JSON: "),
        (b'\xef\xbb\xbf{"a":1}', "not JSON: "),
        (b"[]", "not a JSON object"),
        (b"[{}]", "not a JSON object"),
        (b"1", "not a JSON object"),
        (b"1.5", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b'{"a":"\xff"}', "not UTF-8"),
        (b'{"a":"\xc0\x80"}', "not UTF-8"),
        (b'{"a":"\xed\xa0\x80"}', "not UTF-8"),
        (b'{"\xe9":1}', "not UTF-8"),
        (b"\xff\xfe", "not UTF-8"),
        ('{"a":1}'.encode("utf-16"), "not UTF-8"),
        (b'{"a":"\\ud800"}', "a lone surrogate"),
        (b'{"a":"\\ud800x"}', "a lone surrogate"),
        (b'{"a":"\\ud800\\n"}', "a lone surrogate"),
        (b'{"a":"\\ud800\\u0041"}', "a lone surrogate"),
        (b'{"a":"\\udc00"}', "a lone surrogate"),
        (b'{"a":"\\ude00\\ud83d"}', "a lone surrogate"),
        (b'{"\\udfff":1}', "a lone surrogate"),
        (b'{"n":1e999999999999999999999}', "the number 1e999999999999999999999 is out of range"),
        (b'{"n":1e-999999999999999999999}', "the number 1e-999999999999999999999 is out of range"),
    ],
)
def test_what_cannot_be_read_has_its_reason(line: bytes, reason: str) -> None:
    found = refusal(line)
    assert found.startswith(reason)
    assert found == reason or reason.endswith(": ")


def nested(depth: int, shape: str) -> bytes:
    """An object of that depth: of objects, or of lists."""
    if shape == "objects":
        return b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1)
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize("shape", ["objects", "lists"])
def test_nesting_has_a_fixed_limit(shape: str) -> None:
    assert MAX_DEPTH == 500
    assert form(nested(500, shape)) == nested(500, shape)
    for depth in (501, 100_000):
        assert refusal(nested(depth, shape)) == "nested more than 500 deep"


def test_the_limit_holds_where_the_brackets_are_open_only() -> None:
    assert refusal(b'{"a":' + b"[" * 100_000) == "nested more than 500 deep"


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":"' + b"[{" * 2000 + b'"}',
        b'{"a":"\\"' + b"[" * 2000 + b'\\\\","b":[]}',
        b'{"a":[' + b"[]," * 2000 + b"1]}",
    ],
    ids=["in text", "after an escaped quote", "side by side"],
)
def test_brackets_that_do_not_nest_do_not_count(line: bytes) -> None:
    assert form(line) == line


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("md5", "99914b932bd37a50b983c5e7c90ae93b"),
        ("sha1", "bf21a9e8fbc5a3846fb05b4fa0859e0917b2202f"),
        ("sha256", "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"),
    ],
)
def test_hashes_are_the_well_known_ones(name: str, expected: str) -> None:
    assert hasher(name)(canonical({})).hexdigest() == expected
    assert hasher("sha512")(b"").digest_size == 64


@settings(deadline=None)
@given(st.binary(max_size=12))
def test_text_is_what_python_decodes(data: bytes) -> None:
    assert is_text(data) == (data.decode(errors="ignore").encode() == data)


# Properties. A value is compared by `exact`, in which a number is the exact value of its text.

texts = st.text(st.characters(codec="utf-8"), max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**60), 10**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=5)


def exact(value: Any) -> Any:
    """A value that is equal to another one's exactly if the JSON values are the same."""
    if isinstance(value, bool) or value is None:
        return ("constant", value)
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, int | float | Fraction):
        return ("number", Fraction(str(value)))
    if isinstance(value, list):
        return ("list", tuple(exact(item) for item in value))
    return ("object", frozenset((name, exact(item)) for name, item in value.items()))


def backwards(value: Any) -> Any:
    """The same value with the keys in another order."""
    if isinstance(value, dict):
        return {name: backwards(item) for name, item in reversed(value.items())}
    return [backwards(item) for item in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(objects)
def test_any_object_has_one_form(value: dict[str, Any]) -> None:
    written = [
        json.dumps(value),
        json.dumps(value, sort_keys=True, ensure_ascii=False),
        json.dumps(backwards(value), indent=3, separators=(" , ", " : ")),
        json.dumps(backwards(value), ensure_ascii=False, separators=(",", ":")),
    ]
    assert len({form(text) for text in written}) == 1


@settings(deadline=None)
@given(objects, objects)
@example({"a": 0.1}, {"a": 0.1 + 2**-56})
@example({"a": 2**63}, {"a": 2**63 + 1})
@example({"a": [1]}, {"a": 1})
def test_different_objects_have_different_forms(one: dict[str, Any], other: dict[str, Any]) -> None:
    if exact(one) != exact(other):
        assert form(json.dumps(one)) != form(json.dumps(other))


@settings(deadline=None)
@given(objects)
def test_the_form_is_json_of_the_same_value(value: dict[str, Any]) -> None:
    written = form(json.dumps(value))
    assert form(written) == written
    assert exact(json.loads(written, parse_float=Fraction)) == exact(value)


digits = st.text("0159", min_size=1, max_size=20)
number_texts = st.builds(
    lambda sign, whole, part, exponent: f"{sign}{whole.lstrip('0') or '0'}{part}{exponent}",
    st.sampled_from(["", "-"]),
    digits,
    st.just("") | digits.map(".{}".format),
    st.just("") | st.integers(-330, 330).map("e{}".format),
)


@settings(deadline=None)
@given(st.lists(number_texts, min_size=2, max_size=12))
@example(["0.1", "0.10", "1e-1", "10e-2"])
@example(["123456789012345.0", "123456789012345.00", "1234567890123450e-1"])
def test_numbers_have_the_same_form_exactly_if_they_are_the_same(numbers: list[str]) -> None:
    """An integer and a fraction of the same value may have one form or two."""
    for one in numbers:
        for other in numbers:
            if Fraction(one) != Fraction(other):
                assert number_form(one) != number_form(other)
            elif one.lstrip("-").isdigit() == other.lstrip("-").isdigit():
                assert number_form(one) == number_form(other)
