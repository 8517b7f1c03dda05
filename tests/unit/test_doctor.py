"""`semel doctor`: each check against machines that have and lack things.

The Java runtimes here are shell scripts that answer like one: a machine whose Java is too old, trimmed or
hangs cannot be had otherwise.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from semel.cli import doctor as doctor_module
from semel.cli.doctor import (
    PACKAGES,
    check_connector,
    check_disk,
    check_folder,
    check_host,
    check_memory,
    check_package,
    check_python,
    check_rename,
    check_spark_home,
    check_worker_python,
)
from semel.cli.main import run
from semel.connectors import CONNECTORS, spark_packages
from semel.errors import ConfigError
from semel.observe.machine import SPARK_MODULES, Check, State, available_memory, check_java, find_java

GIB = 1 << 30


def fake_java(home: Path, body: str) -> Path:
    """A runtime whose `java` is a shell script; its home."""
    (home / "bin").mkdir(parents=True)
    executable = home / "bin" / "java"
    executable.write_text(f"#!/bin/sh\n{body}\n")
    executable.chmod(0o755)
    return home


def java_body(version: str, specification: str, modules: tuple[str, ...] = SPARK_MODULES) -> str:
    listed = "\n".join(f"{module}@{version}" for module in modules)
    return f"""\
if [ "$1" = --list-modules ]; then cat <<'END'
{listed}
END
else cat >&2 <<'END'
Picked up JAVA_TOOL_OPTIONS: -Dx=y
Property settings:
    java.class.version = 61.0
    java.specification.version = {specification}
    java.vendor = Someone
    java.version = {version}
