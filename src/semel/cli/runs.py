"""`semel runs` and `semel void`."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from semel.books.records import Commit
from semel.cli.display import show_table
from semel.errors import ConfigError
from semel.pipeline.config import load_config
from semel.pipeline.runner import Pipeline
from semel.pipeline.workspace import Workspace

_COLUMNS = (
    "run",
    "status",
    "moment",
    "files",
    "read",
    "accepted",
    "conflicts",
    "duplicates",
    "stale",
    "rejected",
    "bad",
)


def runs(options: Namespace) -> int:
    config = load_config(options.pipeline, options.overrides)
    workspace = Workspace(config)
    rows = []
    if workspace.identity() is not None:
        state, last = workspace.books.load_with_last()
        workspace.roll_forward(state, last)
        first = 1 if options.last is None else max(1, state.number - options.last + 1)
        rows = [_row(commit) for commit, _ in workspace.books.commits(first)]
        plan = workspace.books.plan(state.number + 1)
        if plan is not None:
            rows.append({"run": plan.run, "status": "open", "moment": plan.moment, "files": len(plan.files)})
    if options.json:
        print(json.dumps({"pipeline": config.name, "runs": rows}))
    elif not rows:
        print("nothing has been run yet")
    else:
        show_table(_COLUMNS, rows)
    return 0


def void(options: Namespace) -> int:
    pipeline = Pipeline(load_config(options.pipeline, options.overrides))
    if not options.yes:
        if not sys.stdin.isatty():
            raise ConfigError("semel void wants a yes: answer on a terminal, or give --yes")
        answer = input(f"Give up run {options.run}? Its input is planned again, what is gone is lost [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            print("nothing was changed", file=sys.stderr)
            return 1
    report = pipeline.void(options.run)
    print(json.dumps(report.as_dict()) if options.json else f"run {report.run} is void")
    return 0


def _row(commit: Commit) -> dict[str, object]:
    return {
        "run": commit.run,
        "status": commit.status.value,
        "moment": commit.moment,
        "files": len(commit.files),
        **commit.counts.as_dict(),
    }
