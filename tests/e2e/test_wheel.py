"""The wheel, in an environment of its own and outside the clone: what a user installs must be whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT = 600


@pytest.fixture(scope="module")
def uv() -> list[str]:
    own = ROOT / ".uv" / "bin" / "uv"
    if own.exists():
        return [str(own)]
    if found := shutil.which("uv"):
        return [found]
    module = [sys.executable, "-m", "uv"]
    if subprocess.run([*module, "--version"], capture_output=True, check=False).returncode == 0:
        return module
    if os.environ.get("CI"):
        pytest.fail("uv is not here; `make setup` brings it")
    pytest.skip("uv is not here; `make setup` brings it")


@pytest.fixture
def environment(uv: list[str], tmp_path: Path) -> Iterator[Path]:
    """An environment with the wheel, and the locked versions of its dependencies, which uv has cached."""
    folder = tmp_path / "environment"
    python = str(folder / "bin" / "python")
    foreign = ("VIRTUAL_ENV", "PYTHONPATH", "UV_PYTHON")
    settings = {key: value for key, value in os.environ.items() if key not in foreign}
    settings["UV_PROJECT_ENVIRONMENT"] = str(folder)
    locked = ["sync", "--frozen", "--no-dev", "--no-install-project", "--python", sys.executable]
    _call([*uv, *locked], ROOT, settings)
    _call([*uv, "build", "--wheel", "--out-dir", str(tmp_path / "dist")], ROOT, settings)
    [wheel] = (tmp_path / "dist").glob("semel-*.whl")
    _call([*uv, "pip", "install", "--python", python, "--no-deps", str(wheel)], tmp_path, settings)
    _call([*uv, "pip", "check", "--python", python], tmp_path, settings)
    yield folder
    shutil.rmtree(folder)  # Spark is large, and pytest keeps what tests leave


@pytest.mark.timeout(TIMEOUT)
def test_the_demo_runs_from_the_installed_wheel(environment: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [
        str(environment / "bin" / "semel"),
        "demo",
        "--folder",
        str(tmp_path / "demo"),
        "--events",
        "2000",
    ]
    done = _call(command, elsewhere, _clean_settings())
    assert "the books balance" in done.stdout
    assert "every record is in the feed where it belongs, once" in done.stdout
    assert list((tmp_path / "demo" / "out" / "events").glob("run=*/*.parquet"))


def _clean_settings() -> dict[str, str]:
    """What a new login has; nothing of this project's environment."""
    settings = {key: os.environ[key] for key in ("HOME", "JAVA_HOME", "LANG", "TMPDIR") if key in os.environ}
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return {
        **settings,
        "PATH": os.pathsep.join(folder for folder in folders if not Path(folder).is_relative_to(ROOT)),
    }


def _call(command: list[str], folder: Path, settings: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=folder, env=settings, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done
