"""What every ledger promises, on every store that is at hand."""

from __future__ import annotations

import hashlib
import pickle
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from semel.books.records import NO_COMMIT, Commit, Counts, Segment, SegmentPart, State, Status
from semel.books.state import advance
from semel.errors import ConfigError, LedgerDamaged
from semel.ledgers.base import Ledger, Lookup, NoLedger
from semel.ledgers.keys import Keys, keys_of
from semel.ledgers.lake.ledger import LakeLedger
from semel.ledgers.lake.segment import map_part, search, verify_part, write_part
from semel.model.times import iso

Entry = tuple[str, str, int]
"""Id, fingerprint, event time."""
Pair = tuple[str, str]

BOOKS: Final = "books-1"


def fp(text: str | int) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


class LedgerHarness(ABC):
    """A ledger and the books that it is a copy of, as far as a ledger needs them."""

    ledger: Ledger

    def __init__(self) -> None:
        self.state = State.empty(BOOKS)

    @abstractmethod
    def prepare(self, number: int, entries: Sequence[Entry]) -> Segment | None:
        """Write what the ledger wants written before the commit."""

    def accept(self, number: int, entries: Sequence[Entry], mark: int | None = None) -> None:
        """A run that accepts these, from its plan to its application."""
        commit = Commit(
            number=number,
            run=f"r{number:09d}-20260102T030405Z",
            books=BOOKS,
            status=Status.COMMITTED,
            attempt="a1",
            moment="2026-01-02T03:04:05.000000Z",
            mark=None if mark is None else iso(mark),
            reference=None,
            horizon_seconds=1.0,
            counts=Counts(),
            files=[],
            feeds={},
            segment=self.prepare(number, entries),
            sinks=[],
            ledger="lake:ledger",
            columns={},
            previous=NO_COMMIT,
        )
        self.state = advance(self.state, commit, "")
        self.ledger.apply(commit)

    def lookup(self, mark: int | None = None) -> Lookup | None:
        self.ledger.check(self.state)
        return self.ledger.lookup(self.state, mark)

    def ask(self, pairs: Iterable[Pair], mark: int | None = None) -> list[str]:
        return answers(self.lookup(mark), pairs)


def answers(lookup: Lookup | None, pairs: Iterable[Pair]) -> list[str]:
    """For each pair: seen, known, both or neither."""
    asked = list(pairs)
    if lookup is None:
        return ["neither"] * len(asked)
    found = lookup.find(keys_of([pair[0] for pair in asked], [pair[1] for pair in asked]))
    words = {(True, False): "seen", (False, True): "known", (True, True): "both", (False, False): "neither"}
    return [words[bool(seen), bool(known)] for seen, known in zip(found.seen, found.known, strict=True)]


class LakeHarness(LedgerHarness):
    def __init__(self, root: Path) -> None:
        super().__init__()
        self.ledger: LakeLedger = LakeLedger(root)

    def prepare(self, number: int, entries: Sequence[Entry]) -> Segment | None:
        """Two parts, as two tasks write them."""
        folder = f"r{number:09d}/a1"
        (self.ledger.root / folder).mkdir(parents=True)
        parts = []
        for half in (0, 1):
            chosen = entries[half::2]
            keys = keys_of([entry[0] for entry in chosen], [entry[1] for entry in chosen])
            times = np.array([entry[2] for entry in chosen], dtype=np.int64)
            part = write_part(self.ledger.root / folder / f"part-{half}.keys", keys, times)
            parts += [part] if part is not None else []
        return Segment(number=number, folder=folder, parts=parts) if parts else None


