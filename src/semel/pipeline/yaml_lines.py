"""A YAML mapping as plain values, each with the place it was written at: a line of the file, or a `--set`.

YAML guesses types: `no` is a boolean, `1:30` a number, `2024-01-01` a date. Such a value stays a `Scalar`
with the text as written, so that who wants text can refuse it by name and who wants a number can read it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml

from semel.errors import ConfigError
from semel.pipeline.urls import presentable, shown

KeyPath: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = int | str  # a line of the file, or the key of a --set

_TAG = "tag:yaml.org,2002:"
_SCALAR_KINDS = {
    "bool": "true or false",
    "int": "a number",
    "float": "a number",
    "timestamp": "a date",
    "value": "a word that YAML reserves",
    "merge": "a word that YAML reserves",
}
_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


_SHORTEST_SECRET = 3


@dataclass(frozen=True)
class Scalar:
    """A value that YAML reads as something else than text."""

    text: str
    kind: str

    def __str__(self) -> str:
        return self.text


Value: TypeAlias = "str | Scalar | list[Value] | dict[str, Value] | None"


@dataclass(frozen=True)
class Problem:
    path: KeyPath
    message: str


@dataclass(frozen=True)
class Document:
    """A pipeline file after overrides and environment variables, and where each value of it comes from."""

    origin: str
    root: dict[str, Value]
    places: Mapping[KeyPath, Place]

    def error(self, problems: Iterable[Problem]) -> ConfigError:
        """One error for all problems, a line each, in the order of the file."""
        ordered = sorted(problems, key=lambda problem: self._rank(problem.path))
        return ConfigError("\n".join(f"{self._where(problem.path)}: {problem.message}" for problem in ordered))

    def _where(self, path: KeyPath) -> str:
        # A list may be written as its only item.
        while path not in self.places and path and isinstance(path[-1], int):
            path = path[:-1]
        name = dotted(path)
        place = self._place(path)
        parts = [f"{self.origin}:{place}" if isinstance(place, int) else f"--set {place}"]
        if name and name != place:
            parts.append(name)
        return ": ".join(parts)

    def _place(self, path: KeyPath) -> Place:
        while path not in self.places:
            path = path[:-1]
        return self.places[path]

    def _rank(self, path: KeyPath) -> tuple[bool, int]:
        place = self._place(path)
        return (False, place) if isinstance(place, int) else (True, 0)


class Variables(dict[str, str]):
    """The environment variables that a pipeline file has used."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__()
        self._environ = environ

    def __contains__(self, name: object) -> bool:
        return name in self._environ

    def __missing__(self, name: str) -> str:
        self[name] = self._environ.get(name, "")
        return self[name]

    def hidden(self, text: str) -> str:
        """A text for people to read, with names in place of the values: any of them may be a secret."""
        for name, value in sorted(self.items(), key=lambda item: -len(item[1])):
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, f"${{{name}}}")
        return text


def as_written(value: object) -> str:
    """What was written for a single value, whatever YAML takes it for; a ValueError if it is not one."""
    if isinstance(value, str | Scalar):
        return str(value)
    if value is None:
        raise ValueError("has no value")
    raise ValueError(f"must be a single value, not a {'list' if isinstance(value, list) else 'mapping'}")


def as_text(value: object) -> str:
    """The value as text; a ValueError if YAML takes it for something else, or if there is nothing in it."""
    text = as_written(value)
    if isinstance(value, Scalar):
        raise ValueError(f"{presentable(text)} is read as {value.kind}, not as text; put it in quotes")
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def dotted(path: KeyPath) -> str:
    """The path as people write it.

    >>> dotted(("source", "path", 1))
    'source.path[1]'
    """
    name = ""
    for part in path:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            name += ("." if name else "") + (part if part.isprintable() else repr(part))
    return name


def read_text(path: str | os.PathLike[str]) -> str:
    """What is in the file; a ConfigError if it is not there or is not text."""
    origin = os.fspath(path)
    try:
        content = Path(path).read_bytes()
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{origin}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{origin}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{origin}:{line}: is not UTF-8 text") from None


def read_document(text: str, origin: str, overrides: Sequence[str], environ: Variables) -> Document:
    """The mapping in `text`, each `key=value` of `overrides` set in it, then each `${NAME}` replaced."""
    try:
        node = _compose(text)
        if node is None:
            raise _UnreadableError("is empty; it needs at least `pipeline`, `source` and `event`", 1)
        places: dict[KeyPath, Place] = {}
        root = _plain(node, (), places)
        if not isinstance(root, dict):
            raise _UnreadableError("is not a mapping; write `key: value` lines, as in `pipeline: clicks`", places[()])
    except _UnreadableError as error:
        raise ConfigError(f"{origin}:{error.line}: {error}") from None
    for setting in overrides:
        _override(root, places, setting)
    problems: list[Problem] = []
    expanded = {key: _expand(value, (key,), environ, problems) for key, value in root.items()}
    document = Document(origin, expanded, places)
    if problems:
        raise document.error(problems)
    return document


