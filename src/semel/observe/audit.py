"""Do the books balance? Proved from what is on disk.

First the books against themselves, then the files that they name, then, in Spark, the records: every one that
was read is in exactly one feed, once, and every event was accepted once. A damage is reported and does not
end the audit; what it makes impossible to check is left out, the rest is checked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from semel.books.books import Identity, object_name
from semel.errors import BooksDamaged, SemelError
from semel.model.times import from_iso
from semel.observe.audit_books import COUNTED_AS, RESTORE, BooksFound, check_books, has_no_holes
from semel.observe.audit_files import FeedsFound, FilesCheck, Input
from semel.observe.audit_report import AuditReport, Findings, Problem
from semel.pipeline.config import PipelineConfig, load_config
from semel.pipeline.progress import Progress
from semel.pipeline.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from semel.observe.audit_rows import RunFacts, Sample, Tally

_TOGETHER: Final = (
    "restore feeds and books from a backup of the same moment; if nobody changed them, keep all and report it"
)
_RAISED: Final = re.compile(r"^([\w.]+): .+$", re.MULTILINE)
_REMEDIES: Final = {
    "altered": "find out who changed one of the two, and restore it from a backup",
    "feed file": "restore it from a backup of the feeds",
    "ledger": "restore the ledger from a backup: a copy of this event would be accepted again",
}


def audit(
    pipeline: PipelineConfig | str | os.PathLike[str],
    spark: SparkSession | None = None,
    *,
    quick: bool = False,
    progress: Progress | None = None,
) -> AuditReport:
    """Check everything; `quick` leaves out the records, and Spark with them.

    A run that was committed and not published yet is published first, as every command does. Books that
    belong to another pipeline, or to other settings, are refused with an error: a wrong call, not a damage.
    """
    config = pipeline if isinstance(pipeline, PipelineConfig) else load_config(pipeline)
    return _Audit(config, spark, progress or Progress()).report(quick)


class _Audit:
    def __init__(self, config: PipelineConfig, spark: SparkSession | None, progress: Progress) -> None:
        self.config = config
        self.spark = spark
        self.progress = progress
        self.findings = Findings()
        self.workspace = Workspace(config)
        self.newest: int | None = None
        """The last commit that was seen through: a run that is committed meanwhile is the next audit's."""

    def report(self, quick: bool) -> AuditReport:
        self.progress.step("", "checking the books")
        identity = self._identity()
        unexplained = self._roll_forward(identity)
        books = check_books(self.workspace.books, identity, self.findings, self.newest)
        files = FilesCheck(self.config, books, self.findings)
        self.progress.step("", "checking the files of the feeds")
        feeds = files.feeds(self._is_committed)
        self.progress.step("", "checking ledger and input")
        segments = self._segments(files)
        inputs = files.inputs()
        if not books.entries:
            self.findings.note("nothing has been run yet")
        elif quick:
            self.findings.note("quick: files were checked, records were not compared")
        elif feeds.parts or any(each.intact for each in inputs):
            self._check_records(books, feeds, segments, inputs)
        if unexplained is not None and not self.findings.problems:
            self.findings.add("books", "books", f"cannot be used ({unexplained})", RESTORE)
        problems = self.findings.problems
        return AuditReport(not problems, books.state.totals, books.state.runs, problems, self.findings.notes)

    def _identity(self) -> Identity | None:
        try:
            identity = self.workspace.identity()
        except BooksDamaged as error:
            self.findings.add("books", "pipeline.json", f"cannot be read ({error.message.partition(';')[0]})", RESTORE)
            return None
        storage = self.workspace.books.storage
        if identity is None and (storage.names("commits") or storage.names("plans")):
            self.findings.add("books", "pipeline.json", "is missing from books that are not empty", RESTORE)
        return identity

    def _roll_forward(self, identity: Identity | None) -> str | None:
        """See the last commit through; why that was impossible, if the books are to blame."""
        books = self.workspace.books
        if identity is None or not has_no_holes(books):
            return None
        try:
            state, last = books.load_with_last()
            self.workspace.roll_forward(state, last)
            self.newest = state.number
        except BooksDamaged as error:
            return error.message
        except (SemelError, OSError) as error:
            self.findings.note(f"the last commit could not be seen through: {error}")
        return None

    def _segments(self, files: FilesCheck) -> dict[int, tuple[str, ...]]:
        ledger = self.workspace.ledger
        if ledger.segments is not None:
            return files.ledger(ledger.segments)
        self.findings.note("there is no ledger to check: duplicates are found within a run only")
        return {}

    def _is_committed(self, number: int) -> bool:
        return self.workspace.books.storage.read(object_name("commits", number)) is not None

    def _check_records(
        self, books: BooksFound, feeds: FeedsFound, segments: dict[int, tuple[str, ...]], inputs: list[Input]
    ) -> None:
        from semel.observe.audit_records import compare_copies, compare_places
        from semel.observe.audit_rows import RowStage, Tally, tally_rows
        from semel.pipeline.session import build_session, run_settings

        if self.spark is None:
            self.progress.step("", "starting Spark")
        spark = build_session() if self.spark is None else self.spark
        runs = run_facts(books, segments)
        parts = tuple(part for part in feeds.parts if part.number in runs)
        incomplete = set(feeds.incomplete)
        with run_settings(spark):
            self.progress.step("", "checking rows, verdicts and ledger entries")
            booked = {each.file.path: each.number for each in inputs}
            tally = Tally()
            self._try(lambda: tally.add(tally_rows(spark, RowStage(parts, runs, booked))))
            incomplete |= {parts[index].number for index in tally.unreadable}
            parts = tuple(part for index, part in enumerate(parts) if index not in set(tally.unreadable))
            self._add_samples(tally.samples)
            self._check_tally(books, tally, inputs, incomplete)
            self.progress.step("", "comparing the records with their input")
            self._try(lambda: self._add_samples(compare_places(spark, self.config, parts, inputs, incomplete)))
            self.progress.step("", "looking for events that were accepted twice")
            whole = not incomplete and len(books.entries) == books.last
            self._try(lambda: self._add_samples(compare_copies(spark, parts, runs, whole)))
        if incomplete:
            self.findings.note("where files are missing or damaged, records were compared as far as they are there")
        self._note_inputs(inputs)

    def _check_tally(self, books: BooksFound, tally: Tally, inputs: list[Input], incomplete: set[int]) -> None:
        for entry in books.committed:
            number, counts = entry.commit.number, entry.commit.counts
            if number in incomplete:
                continue
            found = {counted: tally.rows.get(f"{number}/{feed}", 0) for feed, counted in COUNTED_AS.items()}
            found["conflicts"] = tally.conflicts.get(number, 0)
            for counted, rows in found.items():
                expected = getattr(counts, counted)
                if rows != expected:
                    what = f"counts {expected} {counted}, but there are {rows} in the feeds"
                    self.findings.add("counts", f"commits/{number:09d}.json", what, _TOGETHER)
        for each in inputs:
            rows = tally.inputs.get(each.file.path, 0)
            if not each.intact and each.number not in incomplete and rows != each.file.records:
                what = f"was booked with {each.file.records} records, but the feeds have {rows} of it"
                self.findings.add("counts", each.file.path, what, _TOGETHER)

    def _note_inputs(self, inputs: list[Input]) -> None:
        gone = [each for each in inputs if not each.is_there]
        if gone:
            records = sum(each.file.records for each in gone)
            files = "1 file" if len(gone) == 1 else f"{len(gone)} files"
            self.findings.note(
                f"not re-read: {files}, {records} records; the input is gone, the feeds were counted instead"
            )

    def _add_samples(self, samples: dict[str, Sample]) -> None:
        for kind, sample in sorted(samples.items()):
            self.findings.add_sample(kind, sample.total, sample.examples, _REMEDIES.get(kind, _TOGETHER))

    def _try(self, check: Callable[[], None]) -> None:
        """A check that fails is a problem of its own, and the others still take place."""
        try:
            check()
        except Exception as error:
            what = f"could not be compared ({_cause(error)})"
            self.findings.add("records", "the records", what, "mend that and run `semel audit` again")


def run_facts(books: BooksFound, segments: dict[int, tuple[str, ...]]) -> dict[int, RunFacts]:
    """What rows have to fit; a run whose mark cannot be read was reported, and is left out."""
    from semel.observe.audit_rows import RunFacts

    facts = {}
    for entry in books.committed:
        commit = entry.commit
        try:
            mark = None if commit.mark is None else from_iso(commit.mark)
        except ValueError:
            continue
        facts[commit.number] = RunFacts(commit.run, mark, entry.recorded, segments.get(commit.number))
    return facts


def _cause(error: Exception) -> str:
    """The line of a Spark error that says what went wrong on an executor, or else its first line."""
    raised = [match[0] for match in _RAISED.finditer(str(error)) if not match[1].startswith(("org.", "java."))]
    lines = [line for line in (*raised[-1:], *str(error).splitlines()) if line.strip()]
    return lines[0].strip().removeprefix("semel.errors.")[:300] if lines else type(error).__name__


__all__ = ["AuditReport", "Problem", "audit"]
