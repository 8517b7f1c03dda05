"""The books under races, lost answers and damage: the run protocol without the runs."""

from __future__ import annotations

import gzip
import json
import threading
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from semel.books import books as books_module
from semel.books.books import CHECKPOINT_EVERY, Books, Identity, run_id, run_number
from semel.books.records import (
    NO_COMMIT,
    BookedFile,
    Commit,
    Counts,
    InputFile,
    Plan,
    Segment,
    SegmentPart,
    State,
    Status,
    digest,
    encode,
    replaced,
    sealed,
)
from semel.books.state import advance, later, next_mark
from semel.books.storage import LocalStorage, ObjectStorage, Storage
from semel.errors import BooksDamaged, CommittedByAnother, SettingPinned, StoreUnavailable
from semel.model.times import EARLIEST, from_iso, iso

MOMENT = "2026-01-02T03:04:05.000000Z"
PINNED: dict[str, Any] = {"event.id": ["event_id"], "conflict": "rename", "source.format": "jsonl"}


class Wrapped(Storage):
    """A storage that counts what is read of it, and on which a test can lay its hands."""

    def __init__(self, inner: Storage) -> None:
        self.inner = inner
        self.reads: list[str] = []
        self.listed: list[str] = []

    def read(self, name: str) -> bytes | None:
        self.reads.append(name)
        return self.inner.read(name)

    def create(self, name: str, content: bytes) -> bool:
        return self.inner.create(name, content)

    def names(self, folder: str) -> list[str]:
        self.listed.append(folder)
        return self.inner.names(folder)

    def delete(self, name: str) -> None:
        self.inner.delete(name)

    def sync(self, folder: str) -> None:
        self.inner.sync(folder)


class LostReply(Wrapped):
    """The write is done, the answer is lost."""

    def create(self, name: str, content: bytes) -> bool:
        self.inner.create(name, content)
        raise StoreUnavailable(f"no answer for {name}")


class RepeatedRequest(Wrapped):
    """The answer was lost underneath and the request repeated: "exists", for one's own write."""

    def create(self, name: str, content: bytes) -> bool:
        self.inner.create(name, content)
        return False


class NothingWritten(Wrapped):
    def create(self, name: str, content: bytes) -> bool:
        raise StoreUnavailable(f"{name} could not be written")


class Before(Wrapped):
    """Somebody else acts between our last look and our write."""

    def __init__(self, inner: Storage, act: Callable[[str], None]) -> None:
        super().__init__(inner)
        self.act = act

    def create(self, name: str, content: bytes) -> bool:
        self.act(name)
        return self.inner.create(name, content)


def memory() -> Storage:
    return ObjectStorage(MemoryStore(), "books")


