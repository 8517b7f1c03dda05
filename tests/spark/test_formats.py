"""Every format and compression through a whole run, and what a user reads back."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import semel
from pipelines import DEFAULT, Place, event, ids
from semel.errors import ConfigError, RunFailed
from semel.pipeline.config import load_config
from semel.pipeline.runner import Pipeline
from semel.testing.generator import GeneratorSettings, expected_counts, generate


@pytest.mark.parametrize(
    ("kind", "compression", "files"),
    [
        ("jsonl", None, 3),
        ("jsonl", "gzip", 1),
        ("jsonl", "zstd", 2),
        ("csv", None, 1),
        ("csv", "zstd", 1),
        ("parquet", None, 1),
    ],
)
def test_generated_sets_come_out_as_their_truth(
    spark: SparkSession, tmp_path: Path, kind: Any, compression: Any, files: int
) -> None:
    settings = GeneratorSettings(
        events=600, batches=2, seed=5, format=kind, compression=compression, files_per_batch=files
    )
    generate(tmp_path, settings)
    overrides = [f"source.max_files={files}", "source.split=20KB"]
    report = Pipeline(load_config(tmp_path / "pipeline.yaml", overrides)).run(spark)
    assert [run.counts.as_dict() for run in report.runs] == [expected_counts(tmp_path, batch) for batch in range(2)]


def test_what_cannot_be_read_is_bad_with_its_exact_bytes(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    broken = [
        b'\xef\xbb\xbf{"id": "\xff"}',
        b"[1]\r",
        b'{"id": "x"}',
        b"\x00",
        b'{"id": 1.5, "time": "2026-01-01"}',
    ]
    place.write("a.jsonl", [*broken, b"", b"\r", event(12345678901234567890), event("s", note=7)])
    report = place.pipeline().run(spark)
    assert report.runs[0].counts.as_dict()["read"] == 7
    rows = {int(row["position"].split(":")[1]): row for row in place.rows("bad")}
    found = [rows[offset]["raw"] or rows[offset]["payload"].encode() for offset in sorted(rows)]
    assert found == broken
    assert all(row["reason"] for row in rows.values())
    assert ids(place.rows("events")) == ["12345678901234567890", "s"]


def test_columns_of_every_feed(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("a.jsonl", [event("e1"), event("e1", 2)])
    place.pipeline().run(spark)
    expected = [
        "event_id", "original_event_id", "fingerprint", "event_time", "arrival_time", "position", "verdict", "reason",
        "payload", "raw", "contexts", "amount", "note",
    ]  # fmt: skip
    for feed in ("events", "duplicates", "stale", "rejected", "bad"):
        files = list((tmp_path / "out" / feed).rglob("*.parquet"))
        assert files, feed
        for file in files:
            schema = pq.read_schema(file)
            assert schema.names == expected
            assert schema.field("event_time").type == pa.timestamp("us", tz="UTC")
        assert spark.read.parquet(str(tmp_path / "out" / feed)).columns == [*expected, "run"]
    conflict = next(row for row in place.rows("events") if row["verdict"] == "conflict")
    assert conflict["original_event_id"] == "e1"
    assert '"data":{"originalEventId":"e1"}' in conflict["contexts"]


def test_read_gives_exactly_the_committed_files(spark: SparkSession, tmp_path: Path) -> None:
    tmp_path = tmp_path / "a b%20[ü]{x}"
    place = Place(tmp_path)
    assert semel.read(spark, place.file).count() == 0
    place.write("a.jsonl", [event("e1"), event("e2")])
    place.pipeline().run(spark)
    stray = tmp_path / "out" / "events" / "run=r000000009-20260101T000000Z"
    stray.mkdir()
    pq.write_table(pa.table({"event_id": ["ghost"]}), stray / "part-0.parquet")
    assert sorted(row.event_id for row in semel.read(spark, place.file).collect()) == ["e1", "e2"]
    assert semel.read(spark, place.file, feed="bad").count() == 0
    with pytest.raises(ConfigError, match="there is no feed 'event'; the feeds are events"):
        semel.read(spark, place.file, feed="event")


def test_a_schema_column_added_later(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("a.jsonl", [event("e1")])
    place.pipeline().run(spark)
    place.file.write_text(DEFAULT.replace("note STRING", "note STRING, extra INT"))
    place.write("b.jsonl", [event("e2", extra=3)])
    place.pipeline().run(spark)
    assert {row.event_id: row.extra for row in semel.read(spark, place.file).collect()} == {
        "e1": None,
        "e2": 3,
    }


def test_a_file_that_cannot_be_decompressed_fails_the_run_with_its_name(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    whole = gzip.compress(b'{"id": "e1", "time": "2026-01-01"}\n' * 100)
    (tmp_path / "in" / "a.jsonl.gz").write_bytes(whole[:-20])
    with pytest.raises(RunFailed, match=r"in/a\.jsonl\.gz cannot be decompressed"):
        place.pipeline().run(spark)
    (tmp_path / "in" / "a.jsonl.gz").write_bytes(whole)
    place.pipeline().void("r000000001-20260131T120002Z")
    assert place.pipeline().run(spark).runs[0].counts.duplicates == 99


def test_composite_ids_and_epoch_times(spark: SparkSession, tmp_path: Path) -> None:
    text = "pipeline: orders\nsource: {path: in/}\nevent: {id: [shop, order.id], time: at, unit: ms}\n"
    place = Place(tmp_path, text)
    place.write(
        "a.jsonl",
        [{"shop": 1, "order": {"id": "x"}, "at": 1_700_000_000_123}, {"shop": 1, "order": {}, "at": 1}],
    )
    place.pipeline().run(spark)
    (row,) = place.rows("events")
    assert row["event_id"] == '["1","x"]'
    assert row["event_time"].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert place.rows("bad")[0]["reason"] == "the id order.id is missing"


def test_without_a_ledger_only_a_run_is_deduplicated(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path, DEFAULT + "ledger: none\n")
    for name in ("a.jsonl", "b.jsonl"):
        place.write(name, [event("e1"), event("e1")])
        place.pipeline().run(spark)
    assert sorted(place.verdicts().values()) == ["accepted", "accepted", "duplicate", "duplicate"]


def test_two_feeds_folders_get_the_same(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path, DEFAULT + "feeds: [parquet:out/, parquet:copy/]\n")
    place.write("a.jsonl", [event("e1"), b"x"])
    place.pipeline().run(spark)
    assert {path.relative_to(tmp_path / "out") for path in (tmp_path / "out").glob("*/*/*.parquet")} == {
        path.relative_to(tmp_path / "copy") for path in (tmp_path / "copy").glob("*/*/*.parquet")
    }


@pytest.mark.parametrize("start", [b"\n\r\n", b"\xef\xbb\xbf\r\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_csv_file_may_begin_with_empty_lines(spark: SparkSession, tmp_path: Path, start: bytes, packed: bool) -> None:
    place = Place(tmp_path, DEFAULT.replace("path: in/", "path: in/, format: csv, split: 20B"))
    content = start + b"id,time,amount\n" + b"".join(b"e%d,2026-01-01,%d\n" % (n, n) for n in range(5))
    name = "a.csv.gz" if packed else "a.csv"
    (tmp_path / "in" / name).write_bytes(gzip.compress(content) if packed else content)
    assert place.pipeline().run(spark).totals.accepted == 5
