"""The schema of a pipeline: typed columns, written as Spark DDL such as ``user STRING, amount DOUBLE``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

RESERVED_NAMES: Final = frozenset(
    [
        "event_id",
        "original_event_id",
        "fingerprint",
        "event_time",
        "arrival_time",
        "position",
        "verdict",
        "reason",
        "payload",
        "raw",
        "contexts",
        "run",
        "feed",
        "reject_reason",
    ]
)
RESERVED_PREFIX: Final = "_semel"


def is_reserved(name: str) -> bool:
    """Is this a column of every feed, or one that semel works with? Case does not count, as in Spark."""
    return name.lower() in RESERVED_NAMES or name.lower().startswith(RESERVED_PREFIX)


MAX_PRECISION: Final = 38


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type without parameters, by its first name in Spark: BOOLEAN, INT, DOUBLE, DATE, ..."""

    name: str

    def ddl(self, constraints: bool = True) -> str:
        return self.name

    def arrow(self) -> Any:
        import pyarrow as pa

        return {
            "BOOLEAN": pa.bool_(),
            "TINYINT": pa.int8(),
            "SMALLINT": pa.int16(),
            "INT": pa.int32(),
            "BIGINT": pa.int64(),
            "FLOAT": pa.float32(),
            "DOUBLE": pa.float64(),
            "BINARY": pa.binary(),
            "DATE": pa.date32(),
            "TIMESTAMP": pa.timestamp("us", tz="UTC"),
            "TIMESTAMP_NTZ": pa.timestamp("us"),
        }[self.name]


@dataclass(frozen=True, slots=True)
class StringType:
    """STRING; or VARCHAR(n) and CHAR(n), which are a STRING of at most n characters."""

    name: str = "STRING"
    max_length: int | None = None

    def ddl(self, constraints: bool = True) -> str:
        return f"{self.name}({self.max_length})" if constraints and self.max_length is not None else "STRING"

    def arrow(self) -> Any:
        import pyarrow as pa

        return pa.string()


@dataclass(frozen=True, slots=True)
class DecimalType:
    precision: int
    scale: int

    def ddl(self, constraints: bool = True) -> str:
        return f"DECIMAL({self.precision},{self.scale})"

    def arrow(self) -> Any:
        import pyarrow as pa

        return pa.decimal128(self.precision, self.scale)


@dataclass(frozen=True, slots=True)
class ArrayType:
    element: Type

    def ddl(self, constraints: bool = True) -> str:
        return f"ARRAY<{self.element.ddl(constraints)}>"

    def arrow(self) -> Any:
        import pyarrow as pa

        return pa.list_(self.element.arrow())


@dataclass(frozen=True, slots=True)
class MapType:
    """A map from STRING, the only keys that a JSON object has."""

    value: Type

    def ddl(self, constraints: bool = True) -> str:
        return f"MAP<STRING,{self.value.ddl(constraints)}>"

    def arrow(self) -> Any:
        import pyarrow as pa

        return pa.map_(pa.string(), self.value.arrow())


@dataclass(frozen=True, slots=True)
class StructType:
    fields: tuple[Column, ...]

    def ddl(self, constraints: bool = True) -> str:
        return f"STRUCT<{', '.join(field.ddl(constraints, ': ') for field in self.fields)}>"

    def arrow(self) -> Any:
        import pyarrow as pa

        return pa.struct([pa.field(field.name, field.type.arrow()) for field in self.fields])


