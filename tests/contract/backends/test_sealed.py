"""Encrypted memory stores: keys and texts."""

from __future__ import annotations

import base64
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import retentive
from retentive import InvalidInput
from retentive.errors import Damaged, Locked
from retentive.storage.contract import Created
from retentive.storage.sealed.backend import SealedBackend
from retentive.storage.sealed.keys import KeyRing, add_key
from retentive.storage.sealed.rotation import destroy
from retentive.storage.sqlite.backend import SqliteBackend
from support.places import OpenPlace, place_of

from .sealing import LASTING, A, create, sealed


@pytest.fixture(params=LASTING)
def at(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return place_of(str(request.param), tmp_path)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    add_key(tmp_path / "keys.json")
    return tmp_path / "keys.json"


# -- encryption keys -----------------------------------------------------------------------------------------


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
    destroy(sealed(opened), store.id)
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


def test_a_missing_library_is_reported_with_the_package_to_install(tmp_path: Path) -> None:
    code = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "cryptography":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
import retentive
with retentive.open({str(tmp_path / "m")!r}) as opened:
    opened.store()
try:
    retentive.open({str(tmp_path / "m")!r}, keys="keys.json")
except retentive.InvalidInput as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'cryptography>=45'" in done.stdout


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


# -- texts -----------------------------------------------------------------------------------------


def test_damage_is_reported_with_its_path(tmp_path: Path, key_file: Path, open_place: OpenPlace) -> None:
    """The other memories can still be read."""
    opened = open_place(place_of("sqlite", tmp_path), keys=key_file)
    store = opened.store()
    create(store, A, "one")
    create(store, "/memories/b", "two")
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection, connection:
        connection.execute("UPDATE versions SET text = zeroblob(60) WHERE seq = 1")
    reply = store.execute({"command": "view", "path": A})
    assert reply.text == f"Error: The memory {A} is damaged"
    with pytest.raises(Damaged):
        store.read(A)
    assert store.read("/memories/b") == "two"
