"""Slices of the plan's files as blocks of records. Runs on the executors."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple, cast

import pyarrow as pa

from semel.errors import InputChanged, InputVanished, RunFailed
from semel.model.block import Block, SliceDone
from semel.model.splits import MAX_OFFSET, Slice, place_of
from semel.sources.files.discover import vanished
from semel.sources.files.formats import CsvLines, JsonLines, LineFormat, csv_columns
from semel.sources.files.lines import (
    BYTE_ORDER_MARK,
    CountingStream,
    Lines,
    RangeReader,
    Stream,
    stream_lines,
)
from semel.sources.files.tables import row_groups, rows_of

GZIP: Final = (".gz", ".gzip")
ZSTD: Final = (".zst", ".zstd")


def can_be_cut(path: str) -> bool:
    return not path.lower().endswith(GZIP + ZSTD)


@dataclass(frozen=True)
class PlannedFile:
    path: str
    location: str
    size: int
    modified: int


class Header(NamedTuple):
    """The columns of a CSV file, and where the line that names them is, if there is one."""

    offset: int | None
    columns: tuple[str, ...]


@dataclass(frozen=True)
class FilesReader:
    """Everything an executor needs to read its share of a plan; it pickles."""

    run: str
    pipeline_file: str
    format: str
    files: tuple[PlannedFile, ...]
    tasks: tuple[tuple[Slice, ...], ...]
    delimiter: str = ","
    columns: tuple[str, ...] | None = None

    def read(self, task: int) -> Iterator[Block | SliceDone]:
        for piece in self.tasks[task]:
            planned = self.files[piece.file]
            try:
                with self._open(planned) as file:
                    if self.format == "parquet":
                        yield from self._rows(file, planned, piece)
                    else:
                        yield from self._lines(file, planned, piece)
            except (EOFError, zlib.error, gzip.BadGzipFile, pa.ArrowException) as error:
                raise self._unreadable(planned, error) from None
            except OSError as error:
                if error.errno is None:  # pyarrow's, of what it cannot decompress
                    raise self._unreadable(planned, error) from None
                raise RunFailed(f"{planned.path} cannot be read: {_one_line(error)}; mend that and run again") from None

    def _unreadable(self, planned: PlannedFile, error: Exception) -> RunFailed:
        return RunFailed(
            f"{planned.path} cannot be decompressed or read: {_one_line(error)}; put it back as it was and run again, "
            f"or mend or remove it and give up the run with `semel void {self.pipeline_file} {self.run}`"
        )

    def _open(self, planned: PlannedFile) -> IO[bytes]:
        try:
            file = Path(planned.location).open("rb")  # noqa: SIM115
        except FileNotFoundError:
            raise InputVanished(vanished(planned.path, self.run, self.pipeline_file)) from None
        size = file.seek(0, 2)
        file.seek(0)
        if size != planned.size:
            file.close()
            raise InputChanged(
                f"{planned.path} had {planned.size} bytes when run {self.run} was planned and has {size} now; put it "
                f"back as it was, or give up the run with `semel void {self.pipeline_file} {self.run}`"
            )
        return file

    def _lines(self, file: IO[bytes], planned: PlannedFile, piece: Slice) -> Iterator[Block | SliceDone]:
        total = 0
        if can_be_cut(planned.path):
            header = self._header(file, planned)
            reader = RangeReader(file, piece.start, piece.end)
            for lines in reader:
                block = self._block(lines, planned, piece.file, header)
                total += len(block.places)
                yield block
            crc32 = reader.crc32
        else:
            counting = CountingStream(file)
            header = None
            for lines in stream_lines(_decompressed(counting, planned.path)):
                if header is None:
                    header = self._header_among(zip(lines.offsets, lines.lines, strict=True), planned)
                block = self._block(lines, planned, piece.file, header)
                total += len(block.places)
                yield block
            counting.drain()
            crc32 = counting.crc32
        yield SliceDone(piece.file, piece.start, piece.end, crc32, total)

    def _header(self, file: IO[bytes], planned: PlannedFile) -> Header | None:
        offsets_and_lines = iter(lambda: (file.tell(), file.readline()), (planned.size, b""))
        return self._header_among(offsets_and_lines, planned)

    def _header_among(self, lines: Iterable[tuple[int, bytes]], planned: PlannedFile) -> Header | None:
        """The first line of a CSV file that is not empty, unless the pipeline file names the columns."""
        if self.format != "csv":
            return None
        if self.columns is not None:
            return Header(None, self.columns)
        for offset, line in lines:
            content = line.removesuffix(b"\n")
            if not _is_empty(content, offset):
                return Header(offset, csv_columns(content, self.delimiter, planned.path))
        return None

    def _block(self, lines: Lines, planned: PlannedFile, index: int, header: Header | None) -> Block:
        columns = () if header is None else header.columns
        parser: LineFormat = JsonLines() if self.format == "jsonl" else CsvLines(columns, self.delimiter)
        block = Block([], [], planned.modified // 1000, [], [], [])
        for offset, line in zip(lines.offsets, lines.lines, strict=True):
            if _is_empty(line, offset) or (header is not None and offset == header.offset):
                continue
            content = line.removeprefix(BYTE_ORDER_MARK) if offset == 0 else line
            record, reason, payload = parser.parse(content)
            block.places.append(place_of(index, offset))
            block.positions.append(f"{planned.path}:{offset}")
            block.records.append(record)
            block.reasons.append(reason)
            block.payloads.append(payload if record is not None else line)
        if lines.offsets and lines.offsets[-1] >= MAX_OFFSET:
            raise RunFailed(f"{planned.path} is longer than {MAX_OFFSET} bytes; cut it into smaller files")
        return block

    def _rows(self, file: IO[bytes], planned: PlannedFile, piece: Slice) -> Iterator[Block | SliceDone]:
        total = 0
        for row, batch in row_groups(file, piece.start, piece.end):
            rows = rows_of(batch)
            total += batch.num_rows
            numbers = range(row, row + batch.num_rows)
            yield Block(
                [place_of(piece.file, number) for number in numbers],
                [f"{planned.path}:{number}" for number in numbers],
                planned.modified // 1000,
                rows.records,
                rows.reasons,
                rows.payloads,
                batch,
            )
        file.seek(piece.start)
        counting = CountingStream(file)
        left = piece.end - piece.start
        while left and (data := counting.read(min(left, 1 << 20))):
            left -= len(data)
        yield SliceDone(piece.file, piece.start, piece.end, counting.crc32, total)


def _is_empty(line: bytes, offset: int) -> bool:
    """An empty line, with or without a carriage return, or a byte-order mark alone."""
    return line in (b"", b"\r") or (offset == 0 and line in (BYTE_ORDER_MARK, BYTE_ORDER_MARK + b"\r"))


def _decompressed(counting: CountingStream, path: str) -> Stream:
    if path.lower().endswith(GZIP):
        unpacked: Stream = gzip.GzipFile(fileobj=cast("IO[bytes]", counting), mode="rb")
    else:
        unpacked = pa.CompressedInputStream(pa.PythonFile(_Readable(counting), mode="r"), "zstd")
    return unpacked


class _Readable:
    """The least that pyarrow wants of a Python file."""

    closed = False

    def __init__(self, stream: CountingStream) -> None:
        self.read = stream.read

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