Type: TypeAlias = ScalarType | StringType | DecimalType | ArrayType | MapType | StructType


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the schema, or a field of a STRUCT."""

    name: str
    type: Type
    nullable: bool = True

    def ddl(self, constraints: bool = True, separator: str = " ") -> str:
        name = self.name.replace("`", "``")
        suffix = " NOT NULL" if constraints and not self.nullable else ""
        return f"`{name}`{separator}{self.type.ddl(constraints)}{suffix}"


@dataclass(frozen=True, slots=True)
class Schema:
    columns: tuple[Column, ...]

    def ddl(self, *, constraints: bool = False) -> str:
        """The DDL of the columns as feeds have them.

        A bad record is null in every column, so a feed's columns are nullable; a data frame has no VARCHAR.
        With `constraints`, the schema as it was given, ``NOT NULL``, ``VARCHAR(n)`` and ``CHAR(n)`` included.
        """
        return ", ".join(column.ddl(constraints) for column in self.columns)

    def arrow(self) -> Any:
        """The `pyarrow.Schema` of the columns as feeds have them: all nullable."""
        import pyarrow as pa

        return pa.schema([pa.field(column.name, column.type.arrow()) for column in self.columns])


def parse_schema(ddl: str) -> Schema:
    """Read Spark DDL; a ValueError says what is wrong and at which character, counted from 1.

    >>> parse_schema("user STRING, amount decimal(10, 2) NOT NULL").ddl(constraints=True)
    '`user` STRING, `amount` DECIMAL(10,2) NOT NULL'
    """
    return Schema(_Parser(ddl).schema())


_SCALARS: Final = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "BYTE": "TINYINT",
    "SMALLINT": "SMALLINT",
    "SHORT": "SMALLINT",
    "INT": "INT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "LONG": "BIGINT",
    "FLOAT": "FLOAT",
    "REAL": "FLOAT",
    "DOUBLE": "DOUBLE",
    "BINARY": "BINARY",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ",
}
_DECIMALS: Final = ("DECIMAL", "DEC", "NUMERIC")
_LIMITED_STRINGS: Final = ("VARCHAR", "CHAR")
_TYPE_NAMES: Final = (*_SCALARS, "STRING", *_LIMITED_STRINGS, *_DECIMALS, "ARRAY", "MAP", "STRUCT")

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<quoted>`(?:[^`]|``)*`)
      | (?P<literal>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<word>\w+)
      | (?P<sign>[<>(),:])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


class _Parser:
    def __init__(self, ddl: str) -> None:
        self._tokens = _tokens(ddl)
        self._next = 0

    def schema(self) -> tuple[Column, ...]:
        if self._peek().kind == "end":
            raise ValueError("the schema is empty; write it as Spark DDL, such as 'user STRING, amount DOUBLE'")
        columns = self._columns(is_taken=is_reserved)
        if self._peek().kind != "end":
            self._fail("expected ',' or the end of the schema")
        return columns

    def _columns(self, is_taken: Callable[[str], bool] = lambda name: False) -> tuple[Column, ...]:
        columns: list[Column] = []
        seen: set[str] = set()
        while not columns or self._take(","):
            at = self._peek().at
            column = self._column()
            key = column.name.lower()
            if key in seen:
                raise ValueError(f"the name '{column.name}' at character {at} is already taken; case does not count")
            if is_taken(column.name):
                raise ValueError(
                    f"the name '{column.name}' at character {at} is reserved; a schema's column may not be called "
                    f"{', '.join(sorted(RESERVED_NAMES))}, nor begin with {RESERVED_PREFIX}"
                )
            seen.add(key)
            columns.append(column)
        return tuple(columns)

    def _column(self) -> Column:
        name = self._name()
        self._take(":")
        kind = self._type()
        nullable = True
        if self._take_word("NOT"):
            if not self._take_word("NULL"):
                self._fail("expected NULL after NOT")
            nullable = False
        if self._take_word("COMMENT"):
            if self._peek().kind != "literal":
                self._fail("expected a quoted text after COMMENT")
            while self._peek().kind == "literal":
                self._advance()
        return Column(name, kind, nullable)

    def _name(self) -> str:
        token = self._peek()
        if token.kind == "quoted" and len(token.text) > 2:
            self._advance()
            return token.text[1:-1].replace("``", "`")
        if token.kind == "word" and not token.text.isdecimal():
            self._advance()
            return token.text
        return self._fail("expected a name, in backquotes unless it has only letters, digits and '_'")

    def _type(self) -> Type:
        token = self._peek()
        if token.kind != "word":
            self._fail("expected a type")
        self._advance()
        name = token.text.upper()
        if name in _SCALARS:
            return ScalarType(_SCALARS[name])
        if name == "STRING":
            return StringType()
        if name in _LIMITED_STRINGS:
            return self._limited_string(token)
        if name in _DECIMALS:
            return self._decimal(token)
        if name == "ARRAY":
            return self._in_angles(lambda: ArrayType(self._type()))
        if name == "MAP":
            return self._in_angles(self._map)
        if name == "STRUCT":
            return self._in_angles(lambda: StructType(self._columns()))
        raise ValueError(f"unknown type '{token.text}' at character {token.at}; {_nearest_type(name)}")

    def _limited_string(self, token: _Token) -> Type:
        name = token.text.upper()
        numbers = self._numbers()
        if len(numbers) != 1 or numbers[0] < 1:
            raise ValueError(f"{token.text} at character {token.at} wants one length of at least 1, as in {name}(20)")
        return StringType(name, numbers[0])

    def _decimal(self, token: _Token) -> Type:
        numbers = self._numbers()
        precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
        if len(numbers) > 2 or not 1 <= precision <= MAX_PRECISION or scale > precision:
            raise ValueError(
                f"{token.text} at character {token.at} wants (precision, scale) with a precision "
                f"from 1 to {MAX_PRECISION} and a scale from 0 to the precision"
            )
        return DecimalType(precision, scale)

    def _numbers(self) -> list[int]:
        numbers: list[int] = []
        if self._take("("):
            while not numbers or self._take(","):
                token = self._peek()
                if not re.fullmatch(r"[0-9]{1,9}", token.text):
                    self._fail("expected a number")
                numbers.append(int(token.text))
                self._advance()
            self._expect(")")
        return numbers

    def _map(self) -> Type:
        key_at = self._peek().at
        if self._type() != StringType():
            raise ValueError(f"the keys of the MAP at character {key_at} must be STRING")
        self._expect(",")
        return MapType(self._type())

    def _in_angles(self, parse: Callable[[], Type]) -> Type:
        self._expect("<")
        kind = parse()
        self._expect(">")
        return kind

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> None:
        self._next += 1

    def _take(self, sign: str) -> bool:
        token = self._peek()
        taken = token.kind == "sign" and token.text == sign
        self._next += taken
        return taken

    def _take_word(self, word: str) -> bool:
        token = self._peek()
        taken = token.kind == "word" and token.text.upper() == word
        self._next += taken
        return taken

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            self._fail(f"expected '{sign}'")

    def _fail(self, expected: str) -> NoReturn:
        token = self._peek()
        raise ValueError(f"{expected}, found {token} at character {token.at}")


def _tokens(ddl: str) -> list[_Token]:
    tokens: list[_Token] = []
    start = 0
    while not tokens or tokens[-1].kind != "end":
        match = _TOKEN.match(ddl, start)
        if match is None:
            at = start + len(ddl[start:]) - len(ddl[start:].lstrip())
            what = "an open quote" if ddl[at] in "`'\"" else f"an unexpected {ddl[at]!r}"
            raise ValueError(f"{what} at character {at + 1}; a name with such characters goes in backquotes")
        kind = match.lastgroup or ""
        tokens.append(_Token(kind, match[kind], match.start(kind) + 1))
        start = match.end()
    return tokens


def _nearest_type(name: str) -> str:
    nearest = difflib.get_close_matches(name, _TYPE_NAMES, n=1)
    types = f"he types are {', '.join(_TYPE_NAMES)}"
    return f"did you mean {nearest[0]}? T{types}" if nearest else f"t{types}"
