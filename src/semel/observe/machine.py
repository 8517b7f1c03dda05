"""What the machine has: the Java that Spark would start, memory, disk, the host name. Starts no Spark."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

JAVA_TIMEOUT: Final = 30.0

# Spark does not start, or fails in its first job, on a runtime without one of them.
SPARK_MODULES: Final = (
    "java.base",
    "java.desktop",
    "java.management",
    "java.sql",
    "jdk.incubator.vector",
    "jdk.security.auth",
    "jdk.unsupported",
)

_JAVAS: Final = range(17, 23)
"""Spark 4.1 is made for 17 and 21; later ones lack what its Hadoop client calls when a session starts."""

_INSTALL_JAVA: Final = "apt-get install openjdk-17-jre-headless, or install a Java 17 runtime and set JAVA_HOME to it"

_PROPERTY: Final = re.compile(r"^\s+(java\.[a-z.]+) = (.*)$", re.MULTILINE)
_MODULE: Final = re.compile(r"^([a-z][\w.]*)(?:@\S+)?$", re.MULTILINE)


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """One row: what was looked at, what was found, and what to do about it."""

    name: str
    status: State
    found: str
    remedy: str = ""
    is_configuration: bool = False
    """Whether it is the pipeline file that has to be changed, and not the machine."""

    def as_dict(self) -> dict[str, str]:
        return {"name": self.name, "status": self.status.value, "found": self.found, "remedy": self.remedy}


class JavaError(Exception):
    """The Java that Spark would start is not there, or does not answer like Java."""


@dataclass(frozen=True)
class Java:
    """A Java runtime, as it describes itself."""

    executable: Path
    version: str
    major: int
    vendor: str
    modules: frozenset[str] = field(repr=False)

    @property
    def lacking(self) -> tuple[str, ...]:
        """The modules that Spark needs and this runtime does not have."""
        return tuple(module for module in SPARK_MODULES if module not in self.modules)


def find_java(environ: Mapping[str, str]) -> Path | None:
    """The executable that Spark would start: JAVA_HOME's even if it is not there, else the first on PATH."""
    if home := environ.get("JAVA_HOME"):
        return Path(home) / "bin" / "java"
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    return None if found is None else Path(found)


def probe_java(executable: Path, timeout: float = JAVA_TIMEOUT) -> Java:
    """Ask a Java runtime what it is."""
    answer = _answer((str(executable), "-XshowSettings:properties", "-version"), timeout)
    properties: dict[str, str] = dict(_PROPERTY.findall(answer))
    specification = properties.get("java.specification.version", "")
    match = re.fullmatch(r"(?:1\.)?(\d+)", specification.strip())
    if match is None:
        raise JavaError(f"{executable} does not answer like Java")
    major = int(match[1])
    modules = _answer((str(executable), "--list-modules"), timeout) if major >= 9 else ""
    return Java(
        executable=executable,
        version=properties.get("java.version", specification).strip(),
        major=major,
        vendor=properties.get("java.vendor", "vendor unknown").strip(),
        modules=frozenset(_MODULE.findall(modules)),
    )


def check_java(environ: Mapping[str, str], timeout: float = JAVA_TIMEOUT) -> Iterator[Check]:
    """The runtime that Spark would start, and whether it has the modules that Spark needs."""
    executable = find_java(environ)
    if executable is None:
        yield Check("java", State.MISSING, "no java on PATH, and JAVA_HOME is not set", _INSTALL_JAVA)
        return
    try:
        java = probe_java(executable, timeout)
    except JavaError as error:
        by = "JAVA_HOME: " if environ.get("JAVA_HOME") else "PATH: "
        yield Check("java", State.MISSING, f"{by}{error}", _java_remedy(environ, timeout))
        return
    found = f"{java.version}, {java.vendor}, {executable}"
    if java.major not in _JAVAS:
        why = "too old: Spark needs 17" if java.major < _JAVAS.start else "too new: Spark 4.1 needs 17 or 21"
        yield Check("java", State.MISSING, f"{found} ({why})", _java_remedy(environ, timeout))
        return
    yield Check("java", State.OK, found)
    yield _check_modules(java)


def _java_remedy(environ: Mapping[str, str], timeout: float) -> str:
    """If JAVA_HOME hides a good runtime on PATH, say so."""
    if environ.get("JAVA_HOME"):
        on_path = find_java({"PATH": environ.get("PATH", os.defpath)})
        try:
            if on_path is not None and probe_java(on_path, timeout).major in _JAVAS:
                return f"unset JAVA_HOME: {on_path} would do"
        except JavaError:
            pass
    return _INSTALL_JAVA


def _check_modules(java: Java) -> Check:
    if not java.lacking:
        return Check("java modules", State.OK, f"the {len(SPARK_MODULES)} that Spark needs")
    return Check(
        "java modules",
        State.MISSING,
        f"not there: {', '.join(java.lacking)}",
        f"take a full runtime: {_INSTALL_JAVA}; or make one by jlink --add-modules {','.join(SPARK_MODULES)}",
    )


def _answer(command: Sequence[str], timeout: float) -> str:
    """Both outputs of a command; one that does not end in time is killed with its children."""
    executable = command[0]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError:
        raise JavaError(f"{executable} does not exist") from None
    except OSError as error:
        raise JavaError(f"{executable} cannot be run: {error.strerror}") from None
    with process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise JavaError(f"{executable} did not answer within {timeout:g} s") from None
    return output


def available_memory(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that can be had: what the kernel calls available, or the control group's limit if less."""
    found = [*_kernel_memory(proc), *_cgroup_limits(proc, cgroups)]
    return min(found, default=None)


def _kernel_memory(proc: Path) -> Iterator[int]:
    match = re.search(r"^MemAvailable:\s+(\d+) kB", _text(proc / "meminfo"), re.MULTILINE)
    if match is not None:
        yield int(match[1]) * 1024


def _cgroup_limits(proc: Path, cgroups: Path) -> Iterator[int]:
    """The limits of this process's group and of every group around it, in version 1 and 2."""
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root, name = cgroups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = cgroups / "memory", "memory.limit_in_bytes"
        else:
            continue
        inner = root / group.strip("/")
        for folder in (inner, *inner.parents):
            limit = _text(folder / name).strip()
            if limit.isdigit():
                yield int(limit)
            if folder == root:
                break


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def free_disk(folder: Path) -> int:
    """Free bytes where `folder` lies or would lie."""
    return shutil.disk_usage(nearest_existing(folder)).free


def nearest_existing(path: Path) -> Path:
    """The path itself, or the innermost of its parents that is there."""
    return next((place for place in (path, *path.parents) if os.access(place, os.F_OK)), Path(path.anchor))


def host_address() -> str | None:
    """The address of this machine's own name, or None if it has none; Spark looks it up when it starts."""
    try:
        return str(socket.getaddrinfo(socket.gethostname(), None)[0][4][0])
    except OSError:
        return None
