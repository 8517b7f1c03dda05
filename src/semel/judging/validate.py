"""The user's validators: `reject` rules in SQL, and the `process` function."""

from __future__ import annotations

import importlib
import logging
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from semel.errors import ConfigError, ProcessBroken
from semel.judging.columns import INTERNAL, OPEN_COLUMNS
from semel.judging.decide import REJECT_REASON
from semel.model.schema import RESERVED_PREFIX, is_reserved

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

log = logging.getLogger("semel")

Process = Callable[[DataFrame], DataFrame]
_ASKS_ELSEWHERE: Final = re.compile(
    r"\b(?:now|current_timestamp|current_date|current_time|localtimestamp|current_user|session_user|user)\(|"
    r"\b(?:exists|scalar-subquery|list)#"
)
_RULE_REASON: Final = f"{RESERVED_PREFIX}_rule_reason"


def load_process(name: str, folder: str) -> Process:
    """`module:function`, looked for beside the pipeline file first."""
    module_name, _, attribute = name.partition(":")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
        function = getattr(module, attribute)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"process: {name!r} cannot be imported ({error}); it is looked for in {folder} and the Python path"
        ) from None
    except AttributeError:
        raise ConfigError(f"process: module {module_name!r} has no function {attribute!r}") from None
    except (Exception, SystemExit) as error:
        raise ConfigError(f"process: importing {module_name!r} failed: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise ConfigError(f"process: {name!r} is not a function")
    _ship_with_its_functions(module, name, folder)
    return function  # type: ignore[no-any-return]


def _ship_with_its_functions(module: ModuleType, name: str, folder: str) -> None:
    """A module beside the pipeline file is not on the executors' path: Spark pickles it by value."""
    top = sys.modules[module.__name__.partition(".")[0]]
    beside = Path(folder, top.__name__)
    if not (beside.is_dir() or beside.with_suffix(".py").is_file()):
        return
    if not str(Path(module.__file__ or "").resolve()).startswith(str(Path(folder).resolve())):
        raise ConfigError(
            f"process: {name!r} was imported from {module.__file__}, not from {folder}; rename the module"
        )
    register_pickle_by_value(top)  # type: ignore[no-untyped-call]


def check_rules(empty: DataFrame, rules: Mapping[str, str]) -> None:
    """Refuse a rule that Spark cannot evaluate for each record alone, before anything is planned."""
    empty = empty.drop(INTERNAL)
    for reason, condition in rules.items():
        try:
            kind = empty.select(F.expr(condition).alias("rule")).schema["rule"].dataType.simpleString()
        except (AnalysisException, ParseException) as error:
            raise ConfigError(f"reject: {reason}: {condition!r} is not a condition: {_first_line(error)}") from None
        if kind != "boolean":
            raise ConfigError(f"reject: {reason}: {condition!r} gives {kind.upper()}, not BOOLEAN")
        try:
            alone = empty.filter(F.expr(condition))
            alone.schema  # noqa: B018
            deterministic = alone._jdf.queryExecution().analyzed().deterministic()
        except AnalysisException as error:
            raise ConfigError(f"reject: {reason}: {condition!r} is not a condition: {_first_line(error)}") from None
        plan = alone._jdf.queryExecution().analyzed().toString()
        if _ASKS_ELSEWHERE.search(plan):
            raise ConfigError(
                f"reject: {reason}: {condition!r} asks the clock, the session or a table; a rerun must decide the same"
            )
        if not deterministic:
            raise ConfigError(
                f"reject: {reason}: {condition!r} gives another answer each time; a rerun must decide the same"
            )


def check_process(empty: DataFrame, process: Process, name: str) -> list[StructField]:
    """Try the function on no rows; the columns that it adds."""
    given = empty.withColumn(REJECT_REASON, F.lit(None).cast("string"))
    try:
        returned = process(given)
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"process: {name} failed on an empty DataFrame: {type(error).__name__}: {_first_line(error)}"
        ) from error
    if not isinstance(returned, DataFrame):
        raise ConfigError(f"process: {name} returned {type(returned).__name__}, not a DataFrame")
    result = {field.name: field for field in returned.schema}
    for field in given.schema:
        if field.name not in result:
            raise ConfigError(
                f"process: {name} returned no column {field.name!r}; it has to return every column that it was given"
            )
        if result[field.name].dataType != field.dataType:
            raise ConfigError(
                f"process: {name} changed the type of {field.name!r} to {result[field.name].dataType.simpleString()}"
            )
    added = [field for field in returned.schema if field.name not in given.columns]
    taken = {column.lower() for column in given.columns}
    for field in added:
        if field.name.lower() in taken or is_reserved(field.name):
            raise ConfigError(
                f"process: {name} added the column {field.name!r}, which is reserved; give it another name"
            )
    return added


