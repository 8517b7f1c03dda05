"""The Spark connectors that fit the Spark this package asks for, pinned in one place.

Nothing in semel needs them for files, the lake ledger or Parquet feeds: such a pipeline runs with Spark's own
jars. A `process` function that reads a Delta or Iceberg table, or a bucket, can use them:

>>> spark_packages("avro")
{'spark.jars.packages': 'org.apache.spark:spark-avro_2.13:4.1.1'}

Give those settings to the session before it starts; Spark fetches the jars into its Ivy folder once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from semel.errors import ConfigError

_SPARK: Final = "4.1.1"
_SCALA: Final = "2.13"
_AWS_SDK: Final = "2.29.52"


@dataclass(frozen=True)
class Connector:
    """One connector: what Spark is told to fetch, and what to leave out of it."""

    name: str
    coordinates: tuple[str, ...]
    """`group:artifact:version`, as Maven has it."""
    excludes: tuple[str, ...]
    """`group:artifact` of dependencies that stay out, or `group:*`."""
    used_for: str


def _connectors(*connectors: Connector) -> Mapping[str, Connector]:
    return MappingProxyType({connector.name: connector for connector in connectors})


CONNECTORS: Final = _connectors(
    Connector(
        "kafka",
        (f"org.apache.spark:spark-sql-kafka-0-10_{_SCALA}:{_SPARK}",),
        (),
        "reading and writing Kafka topics",
    ),
    Connector("avro", (f"org.apache.spark:spark-avro_{_SCALA}:{_SPARK}",), (), "reading and writing Avro files"),
    # The Delta artifact without the Spark version in its name is built for a later Spark.
    Connector("delta", (f"io.delta:delta-spark_4.1_{_SCALA}:4.4.0",), (), "reading and writing Delta tables"),
    Connector(
        "iceberg",
        (f"org.apache.iceberg:iceberg-spark-runtime-4.1_{_SCALA}:1.11.0",),
        (),
        "reading and writing Iceberg tables",
    ),
    # The SDK's bundle has 640 MB, so its parts are named. What Spark has in versions of its own stays out, or
    # the session does not start.
    Connector(
        "s3",
        (
            "org.apache.hadoop:hadoop-aws:3.4.2",
            f"software.amazon.awssdk:s3:{_AWS_SDK}",
            f"software.amazon.awssdk:s3-transfer-manager:{_AWS_SDK}",
            f"software.amazon.awssdk:sts:{_AWS_SDK}",
            f"software.amazon.awssdk:apache-client:{_AWS_SDK}",
            "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.2.1",
        ),
        (
            "software.amazon.awssdk:bundle",
            "io.netty:*",
            "org.slf4j:*",
            "commons-logging:commons-logging",
            "commons-codec:commons-codec",
        ),
        "reading and writing s3a:// paths",
    ),
)
"""By name."""


def spark_packages(*names: str) -> dict[str, str]:
    """The settings that make Spark fetch these connectors and put them on its class path."""
    unknown = [name for name in names if name not in CONNECTORS]
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is not a connector; use one of {', '.join(CONNECTORS)}")
    chosen = [CONNECTORS[name] for name in dict.fromkeys(names)]
    settings = {
        "spark.jars.packages": [item for connector in chosen for item in connector.coordinates],
        "spark.jars.excludes": [item for connector in chosen for item in connector.excludes],
    }
    return {key: ",".join(items) for key, items in settings.items() if items}
