"""The pipeline file: what it gives, and each way of getting it wrong, with the key, the line and the hint."""

from __future__ import annotations

import contextlib
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.pipeline.config import PipelineConfig, config_json_schema, load_config, parse_config
from semel.pipeline.overlaps import reaches, relation
from semel.pipeline.urls import StoreUrl, parse_location, redact

SMALL = """\
pipeline: clicks
source:
  path: in/
event:
  id: event_id
  time: event_time
"""

FULL = """\
pipeline: clicks
source:
  kind: files
  path: in/
  format: jsonl
event:
  id: event_id
  time: event_time
  fingerprint:
    exclude: [sent_at]
    hash: sha256
  schema: "user STRING, amount DOUBLE"
horizon: 30d
clock: event
max_ahead: 24h
conflict: rename
reject:
  negative amount: amount < 0
process: shop.rules:enrich
ledger: lake:books/ledger
feeds: parquet:out/
books: books/
"""

BASE = Path("/data/clicks")


def parse(text: str, *overrides: str, **environ: str) -> PipelineConfig:
    return parse_config(text, BASE, "clicks.yaml", overrides, environ)


def refusal(text: str, *overrides: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, *overrides, **environ)
    return str(caught.value)


def with_source(line: str) -> str:
    return SMALL.replace("  path: in/\n", f"  path: in/\n  {line}\n")


def with_path(path: str) -> str:
    return SMALL.replace("path: in/", f"path: {path}")


def with_event(line: str) -> str:
    return f"{SMALL}  {line}\n"


def with_top(line: str) -> str:
    return f"{SMALL}{line}\n"


def test_a_small_file_has_every_default() -> None:
    config = parse(SMALL)
    assert (config.name, config.base, config.origin) == ("clicks", BASE, "clicks.yaml")
    assert (config.source.kind, config.source.path, config.source.format) == ("files", ("in/",), "jsonl")
    assert (config.source.max_files, config.source.max_bytes, config.source.split) == (None, None, 32 * 2**20)
    assert (config.source.delimiter, config.source.columns) == (",", None)
    assert (config.event.id, config.event.composite) == (("event_id",), False)
    assert (config.event.time, config.event.unit, config.event.schema_ddl) == ("event_time", None, None)
    fingerprint = config.event.fingerprint
    assert (fingerprint.exclude, fingerprint.hash, fingerprint.field) == ((), "sha256", None)
    assert (config.horizon, config.max_ahead) == (timedelta(days=30), timedelta(hours=24))
    assert (config.clock, config.conflict, config.reject, config.process) == ("event", "rename", {}, None)
    assert config.ledger.kind == "lake"
    assert config.ledger.location is not None
    assert config.ledger.location.local(config.base) == BASE / "books/ledger"
    assert config.witness is None
    assert [(feed.kind, feed.location.local(config.base)) for feed in config.feeds] == [("parquet", BASE / "out")]
    assert config.books.local(config.base) == BASE / "books"


def test_a_full_file_is_read() -> None:
    config = parse(FULL)
    assert config.event.fingerprint.exclude == ("sent_at",)
    assert config.event.schema_ddl == "user STRING, amount DOUBLE"
    assert config.reject == {"negative amount": "amount < 0"}
    assert config.process == "shop.rules:enrich"


def test_a_source_may_be_limited_and_be_csv_without_header() -> None:
    config = parse(
        SMALL,
        "source.path=[b/, a/*.csv]",
        "source.format=csv",
        'source.delimiter="\\t"',
        "source.columns=[event_id, event_time, user]",
        "source.max_files=10",
        "source.max_bytes=1GiB",
        "source.split=1B",
    )
    assert config.source.path == ("b/", "a/*.csv")
    assert (config.source.delimiter, config.source.columns) == ("\t", ("event_id", "event_time", "user"))
    assert (config.source.max_files, config.source.max_bytes, config.source.split) == (10, 2**30, 1)


