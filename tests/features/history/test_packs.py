"""Packed versions: what is removed from them is in no stored byte, and damage of one pack stays in its memory."""

from __future__ import annotations

import hashlib
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, cast

import pytest

import retentive
from retentive import MemoryStore, Retentive
from retentive.errors import Damaged
from retentive.storage import capabilities
from retentive.storage.contract import Transaction, Updated
from retentive.storage.objects.requests import Requests
from retentive.storage.sealed.keys import KeyRing
from retentive.storage.sealed.rotation import destroy
from support.damage import codes, look, sql
from support.places import KEYS, PLACES, name_of
from support.profiles import LONG, sized

from .changes import A, B, create, run

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PLACES_HERE = ["sqlite", "objects", "sealed sqlite", "sealed objects"]
PLACES_HERE += ["directory", "postgresql", "mariadb", "s3", "sealed postgresql", "sealed s3"] if LONG else []
VERSIONS = sized(quick=60, long=300, full=300)
LINES = sized(quick=300, long=1_500, full=1_500)  # the text has 18 or 90 KB
MAGIC = b"\x28\xb5\x2f\xfd"
YEARS_S = 3 * 365 * 86_400.0


def url_of(kind: str, directory: Path) -> str:
    name = kind.removeprefix("sealed ")
    return f"memory://{name_of(directory)}" if name == "objects" else PLACES[name](directory)


@contextmanager
def opened(kind: str, directory: Path, **options: Any) -> Iterator[Retentive]:
    options |= {"keys": KEYS} if kind.startswith("sealed") else {}
    with retentive.open(url_of(kind, directory), sweep=False, sensitive="off", **options) as place:
        yield place


def marker(path: str, number: int) -> str:
    return hashlib.sha256(f"{path} {number}".encode()).hexdigest()


def fill(store: MemoryStore, path: str, count: int = VERSIONS) -> list[str]:
    """Make versions of a memory, each with a marker of its own. Returns their ids."""
    lines = [f"line {number:06} {'-' * 46}" for number in range(LINES)]
    create(store, path, "\n".join([marker(path, 0), *lines]))

    def edit(tx: Transaction, number: int) -> None:
        lines[number * 7 % LINES] = f"line {number:06} edited"
        memory = tx.get(path).memory
        assert memory is not None
        tx.record([Updated(memory, path, "\n".join([marker(path, number), *lines]).encode())], None)

    for number in range(1, count):
        store._core.backend.write(store.id, lambda tx, number=number: edit(tx, number))  # type: ignore[misc]
    return [version.id for version in store.versions(path)][::-1]


def test_packing_ends_while_others_write(tmp_path: Path) -> None:
    """A busy memory store must not keep the maintenance of a server from all others."""
    with opened("sqlite", tmp_path) as place:
        store = place.store()
        fill(store, A)
        core, written = store._core, list[int]()

        def follow_up(work: Any, **options: Any) -> Any:
            done = type(core).follow_up(core, work, **options)
            store.write(A, f"{len(written)}\n")
            written.append(len(written))
            assert len(written) < 20
            return done

        core.follow_up = follow_up  # type: ignore[method-assign]
        store.sweep()
        assert written


# -- removal -----------------------------------------------------------------------------------------------------


def decoded(data: bytes) -> bytes:
    """Return bytes, and the contents of every zstd frame that begins in them, as far as it can be read."""
    found, at = [data], data.find(MAGIC)
    while at >= 0:
        reader = zstd.ZstdDecompressor()
        with suppress(zstd.ZstdError, EOFError):
            for start in range(at, len(data), 4_096):
                found.append(reader.decompress(data[start : start + 4_096]))
        at = data.find(MAGIC, at + 1)
    return b"".join(found)


