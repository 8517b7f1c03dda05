"""Lines with their exact bytes and offsets, from any byte range of a file or from a decompressed stream.

A line belongs to the range in which it starts. Lines end at `\\n` and nowhere else.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

CHUNK: Final = 4 * 1024 * 1024
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


class SeekableStream(Stream, Protocol):
    def seek(self, offset: int, /) -> int: ...


class Lines(NamedTuple):
    offsets: list[int]
    lines: list[bytes]


class CountingStream:
    """Passes bytes through and keeps their checksum."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.crc32 = 0
        self.length = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self.stream.read(size)
        self.crc32 = zlib.crc32(data, self.crc32)
        self.length += len(data)
        return data

    def drain(self) -> None:
        while self.read(CHUNK):
            pass


class RangeReader:
    """The lines that start in bytes `start` to `end` of a file, and the checksum of exactly those bytes."""

    def __init__(self, stream: SeekableStream, start: int, end: int, chunk: int = CHUNK) -> None:
        self.stream = stream
        self.start = start
        self.end = end
        self.chunk = chunk
        self.crc32 = 0

    def __iter__(self) -> Iterator[Lines]:
        if self.start >= self.end:
            return
        at = max(self.start - 1, 0)
        self.stream.seek(at)
        first, at = self._to_first_line(at)
        yield from _lines(self._read, first, at, self.end)

    def _to_first_line(self, at: int) -> tuple[bytes, int]:
        """What was read beyond the line that began in an earlier range, and where that lies."""
        if self.start == 0:
            return b"", 0
        while at < self.end:
            data = self._read(at)
            newline = data.find(b"\n")
            if newline >= 0:
                return data[newline + 1 :], at + newline + 1
            if not data:
                break
            at += len(data)
        return b"", self.end

    def _read(self, at: int) -> bytes:
        data = self.stream.read(self.chunk)
        first, last = max(self.start - at, 0), max(self.end - at, 0)
        if first == 0 and last >= len(data):
            self.crc32 = zlib.crc32(data, self.crc32)
        elif first < last:
            self.crc32 = zlib.crc32(memoryview(data)[first:last], self.crc32)
        return data


def stream_lines(stream: Stream, chunk: int = CHUNK) -> Iterator[Lines]:
    """All lines of a stream that cannot be cut."""
    return _lines(lambda _: stream.read(chunk), b"", 0, None)


def _lines(read: Callable[[int], bytes], data: bytes, at: int, end: int | None) -> Iterator[Lines]:
    """The lines that start before `end`, from `data`, which lies at `at`, and what `read` gives after it."""
    held: list[bytes] = []
    length = 0
    while end is None or at < end:
        data = data or read(at + length)
        if not data:
            if held:
                yield Lines([at], [b"".join(held)])
            return
        cut = data.rfind(b"\n")
        if cut < 0:
            held.append(data)
            length += len(data)
            data = b""
            continue
        lines = b"".join((*held, data[:cut])).split(b"\n")
        offsets = list(accumulate((len(line) + 1 for line in lines), initial=at))
        at = offsets.pop()
        held = [data[cut + 1 :]] if cut + 1 < len(data) else []
        length = len(data) - cut - 1
        data = b""
        if end is not None and at > end:
            beyond = bisect_left(offsets, end)
            del offsets[beyond:], lines[beyond:]
        yield Lines(offsets, lines)
