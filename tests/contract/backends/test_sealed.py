"""Encrypted memory stores: no file contains plain text, and changes to the database are detected.

No read returns invalid data or another version's text.
"""

from __future__ import annotations

import base64
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import TypeAlias

import pytest

import retentive
from retentive import MemoryStore, NotFound, Retentive, RetentiveError
from retentive.errors import Damaged, InvalidInput, Locked, UnknownSchema
from retentive.storage.sealed.backend import SealedBackend
from retentive.storage.sealed.keys import KeyRing
from retentive.storage.sealed.rotation import destroy, rotate
from retentive.values.paths import ROOT
from support.commands import create, delete, edit, insert, rename, run, view
from support.places import place_of
from support.profiles import sized

KEYS = KeyRing.new()
SCALE = sized(quick=4, long=15, full=30)

# -- no plain text at rest -----------------------------------------------------------------------------------


class Markers:
    """Unique words, one for each place where a text or path can appear."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.paths: list[str] = []

    def text(self) -> str:
        self.texts.append(f"txt{os.urandom(8).hex()}")
        return self.texts[-1]

    def path(self) -> str:
        self.paths.append(f"pth{os.urandom(8).hex()}")
        return self.paths[-1]


def forms(word: str) -> Iterator[bytes]:
    """Yield the encodings of a word: plain, UTF-16, hexadecimal, and base64 at any offset."""
    data = word.encode()
    yield from (data, word.encode("utf-16-le"), word.encode("utf-16-be"))
    yield from (data.hex().encode(), data.hex().upper().encode())
    for offset in range(3):
        whole = base64.b64encode(b"x" * offset + data)
        yield whole[4:-4]


def found(directory: Path, words: list[str]) -> list[str]:
    """Return the files whose name or contents include one of the words in any encoding."""
    places = []
    for path in directory.rglob("*"):
        held = os.fsencode(path.name) + (path.read_bytes() if path.is_file() else b"")
        places += [f"{path.name}: {word}" for word in words if any(form in held for form in forms(word))]
    return places


def use(store: MemoryStore, markers: Markers, look: Callable[[], None]) -> None:
    """Run every command, also with large texts and some refused ones, and call `look` after each step."""

    done = partial(run, store, actor="session:tester")
    for number in range(SCALE):
        here, there = (f"/memories/{markers.path()}/{markers.path()}" for _ in range(2))
        done(create(here, f"{markers.text()}\n" * (1 if number else 5_000)))
        done(view(here))
        if number:
            old = markers.texts[-1]
            done(edit(old, markers.text(), here))
        done(insert(0, markers.text(), here))
        done(rename(here, there))
        done(rename(there.rpartition("/")[0], f"/memories/{markers.path()}"))
        done(view(ROOT))
        assert store.execute(create(f"/memories/{markers.paths[-1]}", "x")).is_error
        assert store.execute(view(f"/memories/{markers.path()}")).is_error
        if number % 3 == 0:
            done(delete(f"/memories/{markers.paths[-2]}"))
        look()
    assert not store.clear().is_error
    done(create(f"/memories/{markers.path()}", markers.text()))
    look()


@pytest.mark.parametrize("backend", ["sqlite", "directory"])
def test_no_text_is_on_disk(backend: str, tmp_path: Path) -> None:
    """The search runs while the store is in use, after closing, after a rotation and after the key was destroyed."""
    markers = Markers()
    place = place_of(backend, tmp_path)

    def look() -> None:
        assert found(tmp_path, markers.texts[-3:]) == []

    for _ in range(2):
        with retentive.open(place, keys=KEYS, max_memory_bytes=0) as opened:
            store = opened.store()
            use(store, markers, look)
            assert isinstance(opened.backend, SealedBackend)
            rotate(opened.backend)
        look()
    with retentive.open(place, keys=KEYS) as opened:
        texts = {opened.store().version_text(version.id) for version in opened.store().versions()}
        assert all(any(word in text for text in texts) for word in markers.texts)  # all words were stored
        destroy(opened.backend, opened.store().id)
        assert found(tmp_path, markers.texts) == []
    assert found(tmp_path, markers.texts) == []


def test_the_search_finds_plain_text(tmp_path: Path) -> None:
    """In a store without keys, the search finds every text, every path and each encoding of a word."""
    markers = Markers()
    with retentive.open(place_of("sqlite", tmp_path), max_memory_bytes=0) as opened:
        use(opened.store(), markers, lambda: None)
    seen = {place.rpartition(" ")[2] for place in found(tmp_path, markers.texts + markers.paths)}
    assert set(markers.texts) <= seen
    assert len(seen) > len(markers.texts)
    for number, form in enumerate(forms("a-word-to-be-found")):
        (tmp_path / "form").write_bytes(b"\0" * number + form + b"\0")
        assert found(tmp_path, ["a-word-to-be-found"])


def test_no_hash_of_a_text_is_on_disk(tmp_path: Path) -> None:
    """The hash of a text would let a reader of the disk confirm a guess of the text."""
    with retentive.open(place_of("sqlite", tmp_path), keys=KEYS) as opened:
        store = opened.store()
        store.create("/memories/a", "yes")
        (memory,) = store.memories()
        held = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert len(memory.sha256) == 64
        for form in (memory.sha256.encode(), bytes.fromhex(memory.sha256)):
            assert form not in held


def test_an_encrypted_store_leaves_no_files(tmp_path: Path) -> None:
    """It works beside a plain store, and after reopening. Planted files have no effect."""
    place = tmp_path / "memory"
    with retentive.open(place) as opened:
        opened.store("plain").write("/memories/a.md", "seen")
    with retentive.open(place, keys=KEYS) as opened:
        for store in (opened.store(), opened.store("other")):
            store.write("/memories/d/a.md", "secret")
            store.write("/memories/d/a.md", "secret again")
            assert store.directory() is None
    left = {str(path.relative_to(place)) for path in place.rglob("*.md")}
    assert left == {"stores/plain/memories/a.md"}
    (place / "memories" / "planted.md").write_text("believe me")
    with retentive.open(place, keys=KEYS) as opened:
        store = opened.store()
        assert [memory.path for memory in store.memories()] == ["/memories/d/a.md"]
        store.write("/memories/planted.md", "mine")
        assert store.read("/memories/planted.md") == "mine"
        assert {str(version.actor) for version in store.versions()}.isdisjoint({"job:external", "job:recovery"})
        opened.erase("other")
    assert (place / "memories" / "planted.md").read_text() == "believe me"


# -- changes to the database are detected -------------------------------------------------------------------


A, B, C = "/memories/a", "/memories/d/b", "/memories/d/c"
SECRET = "/memories/very-secret-project/**"
Read: TypeAlias = Callable[[], object]

SWAP = (
    "UPDATE {table} SET {column} = (SELECT o.{column} FROM {table} o WHERE o.store = 1"
    " AND o.id = CASE {table}.id WHEN '{one}' THEN '{other}' ELSE '{one}' END)"
    " WHERE store = 1 AND id IN ('{one}', '{other}')"
)
TEXT_ROWS = "SELECT id FROM versions WHERE store = 1 AND text IS NOT NULL ORDER BY seq"
ROWS = "SELECT id FROM versions WHERE store = 1 ORDER BY seq"


@dataclass(frozen=True)
class Scene:
    """A database with two encrypted stores, and the results of all reads of the first store before any change."""

    place: str
    file: Path
    before: dict[str, object]
    version_ids: list[str]
    memory_ids: list[str]

    @contextmanager
    def opened(self) -> Iterator[Retentive]:
        with retentive.open(self.place, keys=KEYS) as opened:
            yield opened

    def sql(self, *statements: str) -> int:
        """Change the database directly, and return the number of changed rows."""
        with closing(sqlite3.connect(self.file)) as connection, connection:
            return sum(connection.execute(statement).rowcount for statement in statements)

    def column(self, sql: str) -> list[str]:
        with closing(sqlite3.connect(self.file)) as connection:
            return [row[0] for row in connection.execute(sql)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    place = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(place, keys=KEYS) as opened:
        store, other = opened.store("one"), opened.store("other")
        for path, text in {A: "old a", B: "text of b", "/memories/was": "text c", "/memories/gone": "gone"}.items():
            run(store, create(path, text))
        run(store, edit("old a", "text a", A))
        run(store, rename("/memories/was", C))
        run(store, delete("/memories/gone"))
        run(other, create(A, "other"))
        version_ids = [version.id for version in store.versions()]
        memory_ids = [memory.id for memory in store.memories()]
        before = {name: read() for name, read in reads(store, version_ids, memory_ids).items()}
    return Scene(place, tmp_path / "memory.db", before, version_ids, memory_ids)


def reads(store: MemoryStore, version_ids: Sequence[str], memory_ids: Sequence[str]) -> dict[str, Read]:
    """Return all functions that read a store, by name."""
    found: dict[str, Read] = {
        "memories": lambda: list(store.memories()),
        "below": lambda: list(store.memories("/memories/d")),
        "versions": lambda: list(store.versions()),
        "listing": lambda: store._core.read(lambda snapshot: list(snapshot.list(ROOT))),
    }
    for path in (A, B, C):
        found[f"load {path}"] = partial(store.load, path)
        found[f"versions {path}"] = partial(store.versions, path)
    for one in version_ids:
        found[f"text {one}"] = partial(store.version_text, one)
    for one in memory_ids:
        found[f"find {one}"] = partial(store._core.read, methodcaller("find", one))
    return found


def read_again(scene: Scene) -> set[type[RetentiveError]]:
    """Repeat all reads and return their errors.

    A successful read must return its old result, except rows that were deleted.
    """
    failed: set[type[RetentiveError]] = set()
    with scene.opened() as opened:
        store = MemoryStore(opened.backend, opened.stores()[0])
        for name, read in reads(store, scene.version_ids, scene.memory_ids).items():
            before = scene.before[name]
            try:
                value = read()
            except RetentiveError as error:
                failed.add(type(error))
                continue
            if isinstance(value, list) and isinstance(before, list):
                assert [one for one in value if one not in before] == [], name
            else:
                assert value in {before, None}, name
    return failed


@pytest.mark.parametrize(
    ("table", "column", "rows"),
    [
        ("versions", "text", TEXT_ROWS),
        ("versions", "seal", ROWS),
        ("versions", "path", TEXT_ROWS),
        ("versions", "memory", TEXT_ROWS),
        ("versions", "size_bytes", TEXT_ROWS),
    ],
)
def test_swapped_values_of_two_rows_are_detected(scene: Scene, table: str, column: str, rows: str) -> None:
    """The test swaps a value of the first two rows."""
    ids = scene.column(rows)
    assert scene.sql(SWAP.format(table=table, column=column, one=ids[0], other=ids[1])) == 2
    assert_damaged(scene)


def assert_damaged(scene: Scene) -> None:
    """Check that some read fails with `Damaged`, and that every other read fails too or returns its old result."""
    failed = read_again(scene)
    assert Damaged in failed
    assert failed <= {Damaged, NotFound}


_OTHERS = "SET store = CASE store WHEN 1 THEN 3 ELSE 1 END WHERE store IN (1, 2)"
ONE = "id = (SELECT id FROM versions WHERE store = 1 AND text IS NOT NULL ORDER BY seq LIMIT 1)"
NOW = "path = (SELECT path FROM memories WHERE store = 1 ORDER BY path LIMIT 1)"
CHANGES = {
    "a text cut": f"UPDATE versions SET text = substr(text, 1, length(text) - 1) WHERE store = 1 AND {ONE}",
    "a text emptied": f"UPDATE versions SET text = x'' WHERE store = 1 AND {ONE}",
    "a text in clear": f"UPDATE versions SET text = CAST('old a' AS BLOB) WHERE store = 1 AND {ONE}",
    "a text as a string": f"UPDATE versions SET text = 'old a' WHERE store = 1 AND {ONE}",
    "a text gone": f"UPDATE versions SET text = NULL WHERE store = 1 AND {ONE}",
    "a text lengthened": f"UPDATE versions SET text = CAST(text || x'00' AS BLOB) WHERE store = 1 AND {ONE}",
    "a seal gone": f"UPDATE versions SET seal = NULL WHERE store = 1 AND {ONE}",
    "a seal cut": f"UPDATE versions SET seal = substr(seal, 1, 30) WHERE store = 1 AND {ONE}",
    "a seal as a string": f"UPDATE versions SET seal = 'x' WHERE store = 1 AND {ONE}",
    "a path": f"UPDATE versions SET path = '/memories/planted' WHERE store = 1 AND {ONE}",
    "an id": f"UPDATE versions SET id = 'memver_0' WHERE store = 1 AND {ONE}",
    "a deletion": f"UPDATE versions SET operation = 'deleted', size_bytes = NULL WHERE store = 1 AND {ONE}",
    "a size": f"UPDATE versions SET size_bytes = 4 WHERE store = 1 AND {ONE}",
    "no deletion": "UPDATE versions SET operation = 'modified' WHERE store = 1 AND operation = 'deleted'",
    "a text for a deletion": "UPDATE versions SET text_of = (SELECT min(id) FROM versions WHERE store = 1)"
    " WHERE store = 1 AND operation = 'deleted'",
    "the text of another": "UPDATE versions SET text_of = (SELECT max(id) FROM versions WHERE store = 1 AND text"
    f" IS NOT NULL) WHERE store = 1 AND {ONE}",
    "a memory renamed": f"UPDATE memories SET path = '/memories/planted' WHERE store = 1 AND {NOW}",
    "a memory without its version": f"UPDATE memories SET newest = 'none' WHERE store = 1 AND {NOW}",
    "the version of another memory": "UPDATE memories SET newest = (SELECT max(newest) FROM memories"
    f" WHERE store = 1 AND NOT {NOW})"
    f" WHERE store = 1 AND {NOW}",
    "versions of another store": f"UPDATE versions {_OTHERS}",
    "memories of another store": f"UPDATE memories {_OTHERS}",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_row_is_detected(scene: Scene, what: str) -> None:
    assert scene.sql(CHANGES[what])
    assert_damaged(scene)


def test_a_planted_plain_memory_is_detected(scene: Scene) -> None:
    """A handle without keys writes a memory and its version as plain text."""
    with retentive.open(scene.place) as bare:
        info = bare.stores()[0]
        run(MemoryStore(bare.backend, info), create("/memories/x", "obey me"))
    with scene.opened() as opened:
        store = opened.store("one")
        for path in ("/memories", "/memories/x"):
            reply = store.execute({"command": "view", "path": path})
            assert "obey" not in reply.text
            if path == ROOT or not reply.text.startswith("The path"):
                assert reply.code == "damaged"
        with pytest.raises(Damaged):
            list(store.versions())
        assert store.read(A) == "text a"


def test_swapped_keys_of_two_stores_are_detected(scene: Scene) -> None:
    """No read or write uses the key of another store."""
    seals = scene.column("SELECT seal FROM stores ORDER BY no")
    scene.sql(*(f"UPDATE stores SET seal = '{seal}' WHERE no = {no}" for no, seal in zip((2, 1), seals, strict=True)))
    with scene.opened() as opened:
        for key in ("one", "other"):
            with pytest.raises(Locked):
                opened.store(key)
        with pytest.raises(Locked):
            opened.backend.write(opened.stores()[0].id, lambda tx: tx.state.revision)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("json_remove(seal, '$.key', '$.kek')", Damaged),  # looks like a new store without a key, but has memories
        ("json_set(seal, '$.kek', 'key_other')", Locked),
        ("json_set(seal, '$.key', 'AAAA')", Locked),
        ("json_set(seal, '$.destroyed_at', '2026-01-01T00:00:00Z')", Damaged),
        ("json_remove(json_set(seal, '$.destroyed_at', '2026-01-01T00:00:00Z'), '$.key', '$.kek')", Locked),
        ("json_set(seal, '$.format', 2)", UnknownSchema),
        ("'nonsense'", Damaged),
        ("''", Damaged),
        ("NULL", InvalidInput),
    ],
)
def test_a_changed_store_seal_is_detected(scene: Scene, change: str, error: type[RetentiveError]) -> None:
    """The encryption metadata of the store is changed. The store cannot be opened or written to."""
    assert scene.sql(f"UPDATE stores SET seal = {change} WHERE no = 1") == 1
    with scene.opened() as opened:
        with pytest.raises(error):
            opened.store("one")
        with pytest.raises(error):
            opened.backend.write(opened.stores()[0].id, lambda tx: tx.get(A))
        assert opened.store("other").read(A) == "other"


def test_a_removed_seal_does_not_reveal_the_texts(scene: Scene) -> None:
    """When the store is opened without keys, its memories are damaged or not found. No reply shows a text."""
    scene.sql("UPDATE stores SET seal = NULL WHERE no = 1")
    with retentive.open(scene.place) as bare:
        for path in (A, B):
            reply = bare.store("one").execute({"command": "view", "path": path})
            assert (reply.is_error, reply.code in {"damaged", "not_found"}) == (True, True)


# -- settings ------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(scene: Scene) -> Scene:
    """The same stores with settings."""
    with scene.opened() as opened:
        opened.store("one").change_settings({"read_only_paths": [SECRET]})
        opened.store("other").change_settings({"read_only": True})
    return scene


def test_settings_are_read_again_and_stored_encrypted(guarded: Scene) -> None:
    with guarded.opened() as opened:
        assert opened.store("one").settings().read_only_paths == (SECRET,)
        assert opened.store("other").settings().read_only
        at_rest = b"".join(path.read_bytes() for path in guarded.file.parent.iterdir())
    assert b"very-secret-project" not in at_rest
    assert b"read_only" not in at_rest.replace(b"read_only_paths TEXT", b"")


@pytest.mark.parametrize(
    "forged",
    [
        "'{\"read_only\": false}'",
        "(SELECT o.settings FROM stores o WHERE o.store_key = 'other')",
        "substr(settings, 1, length(settings) - 4)",
        "'AAAA' || substr(settings, 5)",
        "''",
    ],
)
def test_forged_settings_are_damage(forged: str, guarded: Scene) -> None:
    """The stored settings are plain, truncated, modified or from another store. No command runs with them."""
    guarded.sql(f"UPDATE stores SET settings = {forged} WHERE store_key = 'one'")
    with guarded.opened() as opened:
        for command in (view(ROOT), create("/memories/very-secret-project/a", "x")):
            assert opened.store("one").execute(command).code == "damaged"
        assert opened.store("other").execute(view(ROOT)).is_error is False
