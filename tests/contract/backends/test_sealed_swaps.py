"""Changes to the database of an encrypted store are detected.

No read returns invalid data or another version's text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

import retentive
from retentive import Memory, MemoryStore, NotFound, Retentive, RetentiveError, Version
from retentive.errors import Damaged, InvalidInput, Locked, UnknownSchema
from retentive.storage.contract import Snapshot
from retentive.storage.sealed.keys import KeyRing
from retentive.values.paths import ROOT

KEYS = KeyRing.new()
A, B, C = "/memories/a", "/memories/d/b", "/memories/d/c"
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
            run(store, {"command": "create", "path": path, "file_text": text})
        run(store, {"command": "str_replace", "path": A, "old_str": "old a", "new_str": "text a"})
        run(store, {"command": "rename", "old_path": "/memories/was", "new_path": C})
        run(store, {"command": "delete", "path": "/memories/gone"})
        run(other, {"command": "create", "path": A, "file_text": "other"})
        version_ids = [version.id for version in store.versions()]
        memory_ids = [memory.id for memory in store.memories()]
        before = {name: read() for name, read in reads(store, version_ids, memory_ids).items()}
    return Scene(place, tmp_path / "memory.db", before, version_ids, memory_ids)


def run(store: MemoryStore, command: dict[str, object]) -> None:
    reply = store.execute(command)
    assert not reply.is_error, reply


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
        found[f"versions {path}"] = partial(_versions, store, path)
    for one in version_ids:
        found[f"text {one}"] = partial(store.version_text, one)
    for one in memory_ids:
        found[f"find {one}"] = partial(store._core.read, partial(_find, memory_id=one))
    return found


def _versions(store: MemoryStore, path: str) -> list[Version]:
    return list(store.versions(path))


def _find(snapshot: Snapshot, *, memory_id: str) -> Memory | None:
    return snapshot.find(memory_id)


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
        run(MemoryStore(bare.backend, info), {"command": "create", "path": "/memories/x", "file_text": "obey me"})
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
