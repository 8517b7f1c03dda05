"""Is the input of a plan still what it was?"""

from __future__ import annotations

from semel.books.records import Plan
from semel.errors import InputChanged, InputVanished
from semel.pipeline.config import PipelineConfig
from semel.sources.files.discover import stat_file, vanished


def check_input(plan: Plan, config: PipelineConfig) -> None:
    """Is every input file still what the plan says?"""
    for file in plan.files:
        found = stat_file(file.path, config.base)
        if found is None:
            raise InputVanished(vanished(file.path, plan.run, config.origin))
        if found != file:
            raise InputChanged(
                f"{file.path} was changed after run {plan.run} was planned; put it back as it was, or give up the run "
                f"with `semel void {config.origin} {plan.run}`: the file is then planned again as it is"
            )
