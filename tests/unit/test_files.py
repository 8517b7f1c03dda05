"""Files as a source: which are found, how their lines are parsed, and what is read of them."""

from __future__ import annotations

import gzip
import os
import pickle
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import ConfigError, InputChanged, InputVanished, RunFailed
from semel.model.block import Block, SliceDone
from semel.model.splits import join_crc32, place_of, plan_slices
from semel.sources.files.checksum import crc32_of
from semel.sources.files.discover import Found, find_files, stat_file
from semel.sources.files.formats import CsvLines, JsonLines, csv_columns
from semel.sources.files.reader import FilesReader, PlannedFile, can_be_cut

BOM = b"\xef\xbb\xbf"
Booked = dict[str, tuple[int, int, int]]


# Discovery


def lay(base: Path, *names: str, content: bytes = b"{}\n") -> None:
    for name in names:
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def found_names(base: Path, *paths: str, booked: Booked | None = None) -> list[str]:
    return [file.path for file in find_files(paths, base, booked or {}).new]


FOLDER = ["in/a.jsonl", "in/b.jsonl", "in/deep/er/c.jsonl"]


@pytest.mark.parametrize(
    ("what", "paths", "expected"),
    [
        ("a file", ["in/a.jsonl"], ["in/a.jsonl"]),
        ("a folder", ["in"], FOLDER),
        ("a folder with a slash", ["in/"], FOLDER),
        ("a folder in other words", ["./in//deep/.."], FOLDER),
        ("this folder", ["."], FOLDER),
        ("a folder below", ["in/deep"], ["in/deep/er/c.jsonl"]),
        ("a glob", ["in/*.jsonl"], ["in/a.jsonl", "in/b.jsonl"]),
        ("a glob of one letter", ["in/?.jsonl"], ["in/a.jsonl", "in/b.jsonl"]),
        ("a glob with a set", ["in/[bx].jsonl"], ["in/b.jsonl"]),
        ("a deep glob", ["in/**/*.jsonl"], FOLDER),
        ("a glob that matches folders", ["i*"], FOLDER),
        ("a glob that matches nothing", ["in/*.csv"], []),
        ("a glob in a folder that is not there", ["out/*.csv"], []),
        ("a list", ["in/b.jsonl", "in/a.jsonl"], ["in/a.jsonl", "in/b.jsonl"]),
        ("overlapping ones", ["in/", "in/a.jsonl", "./in/*.jsonl", "in/deep"], FOLDER),
        ("a file URL", ["file:in/a.jsonl"], ["in/a.jsonl"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_paths_are_found(tmp_path: Path, what: str, paths: list[str], expected: list[str]) -> None:
    lay(tmp_path, *FOLDER)
    assert found_names(tmp_path, *paths) == expected


def test_an_absolute_path_is_kept_as_given(tmp_path: Path) -> None:
    lay(tmp_path, *FOLDER)
    assert found_names(tmp_path / "in", f"{tmp_path}/in/deep") == [f"{tmp_path}/in/deep/er/c.jsonl"]
    assert found_names(tmp_path / "in", f"file://{tmp_path}/in/a.jsonl") == [f"{tmp_path}/in/a.jsonl"]
    assert found_names(tmp_path / "in", "../in/a.jsonl") == ["../in/a.jsonl"]


def test_an_empty_folder_is_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    assert find_files(["in"], tmp_path, {}) == Found([], [])


UNFINISHED = [
    "in/.hidden.jsonl",
    "in/_partial.jsonl",
    "in/c.jsonl.tmp",
    "in/_folder/d.jsonl",
    "in/.folder/e.jsonl",
    "in/folder.tmp/f.jsonl",
]


@pytest.mark.parametrize("path", ["in", "in/*", "in/**/*.jsonl", "in/.*", "in/**", "in/_*"])
def test_unfinished_files_are_left_alone(tmp_path: Path, path: str) -> None:
    lay(tmp_path, "in/a.jsonl", *UNFINISHED)
    assert found_names(tmp_path, path) in (["in/a.jsonl"], [])


def test_a_file_that_is_named_is_read_whatever_its_name(tmp_path: Path) -> None:
    lay(tmp_path, "in/_one.jsonl", "_dir/two.jsonl")
    assert found_names(tmp_path, "in/_one.jsonl", "_dir") == ["_dir/two.jsonl", "in/_one.jsonl"]


@pytest.mark.parametrize("folder", ["_landing", ".data", "x.tmp"])
def test_a_folder_that_the_glob_itself_names_is_not_unfinished(tmp_path: Path, folder: str) -> None:
    lay(tmp_path, f"{folder}/a.jsonl", f"{folder}/_b.jsonl")
    assert found_names(tmp_path, f"{folder}/*.jsonl") == [f"{folder}/a.jsonl"]
    assert found_names(tmp_path, f"{tmp_path}/{folder}/*.jsonl") == [f"{tmp_path}/{folder}/a.jsonl"]


@pytest.mark.parametrize(
    "name",
    ["with space.jsonl", "100%.jsonl", "a%20b.jsonl", "größe-é-日本.jsonl", "new\nline.jsonl", "[x].jsonl"],
)
def test_names_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    lay(tmp_path, f"in/{name}")
    assert found_names(tmp_path, "in") == [f"in/{name}"]
    assert found_names(tmp_path, f"in/{name}") == [f"in/{name}"]
    assert found_names(tmp_path, "in/*") == [f"in/{name}"]


def test_in_a_url_percent_signs_are_escapes(tmp_path: Path) -> None:
    lay(tmp_path, "in/a b.jsonl")
    assert found_names(tmp_path, f"file://{tmp_path}/in/a%20b.jsonl") == [f"{tmp_path}/in/a b.jsonl"]


def test_a_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    lay(tmp_path, "in/a.jsonl")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/in/\xff.jsonl")).write_bytes(b"{}")
    with pytest.raises(RunFailed, match="not UTF-8; rename the file"):
        found_names(tmp_path, "in")


def test_files_are_in_the_order_of_their_names_as_bytes(tmp_path: Path) -> None:
    names = ["in/a", "in/a/b", "in/a-b", "in/a.b", "in/Z", "in/é", "in/z", "in/😀", "in/\uffee"]
    lay(tmp_path, *(f"{name}.jsonl" for name in names))
    assert found_names(tmp_path, "in") == sorted((f"{name}.jsonl" for name in names), key=str.encode)


def test_size_and_time_are_the_files(tmp_path: Path) -> None:
    lay(tmp_path, "in/a.jsonl", content=b"12345")
    os.utime(tmp_path / "in/a.jsonl", ns=(0, 1_700_000_000_123_456_789))
    file = find_files(["in"], tmp_path, {}).new[0]
    assert (file.size, file.modified) == (5, 1_700_000_000_123_456_789)
    assert stat_file("in/a.jsonl", tmp_path) == file
    assert stat_file("in/b.jsonl", tmp_path) is None
    assert stat_file("in/a.jsonl/b", tmp_path) is None


def test_links_are_followed(tmp_path: Path) -> None:
    lay(tmp_path, "elsewhere/x.jsonl", "elsewhere/deep/y.jsonl", "one.jsonl")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/folder").symlink_to("../elsewhere")
    (tmp_path / "in/file.jsonl").symlink_to("../one.jsonl")
    (tmp_path / "in/broken.jsonl").symlink_to("../nowhere.jsonl")
    expected = ["in/file.jsonl", "in/folder/deep/y.jsonl", "in/folder/x.jsonl"]
    assert found_names(tmp_path, "in") == expected
    assert found_names(tmp_path, "in/*") == expected


@pytest.mark.parametrize("path", ["in", "in/**/*.jsonl"])
def test_a_link_cycle_is_entered_once(tmp_path: Path, path: str) -> None:
    lay(tmp_path, "in/a/x.jsonl", "in/b.jsonl")
    (tmp_path / "in/a/up").symlink_to("..")
    assert found_names(tmp_path, path) == ["in/a/x.jsonl", "in/b.jsonl"]


def test_several_link_cycles_end(tmp_path: Path) -> None:
    lay(tmp_path, "in/a/x.jsonl", "in/b.jsonl")
    for name, target in (("up", ".."), ("here", "."), ("twice", "../../in")):
        (tmp_path / "in/a" / name).symlink_to(target)
    assert found_names(tmp_path, "in") == ["in/a/x.jsonl", "in/b.jsonl"]


@pytest.mark.parametrize("path", ["in", "in/*"])
def test_a_link_to_itself_is_passed_over(tmp_path: Path, path: str) -> None:
    lay(tmp_path, "in/b.jsonl")
    (tmp_path / "in/loop.jsonl").symlink_to("loop.jsonl")
    assert found_names(tmp_path, path) == ["in/b.jsonl"]


class Scan:
    """`os.scandir`, in an order of our own."""

    def __init__(self, reverse: bool) -> None:
        self.scandir = os.scandir
        self.reverse = reverse

    def __call__(self, path: Path) -> list[os.DirEntry[str]]:
        with self.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name, reverse=self.reverse)


def test_the_order_of_a_directory_plays_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is reached by two names has to keep its name, or its files come twice."""
    lay(tmp_path, "in/m/x.jsonl", "in/m/deep/y.jsonl")
    (tmp_path / "in/a").symlink_to("m")
    (tmp_path / "in/z").symlink_to("m")
    seen = []
    for reverse in (False, True):
        with monkeypatch.context() as patched:
            patched.setattr("semel.sources.files.discover.os.scandir", Scan(reverse))
            seen.append(found_names(tmp_path, "in"))
    assert seen[0] == seen[1]


def test_pipes_and_sockets_are_not_files(tmp_path: Path) -> None:
    lay(tmp_path, "in/a.jsonl")
    os.mkfifo(tmp_path / "in/pipe.jsonl")
    assert found_names(tmp_path, "in", "in/*") == ["in/a.jsonl"]


@pytest.mark.parametrize("path", ["nowhere", "nowhere/a.jsonl", "in/b.jsonl", "in/a.jsonl/x"])
def test_a_missing_path_is_a_wrong_configuration(tmp_path: Path, path: str) -> None:
    lay(tmp_path, "in/a.jsonl")
    with pytest.raises(ConfigError) as caught:
        found_names(tmp_path, "in", path)
    assert f"source.path: '{path}' does not exist" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("path", ["gone", "gone/", "gone/a.jsonl", "gone/*.jsonl"])
def test_a_missing_path_that_was_booked_is_nothing_to_read(tmp_path: Path, path: str) -> None:
    booked = {"gone/a.jsonl": (1, 1, 1)}
    assert find_files([path], tmp_path, booked) == Found([], [])


def test_a_path_that_only_looks_booked_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        find_files(["gone"], tmp_path, {"gone-too/a.jsonl": (1, 1, 1)})


def booked_as_it_is(base: Path, *names: str) -> Booked:
    booked = {}
    for name in names:
        status = (base / name).stat()
        booked[name] = (status.st_size, status.st_mtime_ns, zlib.crc32((base / name).read_bytes()))
    return booked


def test_booked_files_are_not_new(tmp_path: Path) -> None:
    lay(tmp_path, "in/a.jsonl", "in/b.jsonl")
    booked = booked_as_it_is(tmp_path, "in/a.jsonl")
    assert found_names(tmp_path, "in", booked=booked) == ["in/b.jsonl"]
    (tmp_path / "in/a.jsonl").unlink()
    assert found_names(tmp_path, "in", booked=booked) == ["in/b.jsonl"]


def later_by_a_second(path: Path) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))


def test_a_booked_file_that_grew_is_named(tmp_path: Path) -> None:
    lay(tmp_path, "in/a.jsonl", "in/b.jsonl")
    booked = booked_as_it_is(tmp_path, "in/a.jsonl")
    with (tmp_path / "in/a.jsonl").open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(InputChanged, match=r"in/a\.jsonl had 3 bytes when it was booked and has 6 now"):
        find_files(["in"], tmp_path, booked)


def test_a_booked_file_of_other_content_is_named(tmp_path: Path) -> None:
    lay(tmp_path, "in/a.jsonl")
    booked = booked_as_it_is(tmp_path, "in/a.jsonl")
    (tmp_path / "in/a.jsonl").write_bytes(b"[]\n")
    later_by_a_second(tmp_path / "in/a.jsonl")
    with pytest.raises(InputChanged, match=r"in/a\.jsonl was changed after it was booked"):
        find_files(["in"], tmp_path, booked)


def test_a_booked_file_that_was_only_touched_is_said_to_be_so(tmp_path: Path) -> None:
    lay(tmp_path, "in/a.jsonl", "in/b.jsonl")
    booked = booked_as_it_is(tmp_path, "in/a.jsonl", "in/b.jsonl")
    later_by_a_second(tmp_path / "in/a.jsonl")
    found = find_files(["in", "in/a.jsonl"], tmp_path, booked)
    assert found.new == []
    assert [(file.path, file.size) for file in found.touched] == [("in/a.jsonl", 3)]
    assert found.touched[0].modified == booked["in/a.jsonl"][1] + 1_000_000_000


def test_the_checksum_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"once" * 3_000_000)
    assert crc32_of(tmp_path / "x") == zlib.crc32(b"once" * 3_000_000)


# Formats


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b"1,x", {"a": "1", "b": "x"}),
        (b"1,x\r", {"a": "1", "b": "x"}),
        (b",", {"a": "", "b": ""}),
        (b'"1","x"', {"a": "1", "b": "x"}),
        (b'"1,2","x"', {"a": "1,2", "b": "x"}),
        (b'"say ""x""",', {"a": 'say "x"', "b": ""}),
        (b'"",""', {"a": "", "b": ""}),
        ("é, x ".encode(), {"a": "é", "b": " x "}),
        (b'5" pipe,x', {"a": '5" pipe', "b": "x"}),
        (b"\xef\xbb\xbf1,x", {"a": "\ufeff1", "b": "x"}),
    ],
)
def test_csv_lines(line: bytes, record: dict[str, str]) -> None:
    parsed, reason, payload = CsvLines(["a", "b"], ",").parse(line)
    assert (parsed, reason) == (record, None)
    assert msgspec.json.decode(payload) == record


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1", "1 fields instead of 2"),
        (b"1,2,3", "3 fields instead of 2"),
        (b"1;2", "1 fields instead of 2"),
        (b'"1,2', "not CSV: "),
        (b'"1"x,2', "not CSV: "),
        (b'1,"2', "not CSV: "),
        (b"1,\xff", "not UTF-8"),
        (b"1\r,2", "not CSV: "),
    ],
)
def test_csv_lines_that_cannot_be_read(line: bytes, reason: str) -> None:
    parsed, found, payload = CsvLines(["a", "b"], ",").parse(line)
    assert parsed is None
    assert found is not None
    assert found.startswith(reason)
    assert payload == line


