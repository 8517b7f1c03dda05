"""Lines into records: JSON lines and CSV."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from semel.errors import RunFailed
from semel.model.canonical import NotReadable, is_text, parse_object
from semel.sources.files.lines import BYTE_ORDER_MARK

Parsed = tuple[dict[str, Any] | None, str | None, bytes]
"""The record, or None and why it cannot be read; and the payload."""

csv.field_size_limit(2**31 - 1)


class LineFormat(ABC):
    @abstractmethod
    def parse(self, line: bytes) -> Parsed: ...


class JsonLines(LineFormat):
    def parse(self, line: bytes) -> Parsed:
        try:
            return parse_object(line), None, line.removesuffix(b"\r")
        except NotReadable as error:
            return None, str(error), line


class CsvLines(LineFormat):
    """One record a line: a quoted field may hold the delimiter and doubled quotes, not a line end."""

    def __init__(self, columns: Sequence[str], delimiter: str) -> None:
        self.columns = tuple(columns)
        self.delimiter = delimiter

    def parse(self, line: bytes) -> Parsed:
        text_line = line.removesuffix(b"\r")
        if not is_text(text_line):
            return None, "not UTF-8", line
        try:
            fields = next(csv.reader((text_line.decode(),), delimiter=self.delimiter, strict=True))
        except csv.Error as error:
            return None, f"not CSV: {error}", line
        if len(fields) != len(self.columns):
            return None, f"{len(fields)} fields instead of {len(self.columns)}", line
        record = dict(zip(self.columns, fields, strict=True))
        return record, None, msgspec.json.encode(record)


def csv_columns(header: bytes, delimiter: str, path: str) -> tuple[str, ...]:
    """The column names in a file's first line."""
    line = header.removeprefix(BYTE_ORDER_MARK).removesuffix(b"\r")
    try:
        names = next(csv.reader((line.decode(),), delimiter=delimiter, strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise RunFailed(f"the header of {path} cannot be read: {error}; mend the file, or set source.columns") from None
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise RunFailed(f"the header of {path} names the column {doubled[0]!r} twice; mend the file")
    return tuple(names)
