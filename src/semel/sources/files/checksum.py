"""The checksum of a whole file, as the books keep it."""

from __future__ import annotations

from pathlib import Path

from semel.sources.files.lines import CountingStream


def crc32_of(path: Path) -> int:
    with path.open("rb") as file:
        counting = CountingStream(file)
        counting.drain()
    return counting.crc32
