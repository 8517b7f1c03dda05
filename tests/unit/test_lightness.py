"""What is imported when little is asked for, and that every command explains itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from semel.cli.main import run

HEAVY = ("pyspark", "boto3", "pyarrow", "numpy", "pandas")

CALLS = {
    "import": "import semel",
    "help": "from semel.cli.main import run; run(['--help'])",
    "version": "from semel.cli.main import run; run(['--version'])",
    "doctor": "from semel.cli.main import run; run(['doctor', PIPELINE])",
    "schema": "from semel.cli.main import run; run(['schema'])",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_nothing_heavy_is_imported(call: str, tmp_path: Path) -> None:
    pipeline = tmp_path / "clicks.yaml"
    pipeline.write_text("pipeline: clicks\nsource: {path: in/}\nevent: {id: id, time: time}\n")
    script = f"""
import sys
PIPELINE = {str(pipeline)!r}
try:
    {call}
except SystemExit:
    pass
print("imported:", [name for name in {HEAVY!r} if name in sys.modules])
"""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported: []"


def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    commands = re.findall(r"^    ([a-z]+)", _help([], capsys), re.MULTILINE)
    assert {"run", "audit", "demo", "generate", "runs", "void", "schema", "doctor"} <= set(commands)
    for command in commands:
        text = _help([command], capsys)
        assert re.search(rf"^example:\n  semel {command}\b", text, re.MULTILINE), command


def _help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as exit_info:
        run([*arguments, "--help"])
    assert exit_info.value.code == 0
    return capsys.readouterr().out
