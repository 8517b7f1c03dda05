"""Reading a feed: exactly the committed files, whatever else lies around."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.books.records import Commit, Status
from semel.errors import ConfigError
from semel.judging.columns import feed_ddl
from semel.model.verdicts import Feed
from semel.pipeline.config import load_config
from semel.pipeline.workspace import Workspace, config_schema
from semel.sinks.parquet import ParquetSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_GLOB: Final = re.compile(r"[\\*?\[\]{}]")


def read(
    spark: SparkSession, pipeline: str | os.PathLike[str], feed: str = "events", overrides: Sequence[str] = ()
) -> DataFrame:
    """A feed of a pipeline as a DataFrame, with its `run`: the runs that are committed when it is called, no more.

    The last commit is published first if a crash came in between.
    """
    if feed not in {known.value for known in Feed}:
        raise ConfigError(f"there is no feed {feed!r}; the feeds are {', '.join(known.value for known in Feed)}")
    config = load_config(pipeline, overrides)
    workspace = Workspace(config)
    paths: dict[Path, list[str]] = {}
    if workspace.identity() is not None:
        workspace.roll_forward(*workspace.books.load_with_last())
        for commit, _ in workspace.books.commits():
            if commit.status is Status.COMMITTED:
                sink = _sink_to_read(workspace, commit)
                folder = _GLOB.sub(r"\\\g<0>", f"file://{sink.run_folder(feed, commit.run)}")
                paths.setdefault(sink.root, []).extend(f"{folder}/{file.name}" for file in commit.feeds.get(feed, ()))
    frames = [
        spark.read.option("mergeSchema", "true").option("basePath", f"file://{root}/{feed}").parquet(*files)
        for root, files in paths.items()
        if files
    ]
    empty = spark.createDataFrame([], f"{feed_ddl(config_schema(config))}, run STRING")
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames) if frames else empty


def _sink_to_read(workspace: Workspace, commit: Commit) -> ParquetSink:
    """The first of the pipeline's feeds that the commit was published to; if there is none, the commit's first."""
    published = workspace.sinks_of(commit.sinks)
    roots = {sink.root for sink in published}
    return next((sink for sink in workspace.sinks if sink.root in roots), published[0])
