"""The Spark session: built when a run has input, with settings that a run depends on."""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from itertools import pairwise
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

_QUERY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

JAVA_OPTIONS: Final = "SEMEL_JAVA_OPTIONS"
"""Options for the driver's JVM, beside our own."""
QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Half the time to the first result, at the price of speed later: for short runs."""

_OPTIONS: Final = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}

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
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""A rule that divides by zero gives NULL and does not reject; times are UTC; one shuffle serves both windows."""


def build_session() -> SparkSession:
    """The active session, or a new one: on all local cores unless the environment says otherwise."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.builder
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # set where spark-submit has started the driver already
        log_settings = Path(str(files("semel.pipeline").joinpath("log4j2.properties"))).as_uri()
        java = f"-Dlog4j2.configurationFile={log_settings} {os.environ.get(JAVA_OPTIONS, '')}"
        defaults = {**_STARTUP, "spark.driver.extraJavaOptions": java.strip()}
        for key in defaults.keys() - configured_settings(os.environ):
            builder = builder.config(key, defaults[key])
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise RunFailed(f"Spark could not be started: {error}; run `semel doctor`") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt)  # Spark puts its own in place, which cancels the run under way


def configured_settings(environ: Mapping[str, str]) -> set[str]:
    """The settings that PYSPARK_SUBMIT_ARGS and spark-defaults.conf make; they cannot be asked before Spark starts."""
    found: set[str] = set()
    words = shlex.split(environ.get("PYSPARK_SUBMIT_ARGS", ""))
    for option, value in pairwise(words):
        if option in ("--conf", "-c"):
            found.add(value.partition("=")[0])
        elif option in _OPTIONS:
            found.add(_OPTIONS[option])
    folder = environ.get("SPARK_CONF_DIR") or (environ["SPARK_HOME"] + "/conf" if "SPARK_HOME" in environ else None)
    file = None if folder is None else Path(folder) / "spark-defaults.conf"
    if file is not None and file.is_file():
        lines = (line.strip() for line in file.read_text().splitlines())
        found |= {re.split(r"[\s=]", line, maxsplit=1)[0] for line in lines if line and not line.startswith("#")}
    return found


@contextmanager
def run_settings(spark: SparkSession) -> Iterator[None]:
    """Set what a run depends on, and put back what was there.

    Spark's own account of a failed query goes to stderr with the whole plan, values and all; ours is one line.
    """
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in _QUERY_LOGGERS]
    levels = [logger.level for logger in loggers]
    before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in _PER_RUN}
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        for key, value in _PER_RUN.items():
            spark.conf.set(key, value)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        for key, earlier in before.items():
            if earlier is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, earlier)