def stored(kind: str, directory: Path) -> dict[str, bytes]:
    """Return all stored bytes: of files, rows or objects."""
    url = url_of(kind, directory)
    if "objects" in kind or "s3" in kind:
        client = Requests(url).client()
        return {one["path"]: bytes(client.get(one["path"]).bytes()) for one in client.list().collect()}
    if "postgresql" in kind or "mariadb" in kind:
        tables = {"packs": "id, data", "versions": "id, text", "records": "name, value"}
        return {
            f"{table} {row[0]!s}": row[1].encode() if isinstance(row[1], str) else cast("bytes", row[1] or b"")
            for table, names in tables.items()
            for row in sql(url, f"SELECT {names} FROM {table} WHERE store > 0")
        }
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def packs_of(kind: str, directory: Path) -> list[bytes]:
    """Return the stored bytes of all packs."""
    if "sqlite" not in kind and "directory" not in kind:
        found = stored(kind, directory)
        return [data for name, data in found.items() if name.endswith(".zst") or name.startswith("packs ")]
    database = next(directory.rglob("memory.db"))
    connection = sqlite3.connect(database)
    try:
        return [row[0] for row in connection.execute("SELECT data FROM packs")]
    finally:
        connection.close()


def parts(packs: list[bytes]) -> set[bytes]:
    """Return pieces of packs. A database may divide a pack, but not each of them."""
    return {pack[at : at + 48] for pack in packs for at in range(0, len(pack) - 48, 48)}


def left(kind: str, directory: Path, store: MemoryStore, before: list[bytes], gone: list[str]) -> list[str]:
    """Return what is left of removed texts: their markers, and parts of packs that are not part of packs any more."""
    now = packs_of(kind, directory)
    packing = capabilities.below_encryption(store._core.backend).packing
    seal = None if not kind.startswith("sealed") else store._core.backend.get_store(store.id).seal  # type: ignore[union-attr]
    texts = {f"pack {at}": b"".join(packing(store.id, seal).decode(pack).values()) for at, pack in enumerate(now)}
    known = [*now, *texts.values()]  # a pack can have a part of a text that stays as it is
    pieces = {piece for piece in parts(before) if not any(piece in each for each in known)}
    assert pieces
    files = {name: decoded(data) for name, data in stored(kind, directory).items()} | texts
    found = [f"{one} in {name}" for name, data in files.items() for one in gone if one.encode() in data]
    return found + [f"a part of a pack in {name}" for name, data in files.items() if any(p in data for p in pieces)]


