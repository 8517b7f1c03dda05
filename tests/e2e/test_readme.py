"""What the documents show is what happens: the README's pipeline file, and the example with its stated counts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow.dataset as ds
from pyspark.sql import SparkSession

import semel
from semel.model.verdicts import Feed
from semel.pipeline.config import parse_config

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "clicks"


def first_block(document: Path, language: str) -> str:
    """The text of the first fenced block of a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{document.name} shows no {language} block"
    return found[1]


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
    text = first_block(ROOT / "README.md", "yaml")
    config = parse_config(text, tmp_path, "README.md", environ={})
    assert config.name == "clicks"
    assert config.event.id == ("event_id",)
    assert config.reject == {"negative amount": "amount < 0"}


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