class _UnreadableError(ValueError):
    def __init__(self, message: str, line: Place) -> None:
        super().__init__(message)
        self.line = line


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _UnreadableError(f"the alias *{event.anchor} is not allowed; write the value out", _line(event))
        return super().compose_node(parent, index)


def _compose(text: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
        return node
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _UnreadableError(f"is not valid YAML: {error.problem}", line) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _UnreadableError(
            f"is not valid YAML: the character U+{int(error.character):04X} is not allowed", line
        ) from None
    except RecursionError:
        raise _UnreadableError("is nested too deeply", 1) from None


def _line(node: yaml.Node | yaml.Event) -> int:
    return node.start_mark.line + 1 if node.start_mark else 1


def _plain(node: yaml.Node, path: KeyPath, places: dict[KeyPath, Place]) -> Value:
    places.setdefault(path, _line(node))
    tag = node.tag.removeprefix(_TAG)
    if isinstance(node, yaml.ScalarNode):
        if tag == "str":
            return str(node.value)
        if tag == "null":
            return None
        if tag in _SCALAR_KINDS:
            return Scalar(node.value, _SCALAR_KINDS[tag])
    elif isinstance(node, yaml.SequenceNode) and tag == "seq":
        return [_plain(item, (*path, index), places) for index, item in enumerate(node.value)]
    elif isinstance(node, yaml.MappingNode) and tag == "map":
        return _plain_mapping(node, path, places)
    raise _UnreadableError(f"{_label(path)}the tag {node.tag} is not allowed", _line(node))


def _plain_mapping(node: yaml.MappingNode, path: KeyPath, places: dict[KeyPath, Place]) -> dict[str, Value]:
    mapping: dict[str, Value] = {}
    for key_node, value_node in node.value:
        line = _line(key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            raise _UnreadableError(f"{_label(path)}a key must be text, not a list or a mapping", line)
        key = str(key_node.value)
        if key_node.tag != f"{_TAG}str":
            kind = _SCALAR_KINDS.get(key_node.tag.removeprefix(_TAG), "something else")
            raise _UnreadableError(
                f"{_label(path)}the key {shown(key)} is read as {kind}, not as text; put it in quotes", line
            )
        here = (*path, key)
        if key in mapping:
            raise _UnreadableError(f"{_label(here)}this key is given twice, first on line {places[here]}", line)
        places[here] = line
        mapping[key] = _plain(value_node, here, places)
    return mapping


def _label(path: KeyPath) -> str:
    return f"{dotted(path)}: " if path else ""


def _override(root: dict[str, Value], places: dict[KeyPath, Place], setting: str) -> None:
    key, equals, text = setting.partition("=")
    key = key.strip()
    path = tuple(key.split("."))
    if not equals or not all(path):
        raise ConfigError(f"--set {presentable(setting)}: write it as key=value, as in --set source.format=csv")
    parent = root
    for depth, part in enumerate(path[:-1], start=1):
        child = parent.get(part)
        if child is None:
            child = parent[part] = {}
            places[path[:depth]] = key
        if not isinstance(child, dict):
            raise ConfigError(f"--set {key}: {dotted(path[:depth])} is not a mapping; set it as a whole")
        parent = child
    own_places: dict[KeyPath, Place] = {}
    try:
        node = _compose(text)
        value = None if node is None else _plain(node, path, own_places)
    except _UnreadableError as error:
        raise ConfigError(f"--set {key}: {error}; put text with special characters in quotes") from None
    parent[path[-1]] = value
    for stale in [place for place in places if place[: len(path)] == path]:
        del places[stale]
    places.update(dict.fromkeys([path, *own_places], key))


def _expand(value: Value, path: KeyPath, environ: Variables, problems: list[Problem]) -> Value:
    if isinstance(value, list):
        return [_expand(item, (*path, index), environ, problems) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: _expand(item, (*path, key), environ, problems) for key, item in value.items()}
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        name, closed = match.groups()
        if name is None:
            return "${"
        if not closed or not _VARIABLE_NAME.fullmatch(name):
            message = f"{shown(match[0])} is not a variable; write ${{NAME}}, or $${{ for a literal ${{"
            problems.append(Problem(path, message))
        elif name not in environ:
            problems.append(Problem(path, f"the environment variable {name} is not set"))
        return environ[name]

    text = _VARIABLE.sub(replacement, value)
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        problems.append(Problem(path, "the value contains a NUL or half a character"))
    return text
