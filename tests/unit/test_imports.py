"""Imports point one way: the core knows nobody, the command line knows all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import semel

ROOT = Path(semel.__file__).parent
MAY_IMPORT = {
    "model": set(),
    "books": {"model"},
    "ledgers": {"model", "books"},
    "judging": {"model", "books", "ledgers"},
    "sources": {"model", "books"},
    "sinks": {"model", "books"},
    "pipeline": {"model", "books", "ledgers", "judging", "sources", "sinks"},
    "observe": {"model", "books", "ledgers", "judging", "sources", "sinks", "pipeline"},
    "testing": {"model", "books", "ledgers", "judging", "sources", "sinks", "pipeline", "observe"},
    "cli": {"model", "books", "ledgers", "judging", "sources", "sinks", "pipeline", "observe", "testing"},
}


def imported(path: Path) -> set[str]:
    """The parts of semel that a module imports, at its top or within functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        found |= {name.split(".")[1] for name in names if name.startswith("semel.") and name.count(".") >= 1}
    return found & MAY_IMPORT.keys()


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_point_one_way(part: str) -> None:
    for path in sorted((ROOT / part).rglob("*.py")):
        assert imported(path) <= MAY_IMPORT[part] | {part}, path


def test_every_part_has_its_place() -> None:
    assert {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} == MAY_IMPORT.keys()


def test_the_core_loads_neither_spark_nor_a_cloud() -> None:
    for path in sorted((ROOT / "model").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in ("pyspark", "boto3", "obstore")], path
