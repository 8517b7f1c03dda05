"""The places of one pipeline: books, ledger, feeds; and seeing the last commit through."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from semel.books.books import CHECKPOINT_EVERY, Books, Identity
from semel.books.claims import check_unused, is_claimed
from semel.books.records import Commit, Plan, State, Status
from semel.books.storage import LocalStorage
from semel.errors import BooksDamaged, SettingPinned
from semel.ledgers.base import Ledger, NoLedger
from semel.ledgers.lake.ledger import LakeLedger
from semel.model.crashpoints import CrashPoint, reached
from semel.model.schema import Schema, parse_schema
from semel.model.times import from_iso
from semel.model.units import format_duration
from semel.pipeline.config import PipelineConfig
from semel.pipeline.urls import FeedUrl, StoreUrl, parse_feed
from semel.sinks.parquet import ParquetSink

log = logging.getLogger("semel")


class Workspace:
    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        self.books = Books(LocalStorage(config.books.local(config.base)))
        self.ledger = open_ledger(config.ledger, config.base)
        self.sinks = [self._sink(feed) for feed in config.feeds]

    def identity(self) -> Identity | None:
        """Whose books these are, if there are any; refuses settings that may not change."""
        identity = self.books.identity()
        if identity is not None:
            self.books.check(identity, self.config.name, self.config.pinned())
        return identity

    def open(self, moment: str) -> Identity:
        """Take up or make the books; new ones want places that nobody has used."""
        if self.identity() is None:
            for sink in self.sinks:
                check_unused(sink.root, key="feeds")
            if self.ledger.segments is not None:
                check_unused(self.ledger.segments, key="ledger")
        return self.books.open(self.config.name, self.config.pinned(), moment)

    def claim(self, identity: Identity, state: State, last: Commit | None) -> None:
        """Bind ledger and feeds to the books; places that were bound and are not any more were lost."""
        earlier = {sink.root for sink in self.sinks_of([] if last is None else last.sinks)}
        for sink in self.sinks:
            if sink.root in earlier and state.runs and not is_claimed(sink.root):
                raise BooksDamaged(
                    f"{sink.root} is lost, and with it what earlier runs published there; restore it from a backup, or "
                    "name another folder in `feeds` to go on without them"
                )
            published = sink.published_run(state.number + 1)
            if published is not None:
                raise BooksDamaged(
                    f"{published} is there, but its commit {state.number + 1} is not in the books; restore the books "
                    "from a backup, or move the folder away in every feed if they cannot be had"
                )
            sink.claim(identity.books, identity.pipeline)
        self.ledger.claim(identity.books, identity.pipeline)

    def roll_forward(self, state: State, last: Commit | None) -> None:
        """Publish and apply the last commit, if that did not happen yet; everything before it has been seen through.

        Nothing is removed that is not known to be uncommitted: the attempts at a run only once its commit is there,
        and the winner's only once everything is published.
        """
        if last is None:
            return
        self.books.storage.sync("commits")
        if last.status is Status.COMMITTED:
            self.publish(last)
            reached(CrashPoint.AFTER_PUBLISH)
            self.ledger.apply(last)
        self.ledger.clean(last.run, _winner(last))
        if self.books.checkpoint(state):
            self._clean_up_after_zombies(state.number)
        for sink in {sink.root: sink for sink in (*self.sinks, *self.sinks_of(last.sinks))}.values():
            sink.clean(lambda number: number <= state.number)

    def _clean_up_after_zombies(self, number: int) -> None:
        """What attempts at runs since the checkpoint before left in the ledger after those were cleaned."""
        for earlier in range(max(1, number - CHECKPOINT_EVERY), number):
            commit = self.books.commit(earlier)
            if commit is not None:
                self.ledger.clean(commit.run, _winner(commit))

    def publish(self, commit: Commit) -> None:
        attempt = self.attempt_folder(commit.sinks, commit.run, commit.attempt)
        for sink in self.sinks_of(commit.sinks):
            sink.publish(commit, attempt)

    def sinks_of(self, feeds: Sequence[str]) -> list[ParquetSink]:
        """The sinks that a plan or commit names, which need not be those of the pipeline file as it is now."""
        return [self._sink(parse_feed(text)) for text in feeds]

    def attempt_folder(self, feeds: Sequence[str], run: str, attempt: str) -> Path:
        """An attempt is written below the first of its plan's feeds; the others get copies."""
        return self.sinks_of(feeds)[0].attempt_folder(run, attempt)

    def check_settings(self, state: State, plan: Plan | None) -> None:
        """The ledger stays where the last run left it; the feeds keep their columns and types, and may get more."""
        columns = schema_columns(self.config)
        for name, kind in state.columns.items():
            if columns.get(name) != kind:
                found = "left out" if name not in columns else f"{columns[name]} now"
                raise SettingPinned(
                    f"event.schema: {name} is {found}, but it is {kind} in the feeds of earlier runs; set it back: "
                    "columns may be added, not changed or left out"
                )
        before = state.ledger if plan is None else plan.ledger
        if before is not None and before != self.config.ledger.text:
            raise SettingPinned(
                f"ledger is {self.config.ledger}, but these books remember in {before} what was accepted; set it back"
            )

    def check_horizon(self, state: State, mark: int | None, reference: int | None) -> None:
        """A longer horizon needs what the ledger has forgotten."""
        horizon = self.config.horizon
        before = state.horizon_seconds
        if before is None or state.mark is None or reference is None or horizon.total_seconds() <= before:
            return
        wanted = reference - int(horizon.total_seconds() * 1_000_000)
        if wanted < from_iso(state.mark):
            allowed = timedelta(hours=(reference - from_iso(state.mark)) // 3_600_000_000)
            raise SettingPinned(
                f"horizon is {format_duration(horizon)}, but what lies before {state.mark} has been forgotten; set it "
                f"to at most {format_duration(allowed)} for now: it can grow as time goes on"
            )

    def _sink(self, feed: FeedUrl) -> ParquetSink:
        return ParquetSink(feed.location.local(self.config.base))


def _winner(commit: Commit) -> str | None:
    return commit.attempt if commit.status is Status.COMMITTED else None


def config_schema(config: PipelineConfig) -> Schema | None:
    return None if config.event.schema_ddl is None else parse_schema(config.event.schema_ddl)


def schema_columns(config: PipelineConfig) -> dict[str, str]:
    """The schema's columns, with their types as the feeds have them."""
    schema = config_schema(config)
    return {} if schema is None else {column.name: column.type.ddl(constraints=False) for column in schema.columns}


def open_ledger(url: StoreUrl, base: Path) -> Ledger:
    if url.kind == "none" or url.location is None:
        return NoLedger()
    return LakeLedger(url.location.local(base))


def feed_texts(feeds: Sequence[FeedUrl]) -> list[str]:
    return [feed.text for feed in feeds]
