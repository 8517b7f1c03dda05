"""`reject` and `process`: what they may do, and what is refused or noticed."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from pipelines import DEFAULT, Place, event, ids
from semel.errors import ConfigError, ProcessBroken, RunFailed

FUNCTIONS = """
from pyspark.sql import functions as F

def enrich(df):
    return df.withColumn("size", F.when(F.col("amount") > 10, "large").otherwise("small")).withColumn(
        "reject_reason", F.when(F.col("note") == "no", "says no"))

def halves(df):
    return df.filter("amount > 10").unionByName(df.filter("amount <= 10 OR amount IS NULL"))

def lose(df):
    return df.filter("event_id <> 'e2'")

def double(df):
    return df.union(df.filter("event_id = 'e2'"))

def swap(df):
    return df.filter("event_id <> 'e2'").union(df.filter("event_id = 'e3'"))

def alter(df):
    return df.withColumn("event_id", F.upper("event_id"))

def take(df):
    return df.limit(1)

def drop(df):
    return df.drop("position")

def retype(df):
    return df.withColumn("event_time", F.lit(1))

def nothing(df):
    return None

def fail(df):
    raise ValueError("no idea")

def reserved(df):
    return df.withColumn("run", F.lit(1))

def leave(df):
    raise SystemExit(0)

not_a_function = 3
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write(
        "a.jsonl",
        [
            event("e1", 20),
            event("e2", note="no"),
            event("e3"),
            event("e3"),
            event("e4", -1, note="no"),
            b"bad",
        ],
    )
    (tmp_path / f"functions_{uuid4().hex}.py").write_text(FUNCTIONS)
    return place


def with_process(place: Place, name: str) -> str:
    module = next(place.folder.glob("functions_*.py")).stem
    return f"process={module}:{name}"


def test_process_enriches_and_rejects(place: Place, spark: SparkSession) -> None:
    report = place.pipeline(with_process(place, "enrich")).run(spark)
    assert report.runs[0].counts.as_dict() == {
        "read": 6, "accepted": 2, "conflicts": 0, "duplicates": 1, "stale": 0, "rejected": 2, "bad": 1,
    }  # fmt: skip
    assert {row["event_id"]: row["size"] for row in place.rows("events")} == {"e1": "large", "e3": "small"}
    assert {row["event_id"]: row["reason"] for row in place.rows("rejected")} == {
        "e2": "says no",
        "e4": "negative amount",
    }
    assert [row["size"] for row in place.rows("bad")] == [None]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("lose", r"lost the record at in/a\.jsonl:\d+"),
        ("double", r"returned the record at in/a\.jsonl:\d+ 2 times"),
        ("swap", r"lost the record at in/a\.jsonl:\d+"),
        ("alter", r"changed the id, .* of the record at in/a\.jsonl:0"),
    ],
)
def test_rows_lost_doubled_or_altered_fail_the_run(
    place: Place, spark: SparkSession, function: str, message: str
) -> None:
    with pytest.raises(ProcessBroken, match=message):
        place.pipeline(with_process(place, function)).run(spark)
    assert place.verdicts() == {}
    report = place.pipeline().run(spark)
    assert [run.counts.read for run in report.runs] == [6]


