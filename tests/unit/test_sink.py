"""Parquet feeds: publishing once and whole, by anybody, and cleaning up afterwards."""

from __future__ import annotations

import logging
import shutil
import threading
from pathlib import Path

import pytest

from semel.books.records import NO_COMMIT, Commit, Counts, FeedFile, Status, replaced
from semel.errors import BooksDamaged, ConfigError
from semel.sinks.parquet import ParquetSink

RUN = "r000000003-20260102T030405Z"
FILES = {"events": {"part-0.parquet": b"one", "part-1.parquet": b"two!"}, "bad": {"part-0.parquet": b"bad"}}


def laid(sink: ParquetSink, attempt: str = "a1") -> tuple[Commit, Path]:
    """An attempt's files, and the commit that names them."""
    folder = sink.attempt_folder(RUN, attempt)
    feeds: dict[str, list[FeedFile]] = {"events": [], "duplicates": [], "bad": []}
    for feed, files in FILES.items():
        (folder / "judged" / feed).mkdir(parents=True)
        for name, content in files.items():
            source = f"judged/{feed}/spark-{name}"
            (folder / source).write_bytes(content)
            feeds[feed].append(FeedFile(name=name, rows=1, size=len(content), crc32=0, source=source))
        (folder / "judged" / feed / "stray.parquet").write_bytes(b"of a task that ran twice")
    commit = Commit(
        number=3,
        run=RUN,
        books="b",
        status=Status.COMMITTED,
        attempt=attempt,
        moment="2026-01-02T03:04:05.000000Z",
        mark=None,
        reference=None,
        horizon_seconds=1.0,
        counts=Counts(),
        files=[],
        feeds=feeds,
        segment=None,
        sinks=[],
        ledger="lake:ledger",
        columns={},
        previous=NO_COMMIT,
    )
    return commit, folder


def published(sink: ParquetSink) -> dict[str, dict[str, bytes]]:
    """Every file below every feed."""
    return {
        feed.name: {str(path.relative_to(feed)): path.read_bytes() for path in feed.rglob("*") if path.is_file()}
        for feed in sorted(sink.root.iterdir())
        if feed.is_dir() and feed.name != "_attempts"
    }


EXPECTED = {
    feed: {f"run={RUN}/{name}": content for name, content in files.items()} for feed, files in sorted(FILES.items())
}


@pytest.fixture
def sink(tmp_path: Path) -> ParquetSink:
    return ParquetSink(tmp_path / "out")


def test_exactly_the_files_of_the_commit_are_published(sink: ParquetSink) -> None:
    sink.publish(*laid(sink))
    assert published(sink) == EXPECTED


def test_publishing_again_changes_nothing(sink: ParquetSink) -> None:
    commit, folder = laid(sink)
    sink.publish(commit, folder)
    before = {path: path.stat().st_ino for path in sink.root.glob("[!_]*/*/*")}
    sink.publish(commit, folder)
    assert {path: path.stat().st_ino for path in sink.root.glob("[!_]*/*/*")} == before
    assert published(sink) == EXPECTED


def test_a_publication_that_died_half_way_is_finished(sink: ParquetSink) -> None:
    commit, folder = laid(sink)
    left = sink.root / "_attempts" / RUN / "publish-events-dead"
    left.mkdir()
    (left / "part-0.parquet").write_bytes(b"o")
    sink.publish(replaced(commit, feeds={"bad": commit.feeds["bad"]}), folder)
    sink.publish(commit, folder)
    assert published(sink) == EXPECTED


