"""Spark's verdicts are those of the reference judge, run after run, whatever the rule and the cut."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines import Place
from semel.model.canonical import canonical, hasher
from semel.model.times import from_iso, iso
from semel.model.verdicts import Accepted, Identified, Judged, judge_sequence, low_water_mark

CONFIG = """\
pipeline: clicks
source: {{path: in/}}
event:
  id: id
  time: time
  fingerprint: {{exclude: [sent, time]}}
  schema: "sent INT"
horizon: {horizon}
conflict: {conflict}
reject:
  odd: sent % 2 = 1
"""
START = from_iso("2026-01-01T00:00:00Z")
HOUR = 3_600_000_000


def records(seed: int, count: int, hour: int) -> list[dict[str, Any]]:
    """Few ids, few payloads, times around an hour: everything that can meet does meet."""
    chance = random.Random(seed)
    return [
        {
            "id": f"e{chance.randrange(count // 5)}",
            "payload": chance.randrange(3),
            "sent": chance.choice([0, 0, 0, 1, 2]),
            "time": iso(START + (hour + chance.randrange(-3, 4)) * HOUR),
        }
        for _ in range(count)
    ]


def identified(file: int, lines: Iterable[dict[str, Any]]) -> list[Identified]:
    found = []
    offset = 0
    for line in lines:
        payload = {key: value for key, value in line.items() if key not in ("sent", "time")}
        found.append(
            Identified(
                place=(f"{file:03d}", offset),
                event_id=line["id"],
                fingerprint=hasher("sha256")(canonical(payload)).hexdigest(),
                event_time=from_iso(line["time"]),
                bad_reason=None,
                reject_reason="odd" if line["sent"] % 2 else None,
            )
        )
        offset += len(json.dumps(line)) + 1
    return found


def expected(batches: list[list[list[dict[str, Any]]]], conflict: str, horizon: timedelta) -> dict[str, Judged]:
    """Position to judgement, batch by batch: each batch is a list of files."""
    earlier = Accepted()
    mark: int | None = None
    reference: int | None = None
    result: dict[str, Judged] = {}
    number = 0
    for batch in batches:
        events: list[Identified] = []
        for lines in batch:
            events += identified(number, lines)
            number += 1
        mark = low_water_mark(reference, horizon // timedelta(microseconds=1), mark)
        judged = judge_sequence(events, earlier, mark, conflict)
        earlier = earlier.after(judged)
        reference = max((t for t in (reference, earlier.highest_time) if t is not None), default=None)
        for one in judged:
            file, offset = one.record.place
            result[f"in/{file}.jsonl:{offset}"] = one
    return result


@pytest.mark.parametrize("conflict", ["rename", "rename-all", "reject"])
@pytest.mark.parametrize(("seed", "horizon"), [(1, "1000d"), (2, "4h")])
def test_verdicts_are_the_reference_judges(
    spark: SparkSession, tmp_path: Path, conflict: str, seed: int, horizon: str
) -> None:
    place = Place(tmp_path, CONFIG.format(conflict=conflict, horizon=horizon))
    batches = [
        [records(seed * 100 + batch * 10 + file, 120, hour=batch * 4) for file in range(2)] for batch in range(3)
    ]
    number = 0
    for batch in batches:
        for lines in batch:
            place.write(f"{number:03d}.jsonl", lines)
            number += 1
        place.pipeline("source.split=4KiB").run(spark)

    truth = expected(batches, conflict, timedelta(days=1000) if horizon == "1000d" else timedelta(hours=4))
    found = {
        row["position"]: (row["verdict"], row["event_id"], row["original_event_id"])
        for feed in ("events", "duplicates", "stale", "rejected", "bad")
        for row in place.rows(feed)
    }
    assert found == {
        position: (
            one.verdict.value,
            one.event_id if one.verdict.value in ("accepted", "conflict") else one.record.event_id,
            one.original_event_id,
        )
        for position, one in truth.items()
    }


@pytest.mark.parametrize("conflict", ["rename", "reject"])
def test_verdicts_do_not_depend_on_the_cut(spark: SparkSession, tmp_path: Path, conflict: str) -> None:
    lines = records(7, 200, hour=0)
    found = []
    for name, overrides in (("whole", []), ("cut", ["source.max_files=1"])):
        place = Place(tmp_path / name, CONFIG.format(conflict=conflict, horizon="1000d"))
        for file in range(4):
            place.write(f"{file:03d}.jsonl", lines[file * 50 : file * 50 + 50])
        report = place.pipeline(*overrides).run(spark)
        assert len(report.runs) == (1 if name == "whole" else 4)
        found.append(place.verdicts())
    assert found[0] == found[1]
