"""The books of one pipeline: numbered plans and commits, created once and never changed.

    pipeline.json           whose books these are, and the settings that may not change
    plans/<n>.json          run n as it was planned
    commits/<n>.json        run n as it happened
    checkpoints/<n>.json.gz what the commits up to n add up to

Creating `commits/<n>.json` is the one atomic act of a run. Everything here can be done by two processes at once.
"""

from __future__ import annotations

import gzip
import re
import uuid
import zlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from semel.books.records import (
    FORMAT,
    Commit,
    Plan,
    Record,
    State,
    decode,
    digest,
    encode,
    is_sealed,
)
from semel.books.state import advance
from semel.books.storage import Storage
from semel.errors import BooksDamaged, CommittedByAnother, SettingPinned, StoreUnavailable
from semel.model.crashpoints import CrashPoint, reached

CHECKPOINT_EVERY: Final = 32
KEEP_CHECKPOINTS: Final = 2
_RUN_ID: Final = re.compile(r"^r(\d{9})-\d{8}T\d{6}Z$")


class Identity(Record, frozen=True, kw_only=True):
    """Whose books these are."""

    books: str
    pipeline: str
    created: str
    pinned: dict[str, Any]
    format: int = FORMAT


def run_id(number: int, moment: str) -> str:
    """Starts with a letter, sorts by time, is unique in the books.

    >>> run_id(12, "2026-01-02T03:04:05.678900Z")
    'r000000012-20260102T030405Z'
    """
    return f"r{number:09d}-{moment[:19].replace('-', '').replace(':', '')}Z"


def run_number(run: str) -> int | None:
    """The number in a run id, or None if it is not one."""
    match = _RUN_ID.match(run)
    return int(match[1]) if match else None


