"""Which record stands where: every decision of the generator, as a pure function of the seed and the slot.

A slot is the place of one record: batch b has the slots from b * events on. Because kind, id, time and
values of every slot can be worked out on their own, a copy of any earlier event needs no memory of it, and a
batch can be generated without the ones before it.

What keeps the truth certain:

- The last slot of a batch is accepted and has its highest event time, so every mark is known beforehand.
- A copy or a conflict refers only to a slot whose verdict hangs on nothing else and that is still remembered.
- A rejected event is mended at most once: it names the one slot that may do so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from semel.testing.settings import GeneratorSettings

Slots = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


class Kind(IntEnum):
    FRESH = 0
    MENDED = 1
    CONFLICT = 2
    DUPLICATE = 3
    LATE = 4
    REJECTED = 5
    REJECTED_AGAIN = 6
    BAD = 7


class Outcome(IntEnum):
    """The verdicts, in the order of the truth files' dictionary."""

    ACCEPTED = 0
    CONFLICT = 1
    DUPLICATE = 2
    STALE = 3
    REJECTED = 4
    BAD = 5


class Stream(IntEnum):
    """Independent random numbers of the same slot. A stream for picking takes the numbers after it, too."""

    KIND = 1
    VARIANT = 2
    TIME = 3
    ID_HIGH = 4
    ID_LOW = 5
    VALUES = 6
    NOTE = 7
    SENT = 8
    LOOK = 9
    MEND = 10
    ORIGINAL = 100
    COPY = 200
    AGAIN = 300
    OLD = 400


SURELY_ACCEPTED: Final = (Kind.FRESH, Kind.MENDED, Kind.CONFLICT)
NOT_FOUND: Final = -1
_ATTEMPTS: Final = 12
_NEAR: Final = 1_000
_ALWAYS: Final = np.iinfo(np.int64).min
_MASK: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15


def _splitmix(state: int) -> int:
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


@dataclass(frozen=True)
class Block:
    """Records in a row, decided: whose payload each carries, whose id that has, and the verdict."""

    slots: Slots
    payload_of: Slots
    id_of: Slots
    outcomes: npt.NDArray[np.int8]


