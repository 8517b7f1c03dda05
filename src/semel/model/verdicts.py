"""What becomes of a record: the rules, in plain Python, for a handful of records at a time.

This is the definition that every faster implementation is compared with. Each record gets the first
verdict that fits, in the order of `Verdict`:

- bad: it could not be read, or not identified;
- stale: its event time is before the low-water mark of the run;
- duplicate: an event with its id and its fingerprint was accepted earlier;
- rejected: a rule or the process function said so; it is not remembered, so a copy of it is judged anew;
- conflict: an event with its id and another fingerprint was accepted earlier; accepted under a derived id;
- accepted: the rest.

"Earlier" is by place in the source, and every earlier run is earlier. An accepted event counts while its
event time is not below the mark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from semel.model.identity import derived_id

Place: TypeAlias = tuple[str, int]
"""File and byte offset, shard and sequence, or partition and offset."""


class Verdict(StrEnum):
    """In order of precedence."""

    BAD = "bad"
    STALE = "stale"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    CONFLICT = "conflict"
    ACCEPTED = "accepted"


class Feed(StrEnum):
    EVENTS = "events"
    DUPLICATES = "duplicates"
    STALE = "stale"
    REJECTED = "rejected"
    BAD = "bad"


class ConflictRule(StrEnum):
    RENAME = "rename"
    """The first keeps its id, later ones get a derived id."""
    RENAME_ALL = "rename-all"
    """Within a run, every member of the group gets a derived id."""
    REJECT = "reject"
    """Later ones are rejected with reason `conflict`."""


FEED_OF: Final[Mapping[Verdict, Feed]] = MappingProxyType(
    {
        Verdict.BAD: Feed.BAD,
        Verdict.STALE: Feed.STALE,
        Verdict.DUPLICATE: Feed.DUPLICATES,
        Verdict.REJECTED: Feed.REJECTED,
        Verdict.CONFLICT: Feed.EVENTS,
        Verdict.ACCEPTED: Feed.EVENTS,
    }
)

CONFLICT_REASON: Final = "conflict"
"""The reason of a record that `conflict: reject` rejected."""


@dataclass(frozen=True)
class Identified:
    """A record as it was read, before it is judged. Only a bad one may lack id, fingerprint or time."""

    place: Place
    event_id: str | None
    fingerprint: str | None
    event_time: int | None
    """Microseconds since 1970, UTC."""
    bad_reason: str | None = None
    reject_reason: str | None = None

    def __post_init__(self) -> None:
        identity = (self.event_id, self.fingerprint, self.event_time)
        if self.bad_reason is None and None in identity:
            raise ValueError(f"the record at {self.place} is not bad, but lacks its id, fingerprint or time")


@dataclass(frozen=True)
class Judged:
    record: Identified
    verdict: Verdict
    reason: str | None
    """Why it is bad or rejected; none for the other verdicts."""
    event_id: str | None
    """The id it was accepted under; as sent, where it was not accepted."""
    original_event_id: str | None
    """The id as sent, of a conflict only."""

    @property
    def feed(self) -> Feed:
        return FEED_OF[self.verdict]


@dataclass(frozen=True)
class Accepted:
    """The events that were accepted: id as sent and fingerprint, with the event time of the accepted copy."""

    times: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def highest_time(self) -> int | None:
        """The reference time of the next run under `clock: event`."""
        return max(self.times.values(), default=None)

    def since(self, mark: int | None) -> Accepted:
        """What still counts: everything but the events from before the mark."""
        if mark is None:
            return self
        return Accepted({key: time for key, time in self.times.items() if time >= mark})

    def after(self, judged: Iterable[Judged]) -> Accepted:
        """This memory, and what a run has accepted."""
        times = dict(self.times)
        for each in judged:
            if each.feed is Feed.EVENTS:
                event_id, fingerprint, event_time = _identity(each.record)
                times[event_id, fingerprint] = event_time
        return Accepted(times)


def low_water_mark(reference: int | None, horizon: int, previous: int | None = None) -> int | None:
    """Events from before it are stale; none while nothing was accepted. It never moves back.

    >>> low_water_mark(1_000, horizon=300)
    700
    >>> low_water_mark(1_000, horizon=300, previous=900)
    900
    """
    if reference is None:
        return previous
    mark = reference - horizon
    return mark if previous is None else max(mark, previous)


def judge_sequence(records: Iterable[Identified], earlier: Accepted, mark: int | None, conflict: str) -> list[Judged]:
    """The verdicts of one run, in the order of place.

    `earlier` is what the runs before have accepted and stays as it is; `mark` is the run's low-water mark,
    or None where nothing is stale; `conflict` is one of `ConflictRule`.
    """
    rule = ConflictRule(conflict)
    remembered = dict(earlier.since(mark).times)
    known_ids = {event_id for event_id, _ in remembered}
    judged: list[Judged] = []
    for record in sorted(records, key=lambda each: each.place):
        each = _judge(record, remembered, known_ids, mark, rule)
        judged.append(each)
        if each.feed is Feed.EVENTS:
            event_id, fingerprint, event_time = _identity(record)
            remembered[event_id, fingerprint] = event_time
            known_ids.add(event_id)
    return _rename_all(judged) if rule is ConflictRule.RENAME_ALL else judged


def _judge(
    record: Identified,
    remembered: Mapping[tuple[str, str], int],
    known_ids: set[str],
    mark: int | None,
    rule: ConflictRule,
) -> Judged:
    if record.bad_reason is not None:
        return _as_sent(record, Verdict.BAD, record.bad_reason)
    event_id, fingerprint, event_time = _identity(record)
    if mark is not None and event_time < mark:
        return _as_sent(record, Verdict.STALE)
    if (event_id, fingerprint) in remembered:
        return _as_sent(record, Verdict.DUPLICATE)
    if record.reject_reason is not None:
        return _as_sent(record, Verdict.REJECTED, record.reject_reason)
    if event_id not in known_ids:
        return _as_sent(record, Verdict.ACCEPTED)
    if rule is ConflictRule.REJECT:
        return _as_sent(record, Verdict.REJECTED, CONFLICT_REASON)
    return _renamed(_as_sent(record, Verdict.ACCEPTED))


def _rename_all(judged: list[Judged]) -> list[Judged]:
    members = Counter(each.record.event_id for each in judged if each.feed is Feed.EVENTS)
    return [
        _renamed(each) if each.verdict is Verdict.ACCEPTED and members[each.record.event_id] > 1 else each
        for each in judged
    ]


def _as_sent(record: Identified, verdict: Verdict, reason: str | None = None) -> Judged:
    return Judged(record, verdict, reason, event_id=record.event_id, original_event_id=None)


def _renamed(accepted: Judged) -> Judged:
    event_id, fingerprint, _ = _identity(accepted.record)
    return replace(
        accepted,
        verdict=Verdict.CONFLICT,
        event_id=derived_id(event_id, fingerprint),
        original_event_id=event_id,
    )


def _identity(record: Identified) -> tuple[str, str, int]:
    assert record.event_id is not None
    assert record.fingerprint is not None
    assert record.event_time is not None
    return record.event_id, record.fingerprint, record.event_time
