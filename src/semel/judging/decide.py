"""The judge: one shuffle on the event id decides everything that is still open.

Copies of an identity (same id, same fingerprint) are ordered by their place in the source. The first that no rule
rejects is the candidate; the id's first candidate is accepted, others are conflicts; what comes after a candidate is a
duplicate of it. Both windows share the shuffle and one sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from semel.judging.columns import FEED_COLUMNS, INTERNAL
from semel.model.identity import DERIVED_ID_NAMESPACE
from semel.model.schema import RESERVED_PREFIX
from semel.model.verdicts import CONFLICT_REASON, FEED_OF, ConflictRule, Verdict

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REJECT_REASON: Final = "reject_reason"
FEED: Final = "feed"
WORKING: Final = f"{RESERVED_PREFIX}_"
DUPLICATE_SCHEMA: Final = "iglu:com.snowplowanalytics.snowplow/duplicate/jsonschema/1-0-0"
_REASONS: Final = {
    Verdict.DUPLICATE: "accepted earlier in this run",
    Verdict.CONFLICT: "same id as another event, other payload",
}
_HASH_BITS: Final = 64


def decide(events: DataFrame, conflict: ConflictRule, partition_bits: int) -> DataFrame:
    """Open events, with `reject_reason`, to the rows of the feeds events, duplicates and rejected, with `feed`."""
    placed = events.select(
        "*",
        F.col(f"{INTERNAL}.place").alias("_semel_place"),
        F.col(f"{INTERNAL}.high").alias("_semel_high"),
        F.col(f"{INTERNAL}.known").alias("_semel_known"),
        _partition(partition_bits).alias("_semel_part"),
    ).drop(INTERNAL)
    gathered = placed.repartitionById(1 << partition_bits, F.col("_semel_part"))
    of_id = Window.partitionBy("_semel_high", "event_id", "_semel_part")
    of_copies = Window.partitionBy("_semel_high", "event_id", "_semel_part", "fingerprint")
    candidate = F.when(F.col(REJECT_REASON).isNull(), F.col("_semel_place"))
    windowed = gathered.withColumn("_semel_first", F.min(candidate).over(of_copies)).withColumns(
        {"_semel_id_first": F.min("_semel_first").over(of_id), "_semel_id_last": F.max("_semel_first").over(of_id)}
    )
    return _as_feeds(windowed.withColumn("_semel_verdict", _verdict(conflict)), conflict)


def _partition(bits: int) -> Column:
    """The leading bits of the id's hash: the rows of a partition are a range of the ledger."""
    if bits == 0:
        return F.lit(0)
    return F.shiftrightunsigned(F.col(f"{INTERNAL}.high"), _HASH_BITS - bits).cast("int")


def _verdict(conflict: ConflictRule) -> Column:
    first, place = F.col("_semel_first"), F.col("_semel_place")
    others = F.col("_semel_known") | (
        F.col("_semel_id_first") != F.col("_semel_id_last")
        if conflict is ConflictRule.RENAME_ALL
        else first != F.col("_semel_id_first")
    )
    rejected = first.isNull() | (place < first)
    if conflict is ConflictRule.REJECT:
        return (
            F.when(rejected | others, Verdict.REJECTED.value)
            .when(place > first, Verdict.DUPLICATE.value)
            .otherwise(Verdict.ACCEPTED.value)
        )
    return (
        F.when(rejected, Verdict.REJECTED.value)
        .when(place > first, Verdict.DUPLICATE.value)
        .when(others, Verdict.CONFLICT.value)
        .otherwise(Verdict.ACCEPTED.value)
    )


def _as_feeds(judged: DataFrame, conflict: ConflictRule) -> DataFrame:
    verdict = F.col("_semel_verdict")
    renamed = verdict == Verdict.CONFLICT.value
    reason = F.when(verdict == Verdict.REJECTED.value, F.coalesce(F.col(REJECT_REASON), F.lit(CONFLICT_REASON)))
    for which, text in _REASONS.items():
        reason = reason.when(verdict == which.value, text)
    feed = F.when(verdict == Verdict.DUPLICATE.value, FEED_OF[Verdict.DUPLICATE].value).when(
        verdict == Verdict.REJECTED.value, FEED_OF[Verdict.REJECTED].value
    )
    made = {
        "event_id": F.when(renamed, derived_id(F.col("event_id"), F.col("fingerprint"))).otherwise(F.col("event_id")),
        "original_event_id": F.when(renamed, F.col("event_id")),
        "verdict": verdict,
        "reason": reason,
        "raw": F.lit(None).cast("binary"),
        "contexts": F.when(renamed, duplicate_context(F.col("event_id"))),
    }
    columns = [made.get(name, F.col(name)).alias(name) for name, _, _ in FEED_COLUMNS]
    known = {name for name, _, _ in FEED_COLUMNS} | {REJECT_REASON}
    others = [F.col(quoted(name)) for name in judged.columns if name not in known and not _is_working_column(name)]
    return judged.select(*columns, *others, feed.otherwise(FEED_OF[Verdict.ACCEPTED].value).alias(FEED))


def derived_id(original: Column, fingerprint: Column) -> Column:
    """UUIDv5 in SQL: the SHA-1 of namespace and name, with version and variant set."""
    name = F.concat(F.encode(original, "UTF-8"), F.lit(b"\x1f"), F.encode(fingerprint, "UTF-8"))
    digest = F.sha1(F.concat(F.lit(DERIVED_ID_NAMESPACE.bytes), name))
    variant = F.translate(F.substring(digest, 17, 1), "0123456789abcdef", "89ab89ab89ab89ab")
    return F.concat(
        F.substring(digest, 1, 8), F.lit("-"), F.substring(digest, 9, 4), F.lit("-5"), F.substring(digest, 14, 3),
        F.lit("-"), variant, F.substring(digest, 18, 3), F.lit("-"), F.substring(digest, 21, 12),
    )  # fmt: skip


def duplicate_context(original: Column) -> Column:
    return F.to_json(
        F.array(
            F.struct(
                F.lit(DUPLICATE_SCHEMA).alias("schema"),
                F.struct(original.alias("originalEventId")).alias("data"),
            )
        )
    )


def _is_working_column(name: str) -> bool:
    return name.startswith(WORKING)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
