"""Lines of byte ranges: whatever the cuts and chunks, together they are the lines of the file."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from semel.model.splits import join_crc32
from semel.sources.files.lines import CountingStream, Lines, RangeReader, stream_lines

contents = st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"bc", b"\x00\xff", b"longer line"]), max_size=40)


def expected(data: bytes) -> list[tuple[int, bytes]]:
    """Every line with its offset; what follows the last newline is a line if there is anything."""
    found = []
    at = 0
    for line in data.split(b"\n"):
        found.append((at, line))
        at += len(line) + 1
    return found if found[-1][1] else found[:-1]


def flat(batches: Iterable[Lines]) -> list[tuple[int, bytes]]:
    return [pair for batch in batches for pair in zip(batch.offsets, batch.lines, strict=True)]


def read_ranges(
    data: bytes, bounds: list[int], chunk: int
) -> tuple[list[list[tuple[int, bytes]]], list[tuple[int, int]]]:
    """The lines of each range, and the checksum and length of each."""
    ranges, checksums = [], []
    for start, end in pairwise(bounds):
        reader = RangeReader(io.BytesIO(data), start, end, chunk)
        ranges.append(flat(reader))
        checksums.append((reader.crc32, end - start))
    return ranges, checksums


def check(data: bytes, bounds: list[int], chunk: int) -> None:
    ranges, checksums = read_ranges(data, bounds, chunk)
    assert [pair for lines in ranges for pair in lines] == expected(data)
    for (start, end), lines in zip(pairwise(bounds), ranges, strict=True):
        assert all(start <= offset < end for offset, _ in lines)
    assert join_crc32(checksums) == zlib.crc32(data)


@settings(deadline=None, max_examples=300)
@given(contents.map(b"".join) | st.binary(max_size=60), st.integers(1, 20), st.integers(1, 70))
@example(b"", 1, 1)
@example(b"\n", 1, 1)
@example(b"\n\n\n", 1, 2)
@example(b"abc", 2, 1)
@example(b"ab\ncd\n", 3, 3)
@example(b"ab\ncd\n", 2, 2)
def test_equal_splits_give_every_line_once(data: bytes, split: int, chunk: int) -> None:
    check(data, [*range(0, len(data), split), len(data)], chunk)


@settings(deadline=None)
@given(contents.map(b"".join), st.lists(st.integers(0, 200), max_size=6), st.integers(1, 70))
def test_any_cuts_give_every_line_once(data: bytes, cuts: list[int], chunk: int) -> None:
    check(data, [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)], chunk)


@settings(deadline=None)
@given(contents.map(b"".join), st.integers(1, 70))
def test_a_stream_gives_the_same_lines(data: bytes, chunk: int) -> None:
    assert flat(stream_lines(io.BytesIO(data), chunk)) == expected(data)


@pytest.mark.parametrize("chunk", [1, 7, 100, 1000, 1 << 20])
def test_a_line_longer_than_several_splits_belongs_to_the_one_in_which_it_starts(chunk: int) -> None:
    data = b"short\n" + b"x" * 1000 + b"\nlast"
    ranges, checksums = read_ranges(data, [*range(0, len(data), 100), len(data)], chunk)
    assert ranges[0] == [(0, b"short"), (6, b"x" * 1000)]
    assert ranges[1:-1] == [[]] * (len(ranges) - 2)
    assert ranges[-1] == [(1007, b"last")]
    assert join_crc32(checksums) == zlib.crc32(data)


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (0, 3, [(0, b"ab")]),
        (0, 4, [(0, b"ab"), (3, b"cd")]),
        (2, 3, []),
        (3, 4, [(3, b"cd")]),
        (1, 3, []),
        (4, 6, []),
        (4, 8, [(6, b""), (7, b"ef")]),
        (6, 7, [(6, b"")]),
        (3, 3, []),
    ],
)
def test_a_line_belongs_to_the_range_of_its_first_byte(start: int, end: int, found: list[tuple[int, bytes]]) -> None:
    assert flat(RangeReader(io.BytesIO(b"ab\ncd\n\nef"), start, end)) == found


def test_only_newlines_end_a_line() -> None:
    data = "a\rb\x0bc\x0cd\x1ce\x85f\u2028g\u2029h\r\nlast".encode()
    assert [line for _, line in flat(RangeReader(io.BytesIO(data), 0, len(data)))] == data.split(b"\n")


def test_lines_are_handed_over_before_the_end_is_read() -> None:
    """Memory holds a chunk and a line, not the file."""
    stream = CountingStream(io.BytesIO(b"0123456789\n" * 1000))
    lines = stream_lines(stream, chunk=100)
    assert next(lines).offsets == list(range(0, 99, 11))
    assert stream.length == 100


class Trickle(io.BytesIO):
    """Gives fewer bytes than it is asked for, as sockets and decompressors do."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size, 3) if size and size > 0 else size)


@settings(deadline=None)
@given(contents.map(b"".join), st.integers(1, 20))
def test_short_reads_change_nothing(data: bytes, split: int) -> None:
    assert flat(stream_lines(Trickle(data), 50)) == expected(data)
    bounds = [*range(0, len(data), split), len(data)]
    found = [pair for a, b in pairwise(bounds) for pair in flat(RangeReader(Trickle(data), a, b, 50))]
    assert found == expected(data)


@settings(deadline=None)
@given(st.binary(max_size=100), st.integers(1, 30))
def test_a_counting_stream_knows_length_and_checksum(data: bytes, size: int) -> None:
    stream = CountingStream(io.BytesIO(data))
    assert stream.read(size) == data[:size]
    stream.drain()
    assert (stream.crc32, stream.length) == (zlib.crc32(data), len(data))
