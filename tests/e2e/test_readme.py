"""What the documents show is what happens: the README's pipeline file, and the example with its stated counts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

import semel
from semel.model.crashpoints import CrashPoint
from semel.model.verdicts import Feed
from semel.pipeline.config import parse_config

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "clicks"


def blocks(document: Path, language: str) -> list[str]:
    """The fenced blocks of a language."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{document.name} shows no {language} block"
    return found


def table(document: Path, first_column: str) -> list[dict[str, str]]:
    """The rows of the table whose first column has that name."""
    lines = document.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first_column} |"))
    names = cells(lines[start])
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(names, cells(line), strict=True)))
    return rows


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_the_pipeline_file_in_the_readme_is_accepted(tmp_path: Path) -> None:
    text = blocks(ROOT / "README.md", "yaml")[0]
    config = parse_config(text, tmp_path, "README.md", environ={})
    assert config.name == "clicks"
    assert config.event.id == ("event_id",)
    assert config.reject == {"negative amount": "amount < 0"}


def test_the_file_with_all_keys_is_accepted_and_has_the_defaults(tmp_path: Path) -> None:
    shown = blocks(ROOT / "docs" / "pipeline-file.md", "yaml")[0]
    least = "{pipeline: clicks, source: {path: in/}, event: {id: event_id, time: event_time}}"
    config = parse_config(shown, tmp_path, environ={})
    defaults = parse_config(least, tmp_path, environ={})
    for key in ("horizon", "clock", "max_ahead", "conflict", "ledger", "witness", "feeds", "books"):
        assert getattr(config, key) == getattr(defaults, key), key
    assert config.event.fingerprint == defaults.event.fingerprint
    assert config.source.split == defaults.source.split


def test_the_python_in_the_readme_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "clicks")
    monkeypatch.chdir(tmp_path / "clicks")
    rows = [(0, "a", "2026-01-01", 1), (1, "a", "2026-01-01", 1), (2, "a", "2026-01-01", 2)]
    df = spark.createDataFrame(rows, "offset INT, event_id STRING, event_time STRING, amount INT")
    names: dict[str, Any] = {"spark": spark, "df": df}
    for block in blocks(ROOT / "README.md", "python"):
        exec(block, names)
    assert names["report"].balanced
    assert names["events"].count() == names["report"].totals.accepted
    verdicts = [row.verdict for row in names["judged"].orderBy("offset").collect()]
    assert verdicts == ["accepted", "duplicate", "conflict"]


def test_the_crash_test_in_the_contributors_guide_passes(spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(blocks(ROOT / "CONTRIBUTING.md", "python")[0], names)
    names["test_killed_after_the_commit"](spark, tmp_path)


def test_every_crash_point_has_a_row_in_the_table() -> None:
    rows = table(ROOT / "docs" / "architecture.md", "crash point")
    assert sorted(row["crash point"].strip("`") for row in rows) == sorted(point.value for point in CrashPoint)


def test_the_example_gives_what_its_readme_says(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "clicks"
    shutil.copytree(EXAMPLE, folder)
    report = semel.load(str(folder / "clicks.yaml")).run(spark)

    stated = [
        {name: int(count) for name, count in row.items() if name not in ("run", "file")}
        for row in table(EXAMPLE / "README.md", "run")
    ]
    assert [run.counts.as_dict() for run in report.runs] == stated
    assert report.balanced
    assert report.totals.read == 12

    found = {}
    for feed in Feed:
        rows = ds.dataset(folder / "out" / feed.value, format="parquet").to_table().to_pylist()
        for row in rows:
            sent_as = row["original_event_id"] or row["event_id"] or ""
            found[row["position"]] = (sent_as, row["verdict"], row["reason"] or "")
            if row["verdict"] == "conflict":
                assert f"`{row['event_id']}`" in (EXAMPLE / "README.md").read_text()
    assert found == {
        row["position"]: (row["id"], row["verdict"], row["reason"]) for row in table(EXAMPLE / "README.md", "position")
    }


def test_the_example_leaves_nothing_in_the_project() -> None:
    assert sorted(path.name for path in EXAMPLE.iterdir()) == ["README.md", "clicks.yaml", "in"]