@pytest.mark.parametrize("delimiter", [";", "\t", "|", "é"])
def test_csv_with_another_delimiter(delimiter: str) -> None:
    line = f'1{delimiter}"2{delimiter}3"'.encode()
    assert CsvLines(["a", "b"], delimiter).parse(line)[0] == {"a": "1", "b": f"2{delimiter}3"}


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (b"a,b", ("a", "b")),
        (b"a,b\r", ("a", "b")),
        (BOM + b"a,b", ("a", "b")),
        (BOM + b'"a,1","b ""x"""\r', ("a,1", 'b "x"')),
        ("größe,😀".encode(), ("größe", "😀")),
        (b"", ()),
    ],
)
def test_csv_headers(header: bytes, columns: tuple[str, ...]) -> None:
    assert csv_columns(header, ",", "in/a.csv") == columns


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"a,b,a", "the header of in/a.csv names the column 'a' twice"),
        (b"a,\xff", "the header of in/a.csv cannot be read"),
        (b'a,"b', "the header of in/a.csv cannot be read"),
    ],
)
def test_csv_headers_that_cannot_be_read(header: bytes, message: str) -> None:
    with pytest.raises(RunFailed, match=message):
        csv_columns(header, ",", "in/a.csv")


def test_json_lines() -> None:
    assert JsonLines().parse(b'{"a":1} \r') == ({"a": 1}, None, b'{"a":1} ')
    assert JsonLines().parse(b"[1]\r") == (None, "not a JSON object", b"[1]\r")
    assert JsonLines().parse(b"\xff") == (None, "not UTF-8", b"\xff")