@pytest.mark.parametrize("kind", PLACES_HERE)
@pytest.mark.parametrize("how", ["redact", "erase", "prune"])
def test_nothing_is_left_of_a_removed_packed_text(kind: str, how: str, tmp_path: Path) -> None:
    """Every byte is searched, also in packs, before and after closing. All other versions stay."""
    now = [1_800_000_000.0]
    with opened(kind, tmp_path, clock=lambda: now[0]) as place:
        store = place.store()
        ids, others = fill(store, A), fill(store, B, 12)
        store.sweep()
        before = packs_of(kind, tmp_path)
        assert sum(map(len, before)) < LINES * 60 * 12
        if how == "redact":
            gone = [VERSIONS // 2]
            assert not store.history.redact([ids[VERSIONS // 2]]).pending
        elif how == "erase":
            gone = list(range(VERSIONS))
            assert not store.history.erase(A).pending
        else:
            gone = list(range(VERSIONS - 10))
            now[0] += YEARS_S
            assert store.sweep(accept_clock=True).versions_pruned == VERSIONS - 10 + 2
            assert place.backend.purge()
            others = others[2:]
        markers = [marker(A, number) for number in gone]
        assert left(kind, tmp_path, store, before, markers) == []
        for number in set(range(VERSIONS)) - set(gone):
            assert (store.history.show(ids[number])[1] or "").startswith(marker(A, number))
        assert [store.history.show(each)[1] is not None for each in others] == [True] * len(others)
    with opened(kind, tmp_path) as place:
        assert left(kind, tmp_path, place.store(), before, markers) == []


@pytest.mark.parametrize("kind", PLACES_HERE)
def test_an_erasure_beside_packing_leaves_nothing(kind: str, tmp_path: Path) -> None:
    """Other threads, with locations of their own, sweep the store and edit another memory meanwhile."""
    stop = threading.Event()
    errors = list[Exception]()

    def beside(work: Callable[[MemoryStore, int], object]) -> None:
        try:
            with opened(kind, tmp_path) as place:
                store, number = place.store(), 0
                while not stop.is_set():
                    began = time.perf_counter()
                    work(store, number)
                    number += 1
                    stop.wait(time.perf_counter() - began)  # three that never rest can keep a long commit from its turn
        except Exception as error:
            errors.append(error)

    def edit(store: MemoryStore, number: int) -> None:
        run(store, "str_replace", path=B, old_str=store.read(B), new_str=f"other {number} " * 200)

    with opened(kind, tmp_path) as place:
        store = place.store()
        fill(store, A)
        create(store, B, "other")
        before = packs_of(kind, tmp_path)
        works = [lambda store, _: store.sweep(), lambda store, _: store.sweep(), edit]
        threads = [threading.Thread(target=beside, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        stop.wait(0.3)
        removed = store.history.erase(A)
        stop.set()
        for thread in threads:
            thread.join()
        assert errors == []
        if removed.pending:  # a reader needed the log
            assert place.backend.purge()
        store.sweep()
        before += packs_of(kind, tmp_path)
        place.backend.purge()
        found = {name: decoded(data) for name, data in stored(kind, tmp_path).items()}
        markers = [marker(A, number).encode() for number in range(VERSIONS)]
        assert [name for name, data in found.items() if any(each in data for each in markers)] == []
        assert all(store.history.show(version.id)[1] for version in store.versions(B))


# -- damage ------------------------------------------------------------------------------------------------------


def damaged(place: str, statement: str) -> None:
    """Flip a bit of a text or pack. `statement` selects its table, its column and its id."""
    table, column, where = statement.split(" ", 2)
    row = sql(place, f"SELECT {column}, id FROM {table} WHERE {where}")[0]
    data = bytearray(row[0])  # type: ignore[arg-type]
    data[len(data) // 2] ^= 1
    sql(place, f"UPDATE {table} SET {column} = ? WHERE id = ?", (bytes(data), row[1]))


@pytest.mark.parametrize("what", ["packs data id = (SELECT min(id) FROM packs)", "versions text path = '/memories/a'"])
@pytest.mark.parametrize("keys", [None, KEYS], ids=["plain", "sealed"])
def test_damage_stays_in_its_memory(what: str, keys: KeyRing | None, tmp_path: Path) -> None:
    """A sweep goes on and packs the rest, and the memory can be erased."""
    place = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(place, keys=keys) as found:
        store = found.store()
        for path in (A, B):
            create(store, path, "first")
            for number in range(4):
                run(store, "insert", path=path, insert_line=0, insert_text=f"{number}")
        if what.startswith("packs"):
            store.sweep()
        for path in (A, B):
            for number in range(4):
                run(store, "insert", path=path, insert_line=0, insert_text=f"again {number}")
        ids = {path: [version.id for version in store.versions(path)] for path in (A, B)}
    damaged(place, f"{what} ORDER BY id LIMIT 1")
    with retentive.open(place, keys=keys) as found:
        store = found.store()
        with pytest.raises(Damaged):
            store.history.show(ids[A][-1])
        store.sweep()
        assert [store.history.show(each)[1] is not None for each in ids[B]] == [True] * 9
        assert store.history.show(ids[A][1])[1] is not None
    loose = sql(place, "SELECT count(*) FROM versions WHERE text IS NOT NULL")
    assert loose == [(2 if what.startswith("packs") else 3,)]
    expected = {"old_text_wrong", "pack_wrong"} if what.startswith("packs") else {"old_text_wrong"}
    assert codes(look(place, keys=keys)) == expected
    with retentive.open(place, keys=keys) as found:
        store = found.store()
        with pytest.raises(Damaged) if what.startswith("packs") else nullcontext():
            store.history.redact(ids[A][-2])  # a damaged pack cannot be written again for the others
        assert store.history.erase(A).versions == 10
    assert codes(look(place, keys=keys)) == set()


@pytest.mark.parametrize("how", ["flipped", "swapped", "missing"])
def test_a_damaged_pack_in_object_storage_is_noticed(how: str, tmp_path: Path) -> None:
    place = url_of("objects", tmp_path)
    with retentive.open(place) as found:
        store = found.store()
        ids = {path: fill(store, path, 5) for path in (A, B)}
        store.sweep()
        client = Requests(place).client()
        one, other = (path for path in stored("objects", tmp_path) if path.endswith(".zst"))
        data = bytearray(client.get(one if how == "flipped" else other).bytes())
        data[len(data) // 2] ^= 1 if how == "flipped" else 0
        if how == "missing":
            client.delete([one])
        else:
            client.put(one, bytes(data))
    with retentive.open(place) as found:
        store = found.store()
        harmed = []
        for path, some in ids.items():
            try:
                assert all(store.history.show(each)[1] for each in some)
            except Damaged:
                harmed.append(path)
        assert len(harmed) == 1
        store.sweep()
        assert codes(look(place)) == {"old_text_wrong", *(["object_missing"] if how == "missing" else [])}
        store.history.erase(harmed[0])
    assert codes(look(place)) == set()


def test_packs_of_stores_that_cannot_be_read_are_not_called_wrong(tmp_path: Path) -> None:
    """The store is not encrypted, the key is another one, or it was destroyed."""
    plain, sealed = (f"sqlite:///{tmp_path}/{name}.db" for name in ("plain", "sealed"))
    for place, keys in ((plain, None), (sealed, KEYS)):
        with retentive.open(place, keys=keys) as found:
            fill(found.store(), A, 5)
            found.store().sweep()
    assert codes(look(plain, keys=KEYS)) == codes(look(sealed, keys=KeyRing.new())) == codes(look(sealed)) == set()
    with retentive.open(sealed, keys=KEYS) as found:
        destroy(found.backend, found.store().id)
    assert codes(look(sealed, keys=KEYS)) == set()


@pytest.mark.parametrize("kind", PLACES_HERE)
def test_a_packed_rename_stays_readable_after_its_first_version_is_redacted(kind: str, tmp_path: Path) -> None:
    """The two versions share a text, also when it is packed again with later ones."""
    with opened(kind, tmp_path) as place:
        store = place.store()
        create(store, A, "shared")
        run(store, "rename", old_path=A, new_path=B)
        for _ in range(2):
            for number in range(3):
                run(store, "insert", path=B, insert_line=0, insert_text=f"{number}")
            store.sweep()
            *later, renamed, first = [version.id for version in store.versions()]
            store.history.redact([first])
        store.sweep()
        assert store.history.show(renamed)[1] == "shared"
        assert all(store.history.show(each)[1] for each in later)
        assert store.history.show(first)[1] is None


def test_a_write_reads_its_own_packs_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other reads may have taken the place of a new pack in the cache, before it is uploaded."""
    monkeypatch.setattr("retentive.storage.objects.reader._CACHE_BYTES", 0)
    with opened("objects", tmp_path) as place:
        store = place.store()
        ids = fill(store, A, 6)

        def work(tx: Transaction) -> list[bytes | None]:
            tx.pack(ids)
            tx.redact(ids[:1], None)
            return [tx.version(each)[1] for each in ids]

        texts = store._core.backend.write(store.id, work)
        assert [text is not None for text in texts] == [False] + [True] * 5
        assert [store.history.show(each)[1] for each in ids] == [text and text.decode() for text in texts]


def test_packing_after_many_edits_begins_without_a_sweep(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as place:
        store = place.store()
        create(store, A, "")
        for number in range(31):
            assert packs_of("sqlite", tmp_path) == []
            run(store, "insert", path=A, insert_line=0, insert_text=f"{number}")
        assert len(packs_of("sqlite", tmp_path)) == 1
