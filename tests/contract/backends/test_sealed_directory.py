"""An encrypted store in plain files: the files contain ciphertext, and an external change is damage, not an edit."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.errors import Refused
from retentive.storage import capabilities
from retentive.storage.contract import Created
from retentive.storage.sealed.codec import TEXT_HEADER
from retentive.storage.sealed.keys import KeyRing
from support.places import OpenPlace

KEYS = KeyRing.new()
TEXTS = {"a.txt": "first", "d/b.txt": "second", "d/e/c.txt": "third"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "memory"


@pytest.fixture
def root(place: Path) -> Path:
    return place / "memories"


@pytest.fixture
def store_in(place: Path, open_place: OpenPlace) -> MemoryStore:
    """Create a store with three memories."""
    store: MemoryStore = open_place(place, keys=KEYS).store()
    for name, text in TEXTS.items():
        run(store, {"command": "create", "path": f"/memories/{name}", "file_text": text})
    return store


def run(store: MemoryStore, command: dict[str, object]) -> None:
    reply = store.execute(command)
    assert not reply.is_error, reply


def on_disk(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def aside(place: Path) -> list[bytes]:
    """Return the contents of the quarantined files."""
    kept = place / ".retentive" / "quarantine"
    return sorted(path.read_bytes() for path in kept.rglob("*") if path.is_file()) if kept.exists() else []


def instead_of_directory(root: Path) -> None:
    shutil.rmtree(root / "d")
    (root / "d").write_text("by hand")


def instead_of_file(root: Path) -> None:
    (root / "a.txt").unlink()
    (root / "a.txt").mkdir()
    (root / "a.txt" / "inner").write_text("by hand")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def swap(root: Path) -> None:
    first, second = (root / "d/b.txt").read_bytes(), (root / "d/e/c.txt").read_bytes()
    (root / "d/b.txt").write_bytes(second)
    (root / "d/e/c.txt").write_bytes(first)


DAMAGES: dict[str, tuple[Callable[[Path], object], set[str], int]] = {
    "plain text": (lambda root: (root / "a.txt").write_text("by hand"), {"a.txt"}, 1),
    "as long as before": (
        lambda root: (root / "a.txt").write_bytes(b"x" * (root / "a.txt").stat().st_size),
        {"a.txt"},
        1,
    ),
    "the text itself": (lambda root: (root / "a.txt").write_text("first"), {"a.txt"}, 1),
    "emptied": (lambda root: (root / "a.txt").write_text(""), {"a.txt"}, 1),
    "cut": (lambda root: cut(root / "a.txt"), {"a.txt"}, 1),
    "a byte changed": (lambda root: flip(root / "d/b.txt"), {"d/b.txt"}, 1),
    "removed": (lambda root: (root / "a.txt").unlink(), {"a.txt"}, 0),
    "all removed": (shutil.rmtree, set(TEXTS), 0),
    "swapped": (swap, {"d/b.txt", "d/e/c.txt"}, 2),
    "renamed": (lambda root: (root / "a.txt").rename(root / "z.txt"), {"a.txt"}, 0),
    "a file instead of a directory": (instead_of_directory, {"d/b.txt", "d/e/c.txt"}, 1),
    "a directory instead of a file": (instead_of_file, {"a.txt"}, 1),
}
FIRST: dict[str, list[dict[str, object]]] = {
    "a view of all": [{"command": "view", "path": "/memories"}],
    "each text": [{"command": "view", "path": f"/memories/{name}"} for name in TEXTS],
    "an edit of each": [
        {"command": "insert", "path": f"/memories/{name}", "insert_line": 0, "insert_text": "new"} for name in TEXTS
    ],
    "a deletion": [{"command": "delete", "path": "/memories/a.txt"}],
    "a rename": [{"command": "rename", "old_path": "/memories/d", "new_path": "/memories/f"}],
}


def test_the_files_hold_ciphertext(place: Path, root: Path, store_in: MemoryStore) -> None:
    """The files have the names of their memories or, with encrypted paths, encrypted names."""
    assert set(on_disk(root)) == set(TEXTS)
    assert all(data.startswith(TEXT_HEADER) for data in on_disk(root).values())
    with retentive.open(place, keys=KEYS, seal_paths=True) as opened:
        run(opened.store("hidden"), {"command": "create", "path": "/memories/d/secret", "file_text": "x"})
    (name,) = on_disk(place / "stores" / "hidden" / "memories")
    assert [len(part) for part in name.split("/")] == [26, 26]


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_quarantined_and_restored(
    damage: str, first: str, place: Path, store_in: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The command uses the last valid text and records no version for the damage. The log names only the memory."""
    do, names, kept = DAMAGES[damage]
    root = place / "memories"
    do(root)
    altered = set(on_disk(root).values())
    before = len(list(store_in.versions()))
    with caplog.at_level(logging.WARNING, "retentive"):
        for command in FIRST[first]:
            run(store_in, command)
        run(store_in, {"command": "view", "path": "/memories"})
    made = len(list(store_in.versions())) - before
    assert made == {"an edit of each": 3, "a deletion": 1, "a rename": 2}.get(first, 0)
    wanted = expected(first)
    assert {
        memory.path.removeprefix("/memories/"): store_in.read(memory.path) for memory in store_in.memories()
    } == wanted
    assert set(on_disk(root)) - {"z.txt"} == set(wanted)
    assert len(aside(place)) == capabilities.quarantined(store_in._core.backend) <= kept
    assert set(aside(place)) <= altered
    told = {record.getMessage().rpartition("/memories/")[2] for record in caplog.records}
    assert told <= names
    if first in {"a view of all", "each text"}:
        assert (told, len(aside(place))) == (names, kept)
    assert str(place) not in caplog.text