# Reading


def reader_of(
    base: Path, *names: str, split: int = 1 << 20, kind: str = "jsonl", columns: tuple[str, ...] | None = None
) -> FilesReader:
    files = []
    for name in names:
        status = (base / name).stat()
        files.append(PlannedFile(name, str(base / name), status.st_size, 1_700_000_000_123_456_789))
    tasks = plan_slices([(file.size, can_be_cut(file.path)) for file in files], split)
    made = FilesReader("r1", "p.yaml", kind, tuple(files), tuple(tasks), ",", columns)
    return pickle.loads(pickle.dumps(made))  # type: ignore[no-any-return]


Record = tuple[int, str, bytes, str | None, dict[str, Any] | None]


def read_all(reader: FilesReader) -> tuple[list[Record], list[SliceDone]]:
    """Every record as (place, position, payload, reason, record), and what was said of the slices."""
    records: list[Record] = []
    done = []
    for task in range(len(reader.tasks)):
        for item in reader.read(task):
            if isinstance(item, SliceDone):
                done.append(item)
                continue
            lists: list[list[Any]] = [item.places, item.positions, item.payloads, item.reasons, item.records]
            assert len({len(column) for column in lists}) == 1
            records += zip(*lists, strict=True)
    return records, done


def checksum(done: list[SliceDone], file: int = 0) -> int:
    pieces = sorted((piece for piece in done if piece.file == file), key=lambda piece: piece.start)
    return join_crc32((piece.crc32, piece.end - piece.start) for piece in pieces)


