"""The run protocol, step by step.

1. plan: what no committed run has booked, in numbered order; an open plan is taken up before another is made.
2. judge and 3. write: an attempt of its own, where nobody looks.
4. commit: the one atomic act.
5. publish and 6. apply: before the next plan, by whoever comes first.
7. clean up what is known to be uncommitted.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from semel.books.books import run_id
from semel.books.records import Commit, Counts, InputFile, Plan, State, Status, sealed
from semel.books.state import next_mark
from semel.errors import ConfigError, RunFailed, SemelError
from semel.model.splits import MAX_FILES
from semel.model.times import iso, micros
from semel.pipeline.config import PipelineConfig, load_config
from semel.pipeline.inputs import check_input
from semel.pipeline.progress import Progress
from semel.pipeline.report import Report, RunReport
from semel.pipeline.workspace import Workspace, config_schema, feed_texts
from semel.sources.files.discover import Found, find_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("semel")

_FILES_A_RUN = 100_000
COMMITTED_BY_ANOTHER = "committed by another"


def now() -> datetime:
    return datetime.now(UTC)


class Pipeline:
    """A pipeline file, ready to run.

    `clock` gives the moment of a plan and a commit; `progress` is told of each step.
    """

    def __init__(
        self, config: PipelineConfig, *, clock: Callable[[], datetime] = now, progress: Progress | None = None
    ) -> None:
        self.config = config
        self.progress = progress or Progress()
        self._clock = clock
        self._spark: SparkSession | None = None

    def run(self, spark: SparkSession | None = None) -> Report:
        """Read all there is, once: first what a crashed run left open, then what is new.

        Without a session one is built, but only if there is something to read.
        """
        return Report(self.config.name, tuple(self.runs(spark)))

    def runs(self, spark: SparkSession | None = None) -> Iterator[RunReport]:
        """The same, run by run."""
        more = True
        while more:
            report, more = self.step(spark)
            if report is not None:
                yield report

    def step(self, spark: SparkSession | None = None) -> tuple[RunReport | None, bool]:
        """At most one run; and is there more to do?"""
        workspace = Workspace(self.config)
        if workspace.identity() is None:
            find_files(self.config.source.path, self.config.base, {})
        identity = workspace.open(self._moment())
        state, last = workspace.books.load_with_last()
        plan = workspace.books.plan(state.number + 1)
        workspace.check_settings(state, plan)
        workspace.roll_forward(state, last)
        workspace.claim(identity, state, last)
        if plan is not None:
            log.info("run %s: taken up again", plan.run)
            return self._carry_out(workspace, plan, state, spark), True
        found = find_files(self.config.source.path, self.config.base, state.booked)
        if not found.new:
            return None, False
        spark = self._session(spark)
        self._validation(spark)  # a rule or function that cannot work is refused before anything is planned
        chosen = self._cut(found)
        plan = workspace.books.make_plan(self._plan(workspace, identity.books, state, chosen, found.touched))
        report = self._carry_out(workspace, plan, state, spark)
        is_all = plan.files == found.new and report.status != Status.VOID
        return report, not is_all

    def void(self, run: str) -> RunReport:
        """Give up an open plan: a commit that books nothing. What is still there is planned again by the next run."""
        workspace = Workspace(self.config)
        if workspace.identity() is None:
            raise ConfigError(f"pipeline {self.config.name!r} has no books yet; there is nothing to void")
        state, last = workspace.books.load_with_last()
        workspace.roll_forward(state, last)
        plan = workspace.books.plan(state.number + 1)
        if plan is None or plan.run != run:
            open_run = "no run is open" if plan is None else f"the open run is {plan.run}"
            raise ConfigError(f"run {run} cannot be voided: {open_run}, and only an open one can")
        commit = sealed(
            Commit(
                number=plan.number, run=plan.run, books=plan.books, status=Status.VOID, attempt=_attempt_id(),
                moment=self._moment(), mark=state.mark, reference=state.reference,
                horizon_seconds=plan.horizon_seconds if state.horizon_seconds is None else state.horizon_seconds,
                counts=Counts(), files=[], feeds={}, segment=None, sinks=plan.feeds, ledger=plan.ledger,
                columns={}, previous=state.digest,
            )
        )  # fmt: skip
        workspace.books.make_commit(commit)
        workspace.roll_forward(*workspace.books.load_with_last())
        log.info("run %s: void", plan.run)
        return RunReport.of(commit)

    def _carry_out(self, workspace: Workspace, plan: Plan, state: State, spark: SparkSession | None) -> RunReport:
        from semel.pipeline.attempt import Attempt, from_spark
        from semel.pipeline.session import run_settings

        standing = workspace.books.commit(plan.number)
        if standing is not None:
            return self._see_through(workspace, standing, None)
        check_input(plan, self.config)
        spark = self._session(spark)
        validation, extras = self._validation(spark)
        attempt = Attempt(workspace, plan, state, _attempt_id(), spark, validation, extras, self.progress)
        self.progress.step(plan.run, f"reading {_files(len(plan.files))}")
        log.info("run %s: attempt %s begins, %s", plan.run, attempt.id, _files(len(plan.files)))
        try:
            with run_settings(spark):
                commit = attempt.carry_out(self._moment)
            self.progress.step(plan.run, "committing")
            workspace.books.make_commit(commit)
        except Exception as error:
            # Whatever went wrong, also with the answer to the commit: what stands in the books has happened.
            if workspace.books.commit(plan.number) is None:
                ours = error if isinstance(error, SemelError) else from_spark(error)
                if ours is not None:
                    raise ours from error
                raise RunFailed(
                    f"run {plan.run} failed: {_short(error)}; nothing was committed, and it can be run again"
                ) from error
        standing = workspace.books.commit(plan.number)
        assert standing is not None
        return self._see_through(workspace, standing, attempt.id)

    def _see_through(self, workspace: Workspace, standing: Commit, attempt: str | None) -> RunReport:
        """Publish and clean up after a commit, this attempt's or that of another process that came first."""
        status = standing.status.value
        if standing.status is Status.COMMITTED and standing.attempt != attempt:
            status = COMMITTED_BY_ANOTHER
        log.info("run %s: %s, %s", standing.run, status, standing.counts.as_dict())
        self.progress.step(standing.run, "publishing")
        workspace.roll_forward(*workspace.books.load_with_last())
        report = RunReport.of(standing, status)
        self.progress.finished(report)
        return report

    def _plan(
        self, workspace: Workspace, books: str, state: State, files: list[InputFile], touched: list[InputFile]
    ) -> Plan:
        moment = self._moment()
        reference, mark = next_mark(
            state, micros(datetime.fromisoformat(moment)), self.config.horizon, self.config.clock
        )
        workspace.check_horizon(state, mark, reference)
        return Plan(
            number=state.number + 1,
            run=run_id(state.number + 1, moment),
            books=books,
            pipeline=self.config.name,
            moment=moment,
            reference=None if reference is None else iso(reference),
            mark=None if mark is None else iso(mark),
            horizon_seconds=self.config.horizon.total_seconds(),
            feeds=feed_texts(self.config.feeds),
            ledger=self.config.ledger.text,
            files=files,
            touched=touched,
        )

    def _cut(self, found: Found) -> list[InputFile]:
        """The files of the next run: as many as the limits allow, one at least."""
        source = self.config.source
        chosen: list[InputFile] = []
        total = 0
        for file in found.new[: min(source.max_files or _FILES_A_RUN, MAX_FILES)]:
            if chosen and source.max_bytes is not None and total + file.size > source.max_bytes:
                break
            chosen.append(file)
            total += file.size
        return chosen

    def _validation(self, spark: SparkSession) -> tuple[Any, Any]:
        """Rules and process function, checked; and the columns that the function adds."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        from semel.judging.source_frame import no_events
        from semel.judging.validate import Validation, check_process, check_rules, load_process
        from semel.pipeline.session import run_settings

        empty = no_events(spark, config_schema(self.config))
        name = self.config.process
        process = None
        extras = pa.schema([])
        try:
            with run_settings(spark):
                check_rules(empty, self.config.reject)
                if name is not None:
                    process = load_process(name, str(self.config.base))
                    added = to_arrow_schema(StructType(check_process(empty, process, name)))
                    extras = pa.schema([field.with_nullable(True) for field in added])
        except ConfigError as error:
            raise ConfigError(f"{self.config.origin}: {self.config.hidden(error.message)}") from error
        return Validation(self.config.reject, process, name), extras

    def _session(self, spark: SparkSession | None) -> SparkSession:
        from semel.pipeline.session import build_session

        if spark is not None:
            return spark
        if self._spark is None:
            self.progress.step("", "starting Spark")
            self._spark = build_session()
        return self._spark

    def _moment(self) -> str:
        return iso(micros(self._clock()))


def load(path: str | os.PathLike[str], *overrides: str) -> Pipeline:
    """The pipeline of a pipeline file; overrides are `key=value`."""
    return Pipeline(load_config(path, overrides))


def _attempt_id() -> str:
    return f"a{secrets.token_hex(8)}"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _short(error: BaseException) -> str:
    """The line of an error that says what happened; of a Python worker's, the last of its traceback."""
    lines = [line for line in str(error).split("JVM stacktrace:")[0].splitlines() if line.strip()]
    if any(line.startswith("Traceback ") for line in lines):
        lines = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Exit|Interrupt)\b", line)][-1:] or lines
    line = lines[0].strip()[:300] if lines else type(error).__name__
    if "No module named 'semel'" in line:
        line += " on Spark's workers: set PYSPARK_PYTHON to the Python that has semel before Spark starts"
    return line
