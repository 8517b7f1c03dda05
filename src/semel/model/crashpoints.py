"""The places at which a run may die, by name.

The code calls `reached(point)` at each of them, which does nothing unless a test has armed it (`semel.testing.faults`).
The names follow the steps of the run protocol, so that a crash test reads like the protocol itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from typing import Final


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


ARMED_BY: Final = "SEMEL_CRASH_AT"
"""Spark's workers are processes of their own: they learn from this environment variable that a test wants a crash."""

_hook: Callable[[CrashPoint], None] | None = None


def reached(point: CrashPoint) -> None:
    if _hook is None and ARMED_BY in os.environ:
        import_module("semel.testing.faults").arm_from_environment()
    if _hook is not None:
        _hook(point)


def arm(hook: Callable[[CrashPoint], None] | None) -> None:
    """Call `hook` at every crash point from now on; None disarms."""
    global _hook
    _hook = hook
