"""Small pipelines for tests: write input, run, read the feeds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from semel.model.verdicts import Feed
from semel.pipeline.config import load_config
from semel.pipeline.runner import Pipeline

MOMENT = datetime(2026, 1, 31, 12, tzinfo=UTC)

DEFAULT = """\
pipeline: clicks
source: {path: in/}
event:
  id: id
  time: time
  fingerprint: {exclude: [sent]}
  schema: "amount DOUBLE, note STRING"
reject:
  negative amount: amount < 0
"""


class TestClock:
    """A clock that ticks a second at each look."""

    __test__ = False

    def __init__(self, start: datetime = MOMENT) -> None:
        self.moment = start

    def __call__(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment


class Place:
    """A pipeline folder."""

    def __init__(self, folder: Path, text: str = DEFAULT) -> None:
        self.folder = folder
        self.file = folder / "clicks.yaml"
        (folder / "in").mkdir(parents=True, exist_ok=True)
        self.file.write_text(text)
        self.clock = TestClock()

    def write(self, name: str, records: Iterable[Mapping[str, Any] | bytes | str]) -> Path:
        path = self.folder / "in" / name
        lines = [
            record
            if isinstance(record, bytes)
            else (record if isinstance(record, str) else json.dumps(record)).encode()
            for record in records
        ]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    def pipeline(self, *overrides: str) -> Pipeline:
        return Pipeline(load_config(self.file, overrides), clock=self.clock)

    def rows(self, feed: Feed | str, *columns: str) -> list[dict[str, Any]]:
        folder = self.folder / "out" / str(feed)
        if not folder.is_dir():
            return []
        table = ds.dataset(folder, format="parquet", partitioning="hive").to_table(columns=list(columns) or None)
        return sorted(table.to_pylist(), key=lambda row: str(row.get("position")))

    def verdicts(self) -> dict[str, str]:
        """Position to verdict over all feeds; a position that is there twice is an error."""
        found: dict[str, str] = {}
        for feed in Feed:
            for row in self.rows(feed, "position", "verdict"):
                assert row["position"] not in found, f"{row['position']} is in two places"
                found[row["position"]] = row["verdict"]
        return found

    def files(self) -> dict[str, bytes]:
        """Everything that a user can see, for comparing before and after."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


def event(event_id: Any, amount: Any = 1, time: str = "2026-01-01T00:00:00Z", **more: Any) -> dict[str, Any]:
    return {"id": event_id, "time": time, "amount": amount, **more}


def ids(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    return sorted(row["event_id"] for row in rows)
