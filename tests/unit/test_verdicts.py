"""The rules of judging, as a table of scenarios and as properties."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.model.identity import composite_id, derived_id
from semel.model.verdicts import (
    FEED_OF,
    Accepted,
    Feed,
    Identified,
    Judged,
    Verdict,
    judge_sequence,
    low_water_mark,
)


def sent(
    event_id: str, fingerprint: str, time: int = 100, *, rejected: str | None = None, bad: str | None = None
) -> Identified:
    return Identified(("", 0), event_id, fingerprint, time, bad_reason=bad, reject_reason=rejected)


def in_order(records: list[Identified], start: int = 0) -> list[Identified]:
    return [
        Identified(
            ("in/a.jsonl", start + number),
            record.event_id,
            record.fingerprint,
            record.event_time,
            record.bad_reason,
            record.reject_reason,
        )
        for number, record in enumerate(records)
    ]


@dataclass(frozen=True)
class Scenario:
    what: str
    records: list[Identified]
    verdicts: str
    """The verdicts in order, by their names."""
    earlier: dict[tuple[str, str], int] = field(default_factory=dict)
    mark: int | None = None
    conflict: str = "rename"
    ids: list[str | None] | None = None
    reasons: list[str | None] | None = None


SCENARIOS = [
    # The first of its kind is accepted, and nothing is stale before anything was accepted.
    Scenario("first", [sent("a", "01"), sent("b", "02", time=-5)], "accepted accepted", ids=["a", "b"]),
    # The same id and fingerprint again, in this run or after an earlier one.
    Scenario("copy in the run", [sent("a", "01")] * 3, "accepted duplicate duplicate"),
    Scenario("copy of an earlier run", [sent("a", "01")], "duplicate", earlier={("a", "01"): 100}),
    # Fingerprints belong to their id.
    Scenario("same fingerprint, other id", [sent("a", "01"), sent("b", "01")], "accepted accepted"),
    # Bad goes before everything, and has its reason.
    Scenario(
        "bad before stale and rejected",
        [sent("a", "01", time=1, bad="time too far ahead", rejected="negative")],
        "bad",
        mark=50,
        reasons=["time too far ahead"],
    ),
    # A bad record is not remembered.
    Scenario("good copy of a bad one", [sent("a", "01", bad="no"), sent("a", "01")], "bad accepted"),
    # Stale is before the mark, not at it.
    Scenario(
        "at the mark",
        [sent("a", "01", time=49), sent("b", "02", time=50), sent("c", "03", time=51)],
        "stale accepted accepted",
        mark=50,
    ),
    # Stale goes before duplicate and rejected; a late copy is stale even if its accepted copy is remembered.
    Scenario(
        "stale before duplicate",
        [sent("a", "01", time=49), sent("b", "02", time=49, rejected="negative")],
        "stale stale",
        earlier={("a", "01"): 60},
        mark=50,
        reasons=[None, None],
    ),
    # A stale record is not remembered: the same id with a good time is new.
    Scenario("after a stale one", [sent("a", "01", 49), sent("a", "02", 50)], "stale accepted", mark=50),
    # What was accepted counts while its event time is not below the mark: neither as original of a copy ...
    Scenario("copy of a forgotten event", [sent("a", "01", 70)], "accepted", {("a", "01"): 49}, mark=50),
    Scenario("copy of one at the mark", [sent("a", "01", 70)], "duplicate", {("a", "01"): 50}, mark=50),
    # ... nor of a conflict.
    Scenario("conflict with a forgotten one", [sent("a", "02", 70)], "accepted", {("a", "01"): 49}, mark=50),
    Scenario("conflict with one at the mark", [sent("a", "02", 70)], "conflict", {("a", "01"): 50}, mark=50),
    # A rejected record is not remembered: its copy is judged anew, its mended copy is simply accepted.
    Scenario(
        "rejected, again, mended",
        [sent("a", "01", rejected="negative"), sent("a", "01", rejected="negative"), sent("a", "02")],
        "rejected rejected accepted",
        reasons=["negative", "negative", None],
    ),
    # The rule was loosened, or the process function changed its mind: the copy is no duplicate.
    Scenario("no longer rejected", [sent("a", "01", rejected="x"), sent("a", "01")], "rejected accepted"),
    # Duplicate goes before rejected: the rule was tightened after the event had been accepted.
    Scenario("duplicate before rejected", [sent("a", "01", rejected="x")], "duplicate", {("a", "01"): 100}),
    # Rejected goes before conflict, and keeps its own reason.
    Scenario(
        "rejected before conflict",
        [sent("a", "01"), sent("a", "02", rejected="negative")],
        "accepted rejected",
        reasons=[None, "negative"],
    ),
    # rename: the first keeps its id, every later one gets a derived one.
    Scenario(
        "three of one id",
        [sent("a", "01"), sent("a", "02"), sent("a", "03")],
        "accepted conflict conflict",
        ids=["a", derived_id("a", "02"), derived_id("a", "03")],
    ),
    Scenario(
        "conflict with an earlier run",
        [sent("a", "02")],
        "conflict",
        earlier={("a", "01"): 100},
        ids=[derived_id("a", "02")],
    ),
    # A second copy of a conflict is a duplicate, in this run or a later one, under the id as sent.
    Scenario(
        "copy of a conflict",
        [sent("a", "01"), sent("a", "02"), sent("a", "02"), sent("a", "01")],
        "accepted conflict duplicate duplicate",
        ids=["a", derived_id("a", "02"), "a", "a"],
    ),
    Scenario("later", [sent("a", "02")], "duplicate", earlier={("a", "01"): 100, ("a", "02"): 100}),
    # Of a conflict only the younger half is remembered: its copy is still a duplicate.
    Scenario("half", [sent("a", "02", 70)], "duplicate", {("a", "01"): 40, ("a", "02"): 70}, mark=50),
    # reject: later ones are rejected, with a reason, and not remembered.
    Scenario(
        "conflicts rejected",
        [sent("a", "01"), sent("a", "02"), sent("a", "02"), sent("a", "01")],
        "accepted rejected rejected duplicate",
        conflict="reject",
        ids=["a", "a", "a", "a"],
        reasons=[None, "conflict", "conflict", None],
    ),
    # rename-all: within a run, the first gets a derived id, too; those who stand alone do not.
    Scenario(
        "all members renamed",
        [sent("a", "01"), sent("b", "09"), sent("a", "02"), sent("a", "01")],
        "conflict accepted conflict duplicate",
        conflict="rename-all",
        ids=[derived_id("a", "01"), "b", derived_id("a", "02"), "a"],
    ),
    # rename-all: copies do not make a group, nor do rejected, stale or bad records.
    Scenario(
        "no group",
        [
            sent("a", "01"),
            sent("a", "01"),
            sent("a", "02", rejected="negative"),
            sent("a", "03", time=1),
            sent("a", "04", bad="broken"),
        ],
        "accepted duplicate rejected stale bad",
        mark=50,
        conflict="rename-all",
        ids=["a"] * 5,
    ),
    # rename-all: what an earlier run accepted keeps its id; the one that comes now is renamed.
    Scenario(
        "group over two runs",
        [sent("a", "02")],
        "conflict",
        earlier={("a", "01"): 100},
        conflict="rename-all",
        ids=[derived_id("a", "02")],
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.what)
def test_scenario(scenario: Scenario) -> None:
    earlier = Accepted(scenario.earlier)
    judged = judge_sequence(in_order(scenario.records), earlier, scenario.mark, scenario.conflict)
    assert [each.verdict.value for each in judged] == scenario.verdicts.split()
    if scenario.ids is not None:
        assert [each.event_id for each in judged] == scenario.ids
    if scenario.reasons is not None:
        assert [each.reason for each in judged] == scenario.reasons
    for each in judged:
        original = each.record.event_id if each.verdict is Verdict.CONFLICT else None
        assert each.original_event_id == original


def test_earlier_is_by_place_not_by_arrival() -> None:
    first = Identified(("in/a.jsonl", 900), "a", "01", 100)
    second = Identified(("in/b.jsonl", 0), "a", "01", 100)
    last = Identified(("in/b.jsonl", 10), "a", "01", 100)
    judged = judge_sequence([last, second, first], Accepted(), None, "rename")
    assert [(each.record, each.verdict) for each in judged] == [
        (first, Verdict.ACCEPTED),
        (second, Verdict.DUPLICATE),
        (last, Verdict.DUPLICATE),
    ]


def test_bad_record_without_identity() -> None:
    record = Identified(("in/a.jsonl", 0), None, None, None, bad_reason="not JSON")
    (judged,) = judge_sequence([record], Accepted(), 50, "rename")
    assert judged == Judged(record, Verdict.BAD, "not JSON", event_id=None, original_event_id=None)


def test_record_that_is_neither_bad_nor_identified() -> None:
    with pytest.raises(ValueError, match="lacks its id"):
        Identified(("in/a.jsonl", 0), None, "01", 100)


def test_unknown_conflict_rule() -> None:
    with pytest.raises(ValueError, match="'keep' is not a valid ConflictRule"):
        judge_sequence([], Accepted(), None, "keep")


def test_memory_holds_what_was_accepted_under_the_id_as_sent() -> None:
    run = in_order([sent("a", "01", 60), sent("a", "02", 70), sent("b", "03", rejected="x"), sent("c", "04", 1)])
    before = Accepted({("z", "00"): 50})
    after = before.after(judge_sequence(run, before, 50, "rename"))
    assert after.times == {("z", "00"): 50, ("a", "01"): 60, ("a", "02"): 70}
    assert before.times == {("z", "00"): 50}
    assert (Accepted().highest_time, after.highest_time) == (None, 70)


def test_mark_never_moves_back() -> None:
    assert low_water_mark(None, 30) is None
    assert low_water_mark(None, 30, previous=5) == 5
    assert low_water_mark(100, 30) == 70
    assert low_water_mark(100, 60, previous=70) == 70


def test_every_verdict_has_its_feed() -> None:
    assert set(FEED_OF) == set(Verdict)
    assert set(FEED_OF.values()) == set(Feed)


def test_ids() -> None:
    assert derived_id("evt-1", "00ff") == "b4ed62fa-7535-587e-a2ef-d9c570bb9415"
    assert composite_id(["a", 'b"', "ü"]) == '["a","b\\"","ü"]'
    assert composite_id(["a,b"]) != composite_id(["a", "b"])


RECORDS = st.lists(
    st.builds(
        sent,
        st.sampled_from("abc"),
        st.sampled_from(["01", "02", "03"]),
        st.integers(0, 200),
        rejected=st.sampled_from([None, None, "negative"]),
        bad=st.sampled_from([None, None, None, "broken"]),
    ),
    max_size=25,
)


@given(records=RECORDS, cuts=st.sets(st.integers(0, 25)), rule=st.sampled_from(["rename", "reject"]))
def test_cuts_into_runs_do_not_matter(records: list[Identified], cuts: set[int], rule: str) -> None:
    placed = in_order(records)
    at_once = judge_sequence(placed, Accepted(), None, rule)
    memory, in_runs = Accepted(), list[Judged]()
    bounds = [0, *sorted(cuts), len(placed)]
    for start, end in pairwise(bounds):
        run = judge_sequence(placed[start:end], memory, None, rule)
        memory = memory.after(run)
        in_runs += run
    assert in_runs == at_once


@given(records=RECORDS, mark=st.none() | st.integers(0, 200), data=st.data())
def test_order_of_arrival_does_not_matter(records: list[Identified], mark: int | None, data: st.DataObject) -> None:
    placed = in_order(records)
    shuffled = data.draw(st.permutations(placed))
    for rule in ("rename", "rename-all", "reject"):
        assert judge_sequence(shuffled, Accepted(), mark, rule) == judge_sequence(placed, Accepted(), mark, rule)


@given(records=RECORDS, mark=st.none() | st.integers(0, 200))
def test_rerun_accepts_nothing_new_unless_rules_say_so(records: list[Identified], mark: int | None) -> None:
    """The same input again: what was accepted is a duplicate, all else gets the verdict it had."""
    placed = in_order(records)
    for rule in ("rename", "rename-all", "reject"):
        first = judge_sequence(placed, Accepted(), mark, rule)
        again = judge_sequence(placed, Accepted().after(first), mark, rule)
        for before, after in zip(first, again, strict=True):
            if before.feed is Feed.EVENTS:
                assert after.verdict is Verdict.DUPLICATE
            elif before.verdict is not Verdict.REJECTED:
                assert after.verdict is before.verdict
