"""Small named objects, created once: what the books need of a place to be kept in."""

from __future__ import annotations

import errno
import os
import secrets
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError, StoreUnavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore as ObstoreStore


class Storage(ABC):
    """A flat space of names with slashes in them.

    What every implementation promises, also between processes and machines:

    - `create` is atomic: of any number of racing writers exactly one gets True, and a reader sees either nothing or
      the whole content, never a part. When it returns, the content survives a power failure.
    - A create whose outcome is unknown (the answer was lost) raises StoreUnavailable; the caller reads back. It may
      also return False to the very writer that won, if an answer was lost and the request repeated underneath:
      False means "there is something", not "somebody else wrote it".
    - `read` after a successful `create` finds it; None means that the name does not exist, never that it could not
      be reached.
    """

    @abstractmethod
    def read(self, name: str) -> bytes | None: ...

    @abstractmethod
    def create(self, name: str, content: bytes) -> bool: ...

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The names directly in `folder`, without the folder, sorted; an absent folder is empty."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a name; an absent one is no error."""

    @abstractmethod
    def sync(self, folder: str) -> None:
        """Make sure that what was found in `folder` survives a power failure, whoever created it."""


class LocalStorage(Storage):
    """A folder on a file system with hard links: written aside, synced, then linked into place."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StoreUnavailable(f"{self.root / name} could not be read: {error.strerror}; mend that") from error

    def create(self, name: str, content: bytes) -> bool:
        target = self.root / name
        try:
            return self._create(target, content)
        except OSError as error:
            raise StoreUnavailable(
                f"{target} could not be written: {error.strerror}; mend that and run again"
            ) from error

    def _create(self, target: Path, content: bytes) -> bool:
        make_folder(target.parent)
        aside = target.parent / f".{target.name}.{secrets.token_hex(6)}.tmp"
        try:
            with aside.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(aside, target)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP):
                    raise
                raise ConfigError(
                    f"{target.parent} is on a file system without hard links, which semel needs to create a file once; "
                    "keep it on another one"
                ) from None
        finally:
            aside.unlink(missing_ok=True)
        sync_folder(target.parent)
        return True

    def names(self, folder: str) -> list[str]:
        try:
            with os.scandir(self.root / folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_file() and not entry.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreUnavailable(f"{self.root / folder} could not be listed: {error.strerror}; mend that") from error

    def delete(self, name: str) -> None:
        try:
            (self.root / name).unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"{self.root / name} could not be deleted: {error.strerror}; mend that") from error

    def sync(self, folder: str) -> None:
        if (self.root / folder).is_dir():
            sync_folder(self.root / folder)


class ObjectStorage(Storage):
    """A prefix on an object store, through obstore."""

    def __init__(self, store: ObstoreStore, prefix: str = "") -> None:
        self.store = store
        self.prefix = prefix.strip("/")

    def read(self, name: str) -> bytes | None:
        import obstore
        from obstore.exceptions import BaseError, NotFoundError

        try:
            return bytes(obstore.get(self.store, self._key(name)).bytes())
        except (FileNotFoundError, NotFoundError):
            return None
        except (BaseError, OSError) as error:
            raise StoreUnavailable(f"{name} could not be read from {self.store}: {error}") from error

    def create(self, name: str, content: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            obstore.put(self.store, self._key(name), content, mode="create")
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise StoreUnavailable(f"{name} could not be written to {self.store}: {error}") from error
        return True

    def names(self, folder: str) -> list[str]:
        import obstore
        from obstore.exceptions import BaseError

        prefix = self._key(folder)
        try:
            found: list[Any] = list(obstore.list_with_delimiter(self.store, prefix)["objects"])
        except (BaseError, OSError) as error:
            raise StoreUnavailable(f"{folder} could not be listed on {self.store}: {error}") from error
        return sorted(meta["path"].rsplit("/", 1)[-1] for meta in found)

    def delete(self, name: str) -> None:
        import obstore
        from obstore.exceptions import BaseError, NotFoundError

        try:
            obstore.delete(self.store, self._key(name))
        except (FileNotFoundError, NotFoundError):
            pass
        except (BaseError, OSError) as error:
            raise StoreUnavailable(f"{name} could not be deleted on {self.store}: {error}") from error

    def sync(self, folder: str) -> None:
        """An object store has what it shows."""

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name


def make_folder(folder: Path) -> None:
    """Create a folder and its parents so that they survive a power failure."""
    missing = []
    probe = folder
    while not probe.is_dir():
        missing.append(probe)
        probe = probe.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def sync_file(path: Path) -> None:
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
