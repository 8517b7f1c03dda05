"""The generator's truth against the rules of judging, on the files as a plain reader sees them."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from semel.model.verdicts import Accepted, Identified, Judged, Verdict, judge_sequence, low_water_mark
from semel.testing.generator import VERDICTS, GeneratorSettings, expected_counts, generate, read_truth

SMALL = GeneratorSettings(
    events=1_500,
    batches=5,
    seed=7,
    duplicates=0.2,
    conflicts=0.1,
    late=0.05,
    rejected=0.1,
    bad=0.1,
    horizon=timedelta(days=2),
    files_per_batch=3,
)
TOO_LATE = datetime(2030, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UnreadableError(Exception):
    pass


def identify(place: tuple[str, int], fields: Any) -> Identified:
    """Reads the record's id, fingerprint and time, as the pipeline file says."""
    try:
        if not isinstance(fields, dict):
            raise UnreadableError("not an object")
        event_id = fields.get("event_id")
        if isinstance(event_id, bool) or not isinstance(event_id, str | int):
            raise UnreadableError("id is neither text nor integer")
        event_id = str(event_id)
        if not event_id or len(event_id.encode()) > 1024:
            raise UnreadableError("id is empty or too long")
        if not isinstance(fields.get("event_time"), str):
            raise UnreadableError("no time")
        time = datetime.fromisoformat(fields["event_time"])
        if time > TOO_LATE:
            raise UnreadableError("too far ahead")
        if not isinstance(fields["amount"], float):
            raise UnreadableError("amount does not fit")
        payload = {key: value for key, value in fields.items() if key != "sent_at"}
        canonical = json.dumps(payload, sort_keys=True, ensure_ascii=False).encode()
    except (UnreadableError, ValueError) as problem:
        return Identified(place, None, None, None, bad_reason=str(problem))
    return Identified(
        place,
        event_id,
        hashlib.sha256(canonical).hexdigest(),
        (time - EPOCH) // timedelta(microseconds=1),
        reject_reason="negative amount" if fields["amount"] < 0 else None,
    )


def json_records(name: str, content: bytes) -> Iterator[Identified]:
    at = 0
    for line in content.split(b"\n"):
        if line.strip(b"\r"):
            try:
                fields = json.loads(line.decode())
            except ValueError:
                fields = None
            yield identify((name, at), fields)
        at += len(line) + 1


def csv_records(name: str, content: bytes) -> Iterator[Identified]:
    header, *lines = content.split(b"\n")[:-1]
    at = len(header) + 1
    for line in lines:
        fields: Any = None
        try:
            (row,) = csv.reader(io.StringIO(line.decode()))
            fields = dict(zip(header.decode().split(","), row, strict=True))
            fields["amount"] = float(fields["amount"])
        except ValueError:
            fields = None
        yield identify((name, at), fields)
        at += len(line) + 1


def file_records(folder: Path, path: Path) -> Iterator[Identified]:
    name = path.relative_to(folder).as_posix()
    if path.suffix == ".parquet":
        rows = enumerate(pq.read_table(path).to_pylist())
        return iter([identify((name, number), row) for number, row in rows])
    if path.suffix == ".gz":
        content = gzip.decompress(path.read_bytes())
    elif path.suffix == ".zst":
        content = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd").read()
    else:
        content = path.read_bytes()
    return csv_records(name, content) if ".csv" in path.name else json_records(name, content)


def judge_batches(folder: Path, settings: GeneratorSettings) -> Iterator[list[Judged]]:
    memory = Accepted()
    horizon = settings.horizon // timedelta(microseconds=1)
    for batch in range(settings.batches):
        files = sorted((folder / "in").glob(f"batch-{batch:03d}-*"))
        assert len(files) == settings.files_per_batch
        records = [record for path in files for record in file_records(folder, path)]
        mark = low_water_mark(memory.highest_time, horizon)
        judged = judge_sequence(records, memory, mark, "rename")
        memory = memory.after(judged)
        yield judged