def write(base: Path, name: str, content: bytes) -> str:
    lay(base, name, content=content)
    return name


def shown(records: list[Record]) -> list[tuple[str, bytes, str | None]]:
    return [(position, payload, reason) for _, position, payload, reason, _ in records]


@pytest.mark.parametrize(
    ("what", "content", "expected"),
    [
        ("nothing", b"", []),
        ("lines", b'{"a":1}\n{"a":2}\n', [("in.jsonl:0", b'{"a":1}'), ("in.jsonl:8", b'{"a":2}')]),
        (
            "no newline at the end",
            b'{"a":1}\n{"a":2}',
            [("in.jsonl:0", b'{"a":1}'), ("in.jsonl:8", b'{"a":2}')],
        ),
        ("CRLF", b'{"a":1}\r\n{"a":2}\r\n', [("in.jsonl:0", b'{"a":1}'), ("in.jsonl:9", b'{"a":2}')]),
        ("byte-order mark", BOM + b'{"a":1}\n{}', [("in.jsonl:0", b'{"a":1}'), ("in.jsonl:11", b"{}")]),
        ("only a byte-order mark", BOM, []),
        ("byte-order mark and an empty line", BOM + b"\n{}\n", [("in.jsonl:4", b"{}")]),
        ("empty lines", b"\n\n{}\n\r\n\n{}\n\n", [("in.jsonl:2", b"{}"), ("in.jsonl:8", b"{}")]),
        ("only empty lines", b"\n\r\n\n", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("split", [1, 3, 8, 1000])
def test_json_lines_of_a_file(
    tmp_path: Path, what: str, content: bytes, expected: list[tuple[str, bytes]], split: int
) -> None:
    name = write(tmp_path, "in.jsonl", content)
    records, done = read_all(reader_of(tmp_path, name, split=split))
    assert shown(records) == [(position, payload, None) for position, payload in expected]
    assert checksum(done) == zlib.crc32(content)
    assert sum(piece.records for piece in done) == len(expected)


def test_bad_lines_keep_their_exact_bytes(tmp_path: Path) -> None:
    lines = [BOM + b"x\r", b" ", b"\xff\r", BOM + b"{}", b'{"a":1}\r\r', b"\x00"]
    name = write(tmp_path, "in.jsonl", b"\n".join(lines))
    records, _ = read_all(reader_of(tmp_path, name))
    assert [payload for _, _, payload, reason, _ in records if reason is not None] == [
        line for line in lines if line != b'{"a":1}\r\r'
    ]


def test_places_and_arrival(tmp_path: Path) -> None:
    lay(tmp_path, "a.jsonl", "b.jsonl", content=b"{}\n{}\n")
    reader = reader_of(tmp_path, "a.jsonl", "b.jsonl")
    records, _ = read_all(reader)
    assert [place for place, *_ in records] == [
        place_of(0, 0),
        place_of(0, 3),
        place_of(1, 0),
        place_of(1, 3),
    ]
    first = next(iter(reader.read(0)))
    assert isinstance(first, Block)
    assert first.arrival == 1_700_000_000_123_456


def zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


COMPRESSED: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("in.jsonl.gz", gzip.compress),
    ("in.jsonl.GZ", gzip.compress),
    ("in.gzip", gzip.compress),
    ("in.jsonl.zst", zstd),
    ("in.zstd", zstd),
]


@pytest.mark.parametrize(("name", "compress"), COMPRESSED, ids=[name for name, _ in COMPRESSED])
@pytest.mark.parametrize("cut", [None, 0, 5, 12])
def test_compressed_files(tmp_path: Path, name: str, compress: Callable[[bytes], bytes], cut: int | None) -> None:
    """In one member or frame, or in two that are cut in the middle of a line."""
    plain = BOM + b'{"a":1}\r\n\n{"a":2}\nbad\xff\n{"a":3}'
    content = compress(plain) if cut is None else compress(plain[:cut]) + compress(plain[cut:])
    write(tmp_path, name, content)
    write(tmp_path, "plain.jsonl", plain)
    records, done = read_all(reader_of(tmp_path, name, split=4))
    expected, _ = read_all(reader_of(tmp_path, "plain.jsonl"))
    assert [(place, payload, reason) for place, _, payload, reason, _ in records] == [
        (place, payload, reason) for place, _, payload, reason, _ in expected
    ]
    assert [position for _, position, *_ in records] == [f"{name}:{offset}" for offset in (0, 13, 21, 26)]
    assert done == [SliceDone(0, 0, len(content), zlib.crc32(content), 4)]


@pytest.mark.parametrize(("name", "compress"), COMPRESSED, ids=[name for name, _ in COMPRESSED])
@pytest.mark.parametrize("lost", [1, 4, 20, 2000])
def test_a_truncated_file_fails_the_run_by_name(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes], lost: int
) -> None:
    plain = b"".join(b'{"a":"%s"}\n' % zlib.crc32(b"%d" % i).to_bytes(4, "big").hex().encode() for i in range(2000))
    write(tmp_path, name, compress(plain)[:-lost])
    with pytest.raises(RunFailed) as caught:
        read_all(reader_of(tmp_path, name))
    assert str(caught.value).startswith(f"{name} cannot be ")
    assert "semel void p.yaml r1" in str(caught.value)


@pytest.mark.parametrize("name", ["in.gz", "in.zst"])
def test_what_is_not_compressed_fails_the_run_by_name(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, b'{"a":1}\n')
    with pytest.raises(RunFailed, match=f"^{name} cannot be"):
        read_all(reader_of(tmp_path, name))


def test_damage_in_the_middle_fails_the_run_by_name(tmp_path: Path) -> None:
    """Gzip has a checksum; a zstd frame need not have one."""
    content = bytearray(gzip.compress(bytes(range(32, 127)) * 500 + b"\n"))
    content[len(content) // 2] ^= 0xFF
    write(tmp_path, "in.gz", bytes(content))
    with pytest.raises(RunFailed, match=r"^in\.gz cannot be"):
        read_all(reader_of(tmp_path, "in.gz"))


@pytest.mark.parametrize("name", ["in.gz", "in.zst", "in.csv", "in.csv.gz"])
def test_an_empty_file_has_no_records(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, b"")
    kind = "csv" if "csv" in name else "jsonl"
    assert read_all(reader_of(tmp_path, name, kind=kind)) == ([], [SliceDone(0, 0, 0, 0, 0)])


@pytest.mark.parametrize(
    ("name", "kind"),
    [("in.jsonl", "jsonl"), ("in.jsonl.gz", "jsonl"), ("in.csv", "csv"), ("in.parquet", "parquet")],
)
def test_a_file_that_changed_or_vanished_is_named(tmp_path: Path, name: str, kind: str) -> None:
    write(tmp_path, name, b"{}\n")
    reader = reader_of(tmp_path, name, kind=kind)
    write(tmp_path, name, b"{}\n{}\n")
    with pytest.raises(InputChanged) as changed:
        read_all(reader)
    assert f"{name} had 3 bytes when run r1 was planned and has 6 now" in str(changed.value)
    (tmp_path / name).unlink()
    with pytest.raises(InputVanished) as gone:
        read_all(reader)
    assert f"{name}, which run r1 was planned to read, is gone" in str(gone.value)
    assert "semel void p.yaml r1" in str(gone.value)


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, "in.jsonl", b"{}\n")
    reader = reader_of(tmp_path, "in.jsonl")
    (tmp_path / "in.jsonl").unlink()
    (tmp_path / "in.jsonl").mkdir()
    with pytest.raises(RunFailed, match=r"in\.jsonl"):
        read_all(reader)


CSV = BOM + b'id,"text, or not"\r\n1,one\n\n2,"two, ""too"""\r\nbad\n3,\n'
CSV_RECORDS = [
    (CSV.index(b"1,one"), {"id": "1", "text, or not": "one"}),
    (CSV.index(b"2,"), {"id": "2", "text, or not": 'two, "too"'}),
    (CSV.index(b"bad"), None),
    (CSV.index(b"3,"), {"id": "3", "text, or not": ""}),
]


@pytest.mark.parametrize("split", [1, 2, 7, 30, 1000])
@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz", "in.csv.zst"])
def test_the_csv_header_counts_in_every_split(tmp_path: Path, name: str, split: int) -> None:
    ways: dict[str, Callable[[bytes], bytes]] = {"csv": bytes, "gz": gzip.compress, "zst": zstd}
    compress = ways[name.rpartition(".")[2]]
    write(tmp_path, name, compress(CSV))
    records, done = read_all(reader_of(tmp_path, name, kind="csv", split=split))
    assert [(place, record) for place, *_, record in records] == CSV_RECORDS
    assert [reason for *_, reason, record in records if record is None] == ["1 fields instead of 2"]
    assert sum(piece.records for piece in done) == 4


@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz"])
def test_with_columns_given_the_first_line_is_a_record(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, (gzip.compress if name.endswith("gz") else bytes)(BOM + b"1,one\n2,two\n"))
    records, _ = read_all(reader_of(tmp_path, name, kind="csv", columns=("id", "text"), split=3))
    assert [record for *_, record in records] == [{"id": "1", "text": "one"}, {"id": "2", "text": "two"}]


def test_a_doubled_csv_header_is_named(tmp_path: Path) -> None:
    write(tmp_path, "in.csv", b"a,a\n1,2\n")
    with pytest.raises(RunFailed, match=r"header of in\.csv names the column 'a' twice"):
        read_all(reader_of(tmp_path, "in.csv", kind="csv"))


pieces = st.sampled_from(
    [
        b"\n",
        b"\r\n",
        b'{"a":1}',
        b'{"a":"\xc3\xa9"}',
        b"x",
        b"\xff",
        b"1,2",
        b'"',
        BOM,
        b" ",
        b'{"b":[1,2]}\n',
    ]
)


@settings(deadline=None, max_examples=60)
@given(st.lists(pieces, max_size=20).map(b"".join), st.integers(1, 40), st.sampled_from(["jsonl", "csv"]))
def test_the_size_of_the_splits_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, split: int, kind: str
) -> None:
    folder = tmp_path_factory.mktemp("splits")
    names = [write(folder, "a.x", data), write(folder, "b.x", b"{}\n" + data)]
    columns = ("a", "b") if kind == "csv" else None
    small, small_done = read_all(reader_of(folder, *names, split=split, kind=kind, columns=columns))
    whole, whole_done = read_all(reader_of(folder, *names, split=1 << 20, kind=kind, columns=columns))
    assert small == whole
    for file in (0, 1):
        assert checksum(small_done, file) == checksum(whole_done, file)
    assert sum(piece.records for piece in small_done) == len(whole)


