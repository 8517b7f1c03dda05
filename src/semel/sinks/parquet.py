"""Feeds as folders of Parquet files: `<root>/<feed>/run=<run id>/part-*.parquet`.

Guarantee: a run appears in a feed at once, by the rename of a folder, and only files that its commit names are in it;
any Parquet reader pointed at `<root>/<feed>` sees committed runs only. It needs a file system with atomic rename.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from semel.books.books import run_number
from semel.books.claims import claim_folder
from semel.books.records import Commit, FeedFile
from semel.books.storage import make_folder, sync_folder
from semel.errors import BooksDamaged, PublishFailed
from semel.model.crashpoints import CrashPoint, reached
from semel.model.verdicts import Feed
from semel.sinks.base import Sink

log = logging.getLogger("semel")

ATTEMPTS: Final = "_attempts"


class ParquetSink(Sink):
    def __init__(self, root: Path) -> None:
        self.root = root

    def claim(self, books: str, pipeline: str) -> None:
        claim_folder(self.root, books, pipeline, key="feeds")

    def attempt_folder(self, run: str, attempt: str) -> Path:
        return self.root / ATTEMPTS / run / attempt

    def run_folder(self, feed: str, run: str) -> Path:
        return self.root / feed / f"run={run}"

    def published_run(self, number: int) -> Path | None:
        """A folder of that run in the feed of events, if there is one."""
        return next((self.root / Feed.EVENTS.value).glob(f"run=r{number:09d}-*"), None)

    def publish(self, commit: Commit, attempt: Path) -> None:
        """Make the commit's files visible; what is visible already is left. Anybody may do it, any number of times."""
        for feed, files in commit.feeds.items():
            if self.run_folder(feed, commit.run).is_dir():
                self._complete(commit, feed, files, attempt)
            elif files:
                self._publish_feed(commit, feed, files, attempt)
            reached(CrashPoint.PUBLISH_FIRST_FEED)

    def clean(self, is_done: Callable[[int], bool]) -> None:
        """Remove the attempts at runs that are committed and published; `is_done` says which numbers are."""
        attempts = self.root / ATTEMPTS
        for run in attempts.iterdir() if attempts.is_dir() else ():
            number = run_number(run.name)
            if number is not None and is_done(number):
                shutil.rmtree(run, ignore_errors=True)
                reached(CrashPoint.CLEANING)

    def _complete(self, commit: Commit, feed: str, files: list[FeedFile], attempt: Path) -> None:
        """Another attempt's files mean that a commit was lost; what somebody took away is the audit's subject."""
        folder = self.run_folder(feed, commit.run)
        named = {file.name: file.size for file in files}
        found = {path.name: path.stat().st_size for path in folder.glob("part-*")}
        strange = sorted(found.items() - named.items())
        if strange:
            name = strange[0][0]
            raise BooksDamaged(
                f"{folder} does not hold what commit {commit.number} names ({name} differs); run `semel audit`: put "
                "back what was changed there, or move the folder away if it is of a commit that was lost"
            )
        for file in files:
            if file.name not in found:
                try:
                    _link(attempt / file.source, folder / file.name, file.size)
                except OSError:
                    log.warning("run %s: %s is gone; run `semel audit`", commit.run, folder / file.name)
        sync_folder(folder)
        sync_folder(folder.parent)

    def _publish_feed(self, commit: Commit, feed: str, files: list[FeedFile], attempt: Path) -> None:
        target = self.run_folder(feed, commit.run)
        if not attempt.is_dir():  # it was published once: attempts are removed only after that
            log.warning("run %s: %s is gone; run `semel audit`", commit.run, target)
            return
        gathered = self.root / ATTEMPTS / commit.run / f"publish-{feed}-{secrets.token_hex(4)}"
        try:
            make_folder(gathered)
            for file in files:
                _link(attempt / file.source, gathered / file.name, file.size)
            sync_folder(gathered)
        except FileNotFoundError as error:
            shutil.rmtree(gathered, ignore_errors=True)
            if target.is_dir() or not attempt.is_dir():
                return  # another process was quicker
            raise BooksDamaged(
                f"{error.filename}, which commit {commit.number} names, is gone before it was published; restore it, "
                "or restore the whole pipeline's folder from a backup"
            ) from None
        reached(CrashPoint.PUBLISH_GATHERED)
        make_folder(target.parent)
        try:
            gathered.rename(target)
        except OSError as error:
            if not target.is_dir():
                raise PublishFailed(
                    f"run {commit.run} is committed, but {target} cannot be published: {error.strerror}; mend that"
                ) from None
            shutil.rmtree(gathered, ignore_errors=True)
        sync_folder(target.parent)


def _link(source: Path, target: Path, size: int) -> None:
    found = source.stat().st_size
    if found != size:
        raise BooksDamaged(
            f"{source} has {found} bytes instead of the {size} that its commit names; restore it from a backup"
        )
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise
        shutil.copyfile(source, target)
        with target.open("rb") as copied:
            os.fsync(copied.fileno())
