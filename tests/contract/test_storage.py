"""What every place for the books promises: names that are created once, whole, and found again."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from obstore.store import LocalStore, MemoryStore, S3Store

from semel.books.storage import LocalStorage, ObjectStorage, Storage
from semel.errors import StoreUnavailable

Maker = Callable[[Path], Storage]


def local(root: Path) -> Storage:
    return LocalStorage(root / "books")


def memory(root: Path) -> Storage:
    return ObjectStorage(MemoryStore(), "some/prefix/")


def memory_without_prefix(root: Path) -> Storage:
    return ObjectStorage(MemoryStore())


def object_files(root: Path) -> Storage:
    return ObjectStorage(LocalStore(root), "books")


MAKERS: list[Maker] = [local, memory, memory_without_prefix, object_files]


@pytest.fixture(params=MAKERS, ids=[maker.__name__ for maker in MAKERS])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    maker: Maker = request.param
    return maker(tmp_path)


CONTENTS = {
    "empty": b"",
    "text": b'{"a": 1}\n',
    "binary": bytes(range(256)) * 3,
    "large": b"\x00\xff" * 1_000_000,
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
def test_what_was_created_is_read_back_whole(storage: Storage, content: bytes) -> None:
    assert storage.create("commits/000000001.json", content) is True
    assert storage.read("commits/000000001.json") == content


def test_a_name_is_created_once(storage: Storage) -> None:
    assert storage.create("pipeline.json", b"first") is True
    assert storage.create("pipeline.json", b"second") is False
    assert storage.read("pipeline.json") == b"first"


def test_names_are_apart(storage: Storage) -> None:
    for name in ("a", "b", "f/a", "f/g/a"):
        assert storage.create(name, name.encode()) is True
    for name in ("a", "b", "f/a", "f/g/a"):
        assert storage.read(name) == name.encode()


@pytest.mark.parametrize("name", ["absent", "absent/absent", "folder/absent"])
def test_an_absent_name_is_none(storage: Storage, name: str) -> None:
    storage.create("folder/there.json", b"x")
    assert storage.read(name) is None


def test_names_are_sorted_and_only_the_direct_ones(storage: Storage) -> None:
    for name in ("f/b", "f/a.json", "f/10", "f/9", "f/é", "f/sub/x", "fa", "g/y", "top"):
        storage.create(name, b"x")
    assert storage.names("f") == ["10", "9", "a.json", "b", "é"]
    assert storage.names("f/sub") == ["x"]


@pytest.mark.parametrize("folder", ["absent", "absent/deeper", "file"])
def test_an_absent_folder_is_empty(storage: Storage, folder: str) -> None:
    storage.create("file", b"x")
    assert storage.names(folder) == []


def test_a_long_listing_is_whole(storage: Storage) -> None:
    count = 130 if isinstance(storage, LocalStorage) else 1300  # more than a page has on an object store
    names = [f"{number:09d}.json" for number in range(1, count)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: storage.create(f"commits/{name}", b"x"), names))
    assert storage.names("commits") == names


def test_deleting(storage: Storage) -> None:
    storage.create("checkpoints/a", b"x")
    storage.create("checkpoints/b", b"x")
    storage.delete("checkpoints/a")
    storage.delete("checkpoints/a")
    storage.delete("never/was")
    assert storage.read("checkpoints/a") is None
    assert storage.names("checkpoints") == ["b"]
    assert storage.create("checkpoints/a", b"again") is True
    assert storage.read("checkpoints/a") == b"again"


def test_of_racing_threads_one_creates(storage: Storage) -> None:
    writers = 8
    for trial in range(10):
        name = f"commits/{trial:09d}.json"
        barrier = threading.Barrier(writers)

        def create(number: int, name: str = name, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            return storage.create(name, b"%d" % number * 1000)

        with ThreadPoolExecutor(writers) as pool:
            won = list(pool.map(create, range(writers)))
        assert won.count(True) == 1
        assert storage.read(name) == b"%d" % won.index(True) * 1000


def test_a_reader_never_sees_a_part(storage: Storage) -> None:
    content = b"0123456789" * 50_000
    stop = threading.Event()
    parts: list[bytes] = []

    def read() -> None:
        while not stop.is_set():
            for number in range(20):
                found = storage.read(f"plans/{number}")
                if found is not None and found != content:
                    parts.append(found)
                for name in storage.names("plans"):
                    if storage.read(f"plans/{name}") != content:
                        parts.append(name.encode())

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(20):
        storage.create(f"plans/{number}", content)
    stop.set()
    for reader in readers:
        reader.join()
    assert parts == []


WRITER = """
import sys
from pathlib import Path
from obstore.store import LocalStore
from semel.books.storage import LocalStorage, ObjectStorage

kind, root, number = sys.argv[1:]
storage = LocalStorage(Path(root)) if kind == "local" else ObjectStorage(LocalStore(root))
print("ready", flush=True)
sys.stdin.readline()
print(*(name for name in range(50) if storage.create(f"commits/{name}", number.encode() * 5000)))
"""


@pytest.mark.parametrize("kind", ["local", "object files"])
def test_of_racing_processes_one_creates(tmp_path: Path, kind: str) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, kind, str(tmp_path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    won = [writer.communicate(timeout=60)[0].split() for writer in writers]
    assert sorted(int(name) for names in won for name in names) == list(range(50))
    storage = LocalStorage(tmp_path)
    for number, names in enumerate(won):
        for name in names:
            assert storage.read(f"commits/{name}") == b"%d" % number * 5000


# What only a folder has.


def test_folders_are_made(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "a/b")
    assert storage.create("c/d/e", b"x") is True
    assert (tmp_path / "a/b/c/d/e").read_bytes() == b"x"


def test_nothing_is_left_aside(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.create("f/a", b"x")
    storage.create("f/a", b"y")
    assert [path.name for path in (tmp_path / "f").iterdir()] == ["a"]


def test_what_a_dead_writer_left_is_not_a_name(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.create("f/a", b"x")
    (tmp_path / "f/.b.0123456789ab.tmp").write_bytes(b"half")
    assert storage.names("f") == ["a"]
    assert storage.create("f/b", b"whole") is True


@pytest.mark.parametrize("failing", ["os.fsync", "os.link", "sync_folder"])
def test_a_local_store_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """A full disk or a lost mount is no answer: the caller reads back, as after the last of these."""
    storage = LocalStorage(tmp_path)
    storage.create("f/before", b"x")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(f"semel.books.storage.{failing}", fail)
        with pytest.raises(StoreUnavailable, match="No space left on device"):
            storage.create("f/a", b"x")
    assert storage.read("f/a") == (b"x" if failing == "sync_folder" else None)


def test_an_object_store_that_does_not_answer_is_unavailable() -> None:
    store = S3Store(
        "bucket",
        endpoint="http://127.0.0.1:9",
        region="nowhere",
        access_key_id="none",
        secret_access_key="none",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    storage = ObjectStorage(store, "books")
    with pytest.raises(StoreUnavailable, match=r"pipeline\.json could not be read"):
        storage.read("pipeline.json")
    with pytest.raises(StoreUnavailable, match=r"pipeline\.json could not be written"):
        storage.create("pipeline.json", b"x")
    with pytest.raises(StoreUnavailable, match="commits could not be listed"):
        storage.names("commits")
    with pytest.raises(StoreUnavailable, match=r"pipeline\.json could not be deleted"):
        storage.delete("pipeline.json")