@pytest.mark.parametrize(
    ("written", "fields", "composite"),
    [
        ("a.b", ("a.b",), False),
        ("[a, b.c]", ("a", "b.c"), True),
        ("[a]", ("a",), True),
        ('"no"', ("no",), False),
    ],
)
def test_an_id_is_a_field_or_a_composite_key(written: str, fields: tuple[str, ...], composite: bool) -> None:
    event = parse(SMALL.replace("id: event_id", f"id: {written}")).event
    assert (event.id, event.composite) == (fields, composite)


@pytest.mark.parametrize("written", ["time: at\n  unit: ms", "time: {field: at, unit: ms}"])
def test_a_time_has_its_unit_beside_it_or_in_it(written: str) -> None:
    event = parse(SMALL.replace("time: event_time", written)).event
    assert (event.time, event.unit) == ("at", "ms")


def test_settings_do_not_change_and_pickle() -> None:
    config = parse(FULL)
    with pytest.raises(ValueError, match="frozen"):
        config.horizon = timedelta(0)
    copy = pickle.loads(pickle.dumps(config))
    assert (copy, copy.base) == (config, config.base)


def test_what_is_pinned_leaves_out_what_may_change() -> None:
    text = FULL.replace("[sent_at]", "[sent_at, etl_at]")
    pinned = parse(text).pinned()
    assert pinned == {
        "id": ["event_id"],
        "composite": False,
        "time": "event_time",
        "unit": None,
        "format": "jsonl",
        "delimiter": None,
        "columns": None,
        "fingerprint": {"exclude": ["etl_at", "sent_at"], "hash": "sha256", "field": None},
        "conflict": "rename",
        "clock": "event",
    }
    assert parse(text, "horizon=7d", "max_ahead=0", "reject={}", "feeds=parquet:other").pinned() == pinned
    assert parse(text, "event.id=[event_id]").pinned() != pinned
    assert parse(text, "source.format=csv", "source.delimiter=;").pinned()["delimiter"] == ";"


