"""Reading a feed: exactly the committed files, whatever else lies around."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from semel.books.records import Status
from semel.errors import ConfigError
from semel.judge.columns import feed_ddl
from semel.model.verdicts import Feed
from semel.pipeline.attempt import config_schema
from semel.pipeline.config import load_config
from semel.pipeline.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_GLOB: Final = re.compile(r"[\\*?\[\]{}]")


def read(spark: SparkSession, pipeline: str | os.PathLike[str], feed: str = "events") -> DataFrame:
    """A feed of a pipeline as a DataFrame, with its `run`: the runs that are committed when it is called, no more.

    The last commit is published first if a crash came in between.
    """
    if feed not in {known.value for known in Feed}:
        raise ConfigError(f"there is no feed {feed!r}; the feeds are {', '.join(known.value for known in Feed)}")
    config = load_config(pipeline)
    workspace = Workspace(config)
    paths: list[str] = []
    root = workspace.sinks[0].root / feed
    if workspace.identity() is not None:
        workspace.roll_forward(*workspace.books.load_with_last())
        for commit, _ in workspace.books.commits():
            if commit.status is Status.COMMITTED:
                folder = workspace.sinks[0].run_folder(feed, commit.run)
                paths += [f"{folder}/{file.name}" for file in commit.feeds.get(feed, ())]
    ddl = f"{feed_ddl(config_schema(config))}, run STRING"
    if not paths:
        return spark.createDataFrame([], ddl)
    literal = [_GLOB.sub(r"\\\g<0>", path) for path in paths]
    return spark.read.option("mergeSchema", "true").option("basePath", str(root)).parquet(*literal)