@pytest.fixture(scope="session", params=["lake"])
def store(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


def make(store: str, folder: Path) -> LedgerHarness:
    return {"lake": LakeHarness}[store](folder / "ledger")


@pytest.fixture
def ledger(store: str, tmp_path: Path) -> LedgerHarness:
    return make(store, tmp_path)


# The contract


def test_seen_known_and_neither(ledger: LedgerHarness) -> None:
    ledger.accept(1, [("a", fp(1), 100), ("b", fp(2), 100), ("c", fp(3), 100)])
    assert ledger.ask([("a", fp(1)), ("a", fp(2)), ("d", fp(1)), ("c", fp(3))]) == [
        *("seen", "known", "neither", "seen")
    ]


def test_an_empty_ledger_knows_nothing(ledger: LedgerHarness) -> None:
    assert ledger.ask([("a", fp(1))]) == ["neither"]
    ledger.accept(1, [])
    assert ledger.ask([("a", fp(1))]) == ["neither"]


def test_no_question_no_answer(ledger: LedgerHarness) -> None:
    ledger.accept(1, [("a", fp(1), 100)])
    assert ledger.ask([]) == []


def test_several_fingerprints_of_one_id(ledger: LedgerHarness) -> None:
    ledger.accept(1, [("a", fp(1), 100), ("a", fp(2), 100), ("b", fp(1), 100)])
    ledger.accept(2, [("a", fp(3), 100)])
    asked = [("a", fp(1)), ("a", fp(2)), ("a", fp(3)), ("a", fp(4)), ("b", fp(1)), ("b", fp(2))]
    assert ledger.ask(asked) == ["both", "both", "both", "known", "seen", "known"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1700000000000000001", "1700000000000000002"),
        ("00000000000000000001", "00000000000000000002"),
        ("0123456789abcdef-1", "0123456789abcdef-2"),
        ("not hex at all, but long: 1", "not hex at all, but long: 2"),
        ("v1", "v2"),
        ("", "0"),
    ],
)
def test_fingerprints_that_begin_alike_stay_apart(ledger: LedgerHarness, one: str, other: str) -> None:
    """A producer's fingerprint may be a number, a version or anything else."""
    ledger.accept(1, [("a", one, 100)])
    assert ledger.ask([("a", one), ("a", other)]) == ["seen", "known"]


@pytest.mark.parametrize("text", ["ABCDEF0123456789-X", "AAAAAAAAAAAAAAAA", "x", "00ff"])
def test_a_fingerprint_is_found_whatever_is_asked_beside_it(ledger: LedgerHarness, text: str) -> None:
    ledger.accept(1, [("a", text, 100), ("b", "not hex", 100)])
    assert ledger.ask([("a", text)]) == ["seen"]
    assert ledger.ask([("a", text), ("c", fp(1))]) == ["seen", "neither"]
    assert ledger.ask([("a", text), ("c", "not hex")]) == ["seen", "neither"]


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        (None, ["seen", "seen", "seen"]),
        (99, ["seen", "seen", "seen"]),
        (100, ["seen", "seen", "seen"]),
        (101, ["neither", "seen", "seen"]),
        (200, ["neither", "seen", "seen"]),
        (201, ["neither", "neither", "seen"]),
        (300, ["neither", "neither", "seen"]),
        (301, ["neither", "neither", "neither"]),
    ],
)
def test_entries_below_the_mark_do_not_count(ledger: LedgerHarness, mark: int | None, expected: list[str]) -> None:
    ledger.accept(1, [("a", fp(1), 100), ("c", fp(3), 300)])
    ledger.accept(2, [("b", fp(2), 200)])
    assert ledger.ask([("a", fp(1)), ("b", fp(2)), ("c", fp(3))], mark) == expected
    others = [word.replace("seen", "known") for word in expected]
    assert ledger.ask([("a", fp(9)), ("b", fp(9)), ("c", fp(9))], mark) == others


def test_of_one_id_only_what_is_not_below_the_mark_counts(ledger: LedgerHarness) -> None:
    ledger.accept(1, [("a", fp(1), 100), ("a", fp(2), 200), ("a", fp(3), 300)])
    asked = [("a", fp(1)), ("a", fp(2)), ("a", fp(3)), ("a", fp(4))]
    assert ledger.ask(asked, 201) == ["known", "known", "seen", "known"]
    assert ledger.ask(asked, 200) == ["known", "both", "both", "known"]
    assert ledger.ask(asked, 301) == ["neither"] * 4


