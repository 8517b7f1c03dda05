"""`semel.judge`: the verdicts of a DataFrame on its own."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import semel
from semel.errors import ConfigError
from semel.model.identity import derived_id

COLUMNS = "offset INT, shop INT, event_id STRING, event_time TIMESTAMP, amount DOUBLE, tags MAP<STRING, INT>"
WHEN = datetime(2026, 1, 1)


def rows(*given: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [(offset, 1, event_id, WHEN, amount, {"a": 1, "b": 2}) for offset, (event_id, amount) in enumerate(given)]


def verdicts(spark: SparkSession, *given: tuple[Any, ...], **options: Any) -> list[str]:
    df = spark.createDataFrame(rows(*given), COLUMNS).repartition(3)
    judged = semel.judge(df, **{"id": "event_id", "time": "event_time", "order": "offset", **options})
    assert judged.columns == [*df.columns, "verdict", "reason", "fingerprint", "accepted_id"]
    return [row.verdict for row in judged.orderBy("offset").collect()]


@pytest.mark.parametrize(
    ("given", "options", "expected"),
    [
        (
            [("a", 1.0), ("a", 1.0), ("a", 2.0), ("a", 2.0)],
            {},
            ["accepted", "duplicate", "conflict", "duplicate"],
        ),
        ([("a", 1.0), ("a", 2.0)], {"conflict": "rename-all"}, ["conflict", "conflict"]),
        ([("a", 1.0), ("a", 2.0)], {"conflict": "reject"}, ["accepted", "rejected"]),
        ([("a", -1.0), ("a", 1.0)], {"reject": {"negative": "amount < 0"}}, ["rejected", "accepted"]),
        ([(None, 1.0), ("", 1.0), ("x" * 1025, 1.0), ("b", None)], {}, ["bad", "bad", "bad", "accepted"]),
        ([("a", 1.0), ("a", 2.0)], {"exclude": ["amount"]}, ["accepted", "duplicate"]),
        ([("a", 1.0), ("a", 1.0)], {"id": ["shop", "event_id"], "hash": "md5"}, ["accepted", "duplicate"]),
    ],
)
def test_verdicts(spark: SparkSession, given: Any, options: Any, expected: list[str]) -> None:
    assert verdicts(spark, *given, **options) == expected


def test_a_conflict_gets_the_derived_id(spark: SparkSession) -> None:
    df = spark.createDataFrame(rows(("a", 1.0), ("a", 2.0)), COLUMNS)
    first, second = semel.judge(df, id="event_id", time="event_time", order="offset").orderBy("offset").collect()
    assert first.accepted_id == "a"
    assert second.accepted_id == derived_id("a", second.fingerprint)


def test_one_shuffle(spark: SparkSession) -> None:
    df = spark.createDataFrame(rows(("a", 1.0)), COLUMNS)
    judged = semel.judge(df, id="event_id", time="event_time", order="offset")
    plan = judged._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange ") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "evnt"}, "id: there is no column 'evnt'; the columns are offset"),
        ({"id": "amount"}, "id: column 'amount' is double"),
        ({"time": "tags"}, "time: column 'tags'"),
        ({"order": []}, "at least one column"),
        ({"hash": "crc"}, "hash: 'crc' is not allowed"),
        ({"conflict": "drop"}, "conflict: 'drop' is not allowed"),
        ({"reject": {"x": "nothing > 1"}}, "reject: x"),
    ],
)
def test_wrong_calls(spark: SparkSession, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        verdicts(spark, ("a", 1.0), **options)


def test_a_column_that_is_taken(spark: SparkSession) -> None:
    df = spark.createDataFrame(rows(("a", 1.0)), COLUMNS).withColumn("verdict", F.lit(1))
    with pytest.raises(ConfigError, match="'verdict' is there already"):
        semel.judge(df, id="event_id", time="event_time", order="offset")
