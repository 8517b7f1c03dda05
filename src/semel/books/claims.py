"""A folder belongs to one pipeline's books, and says so in `_semel.json`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from semel.books.records import FORMAT, Record, decode, encode
from semel.books.storage import LocalStorage
from semel.errors import ConfigError

CLAIM: Final = "_semel.json"


class Claim(Record, frozen=True, kw_only=True):
    books: str
    pipeline: str
    format: int = FORMAT


def claim_folder(folder: Path, books: str, pipeline: str, key: str) -> None:
    """Bind a folder to these books, if it is empty or bound to them already."""
    storage = LocalStorage(folder)
    content = storage.read(CLAIM)
    if content is None:
        check_unused(folder, key)
        storage.create(CLAIM, encode(Claim(books=books, pipeline=pipeline)))
        content = storage.read(CLAIM)
    claim = decode(Claim, content or b"", str(folder / CLAIM))
    if claim.books != books:
        raise _other_books(folder, claim, key)


def is_claimed(folder: Path) -> bool:
    return (folder / CLAIM).exists()


def check_unused(folder: Path, key: str) -> None:
    """Refuse a folder in which something lies, before new books are made for it."""
    content = LocalStorage(folder).read(CLAIM)
    if content is not None:
        raise _other_books(folder, decode(Claim, content, str(folder / CLAIM)), key)
    strangers = [] if not folder.is_dir() else [name for name in os.listdir(folder) if not name.startswith(".")]
    if strangers:
        raise ConfigError(
            f"{key}: {folder} is not empty ({sorted(strangers)[0]!r} is in it) and does not belong to these books; "
            f"give the pipeline an empty folder, or the books that filled it"
        )


def _other_books(folder: Path, claim: Claim, key: str) -> ConfigError:
    return ConfigError(
        f"{key}: {folder} belongs to other books (of pipeline {claim.pipeline!r}); "
        f"set `books` to those, or give this pipeline an empty folder"
    )
