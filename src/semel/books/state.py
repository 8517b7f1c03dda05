"""How a commit changes what the books say: one step, without I/O."""

from __future__ import annotations

from datetime import timedelta

from semel.books.records import Commit, State, Status
from semel.model.times import EARLIEST, from_iso, iso
from semel.model.verdicts import low_water_mark


def advance(state: State, commit: Commit, content_digest: str) -> State:
    """The state after `commit`. A void commit takes a number and nothing else.

    The booked files are handed on and added to, not copied: there may be a hundred thousand of them, and the state
    before is of no use any more.
    """
    mark = None if commit.mark is None else from_iso(commit.mark)
    booked = state.booked
    segments = state.segments
    runs = state.runs
    if commit.status is Status.COMMITTED:
        for touched in commit.touched:
            if touched.path in booked:
                booked[touched.path] = (touched.size, touched.modified, booked[touched.path][2])
        for file in commit.files:
            booked[file.path] = (file.size, file.modified, file.crc32)
        if commit.segment is not None and commit.segment.parts:
            segments = [*segments, commit.segment]
        runs += 1
    if mark is not None:
        segments = [segment for segment in segments if segment.newest >= mark]
    return State(
        number=commit.number,
        books=state.books,
        digest=content_digest,
        mark=commit.mark,
        reference=commit.reference,
        horizon_seconds=commit.horizon_seconds,
        totals=state.totals + commit.counts,
        runs=runs,
        booked=booked,
        segments=segments,
        ledger=commit.ledger,
        columns=state.columns | commit.columns,
    )


def next_mark(state: State, moment: int, horizon: timedelta, clock: str) -> tuple[int | None, int | None]:
    """The reference time and the low-water mark of the run after `state`, in microseconds; the mark never falls."""
    if clock == "wall":
        reference: int | None = moment
    else:
        reference = None if state.reference is None else from_iso(state.reference)
    before = None if state.mark is None else from_iso(state.mark)
    mark = low_water_mark(reference, horizon // timedelta(microseconds=1), before)
    return reference, None if mark is None else max(mark, EARLIEST)


def later(first: str | None, second: int | None) -> str | None:
    """The later of two times, either of which may be unknown."""
    if second is None:
        return first
    if first is None or second > from_iso(first):
        return iso(second)
    return first