# Parquet


def parquet(base: Path, table: pa.Table, rows: int = 1000, name: str = "in.parquet") -> str:
    pq.write_table(table, base / name, row_group_size=rows, store_schema=True)
    return name


@pytest.mark.parametrize("split", [50, 300, 5000, 1 << 20])
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_parquet_rows_are_numbered_across_row_groups_and_splits(tmp_path: Path, split: int, rows: int) -> None:
    name = parquet(tmp_path, pa.table({"n": list(range(100)), "t": [f"x{i}" for i in range(100)]}), rows)
    records, done = read_all(reader_of(tmp_path, name, split=split, kind="parquet"))
    records.sort(key=lambda record: record[0])
    assert [place for place, *_ in records] == [place_of(0, row) for row in range(100)]
    assert [position for _, position, *_ in records] == [f"in.parquet:{row}" for row in range(100)]
    assert [record for *_, record in records] == [{"n": i, "t": f"x{i}"} for i in range(100)]
    assert checksum(done) == zlib.crc32((tmp_path / name).read_bytes())
    assert sum(piece.records for piece in done) == 100


def test_parquet_row_groups_longer_than_a_batch(tmp_path: Path) -> None:
    name = parquet(tmp_path, pa.table({"n": pa.array(range(20_000))}), rows=15_000)
    records, _ = read_all(reader_of(tmp_path, name, kind="parquet"))
    assert [(position, record) for _, position, *_, record in records] == [
        (f"in.parquet:{i}", {"n": i}) for i in range(20_000)
    ]