def test_a_limit_is_noticed(place: Place, spark: SparkSession) -> None:
    with pytest.raises(RunFailed, match=r"lost the record|did not read its input to the end"):
        place.pipeline(with_process(place, "take")).run(spark)
    assert place.verdicts() == {}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("drop", "returned no column 'position'"),
        ("retype", "changed the type of 'event_time'"),
        ("nothing", "returned NoneType, not a DataFrame"),
        ("fail", "ValueError: no idea"),
        ("reserved", "'run', which is reserved"),
        ("leave", "SystemExit"),
        ("not_a_function", "is not a function"),
        ("absent", "has no function 'absent'"),
    ],
)
def test_a_function_that_cannot_work_is_refused_before_the_plan(
    place: Place, spark: SparkSession, function: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        place.pipeline(with_process(place, function)).run(spark)
    assert not list((place.folder / "books").glob("plans/*"))


def test_a_module_that_is_not_there(place: Place, spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match=r"'nowhere:f' cannot be imported.*looked for in"):
        place.pipeline("process=nowhere:f").run(spark)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("amuont < 0", "is not a condition"),
        ("amount <", "is not a condition"),
        ("amount", "gives DOUBLE, not BOOLEAN"),
        ("rand() < 0.5", "another answer each time"),
        ("sum(amount) > 1", "is not a condition"),
        ("now() > event_time", "asks the clock"),
        ("current_date() > event_time", "asks the clock"),
        ("exists(select 1)", "asks the clock, the session or a table"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_before_the_plan(
    place: Place, spark: SparkSession, condition: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=rf"clicks.yaml: reject: rule: .*{message}"):
        place.pipeline(f"reject={{rule: '{condition}'}}").run(spark)
    assert not list((place.folder / "books").glob("plans/*"))


def test_a_rule_that_gives_null_does_not_reject(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path, DEFAULT + "  by zero: amount / (amount - amount) > 1\n")
    place.write("a.jsonl", [event("e1"), {"id": "e2", "time": "2026-01-01"}])
    place.pipeline().run(spark)
    assert ids(place.rows("events")) == ["e1", "e2"]


def test_a_rejected_record_may_come_again(spark: SparkSession, tmp_path: Path) -> None:
    """A rule over a field that does not count in the fingerprint: the mended copy is not a duplicate."""
    place = Place(tmp_path, DEFAULT.replace("exclude: [sent]", "exclude: [amount]"))
    place.write("a.jsonl", [event("e1", -1), event("e1", 1), event("e1", -1), event("e2", -1)])
    place.pipeline().run(spark)
    place.write("b.jsonl", [event("e1", -1), event("e2", 5)])
    place.pipeline().run(spark)
    assert list(place.verdicts().values()).count("rejected") == 2
    assert list(place.verdicts().values()).count("duplicate") == 2
    assert ids(place.rows("events")) == ["e1", "e2"]


def test_a_python_udf_in_a_module_beside_the_pipeline_file(place: Place, spark: SparkSession) -> None:
    package = place.folder / f"shop_{uuid4().hex}"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "names.py").write_text("def shout(text):\n    return None if text is None else text.upper()\n")
    (package / "rules.py").write_text(
        "from pyspark.sql import functions as F\n"
        f"from {package.name}.names import shout\n"
        "@F.udf('string')\n"
        "def loud(text):\n    return shout(text)\n"
        "def enrich(df):\n    return df.withColumn('loud', loud('event_id'))\n"
    )
    place.pipeline(f"process={package.name}.rules:enrich").run(spark)
    assert sorted(row["loud"] for row in place.rows("events")) == ["E1", "E2", "E3"]


def test_a_udf_that_fails_says_why(place: Place, spark: SparkSession) -> None:
    module = place.folder / f"failing_{uuid4().hex}.py"
    module.write_text(
        "from pyspark.sql import functions as F\n"
        "@F.udf('string')\n"
        "def loud(text):\n    return text.shout()\n"
        "def enrich(df):\n    return df.withColumn('loud', loud('event_id'))\n"
    )
    with pytest.raises(RunFailed, match=r"AttributeError: 'str' object has no attribute 'shout'.*can be run again"):
        place.pipeline(f"process={module.stem}:enrich").run(spark)


def test_a_source_that_is_read_twice_counts_once(place: Place, spark: SparkSession) -> None:
    """Both halves of the union read the input: each task leaves two notes and two sets of files."""
    report = place.pipeline(with_process(place, "halves")).run(spark)
    assert report.runs[0].counts.read == len(place.verdicts()) == 6


def test_a_schema_column_may_look_like_one_of_semels(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path, DEFAULT.replace("note STRING", "_first INT, _place INT, _verdict STRING"))
    place.write(
        "a.jsonl", [event("e1", _first=1, _place=2, _verdict="x"), event("e1", _first=1, _place=2, _verdict="x")]
    )
    place.pipeline().run(spark)
    for feed in ("events", "duplicates"):
        assert [(row["_first"], row["_place"], row["_verdict"]) for row in place.rows(feed)] == [(1, 2, "x")]
