"""The source as a DataFrame: one row a task in, the open events out, in Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.judging.columns import open_ddl
from semel.judging.read_stage import ReadStage
from semel.model.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def open_events(spark: SparkSession, stage: ReadStage, tasks: int, schema: Schema | None) -> DataFrame:
    return spark.range(0, tasks, 1, tasks).mapInArrow(stage, open_ddl(schema))


def no_events(spark: SparkSession, schema: Schema | None) -> DataFrame:
    """An empty DataFrame of the same columns, to check rules and functions on."""
    return spark.createDataFrame([], open_ddl(schema))