def assert_truth_is_what_the_rules_say(folder: Path, settings: GeneratorSettings) -> None:
    truth = read_truth(folder).to_pylist()
    expected = [((row["file"], row["offset"]), row["batch"], row["verdict"], row["event_id"]) for row in truth]
    judged = [
        (each.record.place, batch, each.verdict.value, each.record.event_id)
        for batch, run in enumerate(judge_batches(folder, settings))
        for each in run
    ]
    assert [row[:3] for row in expected] == [row[:3] for row in judged]
    good = [row for row in expected if row[2] != "bad"]
    assert good == [row for row in judged if row[2] != "bad"]


def all_bytes(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(SMALL, id="a horizon of two batches"),
        pytest.param(replace(SMALL, seed=8, horizon=timedelta(hours=1)), id="a horizon within a batch"),
        pytest.param(replace(SMALL, seed=9, horizon=timedelta(days=1, hours=7)), id="an uneven horizon"),
        pytest.param(replace(SMALL, seed=10, horizon=timedelta(days=30)), id="a long horizon"),
        pytest.param(replace(SMALL, seed=11, ugly=False), id="tidy"),
        pytest.param(replace(SMALL, seed=12, events=20, batches=40, files_per_batch=1), id="tiny batches"),
        pytest.param(replace(SMALL, seed=13, events=1, files_per_batch=1), id="one event a batch"),
        pytest.param(
            replace(SMALL, seed=14, duplicates=0.6, conflicts=0.1, late=0.1, rejected=0.1, bad=0.09),
            id="hardly anything new",
        ),
        pytest.param(replace(SMALL, seed=15, format="csv"), id="csv"),
        pytest.param(replace(SMALL, seed=16, format="csv", compression="gzip"), id="csv, gzip"),
        pytest.param(replace(SMALL, seed=17, format="parquet"), id="parquet"),
        pytest.param(replace(SMALL, seed=18, compression="gzip"), id="gzip"),
        pytest.param(replace(SMALL, seed=19, compression="zstd"), id="zstd"),
        pytest.param(replace(SMALL, seed=20, events=70_000, batches=2, files_per_batch=1), id="several blocks"),
        pytest.param(
            GeneratorSettings(
                events=300, batches=2, duplicates=0, conflicts=0, late=0, rejected=0, bad=0, payload_bytes=1
            ),
            id="only new ones",
        ),
    ],
)
def test_truth_is_what_the_rules_say(tmp_path: Path, settings: GeneratorSettings) -> None:
    generate(tmp_path, settings)
    assert_truth_is_what_the_rules_say(tmp_path, settings)


@pytest.mark.parametrize("seed", range(20, 32))
def test_truth_holds_for_other_seeds(tmp_path: Path, seed: int) -> None:
    settings = replace(SMALL, seed=seed, events=400, batches=6, horizon=timedelta(hours=seed * 3))
    generate(tmp_path, settings)
    assert_truth_is_what_the_rules_say(tmp_path, settings)


def test_every_interesting_case_occurs(tmp_path: Path) -> None:
    generate(tmp_path, SMALL)
    runs = list(judge_batches(tmp_path, SMALL))
    everything = [each for run in runs for each in run]
    accepted_in: dict[tuple[str | None, str | None], int] = {}
    seen: Counter[str] = Counter()
    rejected_ids: set[str | None] = set()
    high: int | None = None
    horizon = SMALL.horizon // timedelta(microseconds=1)
    for batch, run in enumerate(runs):
        mark = low_water_mark(high, horizon)
        for each in run:
            record, key = each.record, (each.record.event_id, each.record.fingerprint)
            if each.verdict is Verdict.DUPLICATE:
                seen["copy from an earlier batch" if accepted_in[key] < batch else "copy in the batch"] += 1
                seen["copy exactly at the mark"] += record.event_time == mark
            if each.verdict is Verdict.STALE:
                seen["stale copy"] += key in accepted_in
                assert mark is not None
                seen["only just stale"] += record.event_time == mark - 1
                seen["stale and negative"] += record.reject_reason is not None
            if each.verdict is Verdict.REJECTED:
                seen["rejected again"] += record.event_id in rejected_ids
                rejected_ids.add(record.event_id)
            if each.verdict is Verdict.ACCEPTED:
                seen["mended"] += record.event_id in rejected_ids
            if each.verdict in (Verdict.ACCEPTED, Verdict.CONFLICT):
                accepted_in[key] = batch
                assert record.event_time is not None
                high = record.event_time if high is None else max(high, record.event_time)
    conflicts = {each.record.fingerprint for each in everything if each.verdict is Verdict.CONFLICT}
    seen["copy of a conflict"] = sum(
        each.verdict is Verdict.DUPLICATE and each.record.fingerprint in conflicts for each in everything
    )
    seen["integer id"] = sum((each.event_id or "").isdigit() for each in everything)
    assert set(seen) == {name for name, count in seen.items() if count > 0}
    assert len(seen) == 10


