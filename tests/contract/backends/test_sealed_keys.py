"""Encryption keys of memory stores: in a file or from a service, rotated and destroyed while the stores are in use."""

from __future__ import annotations

import base64
import json
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import retentive
from retentive import InvalidInput, MemoryStore
from retentive.errors import Locked, Unavailable
from retentive.storage.contract import Created
from retentive.storage.sealed.backend import SealedBackend
from retentive.storage.sealed.keys import KeyRing, add_key
from retentive.storage.sealed.rotation import OUTCOMES, destroy, rotate, status
from retentive.storage.sqlite.backend import SqliteBackend
from retentive.testing.backend_suite.sharing import together
from support import commands
from support.places import OpenPlace, place_of
from support.profiles import LONG

PATIENCE_S = 60.0
A = "/memories/a.md"


@pytest.fixture(params=["sqlite", pytest.param("directory", marks=pytest.mark.long)])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return place_of(str(request.param), tmp_path)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    add_key(tmp_path / "keys.json")
    return tmp_path / "keys.json"


def create(store: MemoryStore, path: str, text: str) -> None:
    commands.run(store, commands.create(path, text))


def at_rest(directory: Path) -> bytes:
    """Return the bytes of all files except the key files."""
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.suffix != ".json")


def rotated(opened: retentive.Retentive, **options: object) -> dict[str, int]:
    assert isinstance(opened.backend, SealedBackend)
    return rotate(opened.backend, **options)  # type: ignore[arg-type]


# -- keys ----------------------------------------------------------------------------------------------------


def test_an_encrypted_store_opens_only_with_its_keys(at: str, key_file: Path, open_place: OpenPlace) -> None:
    """The keys can be a path or a key ring. Without keys, or with other keys, opening the store is refused at once."""
    create(open_place(at, keys=key_file).store(), A, "text")
    for keys in (str(key_file), key_file, KeyRing.from_file(key_file), KeyRing.from_text(key_file.read_text())):
        assert open_place(at, keys=keys).store().read(A) == "text"
    with pytest.raises(Locked, match="open the location with keys"):
        open_place(at).store()
    with pytest.raises(Locked, match="not available"):
        open_place(at, keys=KeyRing.new()).store()
    ring = json.loads(key_file.read_text())
    ring["keys"][ring["current"]] = base64.b64encode(b"x" * 32).decode()
    with pytest.raises(Locked, match="is wrong"):
        open_place(at, keys=KeyRing.from_text(json.dumps(ring))).store()


def test_a_model_learns_only_that_the_store_is_locked(at: str, key_file: Path, open_place: OpenPlace) -> None:
    """Every reply says that the store is encrypted and its key is not available.

    The key was removed after the opening.
    """
    opened = open_place(at, keys=key_file)
    store = opened.store()
    create(store, A, "text")
    destroy(opened.backend, store.id)
    for command in (
        {"command": "view", "path": "/memories"},
        {"command": "view", "path": A},
        {"command": "create", "path": "/memories/b", "file_text": "x"},
        {"command": "delete", "path": A},
        {"command": "rename", "old_path": A, "new_path": "/memories/b"},
    ):
        reply = store.execute(command)
        assert reply.text == "Error: The memory store is encrypted and its key is not available"
        assert (reply.is_error, reply.code) == (True, "locked")


def test_a_plain_store_is_refused_with_keys(at: str, key_file: Path, open_place: OpenPlace) -> None:
    """Plain and encrypted stores may share a location, but keys do not open a plain store."""
    create(open_place(at).store(), A, "open")
    opened = open_place(at, keys=key_file)
    with pytest.raises(InvalidInput, match="not encrypted"):
        opened.store()
    create(opened.store("second"), A, "sealed")
    assert [store.seal is None for store in opened.stores()] == [True, False]
    assert open_place(at).store().read(A) == "open"


@pytest.mark.parametrize("keys", [object(), 7, b"keys", {"current": "a"}])
def test_an_invalid_key_file_is_refused(tmp_path: Path, keys: object) -> None:
    """The key file is refused before anything is created on disk."""
    with pytest.raises(InvalidInput):
        retentive.open(tmp_path / "memory", keys=keys)  # type: ignore[arg-type]
    with pytest.raises(retentive.NotFound):
        retentive.open(tmp_path / "memory", keys=tmp_path / "none.json")
    assert list(tmp_path.iterdir()) == []


