"""The generator's records as they are written: values of a block of slots, and their text in each format.

The kinds of bad record are those that a format can express:

- jsonl: all of them, see `BAD_JSON`;
- csv: an id that is empty or too long; a time that is empty, unreadable or far ahead; invalid UTF-8; an
  amount that is text. It has no null beside the empty field, no other types of id, and no JSON to be invalid;
- parquet: an id that is null, empty or too long; a time that is null, unreadable or far ahead. Its columns
  have types and its text is always UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from semel.testing.slots import Block, Outcome, Plan, Slots, Stream

COLUMNS: Final = ("event_id", "event_time", "user", "amount", "page", "sent_at", "seq", "note")
CSV_HEADER: Final = (",".join(COLUMNS) + "\n").encode()
LONG_ID: Final = "x" * 2_000
FAR_AHEAD: Final = "2999-01-01T00:00:00.000000Z"
NO_TIME: Final = "yesterday about noon"

_PAGES: Final = (
    "/",
    "/basket",
    "/checkout",
    "/help/returns",
    "/k/Größe-42",
    "/k/日本茶",
    '/search?q="blue, shoes"',
    "/sale\\50%",
)
_IN_JSON: Final = {page: json.dumps(page, ensure_ascii=False) for page in _PAGES}
_ESCAPED: Final = {page: json.dumps(page).replace("/", "\\u002F") for page in _PAGES}
_IN_CSV: Final = {page: '"' + page.replace('"', '""') + '"' if '"' in page else page for page in _PAGES}
_WORDS: Final = (
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "iris",
    "jade",
    "kelp",
)
_RECORD_WITHOUT_NOTE: Final = 198
_HOUR: Final = 3_600_000_000

Columns: TypeAlias = dict[str, list[Any]]
"""A list of values for each of COLUMNS."""
Writer: TypeAlias = Callable[[str, str, str, float, str, int, int, str], bytes]


class Filler:
    """Notes that bring a record to the length asked for: pieces of one long text."""

    def __init__(self, plan: Plan) -> None:
        self._length = max(plan.settings.payload_bytes - _RECORD_WITHOUT_NOTE, 0)
        picks = plan.below(len(_WORDS), Stream.NOTE, np.arange(8_192 + self._length // 4)).tolist()
        self._text = " ".join(_WORDS[pick] for pick in picks)
        self._plan = plan

    def notes(self, payloads: Slots) -> list[str]:
        text, length = self._text, self._length
        starts = self._plan.below(len(text) - length, Stream.NOTE, payloads).tolist()
        return [text[start : start + length] for start in starts]


def _columns(plan: Plan, block: Block, filler: Filler) -> Columns:
    """All but the time of sending belongs to the payload, and is the same in every copy."""
    payloads = block.payload_of
    drawn = plan.below(1 << 62, Stream.VALUES, payloads)
    cents = drawn % 50_000 + 1
    cents = np.where(plan.is_negative(payloads), -cents, cents)
    times = plan.time(payloads)
    delays = plan.below(600_000, Stream.SENT, block.slots)
    return {
        "event_id": _id_texts(plan, block.id_of),
        "event_time": _time_texts(times, offset=drawn % 16 == 0),
        "user": [f"u{number}" for number in ((drawn >> 16) % 100_000).tolist()],
        "amount": (cents / 100).tolist(),
        "page": [_PAGES[number] for number in ((drawn >> 40) % len(_PAGES)).tolist()],
        "sent_at": (times // 1_000 + delays).tolist(),
        "seq": payloads.tolist(),
        "note": filler.notes(payloads),
    }


def _id_texts(plan: Plan, id_of: Slots) -> list[str]:
    """Random UUIDs; integers are made of their first half."""
    high = plan.random(Stream.ID_HIGH, id_of)
    low = plan.random(Stream.ID_LOW, id_of)
    versioned = (high & np.uint64(0xFFFFFFFFFFFF0FFF)) | np.uint64(0x4000)
    varied = (low & np.uint64(0x3FFFFFFFFFFFFFFF)) | np.uint64(0x8000000000000000)
    digits = np.frombuffer(np.column_stack([versioned, varied]).astype(">u8").tobytes().hex().encode(), dtype=np.uint8)
    text = np.full((len(id_of), 36), ord("-"), dtype=np.uint8)
    text[:, [at for at in range(36) if at not in (8, 13, 18, 23)]] = digits.reshape(-1, 32)
    joined = text.tobytes().decode("ascii")
    ids = [joined[at : at + 36] for at in range(0, len(joined), 36)]
    for at in _integer_ids(plan, id_of):
        ids[at] = str(int(high[at]) >> 1)
    return ids


def _integer_ids(plan: Plan, id_of: Slots) -> list[int]:
    """Which of the ids are JSON integers."""
    if not plan.settings.is_ugly:
        return []
    chosen = (plan.random(Stream.ID_LOW, id_of) & np.uint64(63)) == 0
    return np.flatnonzero(chosen).tolist()


def _time_texts(times: Slots, offset: npt.NDArray[np.bool_]) -> list[str]:
    local = np.where(offset, times + 2 * _HOUR, times)
    texts: list[str] = np.datetime_as_string(local.astype("datetime64[us]")).tolist()
    zones = np.where(offset, "+02:00", "Z").tolist()
    return [text + zone for text, zone in zip(texts, zones, strict=True)]


def _compact(i: str, t: str, u: str, a: float, p: str, s: int, q: int, n: str) -> bytes:
    return (
        f'{{"event_id":"{i}","event_time":"{t}","user":"{u}","amount":{a},'
        f'"page":{_IN_JSON[p]},"sent_at":{s},"seq":{q},"note":"{n}"}}\n'
    ).encode()


def _spaced(i: str, t: str, u: str, a: float, p: str, s: int, q: int, n: str) -> bytes:
    return (
        f' {{ "event_id" : "{i}", "event_time": "{t}",\t"user": "{u}", "amount": {a}, '
        f'"page": {_IN_JSON[p]}, "sent_at": {s}, "seq": {q}, "note": "{n}" }} \n'
    ).encode()


def _reordered(i: str, t: str, u: str, a: float, p: str, s: int, q: int, n: str) -> bytes:
    return (
        f'{{"note":"{n}","seq":{q},"sent_at":{s},"page":{_IN_JSON[p]},"amount":{a},'
        f'"user":"{u}","event_time":"{t}","event_id":"{i}"}}\n'
    ).encode()


def _escaped(i: str, t: str, u: str, a: float, p: str, s: int, q: int, n: str) -> bytes:
    return (
        f'{{"event_id":"{i}","event_time":"{t}","user":"\\u0075{u[1:]}","amount":{a},'
        f'"page":{_ESCAPED[p]},"sent_at":{s},"seq":{q},"note":"{n}"}}\n'
    ).encode()


def _integer_id(i: str, t: str, u: str, a: float, p: str, s: int, q: int, n: str) -> bytes:
    return (
        f'{{"event_id":{i},"event_time":"{t}","user":"{u}","amount":{a},'
        f'"page":{_IN_JSON[p]},"sent_at":{s},"seq":{q},"note":"{n}"}}\n'
    ).encode()


def _csv(i: str, t: str, u: str, a: float | str, p: str, s: int, q: int, n: str) -> bytes:
    return f"{i},{t},{u},{a},{_IN_CSV[p]},{s},{q},{n}\n".encode(errors="surrogateescape")


_GOOD_JSON: Final[Sequence[Writer]] = (_compact, _spaced, _reordered, _escaped)


@dataclass(frozen=True)
class BadJson:
    what: str
    spoil: Callable[[bytes, bytes, bytes], bytes]
    """Takes the compact line, the id and the time in it."""
    has_id: bool = False
    """Whether the id can still be read."""


BAD_JSON: Final[Sequence[BadJson]] = (
    BadJson("invalid JSON", lambda line, i, t: line[: len(line) // 2] + b"\n"),
    BadJson("not an object", lambda line, i, t: b"[" + line[:-1] + b"]\n"),
    BadJson("missing id", lambda line, i, t: line.replace(b'"event_id":"' + i + b'",', b"")),
    BadJson("null id", lambda line, i, t: line.replace(b'"' + i + b'"', b"null")),
    BadJson("empty id", lambda line, i, t: line.replace(i, b"")),
    BadJson("list as id", lambda line, i, t: line.replace(b'"' + i + b'"', b'["' + i + b'"]')),
    BadJson("long id", lambda line, i, t: line.replace(i, LONG_ID.encode())),
    BadJson("missing time", lambda line, i, t: line.replace(b'"event_time":"' + t + b'",', b""), has_id=True),
    BadJson("null time", lambda line, i, t: line.replace(b'"' + t + b'"', b"null"), has_id=True),
    BadJson("unreadable time", lambda line, i, t: line.replace(t, NO_TIME.encode()), has_id=True),
    BadJson("time far ahead", lambda line, i, t: line.replace(t, FAR_AHEAD.encode()), has_id=True),
    BadJson("invalid UTF-8", lambda line, i, t: line.replace(b'"user":"', b'"user":"\xff\xfe')),
    BadJson("lone surrogate", lambda line, i, t: line.replace(b'"user":"', b'"user":"\\ud800')),
    BadJson("amount is text", lambda line, i, t: line.replace(b'"amount":', b'"amount":"abc","was":'), has_id=True),
)


@dataclass(frozen=True)
class BadCell:
    column: str
    value: str | None


_BAD_CELLS: Final[Sequence[BadCell]] = (
    BadCell("event_id", ""),
    BadCell("event_id", LONG_ID),
    BadCell("event_time", NO_TIME),
    BadCell("event_time", FAR_AHEAD),
)
BAD_CSV: Final[Sequence[BadCell]] = (
    *_BAD_CELLS,
    BadCell("event_time", ""),
    BadCell("user", "\udcff\udcfe"),
    BadCell("amount", "abc"),
)
BAD_PARQUET: Final[Sequence[BadCell]] = (*_BAD_CELLS, BadCell("event_id", None), BadCell("event_time", None))


@dataclass(frozen=True)
class Lines:
    """Records as bytes, with their ends; before some of them stand empty lines, `leads` bytes long."""

    lines: list[bytes]
    leads: npt.NDArray[np.int64]
    ids: list[str | None]
    """The id of each as a reader sees it; None where there is none to be read."""


def json_lines(plan: Plan, block: Block, filler: Filler) -> Lines:
    fields = _columns(plan, block, filler)
    looks = plan.below(1 << 40, Stream.VARIANT, block.slots)
    ugly = plan.settings.is_ugly
    writers: list[Writer] = [_compact] * len(looks)
    if ugly:
        odd = np.flatnonzero(looks % 4 == 0)
        for at, choice in zip(odd.tolist(), (looks[odd] // 4 % len(_GOOD_JSON)).tolist(), strict=True):
            writers[at] = _GOOD_JSON[choice]
        for at in _integer_ids(plan, block.id_of):
            writers[at] = _integer_id
    ids: list[str | None] = list(fields["event_id"])
    bad = np.flatnonzero(block.outcomes == Outcome.BAD)
    for at in bad.tolist():
        writers[at] = _compact
    lines = [write(*row) for write, row in zip(writers, zip(*fields.values(), strict=True), strict=True)]
    for at, choice in zip(bad.tolist(), (looks[bad] // 64 % len(BAD_JSON)).tolist(), strict=True):
        kind = BAD_JSON[choice]
        lines[at] = kind.spoil(lines[at], fields["event_id"][at].encode(), fields["event_time"][at].encode())
        if not kind.has_id:
            ids[at] = None
    leads = np.zeros(len(lines), dtype=np.int64)
    if ugly:
        _uglify(lines, leads, looks >> 20)
    return Lines(lines, leads, ids)


def _uglify(lines: list[bytes], leads: npt.NDArray[np.int64], looks: Slots) -> None:
    for at in np.flatnonzero(looks % 16 == 0).tolist():
        lines[at] = lines[at][:-1] + b"\r\n"
    for at in np.flatnonzero(looks % 31 == 0).tolist():
        empty = b"\r\n" if looks[at] % 2 else b"\n"
        lines[at] = empty + lines[at]
        leads[at] = len(empty)


def csv_lines(plan: Plan, block: Block, filler: Filler) -> Lines:
    fields = _columns(plan, block, filler)
    ids = _spoil_cells(plan, block, fields, BAD_CSV)
    lines = [_csv(*row) for row in zip(*fields.values(), strict=True)]
    return Lines(lines, np.zeros(len(lines), dtype=np.int64), ids)


def table_columns(plan: Plan, block: Block, filler: Filler) -> tuple[Columns, list[str | None]]:
    """The columns of a table, and the ids as a reader sees them."""
    fields = _columns(plan, block, filler)
    ids = _spoil_cells(plan, block, fields, BAD_PARQUET)
    return fields, ids


def _spoil_cells(plan: Plan, block: Block, fields: Columns, kinds: Sequence[BadCell]) -> list[str | None]:
    ids: list[str | None] = list(fields["event_id"])
    bad = np.flatnonzero(block.outcomes == Outcome.BAD)
    choices = plan.below(len(kinds), Stream.VARIANT, block.slots[bad]).tolist()
    for at, choice in zip(bad.tolist(), choices, strict=True):
        kind = kinds[choice]
        fields[kind.column][at] = kind.value
        if kind.column in ("event_id", "user"):
            ids[at] = None
    return ids
