"""The Spark session: built when a run has input, with settings that a run depends on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.errors import RunFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STARTUP: Final = {
    "spark.app.name": "semel",
    "spark.master": "local[*]",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Defaults: what spark-submit, spark-defaults.conf or PYSPARK_SUBMIT_ARGS say goes first."""

_PER_RUN: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "snappy",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.requireAllClusterKeysForDistribution": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
}
"""A rule that divides by zero gives NULL and does not reject; times are UTC; one shuffle serves both windows."""


def build_session() -> SparkSession:
    """The active session, or a new one on all local cores."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    logging = Path(str(files("semel.pipeline").joinpath("log4j2.properties"))).as_uri()
    defaults = {**_STARTUP, "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}"}
    conf = SparkConf(loadDefaults=False)
    for key, value in defaults.items():
        conf.set(key, value)
    try:
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except (PySparkException, OSError) as error:
        raise RunFailed(f"Spark could not be started: {error}; run `semel doctor`") from error


@contextmanager
def run_settings(spark: SparkSession) -> Iterator[None]:
    """Set what a run depends on, and put back what was there."""
    before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in _PER_RUN}
    try:
        for key, value in _PER_RUN.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, earlier in before.items():
            if earlier is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, earlier)