def test_an_encrypted_backend_cannot_be_encrypted_again(key_file: Path) -> None:
    with closing(SealedBackend(SqliteBackend(None), KeyRing.from_file(key_file))) as backend:
        made = backend.create_store(key="k", name="k")
        with pytest.raises(InvalidInput):
            backend.create_store(key="other", name="other", seal="mine")
        with pytest.raises(InvalidInput):
            backend.write(made.id, lambda tx: tx.set_metadata(seal=None))
        change = Created(A, b"", sealing=lambda memory, version: pytest.fail("asked"))
        with pytest.raises(InvalidInput):
            backend.write(made.id, lambda tx: tx.record([change], None))


def test_concurrent_creations_of_a_store_agree_on_one_key(at: str, key_file: Path, open_place: OpenPlace) -> None:
    """All processes that create the store at the same time can read what the others write."""
    places = [open_place(at, keys=key_file) for _ in range(4)]
    together([lambda one=one: create(one.store(), f"/memories/{id(one)}", "x") for one in places])  # type: ignore[misc]
    assert [len(list(one.store().memories())) for one in places] == [4] * 4


# -- a key service -------------------------------------------------------------------------------------------


@dataclass
class Service:
    """A key service on another host."""

    current_id = "kms/1"
    ring: KeyRing = field(default_factory=KeyRing.new)
    asked: list[str] = field(default_factory=list)
    down: bool = False

    def wrap(self, data_key: bytes, context: bytes) -> tuple[str, bytes]:
        self._ask("wrap")
        return self.current_id, self.ring.wrap(data_key, context)[1]

    def unwrap(self, kek_id: str, wrapped: bytes, context: bytes) -> bytes:
        assert kek_id == self.current_id
        self._ask("unwrap")
        return self.ring.unwrap(self.ring.current_id, wrapped, context)

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.down:
            raise ConnectionError("kms://secret-host refused")


def test_a_failing_key_service_makes_the_store_unavailable(at: str, open_place: OpenPlace) -> None:
    """The store is unavailable until the service works again. No reply shows the error of the service."""
    service = Service()
    create(open_place(at, keys=service).store(), A, "text")
    service.down = True
    with pytest.raises(Unavailable) as failed:
        open_place(at, keys=service).store()
    assert "secret-host" not in str(failed.value)
    with pytest.raises(Unavailable):
        open_place(at, keys=service).store("new")
    service.down = False
    reopened = open_place(at, keys=service)
    assert reopened.store().read(A) == "text"
    create(reopened.store("new"), A, "made in the second try")


# -- rotation ------------------------------------------------------------------------------------------------

ROTATE = """
import sys
from retentive import open
from retentive.storage.sealed.keys import add_key
from retentive.storage.sealed.rotation import rotate
at, key_file, times = sys.argv[1:]
with open(at, keys=key_file) as opened:
    for _ in range(int(times)):
        add_key(key_file)
        done = rotate(opened.backend)
        assert (done["rewrapped"], done["locked"]) == (3, 0), done
"""


def test_rotation_during_writes_of_four_threads(at: str, key_file: Path, open_place: OpenPlace) -> None:
    """No command fails during the rotation, and afterwards the first key is not needed."""
    first = KeyRing.from_file(key_file).current_id
    opened = open_place(at, keys=key_file)
    stores = [opened.store(key) for key in ("one", "two", "three")]
    rotating = subprocess.Popen([sys.executable, "-c", ROTATE, at, str(key_file), "10" if LONG else "4"])
    written = [0] * 4

    def write(number: int) -> None:
        while rotating.poll() is None or written[number] < 20:
            create(stores[written[number] % 3], f"/memories/{number}/{written[number]}", str(number))
            written[number] += 1

    try:
        together([lambda number=number: write(number) for number in range(4)])  # type: ignore[misc]
    finally:
        rotating.kill()
        assert rotating.wait(PATIENCE_S) == 0
    ring = json.loads(key_file.read_text())
    del ring["keys"][first]
    again = open_place(at, keys=KeyRing.from_text(json.dumps(ring)))
    assert sum(len(list(again.store(key).memories())) for key in ("one", "two", "three")) == sum(written)
    assert all(found.current and found.readable for found in status(again.backend))


def counts(**counted: int) -> dict[str, int]:
    return dict.fromkeys(OUTCOMES, 0) | counted


