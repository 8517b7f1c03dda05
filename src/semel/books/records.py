"""What the books say: plans, commits, and the state that a sequence of commits adds up to."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from semel.errors import BooksDamaged

FORMAT: Final = 1
NO_COMMIT: Final = "0" * 64
"""What the first commit names as the one before it."""


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False, omit_defaults=False):
    """A value in the books. Unknown fields are passed over, so that an older semel reads newer books' additions."""


class InputFile(Record, frozen=True, kw_only=True):
    """A file as the plan found it."""

    path: str
    size: int
    modified: int
    """Nanoseconds since 1970."""


class BookedFile(Record, frozen=True, kw_only=True):
    """A file that a committed run has read."""

    path: str
    size: int
    modified: int
    crc32: int
    records: int


class Plan(Record, frozen=True, kw_only=True):
    """A run before it happens: made once, kept by every attempt."""

    number: int
    run: str
    books: str
    pipeline: str
    moment: str
    reference: str | None
    mark: str | None
    horizon_seconds: float
    feeds: list[str]
    ledger: str
    files: list[InputFile]
    touched: list[InputFile] = []
    """Booked files found with another time and the same content."""
    format: int = FORMAT


class FeedFile(Record, frozen=True, kw_only=True):
    name: str
    rows: int
    size: int
    crc32: int
    source: str
    """Where the attempt wrote it, relative to the attempt's folder."""


class SegmentPart(Record, frozen=True, kw_only=True):
    """A sorted file of identities; `low` and `high` are the first 64 bits of its least and greatest id hash."""

    name: str
    entries: int
    size: int
    crc32: int
    low: int
    high: int
    oldest: int
    newest: int


class Segment(Record, frozen=True, kw_only=True):
    """The identities that one run accepted."""

    number: int
    folder: str
    parts: list[SegmentPart]

    @property
    def newest(self) -> int:
        return max(part.newest for part in self.parts)

    @property
    def entries(self) -> int:
        return sum(part.entries for part in self.parts)


class Counts(Record, frozen=True, kw_only=True):
    """How many records got which verdict; `accepted` includes `conflicts`."""

    read: int = 0
    accepted: int = 0
    conflicts: int = 0
    duplicates: int = 0
    stale: int = 0
    rejected: int = 0
    bad: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    @property
    def balanced(self) -> bool:
        return self.read == self.accepted + self.duplicates + self.stale + self.rejected + self.bad

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__struct_fields__}


class Status(StrEnum):
    COMMITTED = "committed"
    VOID = "void"


class Commit(Record, frozen=True, kw_only=True):
    """A run that has happened, or (void) one that never will."""

    number: int
    run: str
    books: str
    status: Status
    attempt: str
    moment: str
    mark: str | None
    reference: str | None
    """The highest event time accepted up to and including this run."""
    horizon_seconds: float
    counts: Counts
    files: list[BookedFile]
    feeds: dict[str, list[FeedFile]]
    segment: Segment | None
    sinks: list[str]
    ledger: str
    columns: dict[str, str]
    """The schema's columns in the feeds, with their types."""
    previous: str
    """SHA-256 of the commit before."""
    touched: list[InputFile] = []
    format: int = FORMAT
    checksum: str = ""
    """SHA-256 of everything else in this commit."""


class State(Record, frozen=True, kw_only=True):
    """What all commits up to `number` add up to."""

    number: int
    books: str
    digest: str
    mark: str | None
    reference: str | None
    horizon_seconds: float | None
    totals: Counts
    runs: int
    booked: dict[str, tuple[int, int, int]]
    """Path to size, modification time and CRC-32."""
    segments: list[Segment]
    """Those with an entry that is not below the mark, oldest first."""
    ledger: str | None
    """Where they are."""
    columns: dict[str, str]
    format: int = FORMAT

    @classmethod
    def empty(cls, books: str) -> State:
        return cls(
            number=0, books=books, digest=NO_COMMIT, mark=None, reference=None, horizon_seconds=None,
            totals=Counts(), runs=0, booked={}, segments=[], ledger=None, columns={},
        )  # fmt: skip


R = TypeVar("R", bound=Record)


def encode(record: Record) -> bytes:
    """A record as JSON that a person can read."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def decode(kind: type[R], content: bytes, name: str) -> R:
    try:
        record = msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BooksDamaged(
            f"{name} in the books cannot be read ({error}); restore it from a backup of the books"
        ) from None
    version = getattr(record, "format", FORMAT)
    if version > FORMAT:
        raise BooksDamaged(f"{name} was written by a newer semel (format {version}); install that one to go on")
    return record


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sealed(commit: Commit) -> Commit:
    """The commit with its own checksum in it."""
    return replaced(commit, checksum=_checksum(msgspec.json.encode(commit)))


def is_sealed(content: bytes) -> bool:
    """Is a commit's file what it was when it was written? Fields that this version does not know count too."""
    return bool(msgspec.json.decode(content).get("checksum") == _checksum(content))


def _checksum(content: bytes) -> str:
    fields = msgspec.json.decode(content)
    fields.pop("checksum", None)
    return digest(msgspec.json.encode(fields, order="sorted"))


def replaced(record: R, **changes: Any) -> R:
    return msgspec.structs.replace(record, **changes)