@dataclass(frozen=True)
class Plan:
    settings: GeneratorSettings

    def random(self, stream: int, slots: Slots) -> Hashes:
        """64 random bits for each slot; in one stream, no two slots get the same (SplitMix64)."""
        key = _splitmix((_splitmix(self.settings.seed & _MASK) + stream * _GOLDEN) & _MASK)
        state: Hashes = slots.astype(np.uint64) * np.uint64(_GOLDEN) + np.uint64(key)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))

    def below(self, limit: int | Slots, stream: int, slots: Slots) -> Slots:
        """A random number from 0 to below the limit, for each slot."""
        drawn: Slots = (self.random(stream, slots) >> np.uint64(1)).astype(np.int64) % limit
        return drawn

    def fraction(self, stream: int, slots: Slots) -> npt.NDArray[np.float64]:
        return (self.random(stream, slots) >> np.uint64(11)).astype(np.float64) / float(1 << 53)

    def batch_of(self, slots: Slots) -> Slots:
        return slots // self.settings.events

    def mark(self, batches: Slots) -> Slots:
        """The low-water mark, if each batch is one run: the highest time before it, less the horizon."""
        settings = self.settings
        reference = settings.start_micros + batches * settings.span_micros - 1
        return np.where(batches > 0, reference - settings.horizon_micros, _ALWAYS)

    def time(self, slots: Slots) -> Slots:
        """The event time of a slot's own payload: rising through the batch, a little out of order."""
        settings, span = self.settings, self.settings.span_micros
        batches = self.batch_of(slots)
        progress = (slots - batches * settings.events) / settings.events
        through = 0.9 * progress + 0.1 * self.fraction(Stream.TIME, slots)
        within = np.minimum((through * span).astype(np.int64), span - 2)
        within = np.where(self._is_last(slots), span - 1, within)
        times: Slots = settings.start_micros + batches * span + within
        late = (self.kind(slots) == Kind.LATE) & (batches > 0)
        if late.any():
            times[late] = self._late_time(slots[late])
        return times

    def _late_time(self, slots: Slots) -> Slots:
        """Before the mark; for one in eight, only just."""
        just = self.below(8, Stream.LOOK, slots) == 0
        behind = np.where(just, 0, self.below(self.settings.span_micros, Stream.TIME, slots))
        return self.mark(self.batch_of(slots)) - 1 - behind

    def kind(self, slots: Slots) -> Slots:
        kinds = self._planned(slots)
        fresh = np.flatnonzero(kinds == Kind.FRESH)
        mends = self.mended_slot(slots[fresh]) != NOT_FOUND
        kinds[fresh[mends]] = Kind.MENDED
        return kinds

    def _planned(self, slots: Slots) -> Slots:
        kinds = self._kinds[np.searchsorted(self._limits, self.fraction(Stream.KIND, slots), side="right")]
        kinds[self._is_last(slots)] = Kind.FRESH
        return kinds

    @cached_property
    def _limits(self) -> npt.NDArray[np.float64]:
        asked = self.settings
        again = asked.rejected * 0.2
        return np.cumsum([asked.bad, asked.rejected - again, again, asked.late, asked.conflicts, asked.duplicates])

    @cached_property
    def _kinds(self) -> Slots:
        return np.array(
            [
                Kind.BAD,
                Kind.REJECTED,
                Kind.REJECTED_AGAIN,
                Kind.LATE,
                Kind.CONFLICT,
                Kind.DUPLICATE,
                Kind.FRESH,
            ],
            dtype=np.int64,
        )

    def _is_last(self, slots: Slots) -> Mask:
        last: Mask = slots % self.settings.events == self.settings.events - 1
        return last

    def mended_slot(self, slots: Slots) -> Slots:
        """The rejected slot that each of these fresh ones mends, or NOT_FOUND."""
        mended = np.full(len(slots), NOT_FOUND, dtype=np.int64)
        gaps = (1, 61, self.settings.events + 7)
        for choice, gap in enumerate(gaps):
            rejected = np.maximum(slots - gap, 0)
            chosen = (slots >= gap) & (self._planned(rejected) == Kind.REJECTED) & (mended == NOT_FOUND)
            at = np.flatnonzero(chosen)
            at = at[self.below(2 * len(gaps), Stream.MEND, rejected[at]) == choice]
            mended[at] = rejected[at]
        return mended

    def id_of(self, payloads: Slots) -> Slots:
        """The slot whose own id the payload of each slot carries."""
        kinds = self.kind(payloads)
        ids = payloads.copy()
        mended = kinds == Kind.MENDED
        ids[mended] = self.mended_slot(payloads[mended])
        conflicts = np.flatnonzero(kinds == Kind.CONFLICT)
        originals = self._pick_remembered(payloads[conflicts], Stream.ORIGINAL, (Kind.FRESH,))
        found = originals != NOT_FOUND
        ids[conflicts[found]] = originals[found]
        return ids

    def _first_remembered_batch(self, slots: Slots) -> Slots:
        horizon = self.settings.horizon_micros // self.settings.span_micros
        return np.maximum(self.batch_of(slots) - 1 - horizon, 0)

    def _pick_remembered(self, slots: Slots, stream: int, kinds: tuple[Kind, ...]) -> Slots:
        """For each slot an earlier one of these kinds, from not before the mark; half of them from close by.

        One in sixteen looks first for the event that lies exactly on the mark.
        """
        oldest = self._first_remembered_batch(slots)
        first = oldest * self.settings.events
        edge = first + self.settings.events - 1
        found = np.full(len(slots), NOT_FOUND, dtype=np.int64)
        pending = np.arange(len(slots))
        for attempt in range(_ATTEMPTS):
            at = slots[pending]
            look = self.below(16, Stream.LOOK, at)
            reach = at - first[pending]
            reach = np.where(look % 2 == 1, np.minimum(reach, _NEAR), reach)
            candidate = at - 1 - self.below(np.maximum(reach, 1), stream + attempt, at)
            if attempt == 0:
                candidate = np.where(look == 0, np.minimum(edge[pending], at - 1), candidate)
            fits = (candidate >= 0) & self._are(kinds, candidate)
            fits &= self.time(np.maximum(candidate, 0)) >= self.mark(self.batch_of(at))
            found[pending[fits]] = candidate[fits]
            pending = pending[~fits]
        return found

    def _pick_forgotten(self, slots: Slots) -> Slots:
        """For each slot an accepted one from before the mark, where there is one."""
        end = (self._first_remembered_batch(slots) + 1) * self.settings.events
        candidate = self.below(np.minimum(end, np.maximum(slots, 1)), Stream.OLD, slots)
        fits = self._are(SURELY_ACCEPTED, candidate)
        fits &= (self.time(candidate) < self.mark(self.batch_of(slots))) & (candidate < slots)
        return np.where(fits, candidate, NOT_FOUND)

    def _are(self, kinds: tuple[Kind, ...], slots: Slots) -> Mask:
        return np.isin(self.kind(np.maximum(slots, 0)), kinds)

    def decide(self, slots: Slots) -> Block:
        kinds = self.kind(slots)
        payload_of = slots.copy()
        outcomes = np.full(len(slots), Outcome.ACCEPTED, dtype=np.int8)

        duplicates = np.flatnonzero(kinds == Kind.DUPLICATE)
        sources = self._pick_remembered(slots[duplicates], Stream.COPY, SURELY_ACCEPTED)
        found = sources != NOT_FOUND
        payload_of[duplicates[found]] = sources[found]
        outcomes[duplicates[found]] = Outcome.DUPLICATE

        again = np.flatnonzero(kinds == Kind.REJECTED_AGAIN)
        sources = self._pick_remembered(slots[again], Stream.AGAIN, (Kind.REJECTED,))
        found = sources != NOT_FOUND
        payload_of[again[found]] = sources[found]
        outcomes[(kinds == Kind.REJECTED) | (kinds == Kind.REJECTED_AGAIN)] = Outcome.REJECTED

        late = np.flatnonzero((kinds == Kind.LATE) & (self.batch_of(slots) > 0))
        sources = self._pick_forgotten(slots[late])
        found = (sources != NOT_FOUND) & (self.below(2, Stream.LOOK, slots[late]) == 1)
        payload_of[late[found]] = sources[found]
        outcomes[late] = Outcome.STALE

        id_of = self.id_of(payload_of)
        outcomes[(kinds == Kind.CONFLICT) & (id_of != slots)] = Outcome.CONFLICT
        outcomes[kinds == Kind.BAD] = Outcome.BAD
        return Block(slots, payload_of, id_of, outcomes)

    def is_negative(self, payloads: Slots) -> Mask:
        """Rejected events have a negative amount; so have some late ones, which are stale just the same."""
        kinds = self.kind(payloads)
        rejected = (kinds == Kind.REJECTED) | (kinds == Kind.REJECTED_AGAIN)
        late = (kinds == Kind.LATE) & (self.batch_of(payloads) > 0)
        negative: Mask = rejected | (late & (self.below(5, Stream.MEND, payloads) == 0))
        return negative
