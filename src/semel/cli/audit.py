"""`semel audit`."""

from __future__ import annotations

import json
from argparse import Namespace

from semel.cli.display import show_table
from semel.cli.progress import display
from semel.observe.audit import audit as audit_books
from semel.pipeline.config import load_config


def audit(options: Namespace) -> int:
    config = load_config(options.pipeline, options.overrides)
    progress = display()
    with progress:
        report = audit_books(config, quick=options.quick, progress=progress)
    if options.json:
        print(json.dumps(report.as_dict()))
    else:
        show_table(tuple(report.counts.as_dict()), [report.counts.as_dict()])
        for note in report.notes:
            print(f"note: {note}")
        for problem in report.problems:
            print(f"problem: {problem}")
        print(
            "the books balance" if report.balanced else f"the books do not balance: {len(report.problems)} problem(s)"
        )
    return 0 if report.balanced else 1
