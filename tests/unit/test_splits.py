"""How files are cut into tasks, the order of places, and checksums that are joined."""

from __future__ import annotations

import zlib
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from semel.model.splits import (
    MAX_FILES,
    MAX_OFFSET,
    OPENING_COSTS,
    Slice,
    join_crc32,
    place_of,
    plan_slices,
)

sizes = st.integers(0, 3000) | st.integers(0, 3 * OPENING_COSTS)
files_given = st.lists(st.tuples(sizes, st.booleans()), max_size=30)
splits = st.integers(1000, 2 * OPENING_COSTS)


@pytest.mark.parametrize(
    ("what", "files", "split", "tasks"),
    [
        ("nothing", [], 10, []),
        ("an empty file is a slice of nothing", [(0, True)], 10, [[(0, 0, 0)]]),
        ("an empty file that may not be cut", [(0, False)], 10, [[(0, 0, 0)]]),
        ("exactly one split", [(10, True)], 10, [[(0, 0, 10)]]),
        ("one byte more", [(11, True)], 10, [[(0, 0, 10)], [(0, 10, 11)]]),
        ("may not be cut", [(35, False)], 10, [[(0, 0, 35)]]),
        (
            "between others",
            [(10, True), (35, False), (10, True)],
            10,
            [[(0, 0, 10)], [(1, 0, 35)], [(2, 0, 10)]],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_slices(what: str, files: list[tuple[int, bool]], split: int, tasks: list[list[tuple[int, int, int]]]) -> None:
    planned = plan_slices(files, split)
    assert [[(piece.file, piece.start, piece.end) for piece in task] for task in planned] == tasks


def test_a_task_takes_hundreds_of_tiny_files() -> None:
    tasks = plan_slices([(100, True)] * 1000, split=128 * 1024 * 1024)
    assert {len(task) for task in tasks[:-1]} == {512}
    assert sum(map(len, tasks)) == 1000


@settings(deadline=None)
@given(files_given, splits)
@example([(0, True)] * 3, 1000)
@example([(2001, True), (0, False), (5000, False)], 1000)
def test_every_byte_is_read_once_and_in_order(files: list[tuple[int, bool]], split: int) -> None:
    pieces = [piece for task in plan_slices(files, split) for piece in task]
    for number, (size, can_be_cut) in enumerate(files):
        own = [piece for piece in pieces if piece.file == number]
        assert own[0].start == 0
        assert own[-1].end == size
        assert all(one.end == other.start for one, other in pairwise(own))
        assert can_be_cut or len(own) == 1
        assert size == 0 or all(piece.start < piece.end for piece in own)
    assert pieces == sorted(pieces, key=lambda piece: (piece.file, piece.start))


@settings(deadline=None)
@given(files_given, splits)
def test_nothing_is_larger_than_a_split_that_can_be_cut(files: list[tuple[int, bool]], split: int) -> None:
    for task in plan_slices(files, split):
        assert task
        for piece in task:
            assert piece.end - piece.start <= split or not files[piece.file][1]
        if len(task) > 1:
            assert sum(piece.end - piece.start for piece in task) <= split


@settings(deadline=None)
@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
@example(b"", [])
@example(b"\x00" * 300, [1, 2, 4, 8, 16, 32, 64])
def test_checksums_of_any_parts_join_to_the_whole(data: bytes, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    parts = [data[start:end] for start, end in pairwise(bounds)]
    assert join_crc32((zlib.crc32(part), len(part)) for part in parts) == zlib.crc32(data)


def test_checksums_of_long_parts_join() -> None:
    """Of hundreds of megabytes, which zlib is given block by block."""
    block = bytes(1 << 20)
    first = zlib.crc32(b"first")
    whole = first
    for _ in range(257):
        whole = zlib.crc32(block, whole)
    zeros = 0
    for _ in range(257):
        zeros = zlib.crc32(block, zeros)
    assert join_crc32([(first, 5), (zeros, 257 << 20)]) == whole


def test_the_order_of_the_parts_counts() -> None:
    one, other = (zlib.crc32(b"once"), 4), (zlib.crc32(b"upon"), 4)
    assert join_crc32([one, other]) != join_crc32([other, one])


places = st.tuples(st.integers(0, MAX_FILES - 1), st.integers(0, MAX_OFFSET - 1))


@settings(deadline=None)
@given(places, places)
@example((0, MAX_OFFSET - 1), (1, 0))
@example((MAX_FILES - 1, MAX_OFFSET - 1), (MAX_FILES - 1, MAX_OFFSET - 2))
def test_places_are_in_the_order_of_file_and_offset(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (place_of(*one) < place_of(*other)) == (one < other)
    assert (place_of(*one) == place_of(*other)) == (one == other)
    assert 0 <= place_of(*one) < 2**63


def test_a_slice_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Slice(0, 0, 1).end = 2  # type: ignore[misc]