def test_an_interrupted_rotation_resumes(at: str, key_file: Path, open_place: OpenPlace) -> None:
    opened = open_place(at, keys=key_file)
    for number in range(6):
        create(opened.store(str(number)), A, str(number))
    add_key(key_file)

    def stop(looked_at: int) -> None:
        if looked_at == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rotated(opened, progress=stop)
    assert [found.current for found in status(opened.backend)] == [True] * 4 + [False] * 2
    assert [opened.store(str(number)).read(A) for number in range(6)] == list("012345")
    assert rotated(opened) == counts(rewrapped=2, current=4)
    assert rotated(opened) == counts(current=6)


def test_a_rotation_skips_stores_it_cannot_open(at: str, key_file: Path, open_place: OpenPlace) -> None:
    open_place(at, keys=KeyRing.new()).store("locked")
    open_place(at).store("plain")
    opened = open_place(at, keys=key_file)
    opened.store("mine")
    destroy(opened.backend, opened.store("gone").id)
    add_key(key_file)
    done = rotated(opened)
    assert done == counts(rewrapped=1, locked=1, destroyed=1, unsealed=1)
    assert [(found.key, found.readable) for found in status(opened.backend)] == [
        ("locked", False),
        ("plain", False),
        ("mine", True),
        ("gone", False),
    ]
    with pytest.raises(InvalidInput):
        destroy(opened.backend, opened.stores()[1].id)


# -- destruction ---------------------------------------------------------------------------------------------


def test_a_store_destroyed_while_it_is_in_use(at: str, key_file: Path, open_place: OpenPlace) -> None:
    """A handle without keys destroys the store. Each command then succeeds or replies that the store is locked."""
    opened, other = open_place(at, keys=key_file), open_place(at)
    store, spared = opened.store(), opened.store("spared")
    create(spared, A, "spared")
    begun = threading.Barrier(4)

    def write(number: int) -> None:
        done = 0
        while True:
            path = f"/memories/{number}/{done}"
            reply = store.execute({"command": "create", "path": path, "file_text": "x"})
            if reply.is_error:
                assert reply.code == "locked"
                return
            done += 1
            if done == 5:
                begun.wait(PATIENCE_S)

    def end() -> None:
        begun.wait(PATIENCE_S)
        destroy(other.backend, store.id)

    together([lambda: write(0), lambda: write(1), lambda: write(2), end])
    with pytest.raises(Locked, match="destroyed at 20"):
        store.read("/memories/0/0")
    for one in (opened, open_place(at, keys=key_file)):
        with pytest.raises(Locked, match="destroyed at 20"):
            one.store()
    assert spared.read(A) == "spared"


def test_a_removed_wrapped_key_is_nowhere_on_disk(
    at: str, key_file: Path, tmp_path: Path, open_place: OpenPlace
) -> None:
    """After a rotation or a destruction, no file contains the key, neither in the log nor in free pages."""
    opened = open_place(at, keys=key_file)
    store = opened.store()
    create(store, A, "text")
    for step in ("rotate", "destroy"):
        info = opened.backend.get_store(store.id)
        assert info is not None
        assert info.seal is not None
        wrapped = json.loads(info.seal)["key"].encode()
        assert wrapped in at_rest(tmp_path)
        if step == "rotate":
            add_key(key_file)
            rotated(opened)
            assert store.read(A) == "text"
        else:
            destroy(opened.backend, store.id)
        assert wrapped not in at_rest(tmp_path)


def test_purging_waits_for_readers(tmp_path: Path, key_file: Path, open_place: OpenPlace) -> None:
    """The destruction waits for a reader of an old state, which would keep the destroyed key on disk."""
    opened = open_place(place_of("sqlite", tmp_path), keys=key_file)
    store = opened.store()
    create(store, A, "text")
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None, check_same_thread=False)) as reader:
        reader.execute("BEGIN")
        (seal,) = reader.execute("SELECT seal FROM stores").fetchone()
        wrapped = json.loads(seal)["key"].encode()
        ending = threading.Thread(target=lambda: destroy(opened.backend, store.id))
        ending.start()
        ending.join(0.3)
        assert ending.is_alive()
        reader.execute("COMMIT")
        ending.join(PATIENCE_S)
        assert not ending.is_alive()
        assert wrapped not in at_rest(tmp_path)
