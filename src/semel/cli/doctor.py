"""`semel doctor`: what this machine has and lacks, and how to mend it. Starts no Spark and imports none."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from semel.cli.display import table_lines
from semel.connectors import CONNECTORS, Connector
from semel.errors import ConfigError
from semel.model.verdicts import Feed
from semel.observe.machine import (
    JAVA_TIMEOUT,
    Check,
    State,
    available_memory,
    check_java,
    free_disk,
    host_address,
    nearest_existing,
)
from semel.pipeline.config import PipelineConfig, load_config
from semel.pipeline.urls import parse_location
from semel.sinks.parquet import ATTEMPTS

_PYTHONS: Final = ((3, 11), (3, 14))
_LITTLE_MEMORY: Final = 2 << 30
_LITTLE_DISK: Final = 1 << 30
_GLOB: Final = re.compile(r"[*?\[]")

PACKAGES: Final[Mapping[str, tuple[str, str | None]]] = {
    "pyspark": ("4.1.1", "4.2"),
    "pyarrow": ("18", None),
    "numpy": ("1.26", None),
    "pandas": ("2.2", "3"),
}
"""Lowest version, and the first one that is too high."""


def doctor(options: Namespace) -> int:
    """Exit status 0 if nothing is missing, 1 if something is, 2 if the pipeline file is wrong."""
    checks = machine_checks(os.environ)
    if options.pipeline is not None:
        checks += pipeline_checks(options.pipeline, options.overrides)
    missing = [check for check in checks if check.status is State.MISSING]
    if options.json:
        print(json.dumps({"ok": not missing, "checks": [check.as_dict() for check in checks]}))
    else:
        print("\n".join(_lines(checks)))
    if any(check.is_configuration for check in missing):
        return 2
    return 1 if missing else 0


def _lines(checks: Sequence[Check]) -> Iterator[str]:
    rows = [{**check.as_dict(), "found": "; ".join(check.found.splitlines())} for check in checks]
    yield from table_lines(("name", "status", "found"), rows)
    to_do = [check for check in checks if check.remedy]
    if to_do:
        yield ""
        yield "to do:"
        yield from (f"  {check.name}: {check.remedy}" for check in to_do)
    missing = sum(check.status is State.MISSING for check in checks)
    yield ""
    yield "nothing is missing" if not missing else f"missing: {missing}"


def machine_checks(environ: Mapping[str, str], java_timeout: float = JAVA_TIMEOUT) -> list[Check]:
    return [
        check_python(sys.version_info[:3], sys.executable),
        *check_java(environ, java_timeout),
        *(check_package(name) for name in PACKAGES),
        check_worker_python(environ.get("PYSPARK_PYTHON", ""), sys.executable),
        check_spark_home(environ.get("SPARK_HOME", "")),
        check_memory(available_memory()),
        check_disk("disk", Path.cwd(), free_disk),
        check_disk("scratch disk", _scratch(environ), free_disk, "set SPARK_LOCAL_DIRS to a larger disk"),
        check_host(environ, host_address),
        Check("extras", State.OK, "none in this version"),
        *(check_connector(connector, _ivy_folders(Path.home())) for connector in CONNECTORS.values()),
    ]


def check_python(version: tuple[int, ...], executable: str) -> Check:
    found = f"{'.'.join(map(str, version))}, {executable}"
    if _PYTHONS[0] <= version < _PYTHONS[1]:
        return Check("python", State.OK, found)
    return Check(
        "python",
        State.MISSING,
        found,
        "install Python 3.11, 3.12 or 3.13 and put semel into an environment of it",
    )


def check_package(name: str, version_of: Callable[[str], str] = metadata.version) -> Check:
    lowest, too_high = PACKAGES[name]
    wanted = f"{name}>={lowest}" + (f",<{too_high}" if too_high else "")
    remedy = f"pip install '{wanted}' (in a clone of semel: make setup)"
    try:
        found = version_of(name)
    except metadata.PackageNotFoundError:
        return Check(name, State.MISSING, "not installed", remedy)
    fits = _numbers(found) >= _numbers(lowest) and (too_high is None or _numbers(found) < _numbers(too_high))
    return Check(name, State.OK, found) if fits else Check(name, State.MISSING, f"{found}, not {wanted}", remedy)


def _numbers(version: str) -> tuple[int, ...]:
    """The release number of a version.

    >>> _numbers("4.2.0.dev1")
    (4, 2, 0)
    """
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def check_worker_python(given: str, own: str) -> Check:
    name = "PYSPARK_PYTHON"
    if not given:
        return Check(name, State.OK, "not set; the workers take this interpreter")
    found = shutil.which(given)
    if found is None:
        return Check(name, State.MISSING, f"{given} is not there; no worker could start", "unset PYSPARK_PYTHON")
    if _same_interpreter(Path(found), Path(own)):
        return Check(name, State.OK, given)
    return Check(
        name,
        State.WARN,
        f"{given}: the workers take another Python than {own}, with other packages",
        "unset PYSPARK_PYTHON, unless that one has semel and its dependencies in the same versions",
    )


def _same_interpreter(one: Path, other: Path) -> bool:
    """Two environments can link to one file, so the folder counts too."""
    return one.resolve() == other.resolve() and one.parent.resolve() == other.parent.resolve()


def check_spark_home(given: str) -> Check:
    name = "SPARK_HOME"
    if not given:
        return Check(name, State.OK, "not set; Spark is the one that pyspark brings")
    home = Path(given)
    if not (home / "bin" / "spark-submit").exists():
        return Check(name, State.MISSING, f"{given} has no bin/spark-submit; Spark could not start", "unset SPARK_HOME")
    try:
        own = Path(str(metadata.distribution("pyspark").locate_file("pyspark")))
    except metadata.PackageNotFoundError:
        own = None
    if own is not None and home.resolve() == own.resolve():
        return Check(name, State.OK, given)
    return Check(
        name,
        State.WARN,
        f"{given}: Spark is started from there, and not the one that pyspark brings",
        "unset SPARK_HOME, unless that is the Spark of a cluster in the version of pyspark",
    )


def check_memory(available: int | None) -> Check:
    if available is None:
        return Check("memory", State.OK, "not known on this system")
    if available >= _LITTLE_MEMORY:
        return Check("memory", State.OK, f"{_size(available)} available")
    return Check(
        "memory",
        State.WARN,
        f"{_size(available)} available, less than {_size(_LITTLE_MEMORY)}",
        "free some, or raise the limit of the container",
    )


def check_disk(name: str, folder: Path, free: Callable[[Path], int], remedy: str = "make room there") -> Check:
    size = free(folder)
    if size >= _LITTLE_DISK:
        return Check(name, State.OK, f"{_size(size)} free in {folder}")
    return Check(name, State.WARN, f"{_size(size)} free in {folder}, less than {_size(_LITTLE_DISK)}", remedy)


def _scratch(environ: Mapping[str, str]) -> Path:
    """Where Spark puts what does not fit into memory; the first place if there are several."""
    return Path(environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())


def _size(number: int) -> str:
    return f"{number / (1 << 30):.1f} GiB"


def check_host(environ: Mapping[str, str], address: Callable[[], str | None]) -> Check:
    for setting in ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"):
        if environ.get(setting):
            return Check("host name", State.OK, f"{setting}={environ[setting]}")
    found = address()
    if found is not None:
        return Check("host name", State.OK, f"resolves to {found}")
    return Check(
        "host name",
        State.MISSING,
        "does not resolve, and Spark looks it up when it starts",
        "export SPARK_LOCAL_IP=127.0.0.1",
    )


def check_connector(connector: Connector, folders: Sequence[Path]) -> Check:
    """Never a failure: Spark fetches what a session asks for."""
    names = ["{}_{}-{}.jar".format(*coordinate.split(":")) for coordinate in connector.coordinates]
    there = any(all((folder / name).exists() for name in names) for folder in folders)
    found = "in the Ivy cache" if there else "fetched when first used"
    return Check(f"connector {connector.name}", State.OK, f"{found}; {connector.used_for}")


def _ivy_folders(home: Path) -> list[Path]:
    return [home / ".ivy2.5.2" / "jars", home / ".ivy2" / "jars"]


def pipeline_checks(file: str, overrides: Sequence[str]) -> list[Check]:
    try:
        config = load_config(file, overrides)
    except ConfigError as error:
        return [
            Check(
                "pipeline file",
                State.MISSING,
                str(error),
                "correct it; `semel schema` says what may be in it",
                True,
            )
        ]
    ledger = config.ledger.location
    folders = [("books", config.books.local(config.base))]
    if ledger is not None:
        folders.append(("ledger", ledger.local(config.base)))
    feeds = [feed.location.local(config.base) for feed in config.feeds]
    folders += [("feeds", folder) for folder in feeds]
    return [
        Check("pipeline file", State.OK, f"{config.origin}: {config.name}"),
        *(_check_source(text, config) for text in config.source.path),
        *(check_folder(name, folder) for name, folder in folders),
        *(check_rename(folder) for folder in feeds),
    ]


def _check_source(text: str, config: PipelineConfig) -> Check:
    place = parse_location(text, "").local(config.base)
    if os.access(place, os.F_OK):
        if os.access(place, os.R_OK):
            return Check("source", State.OK, str(place))
        return Check("source", State.MISSING, f"{place} may not be read", f"chmod +r {place}, or run as its owner")
    if _GLOB.search(text):
        return Check("source", State.OK, f"{place}, a pattern")
    if any(config.books.local(config.base).glob("commits/*")):
        return Check("source", State.WARN, f"{place} is not there; fine if all of it was booked before", "")
    return Check("source", State.MISSING, f"{place} does not exist", f"mkdir -p {place}, or correct source.path", True)


def check_folder(name: str, folder: Path) -> Check:
    """Whether it can be written to, or made."""
    place = nearest_existing(folder)
    if not place.is_dir():
        return Check(
            name,
            State.MISSING,
            f"{place} is a file, and a folder is wanted",
            f"name another folder in `{name}`",
        )
    if not os.access(place, os.W_OK | os.X_OK):
        return Check(name, State.MISSING, f"{place} may not be written to", f"chmod u+wx {place}, or run as its owner")
    return Check(name, State.OK, str(folder) if place == folder else f"{folder}, which will be made")


def check_rename(folder: Path, device: Callable[[Path], int] = lambda path: path.stat().st_dev) -> Check:
    """A run appears in a feed by a rename, which does not cross file systems."""
    places = [place for place in (folder / ATTEMPTS, *(folder / feed.value for feed in Feed)) if place.is_dir()]
    if len({device(place) for place in places}) <= 1:
        return Check("feeds rename", State.OK, f"{folder} is on one file system")
    return Check(
        "feeds rename",
        State.MISSING,
        f"the folders in {folder} are on several file systems",
        f"put all of {folder} on one file system; no mount or link inside it",
    )