def test_times_before_1970_and_the_ends_of_time(ledger: LedgerHarness) -> None:
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    ledger.accept(1, [("a", fp(1), first), ("b", fp(2), -1), ("c", fp(3), last)])
    asked = [("a", fp(1)), ("b", fp(2)), ("c", fp(3))]
    assert ledger.ask(asked, first) == ["seen"] * 3
    assert ledger.ask(asked, -1) == ["neither", "seen", "seen"]
    assert ledger.ask(asked, last) == ["neither", "neither", "seen"]


def test_what_was_forgotten_may_be_accepted_again(ledger: LedgerHarness) -> None:
    ledger.accept(1, [("a", fp(1), 100)])
    ledger.accept(2, [("b", fp(2), 500)], mark=200)
    assert ledger.ask([("a", fp(1))], 200) == ["neither"]
    ledger.accept(3, [("a", fp(1), 600)], mark=200)
    assert ledger.ask([("a", fp(1)), ("a", fp(2))], 200) == ["seen", "known"]
    assert ledger.ask([("a", fp(1))], 601) == ["neither"]


@pytest.mark.parametrize("together", [True, False], ids=["one run", "ten runs"])
def test_a_thousand_fingerprints_under_one_id(ledger: LedgerHarness, together: bool) -> None:
    """And as many needles: an id that everybody uses must not be slow."""
    entries: list[Entry] = [("everybody", fp(i), i) for i in range(1000)]
    runs = [entries] if together else [entries[i::10] for i in range(10)]
    for number, run in enumerate(runs, 1):
        ledger.accept(number, run)
    asked = [("everybody", fp(i)) for i in range(0, 2000, 2)]
    expected = ["known"] * 250 + ["both"] * 250 + ["known"] * 500
    assert ledger.ask(asked, 500) == expected


def test_a_lookup_pickles(ledger: LedgerHarness) -> None:
    ledger.accept(1, [("a", fp(1), 100), ("b", fp(2), 50)])
    lookup = pickle.loads(pickle.dumps(ledger.lookup(60)))
    assert answers(lookup, [("a", fp(1)), ("a", fp(2)), ("b", fp(2))]) == ["seen", "known", "neither"]


def test_many_runs(ledger: LedgerHarness) -> None:
    for number in range(1, 61):
        ledger.accept(number, [(f"id-{number}-{i}", fp(i), number) for i in range(5)])
    asked = [(f"id-{number}-{number % 5}", fp(number % 5)) for number in range(1, 70)]
    assert ledger.ask(asked, 11) == ["neither"] * 10 + ["seen"] * 50 + ["neither"] * 9


def test_a_lookup_does_not_see_a_later_commit(ledger: LedgerHarness) -> None:
    ledger.accept(1, [("a", fp(1), 100)])
    lookup = ledger.lookup()
    ledger.accept(2, [("b", fp(2), 100), ("a", fp(3), 100)])
    assert answers(lookup, [("a", fp(1)), ("b", fp(2)), ("a", fp(3))]) == ["seen", "neither", "known"]
    assert ledger.ask([("b", fp(2)), ("a", fp(3))]) == ["seen", "both"]


def test_applying_again_changes_nothing(ledger: LedgerHarness) -> None:
    ledger.accept(1, [("a", fp(1), 100)])
    before = ledger.ask([("a", fp(1)), ("a", fp(2))])
    ledger.ledger.apply(
        Commit(
            number=1, run="r000000001-20260102T030405Z", books=BOOKS, status=Status.COMMITTED, attempt="a1",
            moment="", mark=None, reference=None, horizon_seconds=1.0, counts=Counts(), files=[], feeds={},
            segment=ledger.state.segments[0], sinks=[], ledger="lake:ledger", columns={}, previous=NO_COMMIT,
        )
    )  # fmt: skip
    assert ledger.ask([("a", fp(1)), ("a", fp(2))]) == before == ["seen", "known"]


def test_other_books_are_refused(ledger: LedgerHarness) -> None:
    ledger.ledger.claim(BOOKS, "clicks")
    ledger.ledger.claim(BOOKS, "clicks")
    with pytest.raises(ConfigError, match=r"ledger: .* belongs to other books"):
        ledger.ledger.claim("books-2", "clicks")


