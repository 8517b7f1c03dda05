"""The places at which a run may die, by name.

The code calls `reached(point)` at each of them, which does nothing unless a test has armed it (`semel.testing.faults`).
The names follow the steps of the run protocol, so that a crash test reads like the protocol itself.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class CrashPoint(StrEnum):
    BOOKS_CREATED = "books-created"
    BEFORE_PLAN = "before-plan"
    AFTER_PLAN = "after-plan"
    READING = "reading"
    AFTER_WRITE = "after-write"
    AFTER_SEAL = "after-seal"
    BEFORE_COMMIT = "before-commit"
    AFTER_COMMIT = "after-commit"
    PUBLISH_GATHERED = "publish-gathered"
    PUBLISH_FIRST_FEED = "publish-first-feed"
    AFTER_PUBLISH = "after-publish"
    CLEANING = "cleaning"
    CHECKPOINT_WRITTEN = "checkpoint-written"


_hook: Callable[[CrashPoint], None] | None = None


def reached(point: CrashPoint) -> None:
    if _hook is not None:
        _hook(point)


def arm(hook: Callable[[CrashPoint], None] | None) -> None:
    """Call `hook` at every crash point from now on; None disarms."""
    global _hook
    _hook = hook