def test_a_parquet_file_without_rows(tmp_path: Path) -> None:
    name = parquet(tmp_path, pa.table({"n": pa.array([], pa.int64())}))
    records, done = read_all(reader_of(tmp_path, name, kind="parquet"))
    assert (records, sum(piece.records for piece in done)) == ([], 0)


NANOS = 1_704_196_800_123_456_789


@pytest.mark.parametrize(
    ("kind", "value", "payload"),
    [
        (pa.timestamp("us", "UTC"), datetime(2024, 1, 2, 12, tzinfo=UTC), b'"2024-01-02T12:00:00Z"'),
        (pa.timestamp("us"), datetime(2024, 1, 2, 12, 0, 0, 5), b'"2024-01-02T12:00:00.000005"'),
        (pa.timestamp("ms"), datetime(2024, 1, 2, 12), b'"2024-01-02T12:00:00"'),
        (pa.timestamp("ns"), NANOS, b'"2024-01-02T12:00:00.123456789"'),
        (pa.timestamp("ns", "UTC"), NANOS, b'"2024-01-02T12:00:00.123456789Z"'),
        (pa.date32(), date(2024, 1, 2), b'"2024-01-02"'),
        (
            pa.decimal128(38, 2),
            Decimal("123456789012345678901234567890.25"),
            b"123456789012345678901234567890.25",
        ),
        (pa.float64(), 0.1, b"0.1"),
        (pa.float64(), float("nan"), b'"nan"'),
        (pa.float64(), float("inf"), b'"inf"'),
        (pa.float64(), float("-inf"), b'"-inf"'),
        (pa.bool_(), True, b"true"),
        (pa.int64(), None, b"null"),
        (pa.uint64(), 2**64 - 1, b"18446744073709551615"),
        (pa.binary(), b"\x00\xff", b'"AP8="'),
        (pa.string(), 'é"\n', '"é\\"\\n"'.encode()),
        (pa.list_(pa.float64()), [1.5, float("nan"), None], b'[1.5,"nan",null]'),
        (
            pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
            {"a": 1, "b": ["x"]},
            b'{"a":1,"b":["x"]}',
        ),
        (pa.dictionary(pa.int32(), pa.string()), "x", b'"x"'),
    ],
    ids=str,
)
def test_parquet_values(tmp_path: Path, kind: pa.DataType, value: Any, payload: bytes) -> None:
    name = parquet(tmp_path, pa.table({"v": pa.array([value, None], kind)}))
    (one, none), _ = read_all(reader_of(tmp_path, name, kind="parquet"))
    assert one[2] == b'{"v":%s}' % payload
    assert one[3] is None
    assert none[2] == b'{"v":null}'