openjdk version "{version}"
END
fi"""


GOOD = java_body("17.0.9", "17")


def java_checks(timeout: float = 10, **environ: str) -> list[Check]:
    return list(check_java({"PATH": "/usr/bin:/bin", **environ}, timeout))


def test_a_good_java_passes(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", GOOD)
    java, modules = java_checks(JAVA_HOME=str(home))
    assert (java.status, java.found) == (State.OK, f"17.0.9, Someone, {home}/bin/java")
    assert modules.status is State.OK


def test_java_is_looked_for_where_spark_does(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", GOOD)
    other = fake_java(tmp_path / "other", GOOD)
    path = str(other / "bin")
    assert find_java({"JAVA_HOME": str(home), "PATH": path}) == home / "bin" / "java"
    assert find_java({"JAVA_HOME": "", "PATH": path}) == other / "bin" / "java"
    assert find_java({"PATH": str(tmp_path)}) is None


@pytest.mark.parametrize(
    ("version", "specification", "why"),
    [("1.8.0_402", "1.8", "too old"), ("11.0.22", "11", "too old"), ("25.0.3", "25", "too new")],
)
def test_a_java_of_the_wrong_version_is_missing(tmp_path: Path, version: str, specification: str, why: str) -> None:
    home = fake_java(tmp_path / "java", java_body(version, specification))
    [java] = java_checks(JAVA_HOME=str(home), PATH="")
    assert java.status is State.MISSING
    assert version in java.found
    assert why in java.found
    assert "openjdk-17-jre-headless" in java.remedy


def test_missing_modules_are_named(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", java_body("17.0.9", "17", ("java.base", "java.logging")))
    _, modules = java_checks(JAVA_HOME=str(home))
    assert modules.status is State.MISSING
    for module in set(SPARK_MODULES) - {"java.base"}:
        assert module in modules.found
    assert "java.base" not in modules.found


def test_no_java(tmp_path: Path) -> None:
    [java] = java_checks(PATH=str(tmp_path))
    assert java.status is State.MISSING
    assert java.found == "no java on PATH, and JAVA_HOME is not set"


def test_a_java_home_that_is_wrong_does_not_fall_back_but_says_what_would_do(tmp_path: Path) -> None:
    good = fake_java(tmp_path / "good", GOOD)
    [java] = java_checks(JAVA_HOME=str(tmp_path / "gone"), PATH=str(good / "bin") + ":/usr/bin:/bin")
    assert java.status is State.MISSING
    assert java.found == f"JAVA_HOME: {tmp_path}/gone/bin/java does not exist"
    assert java.remedy == f"unset JAVA_HOME: {good}/bin/java would do"


@pytest.mark.parametrize(
    "body", ["echo hello", "exit 1", "printf '\\377\\376'", "echo 'java.specification.version = x'"]
)
def test_garbage_is_not_java(tmp_path: Path, body: str) -> None:
    home = fake_java(tmp_path / "java", body)
    [java] = java_checks(JAVA_HOME=str(home), PATH="")
    assert java.status is State.MISSING
    assert "does not answer like Java" in java.found


def test_a_java_that_cannot_be_run(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", GOOD)
    (home / "bin" / "java").chmod(0o644)
    [java] = java_checks(JAVA_HOME=str(home), PATH="")
    assert "cannot be run: Permission denied" in java.found


def test_a_java_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", "sleep 100\necho never")
    started = time.monotonic()
    [java] = java_checks(0.2, JAVA_HOME=str(home), PATH="")
    assert time.monotonic() - started < 20
    assert java.found.endswith("did not answer within 0.2 s")


def test_the_range_of_pythons() -> None:
    statuses = {minor: check_python((3, minor, 1), "/python").status for minor in range(10, 15)}
    assert [minor for minor, status in statuses.items() if status is State.OK] == [11, 12, 13]


@pytest.mark.parametrize(
    ("name", "version", "status"),
    [
        ("pyspark", "4.1.1", State.OK),
        ("pyspark", "4.1.10", State.OK),
        ("pyspark", "4.1.0", State.MISSING),
        ("pyspark", "4.2.0.dev1", State.MISSING),
        ("pandas", "2.3.3", State.OK),
        ("pandas", "3.0.0", State.MISSING),
        ("pyarrow", "26.0.1", State.OK),
    ],
)
def test_the_range_of_a_package(name: str, version: str, status: State) -> None:
    assert check_package(name, lambda _: version).status is status


def test_a_package_that_is_not_installed() -> None:
    def version_of(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    check = check_package("pyspark", version_of)
    assert (check.status, check.found) == (State.MISSING, "not installed")
    assert check.remedy.startswith("pip install 'pyspark>=4.1.1,<4.2'")


def test_the_ranges_are_those_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[<>=]", requirement)[0]: requirement for requirement in project["dependencies"]}
    for name, (lowest, too_high) in PACKAGES.items():
        assert wanted[name] == f"{name}>={lowest}" + (f",<{too_high}" if too_high else "")


def test_the_interpreter_of_the_workers(tmp_path: Path) -> None:
    assert check_worker_python("", sys.executable).status is State.OK
    assert check_worker_python(sys.executable, sys.executable).status is State.OK
    other = tmp_path / "python"
    other.symlink_to(Path(sys.executable).resolve())
    assert check_worker_python(str(other), sys.executable).status is State.WARN, "the same file, another environment"
    assert check_worker_python(str(tmp_path / "gone"), sys.executable).status is State.MISSING


def test_spark_home(tmp_path: Path) -> None:
    assert check_spark_home("").status is State.OK
    assert check_spark_home(str(metadata.distribution("pyspark").locate_file("pyspark"))).status is State.OK
    assert check_spark_home(str(tmp_path)).status is State.MISSING
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch()
    assert check_spark_home(str(tmp_path)).status is State.WARN


def test_little_memory_and_disk_are_warnings(tmp_path: Path) -> None:
    assert check_memory(None).status is State.OK
    assert check_memory(2 * GIB).status is State.OK
    assert check_memory(2 * GIB - 1).status is State.WARN
    assert check_disk("disk", tmp_path, lambda _: GIB).status is State.OK
    assert check_disk("disk", tmp_path, lambda _: GIB - 1).status is State.WARN
    assert check_disk("disk", tmp_path / "not" / "yet", lambda _: GIB).status is State.OK


@pytest.mark.parametrize(
    ("cgroup", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": "max\n"}, 8 * GIB),
        ("0::/\n", {"memory.max": f"{GIB}\n"}, GIB),
        ("0::/a/b\n", {"a/memory.max": f"{GIB}\n", "a/b/memory.max": "max\n"}, GIB),
        ("0::/\n", {"memory.max": f"{16 * GIB}\n"}, 8 * GIB),
        ("5:cpu:/\n4:memory:/x\n", {"memory/x/memory.limit_in_bytes": f"{3 * GIB}\n"}, 3 * GIB),
        ("4:memory:/x\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 8 * GIB),
        ("", {}, 8 * GIB),
    ],
)
def test_memory_is_what_the_kernel_or_the_group_allows(
    tmp_path: Path, cgroup: str, limits: dict[str, str], expected: int
) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {8 * GIB // 1024} kB\n")
    (proc / "self" / "cgroup").write_text(cgroup)
    for name, text in limits.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text)
    assert available_memory(proc, groups) == expected
    assert available_memory(tmp_path / "nothing", tmp_path / "nothing") is None


def test_the_host_name() -> None:
    assert check_host({}, lambda: "127.0.1.1").status is State.OK
    check = check_host({}, lambda: None)
    assert (check.status, check.remedy) == (State.MISSING, "export SPARK_LOCAL_IP=127.0.0.1")
    assert check_host({"SPARK_LOCAL_IP": "127.0.0.1"}, lambda: None).status is State.OK


def test_a_connector_is_never_a_failure(tmp_path: Path) -> None:
    connector = CONNECTORS["s3"]
    assert check_connector(connector, [tmp_path]).found.startswith("fetched when first used")
    for coordinate in connector.coordinates:
        group, artifact, version = coordinate.split(":")
        (tmp_path / f"{group}_{artifact}-{version}.jar").touch()
    check = check_connector(connector, [tmp_path / "none", tmp_path])
    assert (check.status, check.found) == (State.OK, "in the Ivy cache; reading and writing s3a:// paths")


def test_the_settings_of_connectors() -> None:
    settings = spark_packages("delta", "s3", "delta")
    assert settings["spark.jars.packages"].split(",").count("io.delta:delta-spark_4.1_2.13:4.4.0") == 1
    assert "software.amazon.awssdk:bundle" in settings["spark.jars.excludes"].split(",")
    assert spark_packages() == {}
    assert all(name == connector.name for name, connector in CONNECTORS.items())
    with pytest.raises(ConfigError, match="'oracle' is not a connector; use one of kafka, avro, delta, iceberg, s3"):
        spark_packages("oracle")


def test_folders_that_can_be_made_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_folder("books", tmp_path).found == str(tmp_path)
    assert check_folder("books", tmp_path / "a" / "b").found.endswith("which will be made")
    (tmp_path / "file").touch()
    assert check_folder("books", tmp_path / "file" / "b").status is State.MISSING
    monkeypatch.setattr(os, "access", lambda _, mode: mode == os.F_OK)  # root may write everywhere
    check = check_folder("books", tmp_path)
    assert (check.status, check.found) == (State.MISSING, f"{tmp_path} may not be written to")


def test_feeds_on_several_file_systems(tmp_path: Path) -> None:
    for name in ("_attempts", "events"):
        (tmp_path / name).mkdir()
    assert check_rename(tmp_path).status is State.OK
    assert check_rename(tmp_path, lambda path: len(path.name)).status is State.MISSING
    assert check_rename(tmp_path / "not-yet").status is State.OK


@pytest.fixture
def good_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with everything, whatever the tests run on."""
    for name in ("PYSPARK_PYTHON", "SPARK_HOME", "SPARK_LOCAL_DIRS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", GOOD)))
    monkeypatch.setattr(doctor_module, "host_address", lambda: "127.0.0.1")


