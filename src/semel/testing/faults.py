"""Crashes on purpose: at a named point, by SIGKILL, or as an exception that nothing catches."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from semel.errors import ConfigError
from semel.model.crashpoints import ARMED_BY, CrashPoint, arm

CRASH_AT = ARMED_BY
CRASH_PROCESS = "SEMEL_CRASH_PROCESS"
WORKER = "worker"


class Crash(BaseException):
    """A process that is gone: not an Exception, so that nothing recovers from it."""


def arm_from_environment() -> None:
    """Kill this process at the point that SEMEL_CRASH_AT names, also when a Spark worker of its reaches it.

    With SEMEL_CRASH_PROCESS=worker, a worker that reaches the point kills only itself.
    """
    point = crash_point(os.environ[CRASH_AT])
    victim = os.environ.setdefault(CRASH_PROCESS, str(os.getpid()))

    def kill(here: CrashPoint) -> None:
        if here is point:
            if victim != WORKER:
                os.kill(int(victim), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    arm(kill)


def crash_point(name: str) -> CrashPoint:
    try:
        return CrashPoint(name)
    except ValueError:
        points = ", ".join(point.value for point in CrashPoint)
        raise ConfigError(f"{CRASH_AT}: there is no crash point {name!r}; use one of {points}") from None


@contextmanager
def crash_at(point: CrashPoint) -> Iterator[None]:
    """Within the block, reaching `point` raises Crash; the block ends there, like a process that died."""

    def crash(here: CrashPoint) -> None:
        if here is point:
            raise Crash(point.value)

    arm(crash)
    try:
        yield
    except Crash:
        pass
    finally:
        arm(None)