def test_a_claim_is_kept_after_entries_came(ledger: LedgerHarness) -> None:
    ledger.ledger.claim(BOOKS, "clicks")
    ledger.accept(1, [("a", fp(1), 100)])
    ledger.ledger.claim(BOOKS, "clicks")
    with pytest.raises(ConfigError):
        ledger.ledger.claim("books-2", "clicks")


ids = st.sampled_from(["a", "b", "c", "d"])
fingerprints = st.sampled_from([fp(i) for i in range(4)])
times = st.integers(-3, 12)
runs_of_entries = st.lists(st.lists(st.tuples(ids, fingerprints, times), max_size=8), max_size=5)
marks = st.none() | st.integers(-4, 13)


@settings(deadline=None, max_examples=60)
@given(runs_of_entries, marks)
@example([[("a", fp(0), 1), ("a", fp(0), 5)]], 3)
@example([[("a", fp(0), 5)], [("a", fp(0), 1)]], 3)
def test_it_answers_like_a_dict(
    store: str, tmp_path_factory: pytest.TempPathFactory, runs: list[list[Entry]], mark: int | None
) -> None:
    ledger = make(store, tmp_path_factory.mktemp("ledger"))
    for number, entries in enumerate(runs, 1):
        ledger.accept(number, entries)
    counting = {(i, f) for entries in runs for i, f, time in entries if mark is None or time >= mark}
    asked = [(i, fp(number)) for i in "abcde" for number in range(5)]
    expected = []
    for pair in asked:
        seen = pair in counting
        known = any(i == pair[0] and f != pair[1] for i, f in counting)
        expected.append("both" if seen and known else "seen" if seen else "known" if known else "neither")
    assert ledger.ask(asked, mark) == expected


# The lake ledger alone


def segment_file(harness: LakeHarness) -> Path:
    segment = harness.state.segments[0]
    return harness.ledger.root / segment.folder / segment.parts[0].name


@pytest.fixture
def lake(tmp_path: Path) -> LakeHarness:
    harness = LakeHarness(tmp_path / "ledger")
    harness.accept(1, [(f"id-{i}", fp(i), i) for i in range(20)])
    return harness


ASKED = [(f"id-{i}", fp(i)) for i in range(20)]


def test_a_missing_segment_is_damage(lake: LakeHarness) -> None:
    unchecked = lake.ledger.lookup(lake.state, None)
    segment_file(lake).unlink()
    with pytest.raises(LedgerDamaged, match=r"part-0\.keys is missing"):
        lake.ledger.check(lake.state)
    with pytest.raises(LedgerDamaged, match=r"part-0\.keys cannot be used"):
        answers(unchecked, ASKED)


@pytest.mark.parametrize("length", [0, 10, 64, 65, -28, -1])
def test_a_shortened_segment_is_damage(lake: LakeHarness, length: int) -> None:
    path = segment_file(lake)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(LedgerDamaged, match=r"part-0\.keys has \d+ bytes instead of"):
        lake.ledger.check(lake.state)
    with pytest.raises(LedgerDamaged, match=r"part-0\.keys cannot be used"):
        answers(lake.ledger.lookup(lake.state, None), ASKED)


@pytest.mark.parametrize(
    ("at", "replacement"), [(0, b"SEMELKEX"), (8, b"\x02"), (16, b"\xff"), (23, b"\x01"), (16, b"\x00")]
)
def test_a_segment_with_another_head_is_damage(lake: LakeHarness, at: int, replacement: bytes) -> None:
    path = segment_file(lake)
    content = path.read_bytes()
    path.write_bytes(content[:at] + replacement + content[at + len(replacement) :])
    with pytest.raises(LedgerDamaged, match="checksum is wrong"):
        answers(lake.ledger.lookup(lake.state, None), ASKED)
    with pytest.raises(LedgerDamaged, match="not a whole segment"):
        map_part(str(path))


