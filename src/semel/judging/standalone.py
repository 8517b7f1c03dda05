"""The judge on its own: verdicts for the rows of any DataFrame, without books, ledger or horizon."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DateType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
)

from semel.errors import ConfigError
from semel.judging.columns import INTERNAL
from semel.judging.decide import FEED, REJECT_REASON, decide, quoted
from semel.judging.identify import MAX_ID_BYTES
from semel.judging.validate import Validation, check_rules
from semel.model.verdicts import ConflictRule, Verdict

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ADDED: Final = ("verdict", "reason", "fingerprint", "accepted_id")
_HASH_BITS: Final = {"sha256": 256, "sha512": 512}


def judge(
    df: DataFrame,
    *,
    id: str | Sequence[str],  # noqa: A002
    time: str,
    order: str | Sequence[str],
    exclude: Sequence[str] = (),
    hash: str = "sha256",  # noqa: A002
    conflict: str = "rename",
    reject: Mapping[str, str] | None = None,
) -> DataFrame:
    """The same rows, each with `verdict`, `reason`, `fingerprint` and `accepted_id`.

    `id` names the column of the event id, or several: a composite key; `time` the event time: a timestamp, ISO 8601
    text or a number. `order` names what puts the rows in order: the first of equal ones is accepted. It has to tell
    any two rows apart, or which copy is accepted is open. `exclude` names columns that do not count in the
    fingerprint; the order's never do. `reject` has reason: SQL condition. `accepted_id` is null unless the row is
    accepted; of a conflict it is the derived id.

    >>> spark = getfixture("spark")
    >>> rows = [(0, "a", "2026-01-01", 1), (1, "a", "2026-01-01", 1), (2, "a", "2026-01-01", 9), (3, "", "", 1)]
    >>> df = spark.createDataFrame(rows, "offset INT, event_id STRING, event_time STRING, amount INT")
    >>> judged = judge(df, id="event_id", time="event_time", order="offset")
    >>> [row.verdict for row in judged.orderBy("offset").collect()]
    ['accepted', 'duplicate', 'conflict', 'bad']
    """
    ids = [id] if isinstance(id, str) else list(id)
    orders = [order] if isinstance(order, str) else list(order)
    _check(df, ids, time, orders, exclude, hash, conflict)
    if reject:
        check_rules(df, reject)
    event_id = _id(df, ids, composite=not isinstance(id, str))
    bad = _bad_reason(df, ids, time, event_id)
    rules = Validation(reject or {}, None, None).rule_reason()
    place = F.struct(*(F.col(quoted(name)) for name in orders))
    open_rows = df.select(
        F.struct(*(F.col(quoted(name)) for name in df.columns)).alias("row"),
        event_id.alias("event_id"),
        _fingerprint(df, {*exclude, *orders}, hash).alias("fingerprint"),
        *(F.lit(None).alias(name) for name in ("event_time", "arrival_time", "position", "payload")),
        bad.alias("bad_reason"),
        F.coalesce(bad, rules).alias(REJECT_REASON),
        F.struct(place.alias("place"), F.xxhash64(event_id).alias("high"), F.lit(False).alias("known")).alias(INTERNAL),
    )
    judged = decide(open_rows, ConflictRule(conflict), _partition_bits(df))
    is_bad = F.col("bad_reason").isNotNull()
    accepted = ~is_bad & F.col("verdict").isin(Verdict.ACCEPTED.value, Verdict.CONFLICT.value)
    return judged.drop(FEED).select(
        "row.*",
        F.when(is_bad, Verdict.BAD.value).otherwise(F.col("verdict")).alias("verdict"),
        F.coalesce("bad_reason", "reason").alias("reason"),
        F.when(~is_bad, F.col("fingerprint")).alias("fingerprint"),
        F.when(accepted, F.col("event_id")).alias("accepted_id"),
    )


def _check(
    df: DataFrame,
    ids: list[str],
    time: str,
    orders: list[str],
    exclude: Sequence[str],
    hash_name: str,
    conflict: str,
) -> None:
    for role, names in (("id", ids), ("time", [time]), ("order", orders), ("exclude", exclude)):
        for name in names:
            if name not in df.columns:
                raise ConfigError(f"{role}: there is no column {name!r}; the columns are {', '.join(df.columns)}")
    if not ids or not orders:
        raise ConfigError("id and order want at least one column each")
    taken = [name for name in ADDED if name in df.columns]
    if taken:
        raise ConfigError(f"the column {taken[0]!r} is there already; judge adds {', '.join(ADDED)}: rename it first")
    if hash_name not in ("md5", "sha1", *_HASH_BITS):
        raise ConfigError(f"hash: {hash_name!r} is not allowed; use one of md5, sha1, sha256, sha512")
    if conflict not in {rule.value for rule in ConflictRule}:
        raise ConfigError(f"conflict: {conflict!r} is not allowed; use one of rename, rename-all, reject")
    for name in ids:
        if not isinstance(df.schema[name].dataType, StringType | IntegralType):
            raise ConfigError(
                f"id: column {name!r} is {df.schema[name].dataType.simpleString()}, neither text nor integer"
            )
    if not isinstance(df.schema[time].dataType, StringType | TimestampType | DateType | NumericType):
        raise ConfigError(f"time: column {time!r} is {df.schema[time].dataType.simpleString()}, not a time")


def _id(df: DataFrame, ids: list[str], *, composite: bool) -> Column:
    parts = [F.col(quoted(name)).cast("string") for name in ids]
    return F.to_json(F.array(*parts)) if composite else parts[0]


def _bad_reason(df: DataFrame, ids: list[str], time: str, event_id: Column) -> Column:
    reason: Any = F
    for name in ids:
        part = F.col(quoted(name)).cast("string")
        reason = reason.when(part.isNull(), f"the id {name} is missing").when(part == "", f"the id {name} is empty")
    reason = reason.when(F.octet_length(event_id) > MAX_ID_BYTES, f"the id is longer than {MAX_ID_BYTES} bytes")
    moment = F.col(quoted(time))
    if isinstance(df.schema[time].dataType, StringType):
        reason = reason.when(
            moment.isNull() | F.try_to_timestamp(moment).isNull(), "the time is missing or not ISO 8601"
        )
    return reason.when(moment.isNull(), "the time is missing")  # type: ignore[no-any-return]


def _fingerprint(df: DataFrame, left_out: set[str], hash_name: str) -> Column:
    names = sorted(name for name in df.columns if name not in left_out)
    row = F.to_json(F.struct(*(F.col(quoted(name)) for name in names)), {"timeZone": "UTC"})
    if any(_has_map(df.schema[name].dataType) for name in names):
        row = F.to_json(F.parse_json(row))
    if hash_name in _HASH_BITS:
        return F.sha2(row, _HASH_BITS[hash_name])
    return F.md5(row) if hash_name == "md5" else F.sha1(row)


def _has_map(kind: Any) -> bool:
    """The keys of a map are in no order: they have to be sorted before they are hashed."""
    if isinstance(kind, MapType):
        return True
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    return isinstance(kind, StructType) and any(_has_map(field.dataType) for field in kind)


def _partition_bits(df: DataFrame) -> int:
    partitions = int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    return math.ceil(math.log2(partitions)) if partitions > 1 else 0
