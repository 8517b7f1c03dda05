"""Every error that semel raises on purpose.

One root, three kinds. Each error is one sentence that says what is wrong, where, and what to do; it knows whether
running again can help and which exit status the command line gives it; and it survives pickling, so that it arrives
whole from a Spark executor.
"""

from __future__ import annotations

from typing import Any, ClassVar


class SemelError(Exception):
    """Something that semel refuses or cannot do; the message says what, where, and what to do."""

    exit_status: ClassVar[int] = 1
    retry_helps: ClassVar[bool] = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.details)


def _rebuild(kind: type[SemelError], message: str, details: dict[str, Any]) -> SemelError:
    return kind(message, **details)


class ConfigError(SemelError):
    """The call or the pipeline file is wrong; nothing was read."""

    exit_status = 2


class SettingPinned(ConfigError):
    """A setting differs from the one that the books were made with, and may not change."""


class RunFailed(SemelError):
    """The run stopped before its commit; nothing happened, and it can be run again."""


class InputChanged(RunFailed):
    """An input file is not what the plan or the books say it was."""


class InputVanished(RunFailed):
    """An input file of an open plan is gone."""


class ProcessBroken(RunFailed):
    """The process function lost, doubled or altered rows."""


class BooksDamaged(SemelError):
    """The books contradict themselves: a number is missing, a checksum is wrong."""


class LedgerDamaged(SemelError):
    """A ledger segment that the books name is missing or altered."""


class StoreUnavailable(SemelError):
    """A store did not answer in time; the run stopped and can be run again."""

    retry_helps = True


class CommittedByAnother(SemelError):
    """Another process committed this run first; what it wrote counts, this attempt does not."""


class PublishFailed(SemelError):
    """The run is committed but not visible everywhere yet; the next command publishes it."""

    retry_helps = True
