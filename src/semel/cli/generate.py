"""`semel generate`."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from semel.cli.display import show_table
from semel.errors import ConfigError
from semel.testing.generator import GeneratorSettings, expected_counts
from semel.testing.generator import generate as generate_events


def generate(options: Namespace) -> int:
    folder = Path(options.folder)
    try:
        settings = GeneratorSettings(
            events=options.events,
            batches=options.batches,
            seed=options.seed,
            duplicates=options.duplicates,
            conflicts=options.conflicts,
            late=options.late,
            rejected=options.rejected,
            bad=options.bad,
            format=options.format,
            files_per_batch=options.files,
            compression=options.compression,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None
    generate_events(folder, settings)
    rows = [{"batch": number, **expected_counts(folder, number)} for number in range(settings.batches)]
    if options.json:
        print(json.dumps({"folder": str(folder), "pipeline": str(folder / "pipeline.yaml"), "batches": rows}))
    else:
        show_table(tuple(rows[0]), rows)
        print(f"the truth holds if each batch is one run: --set source.max_files={settings.files_per_batch}")
        print(f"semel run {folder / 'pipeline.yaml'} --set source.max_files={settings.files_per_batch}")
    return 0
