"""Do the books agree with themselves? One bad page does not hide the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from semel.books.books import Books, Identity, decode_checkpoint, object_name, run_number
from semel.books.records import (
    NO_COMMIT,
    Commit,
    Counts,
    Plan,
    State,
    Status,
    decode,
    digest,
    is_sealed,
    replaced,
)
from semel.books.state import advance
from semel.errors import BooksDamaged
from semel.model.verdicts import Feed
from semel.observe.audit_report import Findings

RESTORE: Final = "restore it from a backup of the books"
COUNTED_AS: Final = {feed.value: "accepted" if feed is Feed.EVENTS else feed.value for feed in Feed}
"""Feed to the name of its count."""
R = TypeVar("R", Plan, Commit)
_NUMBERED: Final = re.compile(r"^(\d{9,})\.json(?:\.gz)?$")


@dataclass(frozen=True)
class Entry:
    """A run as the books have it. An entry that is not sound was changed, and still says where to look."""

    commit: Commit
    plan: Plan | None
    digest: str
    sound: bool

    @property
    def committed(self) -> bool:
        return self.commit.status is Status.COMMITTED

    @property
    def recorded(self) -> bool:
        """Was it judged against a ledger, and remembered by it?"""
        return self.commit.segment is not None if self.plan is None else self.plan.ledger != "none"


@dataclass
class BooksFound:
    identity: Identity | None
    last: int
    """The number of the last commit that is listed."""
    state: State
    entries: list[Entry] = field(default_factory=list)
    unreadable_runs: set[str] = field(default_factory=set)
    """Runs whose commit is lost: nothing can be said of their files."""

    @property
    def committed(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.committed]


def has_no_holes(books: Books) -> bool:
    numbers = _numbers(books, "commits")
    return numbers == list(range(1, len(numbers) + 1))


def check_books(books: Books, identity: Identity | None, findings: Findings, newest: int | None = None) -> BooksFound:
    """What the books say, up to commit `newest` if that is given."""
    return _BooksCheck(books, identity, findings, newest).check()


class _BooksCheck:
    def __init__(self, books: Books, identity: Identity | None, findings: Findings, newest: int | None) -> None:
        self.books = books
        self.findings = findings
        self.commits = [number for number in _numbers(books, "commits") if newest is None or number <= newest]
        self.plans = [number for number in _numbers(books, "plans") if newest is None or number <= newest + 1]
        last = self.commits[-1] if self.commits else 0
        empty = State.empty("" if identity is None else identity.books)
        self.found = BooksFound(identity, last, empty)
        self.checkpoints = {}
        for number in _numbers(books, "checkpoints"):
            if newest is not None and number > newest:
                continue
            self.checkpoints[number] = object_name("checkpoints", number) + ".gz"

    def check(self) -> BooksFound:
        whole = True
        for number in range(1, self.found.last + 1):
            plan = self._plan(number)
            entry = self._entry(number, plan)
            if entry is None:
                whole = False
                if plan is not None:
                    self.found.unreadable_runs.add(plan.run)
                continue
            whole = whole and entry.sound
            self._check_entry(entry)
            self.found.entries.append(entry)
            self._fold(entry)
            if number in self.checkpoints:
                self._check_checkpoint(number, whole)
        self._check_ends()
        self._check_booked_once()
        return self.found

    def _plan(self, number: int) -> Plan | None:
        name = object_name("plans", number)
        content = self.books.storage.read(name)
        if content is None:
            what = "is missing, and there is a commit of that number or a later one"
            self.findings.add("plan", name, what, RESTORE)
            return None
        plan = self._decoded(Plan, content, name, "plan")
        if plan is not None and plan.number != number:
            self.findings.add("plan", name, f"is the plan of run {plan.number}", RESTORE)
            return None
        return plan

    def _entry(self, number: int, plan: Plan | None) -> Entry | None:
        name = object_name("commits", number)
        content = self.books.storage.read(name)
        if content is None:
            self.findings.add("commit", name, "is missing, while later commits are there", RESTORE)
            return None
        commit = self._decoded(Commit, content, name, "commit")
        if commit is None:
            return None
        if commit.number != number or commit.books != self._books_id(commit):
            what = f"is commit {commit.number} of books {commit.books}, which is another one"
            self.findings.add("commit", name, what, RESTORE)
            return None
        sealed = is_sealed(content)
        if not sealed:
            self.findings.add("commit", name, "was changed after it was written", RESTORE)
        return Entry(commit, plan, digest(content), sealed and self._follows(commit))

    def _books_id(self, commit: Commit) -> str:
        """The id in pipeline.json, or, where that is lost, the one of the first commit."""
        if not self.found.state.books:
            self.found.state = replaced(self.found.state, books=commit.books)
        return self.found.state.books

    def _follows(self, commit: Commit) -> bool:
        before = self.found.entries[-1] if self.found.entries else None
        expected = NO_COMMIT if commit.number == 1 else None
        if before is not None and before.commit.number == commit.number - 1 and before.sound:
            expected = before.digest
        if expected is None or commit.previous == expected:
            return True
        what = "does not follow the commit before it: one of the two was changed or replaced"
        self.findings.add(
            "commit", object_name("commits", commit.number), what, "restore both from a backup of the books"
        )
        return False

    def _check_entry(self, entry: Entry) -> None:
        name = object_name("commits", entry.commit.number)
        for what in (*_unlike_plan(entry), *_miscounted(entry)):
            self.findings.add("commit", name, what, RESTORE)

    def _fold(self, entry: Entry) -> None:
        try:
            self.found.state = advance(self.found.state, entry.commit, entry.digest)
        except ValueError as error:
            name = object_name("commits", entry.commit.number)
            self.findings.add("commit", name, f"cannot be added up ({error})", RESTORE)

    def _check_checkpoint(self, number: int, whole: bool) -> None:
        name = self.checkpoints[number]
        remedy = "delete it: a checkpoint only saves work"
        content = self.books.storage.read(name)
        if content is None:
            return  # it has been replaced by a newer one meanwhile
        summed = decode_checkpoint(content)
        if summed is None:
            self.findings.add("checkpoint", name, "cannot be read", remedy)
        elif whole and summed != self.found.state:
            fields = [key for key in State.__struct_fields__ if getattr(summed, key) != getattr(self.found.state, key)]
            what = f"does not agree with the commits that it sums up, in {', '.join(fields)}"
            self.findings.add("checkpoint", name, what, remedy)

    def _check_ends(self) -> None:
        last = self.found.last
        for number, name in self.checkpoints.items():
            if number > last:
                what = f"sums up commits that are missing: the last one is {last}"
                self.findings.add("checkpoint", name, what, "restore the commits from a backup of the books")
        for number in self.plans:
            if number <= last:
                continue
            name = object_name("plans", number)
            if number > last + 1:
                what = f"is ahead of the books, whose last commit is {last}"
                self.findings.add("plan", name, what, "restore the commits from a backup of the books")
                continue
            content = self.books.storage.read(name)
            plan = None if content is None else self._decoded(Plan, content, name, "plan")
            if plan is not None:
                self.findings.note(f"run {plan.run} is open: run `semel run` to see it through")

    def _check_booked_once(self) -> None:
        booked: dict[str, str] = {}
        for entry in self.found.committed:
            for file in entry.commit.files:
                first = booked.setdefault(file.path, entry.commit.run)
                if first != entry.commit.run:
                    what = f"was booked by two runs, {first} and {entry.commit.run}"
                    self.findings.add("input", file.path, what, "restore the books from a backup")

    def _decoded(self, kind: type[R], content: bytes, name: str, label: str) -> R | None:
        try:
            return decode(kind, content, name)
        except BooksDamaged as error:
            what, _, remedy = error.message.removeprefix(f"{name} ").rpartition("; ")
            self.findings.add(label, name, what, remedy)
            return None


def _unlike_plan(entry: Entry) -> Iterator[str]:
    """Where a commit is not the outcome of its plan."""
    commit, plan = entry.commit, entry.plan
    if run_number(commit.run) != commit.number:
        yield f"names the run {commit.run}, which has another number"
    if plan is None:
        return
    if commit.run != plan.run:
        yield f"is of run {commit.run}, but its plan is of run {plan.run}"
    if not entry.committed:
        return
    if commit.mark != plan.mark:
        yield f"has the low-water mark {commit.mark}, but its plan has {plan.mark}"
    planned = [(file.path, file.size, file.modified) for file in plan.files]
    booked = [(file.path, file.size, file.modified) for file in commit.files]
    if booked != planned:
        strange = sorted({file[0] for file in set(planned) ^ set(booked)})
        yield f"books other files than its plan names{': ' if strange else ''}{', '.join(strange[:3])}"


def _miscounted(entry: Entry) -> Iterator[str]:
    """Where a commit's own numbers do not add up."""
    commit, counts = entry.commit, entry.commit.counts
    if not entry.committed:
        if counts != Counts() or commit.files or any(commit.feeds.values()):
            yield "is void and books something all the same"
        return
    if not counts.balanced:
        parts = "accepted + duplicates + stale + rejected + bad"
        yield f"does not balance: {counts.read} read, but {_sum(counts)} {parts}"
    for feed, counted in COUNTED_AS.items():
        rows = sum(file.rows for file in commit.feeds.get(feed, ()))
        if rows != getattr(counts, counted):
            booked = getattr(counts, counted)
            yield f"counts {booked} {counted}, but its files of the feed {feed} have {rows} rows"
    unknown = sorted(commit.feeds.keys() - COUNTED_AS.keys())
    if unknown:
        yield f"names the feed {unknown[0]}, which is none"
    records = sum(file.records for file in commit.files)
    if records != counts.read:
        yield f"counts {counts.read} read, but its input files have {records} records"
    if not 0 <= counts.conflicts <= counts.accepted:
        yield f"counts {counts.conflicts} conflicts among {counts.accepted} accepted"
    if entry.recorded:
        entries = 0 if commit.segment is None else commit.segment.entries
        if entries != counts.accepted:
            yield f"counts {counts.accepted} accepted, but its ledger segment has {entries} entries"


def _sum(counts: Counts) -> int:
    return counts.accepted + counts.duplicates + counts.stale + counts.rejected + counts.bad


def _numbers(books: Books, folder: str) -> list[int]:
    matches = [_NUMBERED.match(name) for name in books.storage.names(folder)]
    return sorted({int(match[1]) for match in matches if match})