def test_a_longer_segment_is_damage(lake: LakeHarness) -> None:
    path = segment_file(lake)
    path.write_bytes(path.read_bytes() + bytes(28))
    with pytest.raises(LedgerDamaged):
        lake.ledger.check(lake.state)
    with pytest.raises(LedgerDamaged):
        answers(lake.ledger.lookup(lake.state, None), ASKED)


def test_verifying_finds_any_change(lake: LakeHarness) -> None:
    path = segment_file(lake)
    part = lake.state.segments[0].parts[0]
    assert verify_part(path, part) is None
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    assert verify_part(path, part) == "its checksum is wrong"
    path.write_bytes(content[:-1])
    assert verify_part(path, part) == f"it has {len(content) - 1} bytes instead of {len(content)}"
    path.unlink()
    assert verify_part(path, part) == "No such file or directory"


def test_segments_below_the_mark_need_not_be_there(lake: LakeHarness) -> None:
    """Below the mark of the last commit they may be forgotten; nobody opens them."""
    lake.accept(2, [("x", fp("x"), 500)], mark=100)
    first = lake.ledger.root / "r000000001"
    for path in first.rglob("*.keys"):
        path.unlink()
    assert lake.ask([("x", fp("x")), *ASKED[:1]], 100) == ["seen", "neither"]


def test_a_ledger_of_which_nothing_counts_needs_no_lookup(lake: LakeHarness) -> None:
    assert lake.ledger.lookup(lake.state, 20) is None
    assert lake.ledger.lookup(lake.state, 19) is not None


def test_the_folder_can_be_moved(lake: LakeHarness, tmp_path: Path) -> None:
    lake.ledger.root.rename(tmp_path / "moved")
    moved = LakeLedger(tmp_path / "moved")
    moved.check(lake.state)
    assert answers(moved.lookup(lake.state, None), ASKED) == ["seen"] * 20


@pytest.mark.parametrize(("winner", "left"), [("a1", ["a1"]), (None, None), ("a3", [])])
def test_cleaning_leaves_the_winner(tmp_path: Path, winner: str | None, left: list[str] | None) -> None:
    ledger = LakeLedger(tmp_path)
    for run, attempt in (("r1", "a1"), ("r1", "a2"), ("r2", "a2")):
        (tmp_path / run / attempt).mkdir(parents=True)
        (tmp_path / run / attempt / "part.keys").write_bytes(b"x")
    ledger.clean("r1", winner)
    ledger.clean("r9", winner)
    assert (sorted(p.name for p in (tmp_path / "r1").iterdir()) if (tmp_path / "r1").exists() else None) == left
    assert (tmp_path / "r2/a2/part.keys").exists()


def test_no_ledger_remembers_nothing() -> None:
    ledger = NoLedger()
    ledger.claim(BOOKS, "clicks")
    ledger.check(State.empty(BOOKS))
    assert ledger.lookup(State.empty(BOOKS), None) is None


# Keys and segment files


def crafted(entries: Sequence[tuple[int, int, int]]) -> Keys:
    return Keys(
        np.array([entry[0] for entry in entries], dtype=np.uint64),
        np.array([entry[1] for entry in entries], dtype=np.uint32),
        np.array([entry[2] for entry in entries], dtype=np.uint64),
    )


def written(path: Path, entries: Sequence[tuple[int, int, int, int]]) -> SegmentPart:
    times = np.array([entry[3] for entry in entries], dtype=np.int64)
    part = write_part(path, crafted([entry[:3] for entry in entries]), times)
    assert part is not None
    return part


def looked_up(path: Path, needles: Sequence[tuple[int, int, int]], mark: int | None = None) -> list[tuple[bool, bool]]:
    found = search(map_part(str(path)), crafted(needles), mark)
    return list(zip(found.seen.tolist(), found.known.tolist(), strict=True))


TOP = 2**64 - 1