@pytest.mark.parametrize(
    ("what", "kind", "one", "other"),
    [
        ("NaN and null", pa.float64(), float("nan"), None),
        ("NaN and null in a map", pa.map_(pa.string(), pa.float64()), {"a": float("nan")}, {"a": None}),
        (
            "infinities in a map",
            pa.map_(pa.string(), pa.float64()),
            {"a": float("inf")},
            {"a": float("-inf")},
        ),
        ("NaN and null in a struct", pa.struct([("a", pa.float64())]), {"a": float("nan")}, {"a": None}),
        ("nanoseconds", pa.timestamp("ns"), NANOS, NANOS + 1),
        ("nanoseconds in a list", pa.list_(pa.timestamp("ns")), [NANOS], [NANOS + 1]),
        ("nanoseconds in a struct", pa.struct([("t", pa.timestamp("ns"))]), {"t": NANOS}, {"t": NANOS + 1}),
        ("nanoseconds of the day", pa.time64("ns"), 1_000, 1_001),
        ("nanoseconds that passed", pa.duration("ns"), 1_000, 1_001),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parquet_values_that_differ_stay_apart(
    tmp_path: Path, what: str, kind: pa.DataType, one: Any, other: Any
) -> None:
    name = parquet(tmp_path, pa.table({"v": pa.array([one, other], kind)}))
    records, _ = read_all(reader_of(tmp_path, name, kind="parquet"))
    assert records[0][2] != records[1][2]


@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.date32(), 4_000_000), (pa.timestamp("us"), 2**60), (pa.timestamp("ms", "UTC"), 2**60)],
    ids=str,
)
def test_a_time_beyond_the_year_9999_is_bad_or_fails_the_run_by_name(
    tmp_path: Path, kind: pa.DataType, value: int
) -> None:
    integers = pa.array([value], pa.int32() if pa.types.is_date32(kind) else pa.int64())
    name = parquet(tmp_path, pa.table({"v": integers.cast(kind), "n": [1]}))
    try:
        records, _ = read_all(reader_of(tmp_path, name, kind="parquet"))
    except RunFailed as error:
        assert name in str(error)  # noqa: PT017
    else:
        assert len(records) == 1


def test_the_batch_comes_with_the_rows(tmp_path: Path) -> None:
    name = parquet(tmp_path, pa.table({"n": [1, 2, 3]}))
    blocks: Iterator[Block | SliceDone] = reader_of(tmp_path, name, kind="parquet").read(0)
    block = next(blocks)
    assert isinstance(block, Block)
    assert block.table.to_pydict() == {"n": [1, 2, 3]}


@pytest.mark.parametrize("damage", ["not parquet", "truncated"])
def test_a_damaged_parquet_file_is_named(tmp_path: Path, damage: str) -> None:
    name = parquet(tmp_path, pa.table({"n": list(range(100))}))
    content = b"x" * 100 if damage == "not parquet" else (tmp_path / name).read_bytes()[:-20]
    write(tmp_path, name, content)
    with pytest.raises(RunFailed, match=r"^in\.parquet cannot be"):
        read_all(reader_of(tmp_path, name, kind="parquet"))
