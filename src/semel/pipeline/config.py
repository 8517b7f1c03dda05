"""The pipeline file: typed, strict, and refused with the key, the line and the allowed values."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails

from semel.errors import ConfigError
from semel.pipeline import values
from semel.pipeline.overlaps import Claim, contradictions, numbered
from semel.pipeline.urls import (
    FeedUrl,
    Location,
    NotAvailableError,
    StoreUrl,
    nearest,
    one_of,
    parse_location,
    shown,
)
from semel.pipeline.values import MisplacedError, pattern, word
from semel.pipeline.yaml_lines import KeyPath, Problem, Variables, read_document, read_text

Json: TypeAlias = "str | bool | list[Json] | dict[str, Json] | None"
Kind = Literal["files"]
Format = Literal["csv", "jsonl", "parquet"]
Unit = Literal["s", "ms", "us"]
Hash = Literal["md5", "sha1", "sha256", "sha512"]
Clock = Literal["event", "wall"]
Conflict = Literal["rename", "rename-all", "reject"]

_FUNCTION = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"


def _time(value: object) -> object:
    return value if isinstance(value, dict) else {"field": values.field_path(value)}


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FilesSource(_Settings):
    """Files that are read once each."""

    kind: Annotated[Kind, word("kind", Kind)] = Field(default="files", description="What is read.")
    path: Annotated[tuple[str, ...], values.SOURCE_PATHS] = Field(
        description="A file, folder or glob, or a list of them, relative to this file."
    )
    format: Annotated[Format, word("format", Format)] = Field(default="jsonl", description="How a file is read.")
    max_files: Annotated[int, values.COUNT] | None = Field(
        default=None, description="The most files that one run takes."
    )
    max_bytes: Annotated[int, values.SIZE] | None = Field(
        default=None, description="The most bytes that one run takes, such as 10GiB."
    )
    split: Annotated[int, values.SIZE] = Field(
        default="32MiB", validate_default=True, description="How much of a file one task reads."
    )
    delimiter: Annotated[str, values.CHARACTER] = Field(
        default=",", description="What separates the values of a csv line."
    )
    columns: Annotated[tuple[str, ...], values.NAMES] | None = Field(
        default=None, description="The names of the columns of csv files that have no header line."
    )

    @model_validator(mode="after")
    def _csv_only(self) -> FilesSource:
        for key in ("delimiter", "columns"):
            if self.format != "csv" and key in self.model_fields_set:
                raise MisplacedError(f"is for format csv only, but source.format is {self.format}", key)
        return self


class TimeConfig(_Settings):
    """The field with the time of an event, and its unit."""

    field: Annotated[str, values.FIELD] = Field(description="The field with the time of the event, or a dotted path.")
    unit: Annotated[Unit, word("unit", Unit)] | None = Field(
        default=None, description="The unit of a time that is a number since 1970; without it, ISO 8601 text."
    )


class FingerprintConfig(_Settings):
    """What makes two events with the same id the same event."""

    exclude: Annotated[tuple[str, ...], values.FIELDS] = Field(
        default=(), description="Fields that change in transit and do not count."
    )
    hash: Annotated[Hash, word("hash", Hash)] = Field(
        default="sha256", description="The hash function over the fields that count."
    )
    field: Annotated[str, values.FIELD] | None = Field(
        default=None, description="The field with a fingerprint that the producer computed."
    )

    @model_validator(mode="after")
    def _computed_or_given(self) -> FingerprintConfig:
        for key in ("exclude", "hash"):
            if self.field is not None and key in self.model_fields_set:
                raise MisplacedError("contradicts event.fingerprint.field; give one of them", key)
        return self


class EventConfig(_Settings):
    """Where an event has its id, its time and its fingerprint."""

    key: Annotated[str | tuple[str, ...], values.KEY] = Field(
        alias="id", description="The field with the id, or a dotted path, or a list of them: a composite key."
    )
    time_field: Annotated[TimeConfig, BeforeValidator(_time, json_schema_input_type=str | TimeConfig)] = Field(
        alias="time", description="The field with the time: ISO 8601 text, or a number with a unit."
    )
    time_unit: Annotated[Unit, word("unit", Unit)] | None = Field(
        alias="unit", default=None, description="The unit of a time that is a number since 1970."
    )
    fingerprint: FingerprintConfig = Field(
        default_factory=FingerprintConfig,
        description="What makes two events the same; every field unless given.",
    )
    schema_ddl: Annotated[str, values.DDL] | None = Field(
        alias="schema",
        default=None,
        description="Typed columns of the feeds, as in `user STRING, amount DOUBLE`.",
    )

    @property
    def id(self) -> tuple[str, ...]:
        return (self.key,) if isinstance(self.key, str) else self.key

    @property
    def composite(self) -> bool:
        return not isinstance(self.key, str)

    @property
    def time(self) -> str:
        return self.time_field.field

    @property
    def unit(self) -> Unit | None:
        return self.time_unit or self.time_field.unit

    @model_validator(mode="after")
    def _one_unit(self) -> EventConfig:
        if self.time_unit and self.time_field.unit:
            raise MisplacedError("contradicts event.time.unit; give one of them", "unit")
        return self


class PipelineConfig(_Settings):
    """A pipeline file of semel."""

    name: Annotated[str, pattern("[a-z0-9][a-z0-9-]*", "use a-z, 0-9 and -, and start with a-z or 0-9")] = Field(
        alias="pipeline", description="The name of the pipeline: a-z, 0-9 and -."
    )
    source: FilesSource = Field(description="What is read.")
    event: EventConfig = Field(description="Which fields of a record are its id, its time and its fingerprint.")
    horizon: Annotated[timedelta, values.POSITIVE_DURATION] = Field(
        default="30d", validate_default=True, description="How long the ledger remembers an event."
    )
    clock: Annotated[Clock, word("clock", Clock)] = Field(
        default="event", description="What the horizon is counted back from: the highest event time, or now."
    )
    max_ahead: Annotated[timedelta, values.DURATION] = Field(
        default="24h",
        validate_default=True,
        description="How far in the future an event may lie; later is bad.",
    )
    conflict: Annotated[Conflict, word("conflict", Conflict)] = Field(
        default="rename", description="What becomes of an event with a known id and another fingerprint."
    )
    reject: Annotated[dict[str, str], values.RULES] = Field(
        default_factory=dict, description="Reason: SQL condition over the columns of event.schema."
    )
    process: Annotated[str, pattern(_FUNCTION, "write module:function, as in shop.rules:enrich")] | None = Field(
        default=None, description="A function DataFrame -> DataFrame, as in shop.rules:enrich."
    )
    ledger: Annotated[StoreUrl, values.LEDGER] = Field(
        default="lake:books/ledger",
        validate_default=True,
        description="Where accepted ids are kept: lake:PATH or none.",
    )
    witness: Annotated[StoreUrl | None, values.WITNESS] | None = Field(
        default=None, description="A second ledger of another kind; none is available in this version."
    )
    feeds: Annotated[tuple[FeedUrl, ...], values.FEEDS] = Field(
        default="parquet:out/",
        validate_default=True,
        description="Where the feeds go: parquet:PATH, or a list.",
    )
    books: Annotated[Location, values.BOOKS] = Field(
        default="books/",
        validate_default=True,
        description="The folder of plans, commits and the run history.",
    )
    _base: Path = PrivateAttr()
    _origin: str = PrivateAttr()
    _variables: Variables = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        self._base, self._origin, self._variables = context

    @property
    def base(self) -> Path:
        """The folder of the pipeline file, which relative paths count from."""
        return self._base

    @property
    def origin(self) -> str:
        """The pipeline file, as it was named."""
        return self._origin

    def hidden(self, text: str) -> str:
        """A text for people to read, without the values of environment variables that the file has used."""
        return self._variables.hidden(text)

    def pinned(self) -> dict[str, Json]:
        """The settings that may not change on books that exist."""
        csv = self.source.format == "csv"
        columns = self.source.columns
        fingerprint = self.event.fingerprint
        return {
            "id": [*self.event.id],
            "composite": self.event.composite,
            "time": self.event.time,
            "unit": self.event.unit,
            "format": self.source.format,
            "delimiter": self.source.delimiter if csv else None,
            "columns": None if columns is None else [*columns],
            "fingerprint": {
                "exclude": [*sorted(fingerprint.exclude)],
                "hash": fingerprint.hash,
                "field": fingerprint.field,
            },
            "conflict": self.conflict,
            "clock": self.clock,
        }


def load_config(
    path: str | os.PathLike[str], overrides: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> PipelineConfig:
    """The pipeline file at `path`, with `key=value` overrides; whatever is wrong is a ConfigError."""
    return parse_config(read_text(path), Path(path).absolute().parent, os.fspath(path), overrides, environ)


def parse_config(
    text: str,
    base: Path,
    origin: str = "<text>",
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> PipelineConfig:
    """The pipeline file with this text, whose relative paths count from `base`."""
    variables = Variables(os.environ if environ is None else environ)
    try:
        return _parse(text, base, origin, overrides, variables)
    except ConfigError as error:
        raise ConfigError(variables.hidden(error.message)) from None


def _parse(text: str, base: Path, origin: str, overrides: Sequence[str], variables: Variables) -> PipelineConfig:
    document = read_document(text, origin, overrides, variables)
    ledger_in_books = _keep_ledger_in_books(document.root)
    try:
        config = PipelineConfig.model_validate(document.root, context=(base.absolute(), origin, variables))
    except ValidationError as error:
        problems = _problems(error.errors(include_url=False))
        if ledger_in_books:
            problems = [problem for problem in problems if problem.path[:1] != ("ledger",)] or problems
        raise document.error(problems) from None
    problems = list(_contradictions(config))
    if problems:
        raise document.error(problems)
    return config


def _keep_ledger_in_books(root: Any) -> bool:
    """Unless it is given, the ledger lies in the books, wherever those are."""
    if not isinstance(root, dict) or "ledger" in root or not isinstance(root.get("books"), str) or not root["books"]:
        return False
    root["ledger"] = f"lake:{root['books'].rstrip('/')}/ledger"
    return True


def config_json_schema() -> dict[str, Any]:
    """The JSON Schema of the pipeline file, for editors."""
    schema = PipelineConfig.model_json_schema(schema_generator=_SchemaWithoutFieldTitles)
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "semel pipeline"}


class _SchemaWithoutFieldTitles(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _problems(details: Sequence[ErrorDetails]) -> list[Problem]:
    if any(isinstance(_cause(detail), NotAvailableError) and detail["loc"][0] == "source" for detail in details):
        # Which keys a source of another version has is not known here.
        details = [detail for detail in details if detail["type"] not in ("missing", "extra_forbidden")]
    return [_problem(detail) for detail in details]


def _cause(detail: ErrorDetails) -> object:
    return detail.get("ctx", {}).get("error")


def _problem(detail: ErrorDetails) -> Problem:
    path: KeyPath = detail["loc"]
    match detail["type"]:
        case "missing":
            return Problem(path, "is missing")
        case "extra_forbidden":
            keys = _keys(path[:-1])
            return Problem(path, f"unknown key; {one_of(keys)}{nearest(str(path[-1]), keys)}")
        case "model_type":
            return Problem(path, f"must be a mapping with the keys {', '.join(_keys(path))}")
        case "value_error":
            cause = _cause(detail)
            return Problem((*path, *cause.path) if isinstance(cause, MisplacedError) else path, str(cause))
        case _:
            return Problem(path, detail["msg"])


def _keys(path: KeyPath) -> list[str]:
    model: Any = PipelineConfig
    for part in path:
        model = next(field.annotation for name, field in model.model_fields.items() if (field.alias or name) == part)
    return [field.alias or name for name, field in model.model_fields.items()]


def _contradictions(config: PipelineConfig) -> Iterator[Problem]:
    def claim(key: KeyPath, location: Location, text: str) -> Claim:
        return Claim(key, text, location.local(config.base))

    source, event, ledger = config.source, config.event, config.ledger
    yield from contradictions(
        [claim(key, parse_location(path, ""), path) for key, path in numbered(("source", "path"), source.path)],
        claim(("books",), config.books, config.books.text),
        claim(("ledger",), ledger.location, ledger.text) if ledger.location else None,
        [claim(key, feed.location, feed.text) for key, feed in numbered(("feeds",), config.feeds)],
    )
    if source.columns is not None:
        named = [*numbered(("event", "id"), event.id), (("event", "time"), event.time)]
        for key, field in named:
            if field not in source.columns and field.split(".")[0] not in source.columns:
                yield Problem(key, f"{shown(field)} is not in source.columns{nearest(field, source.columns)}")
