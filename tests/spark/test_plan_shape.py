"""The physical plan: one shuffle, one sort, one scan; and the same feeds under any split."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from pipelines import Place, event

SHOP = """
from pyspark.sql import functions as F

def enrich(df):
    return df.withColumn("doubled", F.col("amount") * 2)
"""


def physical_plan(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize("process", [False, True])
@pytest.mark.parametrize("later_run", [False, True])
def test_one_shuffle_and_one_job_write_every_feed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: bool, later_run: bool
) -> None:
    place = Place(tmp_path)
    (tmp_path / f"shop_{tmp_path.name}.py").write_text(SHOP)
    place.write("a.jsonl", [event(f"e{n % 7}", n % 3) for n in range(50)])
    overrides = [f"process=shop_{tmp_path.name}:enrich"] if process else []
    if later_run:
        place.pipeline(*overrides).run(spark)
        place.write("b.jsonl", [event(f"e{n % 9}", n % 4) for n in range(50)])
    plans = []
    write = DataFrameWriter.parquet

    def remember(self: DataFrameWriter, path: str, *arguments: object, **named: object) -> None:
        plans.append(physical_plan(self._df))
        write(self, path, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(DataFrameWriter, "parquet", remember)
    place.pipeline(*overrides).run(spark)

    assert len(plans) == 1
    assert plans[0].count("Exchange ") == 1, plans[0]
    assert plans[0].count("Sort ") == 1, plans[0]
    assert plans[0].count("MapInArrow") == 1, plans[0]
    assert "Python" not in plans[0].replace("MapInArrow", "")


def test_positions_and_verdicts_do_not_depend_on_the_split(spark: SparkSession, tmp_path: Path) -> None:
    lines = [event(f"e{n % 9}", n % 3, note="x" * (n % 90)) for n in range(40)]
    results = []
    for split in ("100B", "1MiB"):
        place = Place(tmp_path / split)
        place.write("a.jsonl", lines)
        report = place.pipeline(f"source.split={split}").run(spark)
        commit = (place.folder / "books" / "commits" / "000000001.json").read_text()
        results.append((place.verdicts(), report.runs[0].counts, commit.split('"crc32": ')[1].split(",")[0]))
    assert results[0] == results[1]
    assert len(results[0][0]) == 40
