"""Do the feeds say what the generator knows?"""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds

from semel.model.verdicts import Feed
from semel.testing.generator import read_truth


def differences(folder: Path, feeds: Path) -> list[str]:
    """Where the feeds below `feeds` differ from the truth in a generated folder: every record in one place, once."""
    expected = {f"{row['file']}:{row['offset']}": row["verdict"] for row in read_truth(folder).to_pylist()}
    found: dict[str, str] = {}
    wrong = []
    for feed in Feed:
        if not (feeds / feed.value).is_dir():
            continue
        rows = ds.dataset(feeds / feed.value, format="parquet").to_table(columns=["position", "verdict"])
        for position, verdict in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            if position in found:
                wrong.append(f"{position} is there twice")
            found[position] = verdict
    for position in sorted(expected.keys() | found.keys()):
        if expected.get(position) != found.get(position):
            wrong.append(f"{position} is {found.get(position)} instead of {expected.get(position)}")
    return wrong