@pytest.fixture(params=["folder", "objects"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return LocalStorage(tmp_path / "books") if request.param == "folder" else memory()


def plan(number: int, moment: str = MOMENT, files: list[InputFile] | None = None) -> Plan:
    return Plan(
        number=number,
        run=run_id(number, moment),
        books="b",
        pipeline="clicks",
        moment=moment,
        reference=None,
        mark=None,
        horizon_seconds=1.0,
        feeds=["parquet:out"],
        ledger="lake:ledger",
        files=files or [],
    )


def commit(state: State, attempt: str = "a1", **changes: Any) -> Commit:
    made = Commit(
        number=state.number + 1,
        run=run_id(state.number + 1, MOMENT),
        books=state.books,
        status=Status.COMMITTED,
        attempt=attempt,
        moment=MOMENT,
        mark=state.mark,
        reference=state.reference,
        horizon_seconds=1.0,
        counts=Counts(read=1, accepted=1),
        files=[],
        feeds={},
        segment=None,
        sinks=[],
        ledger="lake:ledger",
        columns={},
        previous=state.digest,
    )
    return sealed(replaced(made, **changes))


def opened(storage: Storage) -> Books:
    books = Books(storage)
    books.open("clicks", PINNED, MOMENT)
    return books


def filled(storage: Storage, count: int, checkpoints: bool = False) -> Books:
    books = opened(storage)
    for _ in range(count):
        state = books.load()
        books.make_commit(commit(state, files=[booked_file(state.number + 1)]))
        if checkpoints:
            books.checkpoint(books.load())
    return books


def booked_file(number: int) -> BookedFile:
    return BookedFile(path=f"in/{number}.jsonl", size=number, modified=number, crc32=number, records=1)


def edit(storage: Storage, name: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a file of the books by hand."""
    content = storage.read(name)
    assert content is not None
    fields = json.loads(content)
    change(fields)
    storage.delete(name)
    storage.create(name, json.dumps(fields, indent=1).encode())


# Opening


def test_books_are_made_and_taken_up(storage: Storage) -> None:
    assert Books(storage).identity() is None
    made = Books(storage).open("clicks", PINNED, MOMENT)
    assert Books(storage).open("clicks", PINNED, "2027-01-01T00:00:00.000000Z") == made
    assert (made.pipeline, made.pinned, made.created) == ("clicks", PINNED, MOMENT)


def test_two_that_open_at_once_get_one_identity(storage: Storage) -> None:
    barrier = threading.Barrier(6)
    found: list[Identity] = []

    def open_books() -> None:
        barrier.wait()
        found.append(Books(storage).open("clicks", PINNED, MOMENT))

    threads = [threading.Thread(target=open_books) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len({identity.books for identity in found}) == 1


def test_of_two_pipelines_that_open_at_once_one_is_refused(storage: Storage) -> None:
    def other_comes_first(name: str) -> None:
        Books(storage).open("other", PINNED, MOMENT)

    with pytest.raises(SettingPinned, match="belong to pipeline 'other', not 'clicks'"):
        Books(Before(storage, other_comes_first)).open("clicks", PINNED, MOMENT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conflict": "reject"}, 'conflict is "reject", but these books were made with "rename"'),
        ({"event.id": ["a", "b"]}, 'event.id is ["a","b"], but these books were made with ["event_id"]'),
        ({"source.format": None}, 'source.format is not set, but these books were made with "jsonl"'),
        ({"clock": "wall"}, 'clock is "wall", but these books were made with not set'),
    ],
)
def test_pinned_settings_are_refused_by_their_key(storage: Storage, changes: dict[str, Any], message: str) -> None:
    opened(storage)
    with pytest.raises(SettingPinned) as caught:
        Books(storage).open("clicks", PINNED | changes, MOMENT)
    assert str(caught.value).startswith(message)
    assert caught.value.exit_status == 2


def test_another_pipelines_books_are_refused(storage: Storage) -> None:
    opened(storage)
    with pytest.raises(SettingPinned, match="belong to pipeline 'clicks', not 'views'"):
        Books(storage).open("views", PINNED, MOMENT)


@pytest.mark.parametrize("folder", ["plans", "commits"])
def test_books_without_their_identity_are_damaged(storage: Storage, folder: str) -> None:
    storage.create(f"{folder}/000000001.json", b"{}")
    with pytest.raises(BooksDamaged, match=r"pipeline\.json is missing"):
        Books(storage).open("clicks", PINNED, MOMENT)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "cannot be read"), (b"{}", "cannot be read"), (b'{"books": 5}', "cannot be read")],
)
def test_an_unreadable_identity_is_damage(storage: Storage, content: bytes, message: str) -> None:
    storage.create("pipeline.json", content)
    with pytest.raises(BooksDamaged, match=message):
        Books(storage).open("clicks", PINNED, MOMENT)


# Plans


def test_a_plan_is_kept(storage: Storage) -> None:
    books = opened(storage)
    first = plan(1, files=[InputFile(path="in/a é.jsonl", size=1, modified=2)])
    assert books.plan(1) is None
    assert books.make_plan(first) == first
    assert books.plan(1) == first


def test_of_two_plans_both_get_the_same(storage: Storage) -> None:
    mine, theirs = plan(1), plan(1, "2026-02-03T04:05:06.000000Z")

    def other_comes_first(name: str) -> None:
        storage.create(name, encode(theirs))

    assert Books(Before(storage, other_comes_first)).make_plan(mine) == theirs
    assert Books(storage).make_plan(mine) == theirs


def test_plans_that_race(storage: Storage) -> None:
    books = opened(storage)
    for number in range(1, 6):
        barrier = threading.Barrier(4)
        made: list[Plan] = []

        def make(i: int, number: int = number, barrier: threading.Barrier = barrier, made: list[Plan] = made) -> None:
            barrier.wait()
            made.append(books.make_plan(plan(number, f"2026-01-02T03:04:0{i}.000000Z")))

        threads = [threading.Thread(target=make, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 4
        assert all(each == made[0] for each in made)


@pytest.mark.parametrize("wrapper", [LostReply, RepeatedRequest])
def test_a_plan_whose_answer_is_lost(wrapper: type[Wrapped]) -> None:
    """It is there: made now, or found by the next run."""
    storage = memory()
    try:
        assert Books(wrapper(storage)).make_plan(plan(1)) == plan(1)
    except StoreUnavailable:
        assert wrapper is LostReply
    assert Books(storage).make_plan(plan(1, "2027-01-01T00:00:00.000000Z")) == plan(1)


# Commits


@pytest.mark.parametrize("wrapper", [Wrapped, LostReply, RepeatedRequest])
def test_a_commit_stands_whatever_became_of_the_answer(wrapper: type[Wrapped], storage: Storage) -> None:
    state = opened(storage).load()
    mine = commit(state)
    Books(wrapper(storage)).make_commit(mine)
    assert Books(storage).commit(1) == mine
    Books(wrapper(storage)).make_commit(mine)


@pytest.mark.parametrize("wrapper", [Wrapped, LostReply, RepeatedRequest, NothingWritten])
def test_another_attempts_commit_means_lost(wrapper: type[Wrapped], storage: Storage) -> None:
    books = opened(storage)
    theirs = commit(books.load(), "a-theirs")
    mine = commit(books.load(), "a-mine")
    books.make_commit(theirs)
    with pytest.raises(CommittedByAnother) as caught:
        Books(wrapper(storage)).make_commit(mine)
    assert caught.value.details == {"run": mine.run}
    assert books.commit(1) == theirs


def test_the_other_attempt_may_come_at_the_last_moment(storage: Storage) -> None:
    books = opened(storage)
    theirs, mine = commit(books.load(), "a-theirs"), commit(books.load(), "a-mine")
    late = Before(storage, lambda name: books.make_commit(theirs))
    with pytest.raises(CommittedByAnother):
        Books(late).make_commit(mine)


def test_a_void_commit_means_lost_too(storage: Storage) -> None:
    books = opened(storage)
    books.make_commit(commit(books.load(), "a-operator", status=Status.VOID))
    with pytest.raises(CommittedByAnother, match="was void by another process"):
        books.make_commit(commit(State.empty(books.load().books), "a-mine"))


def test_a_commit_that_was_surely_not_written_can_be_made_again(storage: Storage) -> None:
    books = opened(storage)
    mine = commit(books.load())
    with pytest.raises(StoreUnavailable, match=r"000000001\.json could not be written") as caught:
        Books(NothingWritten(storage)).make_commit(mine)
    assert caught.value.retry_helps
    assert books.commit(1) is None
    assert books.load().number == 0
    books.make_commit(mine)


def test_a_commit_whose_outcome_cannot_be_read_back_is_unknown(storage: Storage) -> None:
    books = opened(storage)
    mine = commit(books.load())

    class Deaf(LostReply):
        def read(self, name: str) -> bytes | None:
            raise StoreUnavailable("no answer")

    with pytest.raises(StoreUnavailable):
        Books(Deaf(storage)).make_commit(mine)
    assert books.commit(1) == mine


def test_attempts_that_race_have_one_winner(storage: Storage) -> None:
    books = opened(storage)
    for number in range(1, 6):
        state = books.load()
        barrier = threading.Barrier(4)
        outcomes: list[str] = []

        def attempt(
            i: int,
            state: State = state,
            barrier: threading.Barrier = barrier,
            outcomes: list[str] = outcomes,
        ) -> None:
            barrier.wait()
            try:
                books.make_commit(commit(state, f"a{i}"))
            except CommittedByAnother:
                outcomes.append("lost")
            else:
                outcomes.append(f"a{i}")

        threads = [threading.Thread(target=attempt, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        standing = books.commit(number)
        assert standing is not None
        assert sorted(outcomes) == sorted([standing.attempt, "lost", "lost", "lost"])


# Loading


def test_the_state_of_empty_books(storage: Storage) -> None:
    books = opened(storage)
    identity = books.identity()
    assert identity is not None
    assert books.load_with_last() == (State.empty(identity.books), None)
    assert books.load().digest == NO_COMMIT


def test_the_state_and_the_last_commit(storage: Storage) -> None:
    books = filled(storage, 3)
    state, last = books.load_with_last()
    assert last == books.commit(3)
    assert (state.number, state.runs, state.totals) == (3, 3, Counts(read=3, accepted=3))
    assert state.booked == {f"in/{n}.jsonl": (n, n, n) for n in (1, 2, 3)}
    assert [found.number for found, _ in books.commits()] == [1, 2, 3]
    assert [found.number for found, _ in books.commits(3)] == [3]


segments = st.none() | st.builds(
    lambda newest, count: Segment(
        number=1,
        folder="x",
        parts=[
            SegmentPart(name="p", entries=1, size=1, crc32=1, low=0, high=1, oldest=0, newest=newest)
            for _ in range(count)
        ],
    ),
    st.integers(0, 60),
    st.integers(0, 2),
)
paths = st.sampled_from(["in/a", "in/b", "in/é"])
made_up_commits = st.fixed_dictionaries(
    {
        "status": st.sampled_from([Status.COMMITTED, Status.COMMITTED, Status.VOID]),
        "segment": segments,
        "mark": st.none() | st.integers(0, 60).map(iso),
        "reference": st.none() | st.integers(0, 60).map(iso),
        "files": st.lists(
            st.builds(BookedFile, path=paths, size=st.just(1), modified=st.integers(0, 9), crc32=st.integers(0, 9),
                      records=st.just(1)), max_size=2),
        "touched": st.lists(
            st.builds(InputFile, path=paths, size=st.just(1), modified=st.integers(10, 19)), max_size=2),
        "counts": st.builds(Counts, read=st.integers(0, 5), bad=st.integers(0, 5), accepted=st.integers(0, 5)),
    }
)  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(st.lists(made_up_commits, min_size=1, max_size=10))
def test_with_checkpoints_the_state_is_the_same(made_up: list[dict[str, Any]]) -> None:
    """A void commit books nothing, whatever stands in it."""
    plain, checkpointed = memory(), memory()
    identity = Identity(books="b", pipeline="clicks", created=MOMENT, pinned={})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(books_module, "CHECKPOINT_EVERY", 3)
        for storage in (plain, checkpointed):
            storage.create("pipeline.json", encode(identity))
            books = Books(storage)
            for fields in made_up:
                books.make_commit(commit(books.load(), **fields))
                if storage is checkpointed:
                    books.checkpoint(books.load())
        assert len(checkpointed.names("checkpoints")) == min(len(made_up) // 3, 2)
        assert plain.names("checkpoints") == []
        folded = State.empty("b")
        for found, content_digest in Books(plain).commits():
            folded = advance(folded, found, content_digest)
        assert Books(checkpointed).load_with_last() == Books(plain).load_with_last()
        assert Books(plain).load() == folded
    assert folded.totals.read == sum(fields["counts"].read for fields in made_up)
    assert folded.runs == sum(fields["status"] is Status.COMMITTED for fields in made_up)


def segment(number: int, *newest: int) -> Segment:
    parts = [
        SegmentPart(name=f"p{at}", entries=1, size=1, crc32=1, low=0, high=1, oldest=0, newest=at) for at in newest
    ]
    return Segment(number=number, folder=f"r{number}", parts=parts)


@pytest.mark.parametrize(
    ("mark", "kept"), [(None, [1, 2, 3]), (9, [1, 2, 3]), (10, [1, 2, 3]), (11, [2, 3]), (21, [2])]
)
def test_segments_are_kept_while_an_entry_is_not_below_the_mark(mark: int | None, kept: list[int]) -> None:
    state = State.empty("b")
    for made in (segment(1, 10), segment(2, 5, 30), segment(3, 20), segment(4)):
        state = advance(state, commit(state, segment=made, mark=None if mark is None else iso(mark)), "d")
    assert [each.number for each in state.segments] == kept


def test_a_touched_file_keeps_its_checksum() -> None:
    state = advance(State.empty("b"), commit(State.empty("b"), files=[booked_file(7)]), "d")
    touched = [
        InputFile(path="in/7.jsonl", size=7, modified=99),
        InputFile(path="in/unknown.jsonl", size=1, modified=99),
    ]
    assert advance(state, commit(state, touched=touched), "d").booked == {"in/7.jsonl": (7, 99, 7)}


def test_a_void_commit_takes_a_number_and_nothing_else() -> None:
    state = replaced(State.empty("b"), booked={"in/a": (1, 2, 3)})
    touched = [InputFile(path="in/a", size=1, modified=9)]
    part = SegmentPart(name="p", entries=1, size=1, crc32=1, low=0, high=1, oldest=0, newest=5)
    void = commit(
        state,
        status=Status.VOID,
        files=[booked_file(1)],
        touched=touched,
        segment=Segment(number=1, folder="x", parts=[part]),
        counts=Counts(),
    )
    after = advance(state, void, "d")
    assert (after.number, after.runs, after.booked, after.segments) == (1, 0, {"in/a": (1, 2, 3)}, [])


def test_checkpoints_are_written_now_and_then_and_the_old_ones_dropped(storage: Storage) -> None:
    books = filled(storage, 3 * CHECKPOINT_EVERY + 1, checkpoints=True)
    assert storage.names("checkpoints") == [
        f"{2 * CHECKPOINT_EVERY:09d}.json.gz",
        f"{3 * CHECKPOINT_EVERY:09d}.json.gz",
    ]
    reading = Wrapped(storage)
    assert Books(reading).load() == books.load()
    assert len(reading.reads) <= 8


# Damage


@pytest.fixture
def checkpointed(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Books:
    """Ten commits, with checkpoints at 6 and 9."""
    monkeypatch.setattr(books_module, "CHECKPOINT_EVERY", 3)
    return filled(storage, 10, checkpoints=True)


def put(storage: Storage, name: str, content: bytes) -> None:
    storage.delete(name)
    storage.create(name, content)


def newer(content: bytes) -> bytes:
    """The checkpoint as a later format would have it."""
    body = json.loads(gzip.decompress(content).partition(b"\n")[2])
    changed = json.dumps(body | {"format": 99, "number": 8}).encode()
    return gzip.compress(digest(changed).encode() + b"\n" + changed)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"not gzip",
        lambda content: content[:-20],
        lambda content: content[:40] + b"\x00" + content[41:],
        lambda content: gzip.compress(b"{}"),
        lambda content: gzip.compress(gzip.decompress(content).replace(b'"runs":9', b'"runs":8')),
        newer,
    ],
    ids=["empty", "not gzip", "truncated", "a byte", "no state", "edited", "newer"],
)
def test_a_damaged_checkpoint_is_passed_over(checkpointed: Books, damage: Callable[[bytes], bytes]) -> None:
    storage = checkpointed.storage
    expected = checkpointed.load_with_last()
    for name in storage.names("checkpoints")[::-1]:
        content = storage.read(f"checkpoints/{name}")
        assert content is not None
        put(storage, f"checkpoints/{name}", damage(content))
        assert checkpointed.load_with_last() == expected


def test_a_checkpoint_of_other_books_is_not_taken(checkpointed: Books) -> None:
    """Copied by mistake, it must not bring its own memory along."""
    others = filled(memory(), 9, checkpoints=True)
    name = "checkpoints/000000009.json.gz"
    content = others.storage.read(name)
    assert content is not None
    put(checkpointed.storage, name, content)
    with pytest.raises(BooksDamaged):
        checkpointed.load()


def test_a_missing_commit_that_was_checkpointed_is_damage(checkpointed: Books) -> None:
    checkpointed.storage.delete("commits/000000010.json")
    checkpointed.storage.delete("commits/000000009.json")
    with pytest.raises(BooksDamaged, match=r"commits/000000009\.json is missing, but a checkpoint counts it"):
        checkpointed.load()


@pytest.mark.parametrize("number", [1, 2])
def test_a_hole_in_the_commits_is_damage(storage: Storage, number: int) -> None:
    books = filled(storage, 3)
    storage.delete(f"commits/{number:09d}.json")
    with pytest.raises(BooksDamaged, match=rf"commits/{number:09d}\.json is missing"):
        books.load()


def test_a_lost_commit_is_noticed_by_the_plan_after_it(storage: Storage) -> None:
    books = filled(storage, 3)
    books.make_plan(plan(3))
    books.make_plan(plan(4))
    storage.delete("commits/000000003.json")
    with pytest.raises(BooksDamaged, match=r"commits/000000003\.json is missing"):
        books.load()


def test_an_open_plan_is_no_hole(storage: Storage) -> None:
    books = filled(storage, 3)
    books.make_plan(plan(4))
    assert books.load().number == 3


@pytest.mark.parametrize("number", [9, 10])
def test_an_edited_commit_is_damage(checkpointed: Books, number: int) -> None:
    name = f"commits/{number:09d}.json"
    edit(checkpointed.storage, name, lambda fields: fields["counts"].update(accepted=2))
    with pytest.raises(BooksDamaged, match=f"{name} was changed"):
        checkpointed.load()
    with pytest.raises(BooksDamaged, match=f"{name} was changed"):
        checkpointed.commit(number)
    with pytest.raises(BooksDamaged, match=f"{name} was changed"):
        list(checkpointed.commits())


def test_a_checkpointed_commit_that_was_exchanged_is_damage(checkpointed: Books) -> None:
    """Whole and sealed, but not the one that the checkpoint counted in."""
    storage = checkpointed.storage
    ninth = checkpointed.commit(9)
    assert ninth is not None
    storage.delete("commits/000000010.json")
    put(storage, "commits/000000009.json", encode(sealed(replaced(ninth, attempt="a-other"))))
    with pytest.raises(BooksDamaged, match=r"commits/000000009\.json was changed after it was checkpointed"):
        checkpointed.load()


def test_a_field_put_into_a_commit_is_damage(checkpointed: Books) -> None:
    edit(checkpointed.storage, "commits/000000010.json", lambda fields: fields.update(added=1))
    with pytest.raises(BooksDamaged):
        checkpointed.load()


def test_a_commit_that_was_only_written_in_another_way_is_as_good(checkpointed: Books) -> None:
    """White space is no change; the chain sees it where another commit follows."""
    edit(checkpointed.storage, "commits/000000010.json", lambda fields: None)
    assert checkpointed.load().number == 10


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b'{"number": "x"}'])
def test_an_unreadable_commit_is_damage(checkpointed: Books, content: bytes) -> None:
    put(checkpointed.storage, "commits/000000010.json", content)
    with pytest.raises(BooksDamaged, match=r"commits/000000010\.json"):
        checkpointed.load()


def test_a_broken_chain_is_damage(storage: Storage) -> None:
    books = filled(storage, 3)
    forged = commit(replaced(books.load(), number=1, digest="f" * 64), "a-forged")
    put(storage, "commits/000000002.json", encode(forged))
    with pytest.raises(BooksDamaged, match=r"commits/000000002\.json does not follow"):
        books.load()


def test_an_exchanged_commit_breaks_the_chain_after_it(storage: Storage) -> None:
    books = filled(storage, 3)
    first = Books(storage).commit(1)
    assert first is not None
    put(storage, "commits/000000002.json", encode(commit(advance(State.empty(first.books), first, "x"), "a-other")))
    with pytest.raises(BooksDamaged, match="does not follow"):
        books.load()


@pytest.mark.parametrize("other", ["number", "books"])
def test_a_commit_of_another_place_is_damage(storage: Storage, other: str) -> None:
    books = filled(storage, 3)
    content = filled(memory(), 4).storage.read("commits/000000004.json")
    if other == "number":
        content = storage.read("commits/000000002.json")
    assert content is not None
    storage.create("commits/000000004.json", content)
    with pytest.raises(BooksDamaged, match="belongs to other books or another number"):
        books.load()


@pytest.mark.parametrize("name", ["pipeline.json", "plans/000000004.json", "commits/000000003.json"])
def test_a_newer_format_is_refused(storage: Storage, name: str) -> None:
    books = filled(storage, 3)
    books.make_plan(plan(4))
    edit(storage, name, lambda fields: fields.update(format=99))
    with pytest.raises(BooksDamaged, match=rf"{name} was written by a newer semel \(format 99\)"):
        (books.identity(), books.plan(4), books.load())


def test_unknown_fields_of_a_newer_semel_are_passed_over(storage: Storage) -> None:
    books = opened(storage)
    state = books.load()
    fields = json.loads(encode(commit(state))) | {"added": {"x": [1]}}
    fields.pop("checksum")
    fields["checksum"] = digest(msgspec.json.encode(fields, order="sorted"))
    storage.create("commits/000000001.json", json.dumps(fields).encode())
    assert books.load().number == 1


# Run ids


def test_run_ids_start_with_a_letter_and_sort_by_time() -> None:
    runs = [
        run_id(number, iso(from_iso(MOMENT) + number * 86_400_000_000)) for number in (1, 2, 9, 10, 11, 99_999, 100_000)
    ]
    assert runs == sorted(runs)
    assert all(run[0].isalpha() for run in runs)
    assert [run_number(run) for run in runs] == [1, 2, 9, 10, 11, 99_999, 100_000]
    assert runs[0] == "r000000001-20260103T030405Z"


@pytest.mark.parametrize(
    "text",
    ["", "r1", "unknown", "run=r000000001-20260103T030405Z", "r000000001-20260103T030405Z.tmp", "publish-events"],
)
def test_what_is_no_run_id(text: str) -> None:
    assert run_number(text) is None


# A long life


def test_after_a_hundred_thousand_commits_a_few_objects_are_read(tmp_path: Path) -> None:
    """The commits before the checkpoint are not made: nothing may want to read them."""
    last = 99_984
    storage = LocalStorage(tmp_path / "books")
    books = opened(storage)
    identity = books.identity()
    assert identity is not None
    booked = {f"in/2026/01/{n:06d}.jsonl": (n, 1_700_000_000_000_000_000 + n, n) for n in range(100_000)}
    before = replaced(State.empty(identity.books), number=last - 1, digest="d" * 64, runs=last - 1)
    newest = commit(before)
    state = replaced(advance(before, newest, digest(encode(newest))), booked=booked)
    assert books.storage.create(f"commits/{last:09d}.json", encode(newest))
    assert last % CHECKPOINT_EVERY == 16
    at = last - 16
    earlier = replaced(State.empty(identity.books), number=at - 1, digest="e" * 64, runs=at - 1)
    first = commit(earlier)
    state = replaced(advance(earlier, first, digest(encode(first))), booked=booked)
    assert books.storage.create(f"commits/{at:09d}.json", encode(first))
    storage.delete(f"commits/{last:09d}.json")
    books.checkpoint(state)
    assert storage.names("checkpoints") == [f"{at:09d}.json.gz"]
    for number in range(at + 1, 100_000):
        made = commit(state, files=[booked_file(number)])
        content = encode(made)
        (tmp_path / f"books/commits/{number:09d}.json").write_bytes(content)
        state = advance(state, made, digest(content))
    reading = Wrapped(storage)
    tracemalloc.start()
    found = Books(reading).load()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == state
    assert len(found.booked) == 100_000 + 99_999 - at
    assert len(reading.reads) <= 60
    assert reading.listed == ["checkpoints"]
    assert peak < 100_000_000


def test_nothing_new_reads_no_more_than_a_checkpoint_and_the_commits_after_it(storage: Storage) -> None:
    filled(storage, CHECKPOINT_EVERY + 3, checkpoints=True)
    reading = Wrapped(storage)
    Books(reading).load_with_last()
    expected = ["checkpoints/000000032.json.gz", *(f"commits/{n:09d}.json" for n in (32, 33, 34, 35, 36))]
    assert reading.reads[:6] == expected
    assert len(reading.reads) <= 8


# Mark and reference time


def state_with(reference: int | None, mark: int | None) -> State:
    return replaced(
        State.empty("b"),
        reference=None if reference is None else iso(reference),
        mark=None if mark is None else iso(mark),
    )


HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("what", "clock", "reference", "mark", "moment", "horizon", "expected"),
    [
        ("nothing accepted yet", "event", None, None, 50 * HOUR, 2, (None, None)),
        ("counted back from events", "event", 10 * HOUR, None, 50 * HOUR, 2, (10 * HOUR, 8 * HOUR)),
        ("it rises", "event", 10 * HOUR, 7 * HOUR, 50 * HOUR, 2, (10 * HOUR, 8 * HOUR)),
        ("it never falls: longer horizon", "event", 10 * HOUR, 9 * HOUR, 50 * HOUR, 5, (10 * HOUR, 9 * HOUR)),
        ("a shorter horizon raises it", "event", 10 * HOUR, 5 * HOUR, 50 * HOUR, 1, (10 * HOUR, 9 * HOUR)),
        ("before 1970", "event", 0, None, 50 * HOUR, 2, (0, -2 * HOUR)),
        ("counted back from the wall", "wall", 10 * HOUR, None, 50 * HOUR, 2, (50 * HOUR, 48 * HOUR)),
        ("the wall, nothing accepted", "wall", None, None, 50 * HOUR, 2, (50 * HOUR, 48 * HOUR)),
        ("a wall clock set back", "wall", None, 48 * HOUR, 40 * HOUR, 2, (40 * HOUR, 48 * HOUR)),
        ("the mark is kept while there is no reference", "event", None, 5 * HOUR, 50 * HOUR, 2, (None, 5 * HOUR)),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_the_next_mark(
    what: str,
    clock: str,
    reference: int | None,
    mark: int | None,
    moment: int,
    horizon: int,
    expected: tuple[int | None, int | None],
) -> None:
    assert next_mark(state_with(reference, mark), moment, timedelta(hours=horizon), clock) == expected


def test_a_mark_before_the_calendar() -> None:
    """Where all events so far are from the first day of the year 1, as unset times are: the books can hold the mark."""
    _, mark = next_mark(state_with(EARLIEST, None), 50 * HOUR, timedelta(days=30), "event")
    assert mark is not None
    assert from_iso(iso(mark)) == mark


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 100) | st.none(), st.integers(0, 50), st.integers(0, 100)), max_size=10),
    st.sampled_from(["event", "wall"]),
)
def test_the_mark_never_falls(steps: list[tuple[int | None, int, int]], clock: str) -> None:
    state = State.empty("b")
    for newest, horizon, moment in steps:
        before = None if state.mark is None else from_iso(state.mark)
        _, mark = next_mark(state, moment, timedelta(microseconds=horizon), clock)
        assert before is None or (mark is not None and mark >= before)
        made = commit(state, mark=None if mark is None else iso(mark), reference=later(state.reference, newest))
        state = advance(state, made, "d")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, None, None),
        (None, 5, iso(5)),
        (iso(5), None, iso(5)),
        (iso(5), 4, iso(5)),
        (iso(5), 5, iso(5)),
        (iso(5), 6, iso(6)),
        (iso(-5), -6, iso(-5)),
    ],
)
def test_the_later_of_two_times(first: str | None, second: int | None, expected: str | None) -> None:
    assert later(first, second) == expected


# Counts


def test_counts_add_up_and_balance() -> None:
    one = Counts(read=10, accepted=5, conflicts=1, duplicates=2, stale=1, rejected=1, bad=1)
    assert one.balanced
    assert (one + one).as_dict() == {name: 2 * value for name, value in one.as_dict().items()}
    assert not replaced(one, read=11).balanced
    assert replaced(one, conflicts=5).balanced