def test_every_kind_of_bad_record_occurs(tmp_path: Path) -> None:
    generate(tmp_path, replace(SMALL, ugly=False))
    reasons = Counter(
        each.reason for run in judge_batches(tmp_path, SMALL) for each in run if each.verdict is Verdict.BAD
    )
    text = " ".join(str(reason) for reason in reasons)
    for part in (
        "an object",
        "neither text",
        "empty or too long",
        "no time",
        "isoformat",
        "ahead",
        "fit",
        "surro",
    ):
        assert part in text


def test_ugly_lines(tmp_path: Path) -> None:
    generate(tmp_path, SMALL)
    files = [path.read_bytes() for path in sorted((tmp_path / "in").iterdir())]
    together = b"".join(files)
    assert b"\r\n" in together
    assert b"\n\n" in together
    assert b"\n\r\n" in together
    assert {content.endswith(b"\n") for content in files} == {True, False}
    generate(tmp_path, replace(SMALL, ugly=False))
    tidy = b"".join(path.read_bytes() for path in (tmp_path / "in").iterdir())
    assert b"\r" not in tidy
    assert tidy.count(b"\n") == SMALL.events * SMALL.batches


@pytest.mark.parametrize(
    "settings",
    [
        SMALL,
        replace(SMALL, format="csv"),
        replace(SMALL, format="parquet", compression="zstd"),
        replace(SMALL, compression="gzip"),
    ],
    ids=["jsonl", "csv", "parquet", "gzip"],
)
def test_batch_by_batch_is_the_same_as_all_at_once(tmp_path: Path, settings: GeneratorSettings) -> None:
    whole = generate(tmp_path / "whole", settings)
    for batch in (3, 0, 4, 1, 2):
        part = generate(tmp_path / "parts", settings, range(batch, batch + 1))
        assert part.counts(batch) == whole.counts(batch)
    assert all_bytes(tmp_path / "parts") == all_bytes(tmp_path / "whole")


def test_bytes_do_not_change_from_version_to_version(tmp_path: Path) -> None:
    """Numbers that were published for a seed stay reproducible."""
    generate(tmp_path, replace(SMALL, events=100, batches=2, files_per_batch=1))
    digest = hashlib.sha256((tmp_path / "in/batch-001-00.jsonl").read_bytes()).hexdigest()
    assert digest == "f9a6bcc92a5d68e26b334ae3959dd51559bcf5444306cd74ffbf296df713dc0a"


def test_another_seed_gives_other_events(tmp_path: Path) -> None:
    ids = []
    for seed in (1, 2):
        generate(tmp_path / str(seed), replace(SMALL, seed=seed))
        ids.append(set(read_truth(tmp_path / str(seed))["event_id"].drop_null().to_pylist()))
    assert not ids[0] & ids[1]


