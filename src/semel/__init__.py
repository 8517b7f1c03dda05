"""Exactly-once event pipelines on Spark.

>>> import semel
>>> pipeline = semel.load("clicks.yaml")        # doctest: +SKIP
>>> report = pipeline.run(spark)                # doctest: +SKIP
>>> events = semel.read(spark, "clicks.yaml")   # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from semel._version import __version__
from semel.errors import ConfigError, SemelError

if TYPE_CHECKING:
    from semel.judging.standalone import judge
    from semel.observe.audit import audit
    from semel.pipeline.reader import read
    from semel.pipeline.runner import Pipeline, load

__all__ = ["ConfigError", "Pipeline", "SemelError", "__version__", "audit", "judge", "load", "read"]

_WHERE = {
    "Pipeline": "semel.pipeline.runner",
    "audit": "semel.observe.audit",
    "judge": "semel.judging.standalone",
    "load": "semel.pipeline.runner",
    "read": "semel.pipeline.reader",
}


def __getattr__(name: str) -> Any:
    """Spark and the rest are imported when they are first asked for."""
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'semel' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