WRONG = {
    "empty": ("", "clicks.yaml:1: is empty"),
    "only a comment": ("# nothing\n", "clicks.yaml:1: is empty"),
    "a list": ("- a\n", "clicks.yaml:1: is not a mapping"),
    "a word": ("clicks\n", "clicks.yaml:1: is not a mapping"),
    "not YAML": ("pipeline: clicks\nsource: [a\n", "clicks.yaml:3: is not valid YAML"),
    "a tab": ("source:\n\tpath: in/\n", "clicks.yaml:2: is not valid YAML: found character '\\t'"),
    "a control character": (
        "pipeline: a\nsource: \x07\n",
        "clicks.yaml:2: is not valid YAML: the character U+0007",
    ),
    "two documents": (SMALL + "---\na: b\n", "clicks.yaml:7: is not valid YAML"),
    "deep": ("[" * 5000, "clicks.yaml:1: is nested too deeply"),
    "an alias": ("a: &x b\nc: *x\n", "clicks.yaml:2: the alias *x is not allowed"),
    "an endless alias": ("a: &x [*x]\n", "clicks.yaml:1: the alias *x is not allowed"),
    "a tag": ("a: !foo b\n", "clicks.yaml:1: a: the tag !foo is not allowed"),
    "a merge key": ("<<: {a: b}\n", "clicks.yaml:1: the key '<<' is read as a word that YAML reserves"),
    "a key that is a list": ("? [a]\n: b\n", "clicks.yaml:1: a key must be text"),
    "a key twice": (
        with_source("path: other/"),
        "clicks.yaml:4: source.path: this key is given twice, first on line 3",
    ),
    "a key that is a boolean": (
        with_top("reject:\n  no: amount < 0"),
        "clicks.yaml:8: reject: the key 'no' is read as true or false, not as text; put it in quotes",
    ),
    "a key that is a number": (
        with_top("reject: {12: a < 0}"),
        "clicks.yaml:7: reject: the key '12' is read as a number",
    ),
    "a key that is a date": (
        with_top("reject: {2024-01-01: a < 0}"),
        "the key '2024-01-01' is read as a date",
    ),
    "an unknown key": (
        with_top("horizn: 3d"),
        "clicks.yaml:7: horizn: unknown key; use one of pipeline, source, event, horizon, clock, max_ahead,"
        " conflict, reject, process, ledger, witness, feeds, books (did you mean 'horizon'?)",
    ),
    "an unknown key below": (
        with_source("formt: csv"),
        "clicks.yaml:4: source.formt: unknown key; use one of kind, path, format, max_files, max_bytes,"
        " split, delimiter, columns (did you mean 'format'?)",
    ),
    "an unknown key of the fingerprint": (
        with_event("fingerprint: {exlude: [a]}"),
        "clicks.yaml:7: event.fingerprint.exlude: unknown key;"
        " use one of exclude, hash, field (did you mean 'exclude'?)",
    ),
    "an unknown key of the time": (
        SMALL.replace("time: event_time", "time: {field: a, unt: s}"),
        "clicks.yaml:6: event.time.unt: unknown key; use one of field, unit (did you mean 'unit'?)",
    ),
    "an attribute's name": (with_top("name: x"), "clicks.yaml:7: name: unknown key"),
    "an inner name": (with_event("key: x"), "clicks.yaml:7: event.key: unknown key"),
    "no name": (SMALL.replace("pipeline: clicks\n", ""), "clicks.yaml:1: pipeline: is missing"),
    "no path": (SMALL.replace("path: in/", "format: csv"), "clicks.yaml:2: source.path: is missing"),
    "no event": ("pipeline: a\nsource: {path: in/}\n", "clicks.yaml:1: event: is missing"),
    "no time": (SMALL.replace("  time: event_time\n", ""), "clicks.yaml:4: event.time: is missing"),
    "a source that is text": (
        SMALL.replace("source:\n  path: in/", "source: in/"),
        "clicks.yaml:2: source: must be a mapping with the keys kind, path,",
    ),
    "an event that is nothing": (
        "pipeline: a\nsource: {path: in/}\nevent:\n",
        "clicks.yaml:3: event: must be a mapping with the keys id, time,",
    ),
    "a wrong name": (
        SMALL.replace("clicks", "Clicks 1"),
        "clicks.yaml:1: pipeline: 'Clicks 1' is not allowed; use a-z, 0-9 and -",
    ),
    "a name that is a number": (
        SMALL.replace("clicks", "2024"),
        "clicks.yaml:1: pipeline: 2024 is read as a number",
    ),
    "a wrong format": (
        with_source("format: jsonll"),
        "clicks.yaml:4: source.format: 'jsonll' is not allowed; use one of csv, jsonl, parquet (did you mean 'jsonl'?)",
    ),
    "a format in capitals": (with_source("format: CSV"), "(did you mean 'csv'?)"),
    "an empty format": (
        with_source("format:"),
        "source.format: has no value; use one of csv, jsonl, parquet",
    ),
    "a list as format": (with_source("format: [csv]"), "must be a single value, not a list; use one of csv"),
    "a boolean as a word": (
        with_top("clock: on"),
        "clicks.yaml:7: clock: 'on' is not allowed; use one of event, wall",
    ),
    "a wrong kind": (with_source("kind: file"), "'file' is not allowed; use files (did you mean 'files'?)"),
    "a kind to come": (
        SMALL.replace("path: in/", "kind: kafka\n  bootstrap: b:1\n  topic: t"),
        "clicks.yaml:3: source.kind: `kind: kafka` is not available in this version of semel; available: files",
    ),
    "landed": (with_source("kind: landed"), "`kind: landed` is not available in this version of semel"),
    "snowplow": (
        "pipeline: a\nsource: {path: in/, format: snowplow}\n",
        "clicks.yaml:2: source.format: `format: snowplow` is not available in this version of semel;",
    ),
    "a remote source": (
        with_path("[a, 's3://b/c']"),
        "clicks.yaml:3: source.path[1]: `path: s3:` is not available",
    ),
    "no source path": (with_path("[]"), "clicks.yaml:3: source.path: must be a list with at least one entry"),
    "a number as path": (with_path("[a, 2024]"), "clicks.yaml:3: source.path[1]: 2024 is read as a number"),
    "an empty path": (with_path("''"), "clicks.yaml:3: source.path: must not be empty"),
    "a path twice": (with_path("[a, b, a]"), "source.path[2]: 'a' is given twice"),
    "a path twice, in other words": (
        with_path("[in, ./in/]"),
        "source.path[1]: './in/' is the same place as source.path[0] ('in')",
    ),
    "an unknown scheme": (
        with_path("ftp://a/b"),
        "source.path: 'ftp:' is not allowed; use one of a local path, file:",
    ),
    "a file on a host": (with_path("file://other/b"), "'file://other/b' names a host; write file:///path"),
    "a home folder": (
        with_path("~/in"),
        "source.path: '~/in' starts with ~, which is not expanded; write ${HOME}",
    ),
    "no files at all": (
        with_source("max_files: 0"),
        "source.max_files: '0' is not allowed; write a whole number from 1",
    ),
    "half a file": (with_source("max_files: 1.5"), "source.max_files: '1.5' is not allowed"),
    "a size without unit": (
        with_source("max_bytes: 100"),
        "source.max_bytes: '100' has no unit; write a whole number",
    ),
    "no size": (with_source("split: 0"), "clicks.yaml:4: source.split: must be more than 0"),
    "a delimiter without csv": (
        with_source("delimiter: ;"),
        "clicks.yaml:4: source.delimiter: is for format csv only, but source.format is jsonl",
    ),
    "columns without csv": (with_source("columns: [a]"), "source.columns: is for format csv only"),
    "a long delimiter": (with_source("delimiter: ';;'"), "';;' is not allowed; write one character"),
    "columns without the id": (
        with_source("format: csv\n  columns: [eventid, event_time]"),
        "clicks.yaml:7: event.id: 'event_id' is not in source.columns (did you mean 'eventid'?)",
    ),
    "no id": (
        SMALL.replace("id: event_id", "id: []"),
        "clicks.yaml:5: event.id: must be a list with at least one",
    ),
    "a boolean as id": (
        SMALL.replace("id: event_id", "id: no"),
        "clicks.yaml:5: event.id: no is read as true or false, not as text; put it in quotes",
    ),
    "an id twice": (
        SMALL.replace("id: event_id", "id:\n  - a\n  - a"),
        "clicks.yaml:7: event.id[1]: 'a' is given twice",
    ),
    "a broken dotted path": (SMALL.replace("id: event_id", "id: a..b"), "event.id: 'a..b' is not a field"),
    "a number as time": (
        SMALL.replace("event_time", "12:30"),
        "clicks.yaml:6: event.time: 12:30 is read as a number",
    ),
    "a list as time": (
        SMALL.replace("event_time", "[a]"),
        "clicks.yaml:6: event.time: must be a single value, not a list",
    ),
    "a wrong unit": (
        with_event("unit: sec"),
        "clicks.yaml:7: event.unit: 'sec' is not allowed; use one of s, ms, us",
    ),
    "two units": (
        SMALL.replace("time: event_time", "time: {field: a, unit: s}\n  unit: ms"),
        "clicks.yaml:7: event.unit: contradicts event.time.unit",
    ),
    "a given and a computed fingerprint": (
        with_event("fingerprint:\n    field: fp\n    exclude: [a]"),
        "clicks.yaml:9: event.fingerprint.exclude: contradicts event.fingerprint.field",
    ),
    "a given fingerprint with a hash": (
        with_event("fingerprint: {field: fp, hash: md5}"),
        "event.fingerprint.hash: contradicts event.fingerprint.field",
    ),
    "a wrong hash": (with_event("fingerprint: {hash: sha265}"), "(did you mean 'sha256'?)"),
    "text as exclude": (with_event("fingerprint: {exclude: a}"), "event.fingerprint.exclude: must be a list"),
    "a wrong schema": (with_event("schema: user STRNG"), "clicks.yaml:7: event.schema: unknown type 'STRNG'"),
    "a bare number as horizon": (
        with_top("horizon: 30"),
        "clicks.yaml:7: horizon: '30' has no unit; write a whole number and one of ms, s, m, h, d, w,",
    ),
    "no horizon": (with_top("horizon: 0"), "clicks.yaml:7: horizon: must be more than 0"),
    "a horizon of nothing": (with_top("horizon:"), "clicks.yaml:7: horizon: has no value"),
    "an endless horizon": (
        with_top("horizon: 40000d"),
        "horizon: '40000d' is too long; write at most 36500d",
    ),
    "a negative max_ahead": (with_top("max_ahead: -1h"), "clicks.yaml:7: max_ahead: '-1h' is negative"),
    "a wrong conflict": (with_top("conflict: renameall"), "(did you mean 'rename-all'?)"),
    "rules as a list": (with_top("reject: [a < 0]"), "clicks.yaml:7: reject: must be a mapping from reason"),
    "a condition that is a boolean": (
        with_top("reject:\n  always: true"),
        "clicks.yaml:8: reject.always: true is read as true or false, not as text",
    ),
    "no condition": (with_top("reject:\n  never:"), "clicks.yaml:8: reject.never: has no value"),
    "no reason": (with_top("reject: {' ': a < 0}"), "clicks.yaml:7: reject: a reason must not be empty"),
    "a wrong function": (
        with_top("process: shop.enrich"),
        "process: 'shop.enrich' is not allowed; write module:function",
    ),
    "a ledger to come": (
        with_top("ledger: postgresql://me:hush@db/x"),
        "clicks.yaml:7: ledger: `ledger: postgresql:` is not available in this version of semel;"
        " available: lake:, none",
    ),
    "a remote ledger": (with_top("ledger: lake:s3://b/l"), "ledger: `ledger: lake:s3:` is not available"),
    "a ledger without kind": (with_top("ledger: l/"), "use one of lake:, none (did you mean 'lake:l/'?)"),
    "a ledger without path": (with_top("ledger: 'lake:'"), "clicks.yaml:7: ledger: the path is empty"),
    "a witness": (
        with_top("witness: sqlite:w.db"),
        "`witness: sqlite:` is not available in this version of semel",
    ),
    "a feed to come": (
        with_top("feeds:\n  - parquet:out/\n  - delta:lake/"),
        "clicks.yaml:9: feeds[1]: `feeds: delta:` is not available in this version of semel;",
    ),
    "a kafka feed": (with_top("feeds: kafka://h:1/p"), "`feeds: kafka:` is not available"),
    "a feed without kind": (
        with_top("feeds: out/"),
        "feeds: 'out/' does not say of what kind it is; use parquet:",
    ),
    "a misspelt feed": (
        with_top("feeds: parqet:out/"),
        "'parqet:' is not allowed; use parquet: (did you mean 'parquet:'?)",
    ),
    "a feed that is a pattern": (with_top("feeds: parquet:out/*"), "feeds: 'out/*' must be one folder"),
    "remote books": (with_top("books: gs://b/books"), "clicks.yaml:7: books: `books: gs:` is not available"),
    "the same feed twice": (
        with_top("feeds: [parquet:out, parquet:./out/]"),
        "clicks.yaml:7: feeds[1]: 'parquet:./out/' is the same place as feeds[0] ('parquet:out')",
    ),
    "a feed inside the books": (
        with_top("feeds: parquet:books/out"),
        "clicks.yaml:7: feeds: 'parquet:books/out' lies inside books ('books/'); choose separate folders",
    ),
    "books inside a feed": (
        with_top("books: out/books"),
        "feeds: 'parquet:out/' contains books ('out/books')",
    ),
    "a ledger inside a feed": (
        with_top("ledger: lake:out/l"),
        "feeds: 'parquet:out/' contains ledger ('lake:out/l')",
    ),
    "a ledger over the books": (
        with_top("ledger: lake:books"),
        "ledger: 'lake:books' is the same place as books",
    ),
    "the feed as source": (
        with_path("out/events"),
        "clicks.yaml:3: source.path: 'out/events' would also read what is written to feeds ('parquet:out/')",
    ),
    "the books as source": (
        with_path("books"),
        "source.path: 'books' would also read what is written to books",
    ),
    "the whole folder as source": (
        with_path("."),
        "source.path: '.' would also read what is written to books",
    ),
    "a glob over everything": (with_path("'**/*.jsonl'"), "source.path: '**/*.jsonl' would also read"),
    "a NUL": (with_path('"a\\0b"'), "clicks.yaml:3: source.path: the value contains a NUL"),
    "half a character": (
        with_path('"a\\ud800"'),
        "clicks.yaml:3: source.path: the value contains a NUL or half a",
    ),
    "no variable": (
        with_path("${NOWHERE}/in"),
        "clicks.yaml:3: source.path: the environment variable NOWHERE is not set",
    ),
    "an open variable": (
        with_path('"${IN"'),
        "clicks.yaml:3: source.path: '${IN' is not a variable; write ${NAME}",
    ),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_file_is_refused_with_key_line_and_hint(text: str, expected: str) -> None:
    message = refusal(text)
    assert expected in message.splitlines()[0]
    assert len(message.splitlines()) == 1 or not text.startswith("pipeline: clicks")


def test_all_problems_are_reported_in_the_order_of_the_file() -> None:
    message = refusal(with_top("horizon: 3\nclok: wall\nbooks: 12"), "conflict=never", "source.format=xml")
    assert [line.rsplit(": ", 1)[0].partition(": '")[0] for line in message.splitlines()] == [
        "clicks.yaml:7: horizon",
        "clicks.yaml:8: clok",
        "clicks.yaml:9: books",
        "--set source.format",
        "--set conflict",
    ]


def test_a_path_that_only_looks_near_is_allowed() -> None:
    parse(with_path("[in/, outer/, 'day-*/*.jsonl', '*.jsonl', out.jsonl]"))
    parse(SMALL, "feeds=[parquet:out/a, parquet:out/b]", "ledger=none", "books=file:state/books")


def test_overrides_replace_add_and_take_lists() -> None:
    config = parse(FULL, "source.format=csv", "feeds=[parquet:a, parquet:b]", "reject.too much=amount >= 5", "process=")
    assert config.source.format == "csv"
    assert [feed.text for feed in config.feeds] == ["parquet:a", "parquet:b"]
    assert config.reject == {"negative amount": "amount < 0", "too much": "amount >= 5"}
    assert config.process is None
    assert parse("source: {path: in/}\n", "pipeline=a", "event.id=i", "event.time=t").event.id == ("i",)
    assert parse(SMALL, "horizon=1d", "horizon=2d").horizon == timedelta(days=2)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (
            "source.format=jsonll",
            "--set source.format: 'jsonll' is not allowed; use one of csv, jsonl, parquet",
        ),
        ("source.formt=csv", "--set source.formt: unknown key; use one of kind, path,"),
        ("sorce.format=csv", "--set sorce.format: sorce: unknown key; use one of pipeline, source,"),
        ("source={path: in/, formt: csv}", "--set source: source.formt: unknown key"),
        ("source.path=[a, 1]", "--set source.path: source.path[1]: 1 is read as a number"),
        ("source.path.x=a", "--set source.path.x: source.path is not a mapping; set it as a whole"),
        ("horizon=", "--set horizon: has no value"),
        ("source.delimiter=,", "--set source.delimiter: is not valid YAML"),
        ("feeds=[", "put text with special characters in quotes"),
        ("books=${NOWHERE}", "--set books: the environment variable NOWHERE is not set"),
        ("horizon", "--set horizon: write it as key=value, as in --set source.format=csv"),
        ("=5", "--set =5: write it as key=value"),
        ("source..path=5", "--set source..path=5: write it as key=value"),
    ],
)
def test_a_wrong_override_is_refused_by_its_key(setting: str, expected: str) -> None:
    assert expected in refusal(SMALL, setting).splitlines()[0]


