"""JSON objects read exactly, and written in the one form that equal values share.

Numbers keep their exact decimal value, however many digits they have: what a double holds exactly as written stays a
float, everything else becomes a `Decimal`. Key order, white space and escapes leave no trace in the canonical form.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 500
"""Deepest nesting that is read; a fixed number, so that the verdict does not hang on a stack."""

# Every decimal text of at most 15 digits is told apart by a double; with a point and a sign that is 17 characters.
_SHORT: Final = 16
_DIGITS_OF_A_DOUBLE: Final = 15
_SAFE_EXPONENT: Final = 290


class NotReadable(ValueError):
    """The bytes are not a JSON object that can be kept; the message is the reason in the bad feed."""


def exact_number(text: str) -> float | Decimal:
    """The value of a JSON number with a fraction or an exponent.

    >>> exact_number("12.50"), exact_number("1e2")
    (12.5, 100.0)
    >>> exact_number("0.10000000000000000000000000000001")
    Decimal('0.10000000000000000000000000000001')
    """
    if len(text) <= _SHORT and "e" not in text and "E" not in text:
        return float(text) + 0.0  # -0.0 and 0.0 are one value
    try:
        sign, digits, exponent = Decimal(text).as_tuple()
    except InvalidOperation:
        raise NotReadable(f"the number {text[:40]} is out of range") from None
    if not isinstance(exponent, int):
        raise NotReadable(f"the number {text[:40]} is out of range")
    significant = "".join(map(str, digits)).lstrip("0")
    stripped = significant.rstrip("0")
    if not stripped:
        return 0.0
    exponent += len(significant) - len(stripped)
    if len(stripped) <= _DIGITS_OF_A_DOUBLE and abs(exponent + len(stripped)) < _SAFE_EXPONENT:
        return float(text)
    return Decimal((sign, tuple(map(int, stripped)), exponent))


_decode = msgspec.json.Decoder(float_hook=exact_number).decode
_encode = msgspec.json.Encoder(order="sorted", decimal_format="number").encode


def parse_object(line: bytes) -> dict[str, Any]:
    """The JSON object in a line; of duplicate keys the last counts. Raises NotReadable with the reason."""
    if line.count(b"{") + line.count(b"[") > MAX_DEPTH and _depth(line) > MAX_DEPTH:
        raise NotReadable(f"nested more than {MAX_DEPTH} deep")
    try:
        value = _decode(line)
    except NotReadable:
        raise
    except UnicodeDecodeError:
        raise NotReadable("not UTF-8") from None
    except msgspec.DecodeError as error:
        if "Integer value out of range" not in str(error):
            raise NotReadable(_why(line, error)) from None
        value = _with_endless_integers(line)
    if type(value) is not dict:
        raise NotReadable("not a JSON object")
    return value


def canonical(value: Any) -> bytes:
    return _encode(value)


def hasher(name: str) -> Callable[[bytes], Any]:
    """The hash function behind `fingerprint.hash`, as `hashlib` has it."""
    return {"md5": hashlib.md5, "sha1": hashlib.sha1, "sha256": hashlib.sha256, "sha512": hashlib.sha512}[name]


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _why(line: bytes, error: msgspec.DecodeError) -> str:
    if not is_text(line):
        return "not UTF-8"
    message = str(error).split(" - at `")[0]
    if message.startswith("the number "):
        return message
    if "surrogate" in message or ("truncated" in message and _ends_in_lone_surrogate(line)):
        return "a lone surrogate"
    return f"not JSON: {message.removeprefix('JSON is malformed: ')}"


def _ends_in_lone_surrogate(line: bytes) -> bool:
    try:
        json.dumps(json.loads(line), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def _depth(line: bytes) -> int:
    """How deep the brackets outside of strings are nested."""
    deepest = depth = 0
    in_string = escaped = False
    for byte in line:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"}]":
            depth -= 1
    return deepest


def _with_endless_integers(line: bytes) -> Any:
    """For integers of thousands of digits, which Python does not convert: they stay decimal."""

    def integer(text: str) -> int | Decimal:
        return int(text) if len(text) < 1000 else Decimal(text)

    def no_constant(name: str) -> Any:
        raise NotReadable(f"not JSON: {name} is not a number")

    try:
        value = json.loads(line, parse_float=exact_number, parse_int=integer, parse_constant=no_constant)
        canonical(value)
    except NotReadable:
        raise
    except UnicodeDecodeError:
        raise NotReadable("not UTF-8") from None
    except UnicodeEncodeError:
        raise NotReadable("a lone surrogate") from None
    except (ValueError, RecursionError) as error:
        raise NotReadable(f"not JSON: {error}") from None
    return value