def expected(first: str) -> dict[str, str]:
    if first == "an edit of each":
        return {name: f"new\n{text}\n" for name, text in TEXTS.items()}
    if first == "a deletion":
        return {name: text for name, text in TEXTS.items() if name != "a.txt"}
    if first == "a rename":
        return {name.replace("d/", "f/"): text for name, text in TEXTS.items()}
    return dict(TEXTS)


def test_foreign_files_are_not_memories(place: Path, root: Path, store_in: MemoryStore) -> None:
    """Foreign files are ignored and kept. A memory cannot be created at the path of a foreign file."""
    (root / "planted.txt").write_text("obey me")
    (root / "d" / "planted").write_bytes((root / "a.txt").read_bytes())
    (root / "link").symlink_to(root / "a.txt")
    assert "planted" not in store_in.execute({"command": "view", "path": "/memories"}).text
    assert [memory.path.removeprefix("/memories/") for memory in store_in.memories()] == list(TEXTS)
    for name in ("planted.txt", "d/planted", "link", "planted.txt/below"):
        path = f"/memories/{name}"
        for command in ({"command": "create", "path": path, "file_text": "x"}, {"command": "view", "path": path}):
            assert store_in.execute(command).code == "path_taken"
    assert (root / "planted.txt").read_text() == "obey me"
    assert aside(place) == []
    run(store_in, {"command": "delete", "path": "/memories/d"})
    assert set(on_disk(root)) == {"a.txt", "link", "planted.txt", "d/planted"}


def test_damage_is_detected_after_reopening(place: Path, root: Path, store_in: MemoryStore) -> None:
    """Damage is detected although the location was opened without keys in between.

    The recorded hash is of the ciphertext.
    """
    good = on_disk(root)
    store_in._core.backend.close()
    (root / "a.txt").write_text("by hand")
    (root / "d/b.txt").unlink()
    with retentive.open(place) as bare:
        assert bare.stores()[0].memories == 3
    with retentive.open(place, keys=KEYS) as opened:
        assert {name: opened.store().read(f"/memories/{name}") for name in TEXTS} == TEXTS
        assert capabilities.quarantined(opened.backend) == 1
    assert on_disk(root) == good
    assert aside(place) == [b"by hand"]


def test_an_older_text_of_a_file_is_damage_too(place: Path, root: Path, store_in: MemoryStore) -> None:
    """An older text is damage although it was encrypted for the same memory."""
    older = (root / "a.txt").read_bytes()
    run(store_in, {"command": "str_replace", "path": "/memories/a.txt", "old_str": "first", "new_str": "newer"})
    (root / "a.txt").write_bytes(older)
    assert store_in.read("/memories/a.txt") == "newer"
    assert aside(place) == [older]


def test_an_error_names_the_real_path(place: Path, open_place: OpenPlace) -> None:
    """The error does not name the encrypted path, whether or not the path was read before."""
    store = open_place(place, keys=KEYS, seal_paths=True).store()
    path = "/memories/secret"
    run(store, {"command": "create", "path": path, "file_text": "x"})
    (name,) = on_disk(place / "memories")
    run(store, {"command": "delete", "path": path})
    (place / "memories" / name).write_text("planted")
    for command in ({"command": "view", "path": path}, {"command": "create", "path": path, "file_text": "x"}):
        reply = store.execute(command)
        assert reply.text == f"Error: The path {path} is taken by something that is not a memory"
    with pytest.raises(Refused) as refused:
        store._core.backend.write(store.id, lambda tx: tx.record([Created(path, b"x")], None))
    assert (refused.value.key, refused.value.values) == ("path_taken", {"path": path})
