"""A sorted file of identities, searched in place.

    bytes 0-7    "SEMELKEY"
    8-11         version, here 1
    12-15        zero
    16-23        number of entries n
    24-63        zero
    then         n id hashes, upper 64 bits, ascending; n fingerprints, 64 bits; n event times, microseconds, signed;
                 n id hashes, next 32 bits

All numbers are little-endian; entries are ordered by id hash, then by fingerprint. Columns are stored one after the
other, so that a search touches the first one only.
"""

from __future__ import annotations

import os
import secrets
import struct
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from semel.books.records import SegmentPart
from semel.errors import LedgerDamaged
from semel.ledgers.base import Found
from semel.ledgers.keys import I64, U32, U64, Flags, Keys

MAGIC: Final = b"SEMELKEY"
VERSION: Final = 1
_HEADER: Final = struct.Struct("<8sIIQ40x")
_ENTRY: Final = 8 + 8 + 8 + 4


class Part(NamedTuple):
    """An open segment file: memory-mapped columns."""

    high: U64
    print: U64
    time: I64
    low: U32


def write_part(path: Path, keys: Keys, times: I64) -> SegmentPart | None:
    """Sort the identities and write them, synced; None if there are none."""
    count = len(times)
    if count == 0:
        return None
    order = np.lexsort((keys.print, keys.low, keys.high))
    high = keys.high[order]
    content = b"".join(
        (
            _HEADER.pack(MAGIC, VERSION, 0, count),
            high.astype("<u8").tobytes(),
            keys.print[order].astype("<u8").tobytes(),
            times[order].astype("<i8").tobytes(),
            keys.low[order].astype("<u4").tobytes(),
        )
    )
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with aside.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)  # a task that runs twice writes the same bytes
    return SegmentPart(
        name=path.name,
        entries=count,
        size=len(content),
        crc32=zlib.crc32(content),
        low=int(high[0]),
        high=int(high[-1]),
        oldest=int(times.min()),
        newest=int(times.max()),
    )


@lru_cache(maxsize=4096)
def open_part(path: str, crc32: int) -> Part:
    """Map a segment file with this checksum.

    It is immutable, so a mapping stays true for as long as the process lives, and the checksum is looked at once.
    """
    try:
        found = zlib.crc32(np.memmap(path, dtype=np.uint8, mode="r").data)
    except (OSError, ValueError) as error:
        raise LedgerDamaged(_damaged(path, str(error))) from None
    if found != crc32:
        raise LedgerDamaged(_damaged(path, "its checksum is wrong"))
    return map_part(path)


def map_part(path: str) -> Part:
    """The columns of a segment file as it is now."""
    try:
        data = np.memmap(path, dtype=np.uint8, mode="r")
        magic, version, _, count = _HEADER.unpack(data[: _HEADER.size].tobytes())
    except (OSError, ValueError, struct.error) as error:
        raise LedgerDamaged(_damaged(path, str(error))) from None
    if magic != MAGIC or version != VERSION or len(data) != _HEADER.size + count * _ENTRY:
        raise LedgerDamaged(_damaged(path, "it is not a whole segment of a version that this semel reads"))
    columns = []
    start = _HEADER.size
    for kind, width in (("<u8", 8), ("<u8", 8), ("<i8", 8), ("<u4", 4)):
        columns.append(data[start : start + count * width].view(kind))
        start += count * width
    return Part(*columns)


def search(part: Part, keys: Keys, mark: int | None) -> Found:
    """Look up sorted or unsorted keys; only entries that are not below the mark count."""
    size = len(keys.high)
    seen = np.zeros(size, dtype=np.bool_)
    known = np.zeros(size, dtype=np.bool_)
    left = np.searchsorted(part.high, keys.high, side="left")
    hits = np.flatnonzero((left < len(part.high)) & (part.high[np.minimum(left, len(part.high) - 1)] == keys.high))
    if not len(hits):
        return Found(seen, known)
    left = left[hits]
    right = np.searchsorted(part.high, keys.high[hits], side="right")
    single = right - left == 1
    _single_entries(part, keys, mark, hits[single], left[single], seen, known)
    crowds = _Crowds(part, mark)
    for needle, start, end in zip(hits[~single].tolist(), left[~single].tolist(), right[~single].tolist(), strict=True):
        seen[needle], known[needle] = crowds.look(start, end, keys.low[needle], keys.print[needle])
    return Found(seen, known)


def _single_entries(part: Part, keys: Keys, mark: int | None, needles: U64, at: U64, seen: Flags, known: Flags) -> None:
    counts = part.low[at] == keys.low[needles]
    if mark is not None:
        counts &= part.time[at] >= mark
    equal = part.print[at] == keys.print[needles]
    seen[needles] = counts & equal
    known[needles] = counts & ~equal


class _Crowds:
    """Entries that share the upper bits: mostly one id with several fingerprints, which are sorted.

    How many of a crowd count is summed up once, since an id that everybody uses brings as many needles as entries.
    """

    def __init__(self, part: Part, mark: int | None) -> None:
        self.part = part
        self.mark = mark
        self.counting: dict[tuple[int, int], I64] = {}

    def look(self, start: int, end: int, low: np.uint32, wanted: np.uint64) -> tuple[bool, bool]:
        lows = self.part.low[start:end]
        first = start + int(np.searchsorted(lows, low, side="left"))
        last = start + int(np.searchsorted(lows, low, side="right"))
        prints = self.part.print[first:last]
        begin = int(np.searchsorted(prints, wanted, side="left"))
        stop = int(np.searchsorted(prints, wanted, side="right"))
        counting = self._counting(first, last)
        equal = counting[stop] - counting[begin]
        return bool(equal > 0), bool(counting[-1] > equal)

    def _counting(self, first: int, last: int) -> I64:
        """How many entries count among the first k of the crowd, for every k."""
        known = self.counting.get((first, last))
        if known is None:
            times = self.part.time[first:last]
            live = np.ones(len(times), dtype=np.int64) if self.mark is None else (times >= self.mark)
            known = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(live, dtype=np.int64)))
            self.counting[first, last] = known
        return known


def verify_part(path: Path, expected: SegmentPart) -> str | None:
    """What is wrong with a segment file, or None."""
    try:
        content = path.read_bytes()
    except OSError as error:
        return f"{error.strerror or error}"
    if len(content) != expected.size:
        return f"it has {len(content)} bytes instead of {expected.size}"
    if zlib.crc32(content) != expected.crc32:
        return "its checksum is wrong"
    return None


def _damaged(path: str, why: str) -> str:
    return f"ledger segment {path} cannot be used ({why}); restore it from a backup of the ledger"