class Validation:
    """Applies rules and process to the open events, and afterwards says whether every row came through once."""

    def __init__(self, rules: Mapping[str, str], process: Process | None, name: str | None) -> None:
        self.rules = rules
        self.process = process
        self.name = name
        self._before: Observation | None = None
        self._after: Observation | None = None
        self._given: DataFrame | None = None
        self._returned: DataFrame | None = None

    def apply(self, events: DataFrame) -> DataFrame:
        """The events with `reject_reason`: the first rule in the file that holds, else what `process` says."""
        if self.process is None:
            return events.withColumn(REJECT_REASON, self.rule_reason())
        given = events.withColumn(_RULE_REASON, self.rule_reason())
        given = given.withColumn(INTERNAL, F.col(INTERNAL).withField("rule", F.col(_RULE_REASON))).drop(_RULE_REASON)
        given = given.withColumn(REJECT_REASON, F.lit(None).cast("string"))
        self._before, self._after = Observation(), Observation()
        self._given = given
        self._returned = self.process(given.observe(self._before, *_tally()))
        returned = self._returned.observe(self._after, *_tally())
        rule = F.col(f"{INTERNAL}.rule")
        return returned.withColumn(REJECT_REASON, F.coalesce(rule, F.col(REJECT_REASON)))

    def confirm(self, handed_on: int) -> None:
        """After the job, in which so many events were read: raise ProcessBroken if any was lost, doubled or altered."""
        if self._before is None or self._after is None:
            return
        if self._before.get == self._after.get and self._after.get["rows"] == handed_on:
            return
        assert self._given is not None
        assert self._returned is not None
        given, returned = self._given.select("position"), self._returned.select("position")
        missing = given.join(returned, "position", "left_anti").orderBy("position").head()
        if missing is not None:
            raise ProcessBroken(
                f"process {self.name} lost the record at {missing[0]}; it has to return every row that it was given"
            )
        doubled = returned.groupBy("position").count().filter("count > 1").orderBy("position").head()
        if doubled is not None:
            raise ProcessBroken(
                f"process {self.name} returned the record at {doubled[0]} {doubled[1]} times; it has to return it once"
            )
        altered = (
            self._given.select("position", _identity().alias("was"))
            .join(self._returned.select("position", _identity().alias("is")), "position")
            .filter("was <> is")
            .orderBy("position")
            .head()
        )
        if altered is not None:
            raise ProcessBroken(
                f"process {self.name} changed the id, fingerprint, time or payload of the record at {altered[0]}; "
                "it may change the schema's columns, add columns and set reject_reason"
            )
        log.info("process %s: a task ran twice and was counted twice; every row came through once", self.name)

    def rule_reason(self) -> Any:
        if not self.rules:
            return F.lit(None).cast("string")
        reason: Any = F
        for text, condition in self.rules.items():
            reason = reason.when(F.expr(condition), F.lit(text))
        return reason


def _tally() -> list[Any]:
    """Equal before and after only if the same identities came through, each as often."""
    identity = _identity()
    return [F.count(F.lit(1)).alias("rows"), F.sum(identity).alias("sum"), F.bit_xor(identity).alias("xor")]


def _identity() -> Any:
    return F.xxhash64(*OPEN_COLUMNS, F.col(f"{INTERNAL}.place"), F.col(f"{INTERNAL}.high"))


def _first_line(error: BaseException) -> str:
    message = str(error)
    if isinstance(error, PySparkException):
        message = error.getMessage() or message
    return " ".join(message.strip().splitlines()[0].split()) if message.strip() else type(error).__name__