PIPELINE = "pipeline: clicks\nsource: {path: in/}\nevent: {id: id, time: time}\n"


@pytest.mark.usefixtures("good_machine")
def test_a_good_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    output = capsys.readouterr().out
    assert output.splitlines()[0].split() == ["name", "status", "found"]
    assert output.splitlines()[-1] == "nothing is missing"


@pytest.mark.usefixtures("good_machine")
def test_the_shape_of_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert all(list(check) == ["name", "status", "found", "remedy"] for check in report["checks"])
    names = [check["name"] for check in report["checks"]]
    assert len(names) == len(set(names))
    assert {
        "python",
        "java",
        "java modules",
        "pyspark",
        "memory",
        "disk",
        "extras",
        "connector kafka",
    } <= set(names)


@pytest.mark.usefixtures("good_machine")
def test_what_is_missing_is_exit_status_1_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["doctor"]) == 1
    output = capsys.readouterr().out
    assert "  java: apt-get install openjdk-17-jre-headless" in output
    assert output.splitlines()[-1] == "missing: 1"


def pipeline_rows(
    file: Path, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, dict[str, dict[str, str]]]:
    status = run(["doctor", str(file), "--json", *arguments])
    checks = json.loads(capsys.readouterr().out)["checks"]
    after = next(number for number, check in enumerate(checks) if check["name"] == "pipeline file")
    return status, {check["name"]: check for check in checks[after:]}


@pytest.mark.usefixtures("good_machine")
def test_a_good_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "clicks.yaml"
    file.write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    status, rows = pipeline_rows(file, capsys)
    assert status == 0
    assert list(rows) == ["pipeline file", "source", "books", "ledger", "feeds", "feeds rename"]
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clicks.yaml", "in", "java"], "nothing was made"
    _, rows = pipeline_rows(file, capsys, "--set", "ledger=none")
    assert "ledger" not in rows


@pytest.mark.usefixtures("good_machine")
def test_a_wrong_pipeline_file_is_exit_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "clicks.yaml"
    file.write_text(PIPELINE + "horizn: 3d\nclock: sun\n")
    status, rows = pipeline_rows(file, capsys)
    assert status == 2
    assert rows["pipeline file"]["status"] == "missing"
    assert f"{file}:4: horizn: unknown key" in rows["pipeline file"]["found"]
    assert run(["doctor", str(file)]) == 2
    assert "unknown key" in capsys.readouterr().out
    assert pipeline_rows(tmp_path / "gone.yaml", capsys)[0] == 2


@pytest.mark.usefixtures("good_machine")
def test_a_source_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "clicks.yaml"
    file.write_text(PIPELINE)
    status, rows = pipeline_rows(file, capsys)
    assert (status, rows["source"]["status"]) == (2, "missing"), "as `semel run` has it"
    status, rows = pipeline_rows(file, capsys, "--set", "source.path=in/*.jsonl")
    assert (status, rows["source"]["status"]) == (0, "ok")
    (tmp_path / "books" / "commits").mkdir(parents=True)
    (tmp_path / "books" / "commits" / "1.json").touch()
    status, rows = pipeline_rows(file, capsys)
    assert (status, rows["source"]["status"]) == (0, "warn"), "booked input may be archived"


@pytest.mark.usefixtures("good_machine")
def test_a_file_where_a_folder_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "clicks.yaml"
    file.write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    (tmp_path / "out").touch()
    status, rows = pipeline_rows(file, capsys)
    assert status == 1
    assert "is a file" in rows["feeds"]["found"]