def test_counts(tmp_path: Path) -> None:
    truth = generate(tmp_path, SMALL)
    table = read_truth(tmp_path)
    assert table.column_names == ["file", "offset", "event_id", "verdict", "batch"]
    assert truth.totals == dict.fromkeys(VERDICTS, 0) | Counter(table["verdict"].to_pylist())
    assert sum(truth.totals.values()) == SMALL.events * SMALL.batches
    counts, report = truth.counts(2), expected_counts(tmp_path, 2)
    assert report == {
        "read": SMALL.events,
        "accepted": counts["accepted"] + counts["conflict"],
        "conflicts": counts["conflict"],
        "duplicates": counts["duplicate"],
        "stale": counts["stale"],
        "rejected": counts["rejected"],
        "bad": counts["bad"],
    }
    assert truth.counts(0)["stale"] == 0
    whole = expected_counts(tmp_path)
    assert whole["read"] == SMALL.events * SMALL.batches
    assert whole["accepted"] == truth.totals["accepted"] + truth.totals["conflict"]


def test_shares_are_roughly_as_asked(tmp_path: Path) -> None:
    settings = replace(SMALL, events=20_000, batches=2, files_per_batch=1)
    counts = generate(tmp_path, settings).counts(1)
    asked = {
        "duplicate": settings.duplicates,
        "conflict": settings.conflicts,
        "stale": settings.late,
        "rejected": settings.rejected,
        "bad": settings.bad,
    }
    for verdict, share in asked.items():
        assert counts[verdict] / settings.events == pytest.approx(share, rel=0.15), verdict


@pytest.mark.parametrize("payload_bytes", [250, 300, 1_000, 200_000])
def test_records_are_roughly_as_long_as_asked(tmp_path: Path, payload_bytes: int) -> None:
    settings = GeneratorSettings(events=500, batches=1, bad=0, payload_bytes=payload_bytes)
    generate(tmp_path, settings)
    length = (tmp_path / "in/batch-000-00.jsonl").stat().st_size / settings.events
    assert length == pytest.approx(payload_bytes, rel=0.1)


def test_pipeline_file(tmp_path: Path) -> None:
    generate(tmp_path, replace(SMALL, events=10, horizon=timedelta(hours=36), format="csv"))
    pipeline = tmp_path / "pipeline.yaml"
    loaded = yaml.safe_load(pipeline.read_text())
    assert loaded["source"] == {"kind": "files", "path": "in/", "format": "csv"}
    assert loaded["event"]["fingerprint"] == {"exclude": ["sent_at"]}
    assert loaded["reject"] == {"negative amount": "amount < 0"}
    assert (loaded["pipeline"], loaded["horizon"]) == ("generated", "36h")

    pipeline.write_text("mine")
    generate(tmp_path, replace(SMALL, events=10))
    assert pipeline.read_text() == "mine"
    generate(tmp_path, replace(SMALL, events=10), overwrite_pipeline=True)
    assert yaml.safe_load(pipeline.read_text())["horizon"] == "2d"


def test_no_unfinished_files_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("semel.testing.generator._truth_batch", fail)
    with pytest.raises(OSError, match="disk full"):
        generate(tmp_path, SMALL)
    assert list((tmp_path / "in").iterdir()) == []
    assert list((tmp_path / "truth").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"duplicates": 0.9, "bad": 0.2}, "together, not below 1"),
        ({"late": -0.1}, "late: the share is -0.1"),
        ({"events": 2}, "fewer than one for each file"),
        ({"batches": 0}, "batches is 0"),
        ({"files_per_batch": 101}, "files_per_batch is 101"),
        ({"start": datetime(2020, 1, 1)}, "no time zone"),
        ({"horizon": timedelta(milliseconds=1500)}, "whole number of seconds"),
        ({"batch_span": timedelta(0)}, "batch_span is shorter"),
        ({"format": "xml"}, "format is xml"),
        ({"compression": "rar"}, "compression is rar"),
        ({"payload_bytes": 0}, "payload_bytes is 0"),
    ],
)
def test_wrong_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changes)


def test_batch_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="outside of the 5 batches"):
        generate(tmp_path, SMALL, range(4, 6))
