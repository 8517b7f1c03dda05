"""Paths and URLs of a pipeline file: where things lie, and which kinds there are.

A password, or a query parameter that is named like a secret, is kept in `text` alone: `str()`, `repr()` and
error messages show `***` instead.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import unquote

# The words that are known but that this version cannot serve yet.
NOT_AVAILABLE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kind": ("kafka", "landed"),
        "format": ("snowplow",),
        "ledger": ("postgresql:", "redis:", "dynamodb:", "sqlite:"),
        "witness": ("lake:", "postgresql:", "redis:", "dynamodb:", "sqlite:"),
        "feeds": ("delta:", "iceberg:", "kafka:"),
        "location": ("s3:", "gs:", "az:", "hdfs:"),
    }
)
LEDGERS = ("lake:", "none")
WITNESSES = ("none",)
FEEDS = ("parquet:",)
LOCATIONS = ("a local path", "file:")

StoreSetting = Literal["ledger", "witness"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:)(.*)", re.DOTALL)
_USER_AND_PASSWORD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/{1,2}[^/?#:@\s]*:|[^/?#:@\s]+:(?!//)).*@", re.DOTALL)
_PARAMETER = re.compile(r"([?&;])([^=&;]*)=([^&]*)")
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|key|credential|^sig", re.IGNORECASE)
_LONGEST_SHOWN = 80
_PATTERN = re.compile(r"[*?\[\]{}]")


class NotAvailableError(ValueError):
    """A word that is known, but not to this version."""


def redact(text: str) -> str:
    """The text with its passwords hidden.

    >>> redact("postgresql://me:pw@db/x?sslpassword=s&timeout=5")
    'postgresql://me:***@db/x?sslpassword=***&timeout=5'
    """

    def parameter(match: re.Match[str]) -> str:
        before, name, _ = match.groups()
        return f"{before}{name}=***" if _SECRET_NAME.search(unquote(name)) else match[0]

    return _PARAMETER.sub(parameter, _USER_AND_PASSWORD.sub(r"\1***@", text))


def presentable(text: str) -> str:
    """The text, without secrets and not too long for an error message."""
    safe = redact(text)
    return safe if len(safe) <= _LONGEST_SHOWN else safe[: _LONGEST_SHOWN - 1] + "…"


def shown(text: str) -> str:
    return repr(presentable(text))


def nearest(word: str, allowed: Sequence[str]) -> str:
    """` (did you mean 'x'?)` with the most similar allowed word, or nothing."""
    close = difflib.get_close_matches(word.lower(), allowed, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def one_of(allowed: Sequence[str]) -> str:
    return f"use one of {', '.join(allowed)}" if len(allowed) > 1 else f"use {allowed[0]}"


def check_word(setting: str, word: str, available: Sequence[str], written: str | None = None) -> None:
    """Refuse a word that is not available, and say whether another version may know it.

    `written` is how the message shows a word of another version; `setting: word` unless given.
    """
    if word in available:
        return
    if word in NOT_AVAILABLE.get(setting, ()):
        written = f"{setting}: {word}" if written is None else written
        raise NotAvailableError(
            f"`{written}` is not available in this version of semel; available: {', '.join(available)}"
        )
    raise ValueError(f"{shown(word)} is not allowed; {one_of(available)}{nearest(word, available)}")


@dataclass(frozen=True, repr=False)
class _Written:
    text: str

    @property
    def redacted(self) -> str:
        return redact(self.text)

    def __str__(self) -> str:
        return self.redacted

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.redacted!r})"


@dataclass(frozen=True, repr=False)
class Location(_Written):
    """A path, or a URL of one; a relative one counts from the pipeline file's folder."""

    scheme: str
    path: str

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    def local(self, base: Path) -> Path:
        """Where it lies in the file system, for a pipeline file in the folder `base`."""
        if not self.is_local:
            raise ValueError(f"{self} is not in the local file system")
        return base / self.path


@dataclass(frozen=True, repr=False)
class StoreUrl(_Written):
    """A store of event keys: its kind, and where it lies if it is a folder."""

    kind: Literal["lake", "none"]
    location: Location | None


@dataclass(frozen=True, repr=False)
class FeedUrl(_Written):
    """A place that feeds are written to: the kind of table, and its folder."""

    kind: Literal["parquet"]
    location: Location


def parse_location(text: str, prefix: str) -> Location:
    """A place to read from; `prefix` is what stands before it in the file, for the error message."""
    match = _SCHEME.fullmatch(text)
    if match is None:
        return Location(text, "file", _checked_path(text))
    scheme, rest = match[1].lower(), match[2]
    if scheme in NOT_AVAILABLE["location"]:
        check_word("location", scheme, LOCATIONS, f"{prefix}{scheme}")
    if scheme != "file:":
        raise ValueError(f"{shown(scheme)} is not allowed; {one_of(LOCATIONS)}, and ./ before a name with a colon")
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost") or not slash:
            raise ValueError(f"{shown(text)} names a host; write file:///path or file:path")
        rest = "/" + path
    return Location(text, "file", _checked_path(unquote(rest, errors="strict")))


def parse_folder(text: str, prefix: str) -> Location:
    """A place to write to."""
    location = parse_location(text, prefix)
    if _PATTERN.search(location.path):
        raise ValueError(f"{shown(text)} must be one folder; *, ?, [, ], {{ and }} are not allowed in its name")
    return location


def parse_store(text: str, setting: StoreSetting) -> StoreUrl:
    if text == "none":
        return StoreUrl(text, "none", None)
    rest = _after_kind(text, setting, LEDGERS if setting == "ledger" else WITNESSES)
    return StoreUrl(text, "lake", parse_folder(rest, f"{setting}: lake:"))


def parse_feed(text: str) -> FeedUrl:
    rest = _after_kind(text, "feeds", FEEDS)
    return FeedUrl(text, "parquet", parse_folder(rest, "feeds: parquet:"))


def _checked_path(path: str) -> str:
    if not path.strip():
        raise ValueError("the path is empty")
    if "\0" in path:
        raise ValueError("a path cannot contain a NUL")
    if path.startswith("~"):
        raise ValueError(f"{shown(path)} starts with ~, which is not expanded; write ${{HOME}} instead")
    return path


def _after_kind(text: str, setting: str, available: Sequence[str]) -> str:
    match = _SCHEME.fullmatch(text)
    if match is None:
        kind = available[0]
        example = f" (did you mean {kind + presentable(text)!r}?)" if kind.endswith(":") else ""
        raise ValueError(f"{shown(text)} does not say of what kind it is; {one_of(available)}{example}")
    check_word(setting, match[1], available)
    return match[2]
