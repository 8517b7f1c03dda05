"""Tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def show_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    print("\n".join(table_lines(columns, rows)))


def table_lines(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Numbers to the right, text to the left.

    >>> table_lines(("feed", "rows"), [{"feed": "events", "rows": 1200}, {"feed": "bad", "rows": 3}])
    ['feed     rows', 'events  1,200', 'bad         3']
    """
    cells = [[_shown(row.get(column)) for column in columns] for row in rows]
    right = [all(isinstance(row.get(column), int) for row in rows) and bool(rows) for column in columns]
    widths = [max(len(column), *(len(line[i]) for line in cells), 0) for i, column in enumerate(columns)]
    lines = []
    for line in [list(columns), *cells]:
        padded = [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
