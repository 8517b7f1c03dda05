"""How input files are cut into pieces of work, and the checksum that does not depend on the cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

OPENING_COSTS: Final = 256 * 1024
"""Opening a file counts as reading this many bytes, so that a task gets hundreds of tiny files, not thousands."""

FILE_BITS: Final = 19
OFFSET_BITS: Final = 44
MAX_FILES: Final = 1 << FILE_BITS
MAX_OFFSET: Final = 1 << OFFSET_BITS


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes from `start` up to `end` of the plan's file number `file`."""

    file: int
    start: int
    end: int


def place_of(file: int, offset: int) -> int:
    """A record's place in the order of a run: files in the plan's order, then the offset."""
    return (file << OFFSET_BITS) | offset


def plan_slices(files: Sequence[tuple[int, bool]], split: int) -> list[tuple[Slice, ...]]:
    """Tasks of about `split` bytes for files given as (size, may it be cut?).

    >>> plan_slices([(10, True), (3, True)], split=6)
    [(Slice(file=0, start=0, end=6),), (Slice(file=0, start=6, end=10),), (Slice(file=1, start=0, end=3),)]
    """
    tasks: list[tuple[Slice, ...]] = []
    gathered: list[Slice] = []
    weight = 0
    opening = min(OPENING_COSTS, split)
    for index, (size, can_be_cut) in enumerate(files):
        step = split if can_be_cut else max(size, 1)
        for start in range(0, max(size, 1), step):
            piece = Slice(index, start, min(start + step, size))
            cost = piece.end - piece.start + opening
            if gathered and weight + cost > split + opening:
                tasks.append(tuple(gathered))
                gathered, weight = [], 0
            gathered.append(piece)
            weight += cost
    if gathered:
        tasks.append(tuple(gathered))
    return tasks


def join_crc32(pieces: Iterable[tuple[int, int]]) -> int:
    """The CRC-32 of a whole, from the (CRC-32, length) of its parts in order.

    >>> import zlib
    >>> join_crc32([(zlib.crc32(b"once"), 4), (zlib.crc32(b" upon"), 5)]) == zlib.crc32(b"once upon")
    True
    """
    whole = 0
    for crc, length in pieces:
        whole = _shifted(whole, length) ^ crc
    return whole


def _shifted(crc: int, length: int) -> int:
    """The CRC after `length` zero bytes, without the initial and final inversion: a linear map over GF(2)."""
    power = 0
    while length:
        if length & 1:
            crc = _apply(_zeros(power), crc)
        length >>= 1
        power += 1
    return crc


def _apply(matrix: Sequence[int], vector: int) -> int:
    result = 0
    row = 0
    while vector:
        if vector & 1:
            result ^= matrix[row]
        vector >>= 1
        row += 1
    return result


@lru_cache(maxsize=64)
def _zeros(power: int) -> tuple[int, ...]:
    """The matrix that appends 2**power zero bytes."""
    if power == 0:
        one_bit = (0xEDB88320, *(1 << bit for bit in range(31)))
        two_bits = tuple(_apply(one_bit, row) for row in one_bit)
        four_bits = tuple(_apply(two_bits, row) for row in two_bits)
        return tuple(_apply(four_bits, row) for row in four_bits)
    half = _zeros(power - 1)
    return tuple(_apply(half, row) for row in half)