class Books:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def identity(self) -> Identity | None:
        content = self.storage.read("pipeline.json")
        return None if content is None else decode(Identity, content, "pipeline.json")

    def open(self, pipeline: str, pinned: dict[str, Any], moment: str) -> Identity:
        """Take up the books, or make them; refuse another pipeline's, and settings that may not change."""
        found = self.identity()
        if found is None:
            if self.storage.names("commits") or self.storage.names("plans"):
                raise BooksDamaged(
                    "pipeline.json is missing from books that are not empty; restore it from a backup, "
                    "or give the pipeline an empty folder for its books"
                )
            made = Identity(books=str(uuid.uuid4()), pipeline=pipeline, created=moment, pinned=pinned)
            self.storage.create("pipeline.json", encode(made))
            reached(CrashPoint.BOOKS_CREATED)
            found = self.identity()
            if found is None:
                raise StoreUnavailable("pipeline.json was written but cannot be read back; run again")
        self.check(found, pipeline, pinned)
        return found

    def check(self, identity: Identity, pipeline: str, pinned: dict[str, Any]) -> None:
        if identity.pipeline != pipeline:
            raise SettingPinned(
                f"these books belong to pipeline {identity.pipeline!r}, not {pipeline!r}; "
                "set `pipeline` to that, or give this pipeline books of its own"
            )
        for key in {**pinned, **identity.pinned}:
            was, is_now = identity.pinned.get(key), pinned.get(key)
            if was != is_now:
                raise SettingPinned(
                    f"{key} is {_shown(is_now)}, but these books were made with {_shown(was)}, and what was accepted "
                    f"so far was decided by that; set it back, or start a new pipeline with new books and feeds"
                )

    def load(self) -> State:
        """The newest checkpoint and the commits after it."""
        return self.load_with_last()[0]

    def load_with_last(self) -> tuple[State, Commit | None]:
        """The state, and the last commit, which the next command has to see through."""
        state = self._newest_checkpoint()
        last = None if state.number == 0 else self._checkpointed(state)
        while (content := self.storage.read(object_name("commits", state.number + 1))) is not None:
            last = self._decode_commit(content, state.number + 1, state.books)
            if last.previous != state.digest:
                raise BooksDamaged(
                    f"{object_name('commits', last.number)} does not follow the commit before it; one of the two was "
                    "changed: run `semel audit`, and restore the books from a backup"
                )
            state = advance(state, last, digest(content))
        self._check_for_a_hole(state.number + 1)
        return state, last

    def commits(self, first: int = 1) -> Iterator[tuple[Commit, str]]:
        """Every commit from `first` on with the digest of its file, in order."""
        number = first
        while (content := self.storage.read(object_name("commits", number))) is not None:
            yield self._decode_commit(content, number, None), digest(content)
            number += 1

    def plan(self, number: int) -> Plan | None:
        name = object_name("plans", number)
        content = self.storage.read(name)
        return None if content is None else decode(Plan, content, name)

    def make_plan(self, plan: Plan) -> Plan:
        """Put the plan into the books, or get the one that is there already."""
        reached(CrashPoint.BEFORE_PLAN)
        self.storage.create(object_name("plans", plan.number), encode(plan))
        reached(CrashPoint.AFTER_PLAN)
        found = self.plan(plan.number)
        if found is None:
            raise StoreUnavailable(f"plan {plan.number} was written but cannot be read back; run again")
        return found

    def commit(self, number: int) -> Commit | None:
        content = self.storage.read(object_name("commits", number))
        return None if content is None else self._decode_commit(content, number, None)

    def make_commit(self, commit: Commit) -> None:
        """The one atomic act. Returns if this attempt's commit stands; raises CommittedByAnother if it lost.

        "Exists" and a lost answer are both read back: only a commit that names another attempt means lost.
        """
        reached(CrashPoint.BEFORE_COMMIT)
        unknown: StoreUnavailable | None = None
        try:
            self.storage.create(object_name("commits", commit.number), encode(commit))
        except StoreUnavailable as error:
            unknown = error
        standing = self.commit(commit.number)
        if standing is None:
            raise unknown or StoreUnavailable(f"commit {commit.number} was written but cannot be read back; run again")
        if standing.attempt != commit.attempt:
            raise CommittedByAnother(f"run {commit.run} was {standing.status.value} by another process", run=commit.run)
        reached(CrashPoint.AFTER_COMMIT)

    def checkpoint(self, state: State) -> bool:
        """Write a checkpoint if one is due, and drop the ones nobody will read; was one written?"""
        if state.number == 0 or state.number % CHECKPOINT_EVERY:
            return False
        body = msgspec.json.encode(state)
        content = gzip.compress(digest(body).encode() + b"\n" + body, compresslevel=3, mtime=0)
        made = self.storage.create(f"{object_name('checkpoints', state.number)}.gz", content)
        if made:
            reached(CrashPoint.CHECKPOINT_WRITTEN)
            for name in self.storage.names("checkpoints")[:-KEEP_CHECKPOINTS]:
                self.storage.delete(f"checkpoints/{name}")
        return made

    def _check_for_a_hole(self, missing: int) -> None:
        """Nothing is planned before the run before it is committed: a later plan or commit means that one is lost."""
        for later in (object_name("plans", missing + 1), object_name("commits", missing + 1)):
            if self.storage.read(later) is not None and self.storage.read(object_name("commits", missing)) is None:
                raise BooksDamaged(
                    f"{object_name('commits', missing)} is missing, but {later} is there; restore the books from a "
                    "backup"
                )

    def _checkpointed(self, state: State) -> Commit:
        name = object_name("commits", state.number)
        content = self.storage.read(name)
        if content is None:
            raise BooksDamaged(f"{name} is missing, but a checkpoint counts it in; restore the books from a backup")
        if digest(content) != state.digest:
            raise BooksDamaged(f"{name} was changed after it was checkpointed; restore the books from a backup")
        return self._decode_commit(content, state.number, state.books)

    def _newest_checkpoint(self) -> State:
        for name in reversed(self.storage.names("checkpoints")):
            content = self.storage.read(f"checkpoints/{name}")
            state = None if content is None else decode_checkpoint(content)
            if state is not None:
                return state
        identity = self.identity()
        return State.empty("" if identity is None else identity.books)

    def _decode_commit(self, content: bytes, number: int, books: str | None) -> Commit:
        name = object_name("commits", number)
        commit = decode(Commit, content, name)
        if commit.number != number or (books is not None and commit.books != books):
            raise BooksDamaged(f"{name} belongs to other books or another number; restore it from a backup")
        if not is_sealed(content):
            raise BooksDamaged(f"{name} was changed after it was written; restore it from a backup of the books")
        return commit


def decode_checkpoint(content: bytes) -> State | None:
    """A checkpoint only saves work: one that cannot be read is passed over."""
    try:
        checksum, _, body = gzip.decompress(content).partition(b"\n")
        if digest(body).encode() != checksum:
            return None
        state = msgspec.json.decode(body, type=State)
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    return state if state.format <= FORMAT else None


def object_name(folder: str, number: int) -> str:
    """`plans/000000001.json`: padded, so that names sort as numbers do."""
    return f"{folder}/{number:09d}.json"


def _shown(value: Any) -> str:
    return "not set" if value is None else msgspec.json.encode(value).decode()