def test_variables_are_replaced_before_anything_is_checked() -> None:
    text = with_top("horizon: ${DAYS}d\nbooks: ${ROOT}/${NAME}_books\nreject: {r: \"a = '$${x}'\"}")
    config = parse(text, "source.max_files=${FILES}", DAYS="7", ROOT="/srv", NAME="a", FILES="3")
    assert config.horizon == timedelta(days=7)
    assert config.books.local(config.base) == Path("/srv/a_books")
    assert config.reject == {"r": "a = '${x}'"}
    assert config.source.max_files == 3
    assert "horizon: 'xd' cannot be read" in refusal(text, DAYS="x", ROOT="/srv", NAME="a")


def test_a_variable_in_a_value_that_is_overridden_need_not_be_set() -> None:
    assert parse(with_top("books: ${NOWHERE}"), "books=b").books.text == "b"


def test_variables_come_from_the_environment_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMEL_TEST_BOOKS", "b")
    assert parse_config(with_top("books: ${SEMEL_TEST_BOOKS}"), BASE).books.text == "b"


@pytest.mark.parametrize(
    ("written", "local"),
    [
        ("in/x", BASE / "in/x"),
        ("/srv/x", Path("/srv/x")),
        ("file:in/x", BASE / "in/x"),
        ("file:/srv/x", Path("/srv/x")),
        ("file:///srv/a%20b", Path("/srv/a b")),
        ("file://localhost/srv/x", Path("/srv/x")),
        ("./a:b", BASE / "a:b"),
        ("a b%20c", BASE / "a b%20c"),
    ],
)
def test_a_location_is_relative_to_the_file(written: str, local: Path) -> None:
    location = parse_location(written, "")
    assert (location.text, location.is_local, location.scheme) == (written, True, "file")
    assert location.local(BASE) == local


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("postgresql://me:hush@db:1/x", "postgresql://me:***@db:1/x"),
        ("postgresql://me:hu/s@hush@db/x", "postgresql://me:***@db/x"),
        ("postgresql://me@db/x?timeout=5", "postgresql://me@db/x?timeout=5"),
        ("redis://:hush@h/0", "redis://:***@h/0"),
        (
            "dynamodb://t?region=r&secret_access_key=hush&Token=hush",
            "dynamodb://t?region=r&secret_access_key=***&Token=***",
        ),
        ("lake:x?p%61ssword=hush#hush", "lake:x?p%61ssword=***"),
        ("me:hush@db", "me:***@db"),
    ],
)
def test_secrets_are_hidden(secret: str, shown: str) -> None:
    assert redact(secret) == shown
    for key in (
        "ledger",
        "witness",
        "feeds",
        "books",
        "horizon",
        "source.path",
        "source.format",
        "source.split",
    ):
        with pytest.raises(ConfigError) as caught:
            parse(SMALL, f"{key}=${{SECRET}}", SECRET=secret)
        assert "hush" not in repr(caught.value)
        assert "hush" not in str(caught.value)
        assert caught.value.__suppress_context__
    assert str(StoreUrl(secret, "lake", None)) == shown
    assert repr(StoreUrl(secret, "lake", None)) == f"StoreUrl({shown!r})"