def test_ids_that_share_the_upper_bits_stay_apart(tmp_path: Path) -> None:
    written(tmp_path / "p", [(7, 1, 10, 0), (7, 2, 20, 5), (7, 2, 30, 0), (7, 2**32 - 1, 40, 0), (TOP, 9, 50, 0)])
    asked = [(7, 1, 10), (7, 1, 20), (7, 2, 20), (7, 2, 10), (7, 3, 10), (7, 2**32 - 1, 40), (TOP, 9, 50)]
    assert looked_up(tmp_path / "p", asked) == [
        *((True, False), (False, True), (True, True), (False, True), (False, False), (True, False), (True, False))
    ]
    assert looked_up(tmp_path / "p", [(TOP, 8, 50), (0, 1, 10), (8, 1, 10)]) == [(False, False)] * 3
    assert looked_up(tmp_path / "p", [(7, 2, 20), (7, 2, 30), (7, 1, 10)], mark=1) == [
        *((True, False), (False, True), (False, False))
    ]


entries_of_parts = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2**63, TOP]), st.sampled_from([0, 1, 2**32 - 1]), st.sampled_from([0, 5, TOP]), times
    ),
    min_size=1,
    max_size=20,
)


@settings(deadline=None, max_examples=60)
@given(entries_of_parts, entries_of_parts, marks)
def test_a_part_is_searched_like_a_list(
    tmp_path_factory: pytest.TempPathFactory,
    entries: list[tuple[int, int, int, int]],
    needles: list[tuple[int, int, int, int]],
    mark: int | None,
) -> None:
    path = tmp_path_factory.mktemp("parts") / "p"
    part = written(path, entries)
    counting = {entry[:3] for entry in entries if mark is None or entry[3] >= mark}
    assert looked_up(path, [needle[:3] for needle in needles], mark) == [
        (needle[:3] in counting, any(e[:2] == needle[:2] and e[2] != needle[2] for e in counting)) for needle in needles
    ]
    content = path.read_bytes()
    assert (part.entries, part.size, part.crc32) == (len(entries), len(content), zlib.crc32(content))
    assert (part.low, part.high) == (min(entries)[0], max(entries)[0])
    assert (part.oldest, part.newest) == (min(e[3] for e in entries), max(e[3] for e in entries))
    assert len(content) == 64 + 28 * len(entries)


def test_the_same_entries_in_any_order_are_the_same_file(tmp_path: Path) -> None:
    entries = [(i % 3, i, i, i) for i in range(10)]
    written(tmp_path / "one", entries)
    written(tmp_path / "other", entries[::-1])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]


def test_a_part_without_entries_is_not_written(tmp_path: Path) -> None:
    assert write_part(tmp_path / "p", crafted([]), np.array([], dtype=np.int64)) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "é", "12", "00ff" * 16, "0123456789ABCDEF", " 123456789abcdef", "x" * 100])
def test_keys_are_hashes(text: str) -> None:
    found = keys_of([text], [text])
    expected = hashlib.sha256(text.encode()).digest()
    assert int(found.high[0]) == int.from_bytes(expected[:8], "big")
    assert int(found.low[0]) == int.from_bytes(expected[8:12], "big")
    assert int(found.print[0]) == int.from_bytes(expected[:8], "big")


fingerprint_texts = (
    st.text("0123456789abcdef", max_size=20)
    | st.text("0123456789abcdefABCDEF x-é", max_size=20)
    | st.text("01 ", min_size=14, max_size=18)
)


@settings(deadline=None)
@given(st.lists(fingerprint_texts, min_size=1, max_size=6))
@example(["0" * 15, "0" * 17])
@example(["AAAAAAAAAAAAAAAA"])
@example(["00 00 00 00 00 00"])
@example(["0123456789abcdef", "x"])
def test_a_fingerprint_has_one_key_whatever_stands_beside_it(texts: list[str]) -> None:
    together = keys_of(["a"] * len(texts), texts).print.tolist()
    alone = [keys_of(["a"], [text]).print.tolist()[0] for text in texts]
    among_others = [keys_of(["a", "a"], [text, "not hex"]).print.tolist()[0] for text in texts]
    assert together == alone == among_others


def test_no_keys() -> None:
    assert [len(column) for column in keys_of([], [])] == [0, 0, 0]