@pytest.mark.parametrize("publishers", [2, 8])
def test_several_publishers_at_once(tmp_path: Path, publishers: int) -> None:
    for trial in range(5):
        sink = ParquetSink(tmp_path / f"out-{trial}")
        commit, folder = laid(sink)
        barrier = threading.Barrier(publishers)
        failures: list[BaseException] = []

        def publish(
            sink: ParquetSink = sink,
            commit: Commit = commit,
            folder: Path = folder,
            barrier: threading.Barrier = barrier,
            failures: list[BaseException] = failures,
        ) -> None:
            barrier.wait()
            try:
                sink.publish(commit, folder)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=publish) for _ in range(publishers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert published(sink) == EXPECTED
        assert [path.name for path in (sink.root / "_attempts" / RUN).iterdir()] == ["a1"]


def test_a_file_of_another_size_is_refused(sink: ParquetSink) -> None:
    commit, folder = laid(sink)
    (folder / "judged/events/spark-part-1.parquet").write_bytes(b"two")
    with pytest.raises(BooksDamaged, match=r"spark-part-1\.parquet has 3 bytes instead of the 4"):
        sink.publish(commit, folder)
    assert "events" not in published(sink)


def test_a_file_that_is_gone_is_refused(sink: ParquetSink) -> None:
    commit, folder = laid(sink)
    (folder / "judged/events/spark-part-1.parquet").unlink()
    with pytest.raises(BooksDamaged, match=r"spark-part-1\.parquet, which commit 3 names, is gone"):
        sink.publish(commit, folder)
    assert "events" not in published(sink)


def test_after_publication_the_attempt_may_be_gone(sink: ParquetSink) -> None:
    commit, folder = laid(sink)
    sink.publish(commit, folder)
    sink.clean(lambda number: True)
    assert not folder.exists()
    sink.publish(commit, folder)
    assert published(sink) == EXPECTED


def test_a_published_folder_that_was_moved_away_is_said_and_left_to_the_audit(
    sink: ParquetSink, caplog: pytest.LogCaptureFixture
) -> None:
    """Attempts are removed after publication only: with neither left, somebody took the folder away."""
    commit, folder = laid(sink)
    sink.publish(commit, folder)
    sink.clean(lambda number: True)
    shutil.rmtree(sink.root / "events")
    logging.getLogger("semel").propagate = True
    sink.publish(commit, folder)
    assert "is gone; run `semel audit`" in caplog.text
    assert not (sink.root / "events").exists()


def test_cleaning_removes_only_runs_that_are_done(sink: ParquetSink) -> None:
    attempts = sink.root / "_attempts"
    runs = [f"r00000000{n}-20260102T030405Z" for n in (1, 2, 3)]
    for name in (*runs, "unknown", "r1", ".hidden"):
        (attempts / name / "a1").mkdir(parents=True)
    (attempts / "a-file").write_bytes(b"")
    asked: list[int] = []

    def is_done(number: int) -> bool:
        asked.append(number)
        return number != 2

    sink.clean(is_done)
    assert {path.name for path in attempts.iterdir()} == {".hidden", "a-file", "r1", runs[1], "unknown"}
    assert sorted(asked) == [1, 2, 3]


def test_cleaning_where_nothing_was_attempted(sink: ParquetSink) -> None:
    sink.clean(lambda number: True)
    assert not sink.root.exists()


def test_a_folder_is_claimed_once(sink: ParquetSink) -> None:
    sink.claim("books-1", "clicks")
    sink.claim("books-1", "clicks")
    with pytest.raises(ConfigError, match=r"feeds: .* belongs to other books \(of pipeline 'clicks'\)"):
        sink.claim("books-2", "clicks")


def test_a_claim_survives_what_is_written_later(sink: ParquetSink) -> None:
    sink.claim("books-1", "clicks")
    sink.publish(*laid(sink))
    sink.claim("books-1", "clicks")


def test_a_folder_that_is_not_empty_is_refused(sink: ParquetSink) -> None:
    sink.root.mkdir()
    (sink.root / "mine.txt").write_text("x")
    with pytest.raises(ConfigError, match=r"feeds: .* is not empty \('mine.txt' is in it\)"):
        sink.claim("books-1", "clicks")
    assert sorted(path.name for path in sink.root.iterdir()) == ["mine.txt"]


def test_hidden_files_do_not_fill_a_folder(sink: ParquetSink) -> None:
    sink.root.mkdir()
    (sink.root / ".DS_Store").write_text("x")
    sink.claim("books-1", "clicks")


def test_of_two_that_claim_at_once_one_gets_it(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out")
    barrier = threading.Barrier(6)
    won: list[str] = []

    def claim(books: str) -> None:
        barrier.wait()
        try:
            sink.claim(books, "clicks")
        except ConfigError:
            return
        won.append(books)

    threads = [threading.Thread(target=claim, args=(f"books-{i}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