def test_two_folders_are_compared_where_links_lead(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert relation(tmp_path / "link", tmp_path / "real") == "is the same place as"
    assert relation(tmp_path / "link/a", tmp_path / "real") == "lies inside"
    assert relation(tmp_path / "real", tmp_path / "link/a") == "contains"
    assert relation(tmp_path / "real", tmp_path / "realm") is None


@pytest.mark.parametrize(
    ("source", "reached"),
    [
        ("/a/out", True),
        ("/a/out/events", True),
        ("/a", True),
        ("/a/*", True),
        ("/a/o*/x.jsonl", True),
        ("/a/**", True),
        ("/a/out/*.parquet", True),
        ("/a/in", False),
        ("/a/out.jsonl", False),
        ("/a/*.jsonl", False),
        ("/a/in/**", False),
        ("/b/*", False),
    ],
)
def test_a_source_reaches_a_folder_by_path_or_glob(source: str, reached: bool) -> None:
    assert reaches(Path(source), Path("/a/out")) is reached


def test_a_file_is_loaded_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clicks.yaml").write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    monkeypatch.chdir(tmp_path)
    config = load_config("clicks.yaml", ["horizon=2d"])
    assert (config.base, config.origin, config.horizon) == (tmp_path, "clicks.yaml", timedelta(days=2))
    assert load_config(tmp_path / "clicks.yaml").base == tmp_path


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: there is no such file"):
        load_config(tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"pipeline: a\nsource: \xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml:2: is not UTF-8 text"):
        load_config(tmp_path / "latin.yaml")


@given(st.text(max_size=60), st.text(max_size=30))
def test_no_text_gives_another_error(text: str, value: str) -> None:
    for content, overrides in ((text, []), (SMALL, [value]), (SMALL, [f"source.path={value}"])):
        with contextlib.suppress(ConfigError):
            parse(content, *overrides)


def test_configuration_is_read_without_spark_and_arrow() -> None:
    code = "import semel.pipeline.config, sys; print({'pyspark', 'pyarrow', 'pandas'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def mismatches(value: Any, schema: dict[str, Any], root: dict[str, Any], path: str = "") -> Iterator[str]:
    """A small part of JSON Schema: what the schema of the pipeline file uses."""
    if "$ref" in schema:
        yield from mismatches(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, path)
    if "anyOf" in schema and all(any(mismatches(value, each, root)) for each in schema["anyOf"]):
        yield f"{path}: fits none of {schema['anyOf']}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: not one of {schema['enum']}"
    kinds = {"string": str, "integer": int, "array": list, "object": dict, "null": type(None)}
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        yield f"{path}: not a {schema['type']}"
    elif isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{path}: does not match {schema['pattern']}"
    elif isinstance(value, dict) and schema.get("type") == "object":
        yield from (f"{path}.{key}: is missing" for key in schema.get("required", []) if key not in value)
        for key, item in value.items():
            each = schema.get("properties", {}).get(key, schema["additionalProperties"])
            yield from mismatches(item, each, root, f"{path}.{key}") if each else (f"{path}.{key}: unknown",)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from mismatches(item, schema["items"], root, f"{path}[{index}]")


@pytest.mark.parametrize(
    "text",
    [
        SMALL,
        FULL,
        with_top("horizon: ${DAYS}d\nclock: ${CLOCK}\nmax_ahead: 0\nwitness: none"),
        with_path("[a, b]").replace("time: event_time", "time: {field: a, unit: us}"),
        with_source("max_files: 5\n  split: 64MiB\n  format: csv\n  delimiter: ';'"),
        with_top("feeds: [parquet:a, parquet:b]\nledger: none"),
    ],
)
def test_the_json_schema_accepts_what_is_accepted(text: str) -> None:
    schema = config_json_schema()
    assert list(mismatches(yaml.safe_load(text), schema, schema)) == []
    parse(text, DAYS="3", CLOCK="wall")


@pytest.mark.parametrize(
    "case",
    [
        "an unknown key",
        "an unknown key below",
        "an unknown key of the time",
        "no time",
        "a wrong format",
        "a wrong name",
        "a bare number as horizon",
        "a size without unit",
        "half a file",
        "a wrong function",
        "a feed to come",
        "a ledger to come",
        "a list as time",
        "rules as a list",
    ],
)
def test_the_json_schema_refuses_what_is_refused(case: str) -> None:
    schema = config_json_schema()
    value = yaml.safe_load(WRONG[case][0])
    assert list(mismatches(value, schema, schema)) != []


def test_the_json_schema_describes_every_key() -> None:
    schema = config_json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"] == ["pipeline", "source", "event"]
    for part in (schema, *schema["$defs"].values()):
        assert part["additionalProperties"] is False
        for key, described in part["properties"].items():
            assert described.get("description"), key
    assert schema["properties"]["horizon"]["default"] == "30d"
