"""Helpers for the tests of transfers: stores with contents of every kind, and reads of all their contents."""

from __future__ import annotations

import hashlib
import io
import random
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import retentive
from retentive import MemoryStore, Retentive
from retentive.errors import RetentiveError
from retentive.storage.contract import Actor, Backend, Snapshot, Transaction, Version
from retentive.transfer.archive import MANIFEST, open_archive
from retentive.transfer.copies import RECORD_KINDS
from retentive.transfer.restore import restore
from retentive.values.paths import ROOT
from support.model import Model
from support.places import KEYS, opened
from support.walk import Walk

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PERSON = Actor("user", "ann")


@contextmanager
def place(name: str, directory: Path) -> Iterator[Retentive]:
    """Open a location of a kind inside a directory. The kinds include `sealed memory`."""
    directory.mkdir(exist_ok=True)
    found = retentive.open("sqlite://", keys=KEYS) if name == "sealed memory" else opened(name, directory)
    with found:
        yield found


def fill(store: MemoryStore, seed: int, *, steps: int = 60, gaps: bool = True) -> None:
    """Run random commands, redact or prune versions, and add settings and records."""
    model, chance = Model(), random.Random(seed)
    way = Walk(seed, model)
    for _ in range(steps):
        command = way.command()
        model.execute(command)
        store.execute(command, actor=chance.choice([None, "user:ann", "session:é s"]))
        if gaps and chance.random() < 0.1:
            lose(store, chance)
    adorn(store)


def adorn(store: MemoryStore) -> None:
    """Add settings and records."""
    store.change_settings({"view_chars": 123})
    for number, kind in enumerate(RECORD_KINDS[:3]):
        _put_record(store, kind, str(number))


def _put_record(store: MemoryStore, kind: str, key: str) -> None:
    store._core.backend.write(store.id, lambda tx: tx.put_record(kind, key, f"value é {key}"))


def lose(store: MemoryStore, chance: random.Random) -> None:
    """Redact or prune some versions."""
    versions = list(store.versions())
    chosen = [version.id for version in versions if chance.random() < 0.2]
    prune = chance.random() < 0.5

    def work(tx: Transaction) -> None:
        if prune:
            tx.prune(chosen)
        else:
            tx.redact(chosen, PERSON)

    if chosen:
        store._core.backend.write(store.id, work)


def facts(backend: Backend, store_id: str, *, redacted: bool = True, records: bool = True) -> dict[str, object]:
    """Return everything that can be read of a store except its encryption metadata.

    `redacted` includes the time and the actor of redactions. `records` includes the records, which exports do not have.
    """
    info = backend.get_store(store_id)
    assert info is not None

    def look(snapshot: Snapshot) -> dict[str, object]:
        versions = [version for version in snapshot.versions() if "~" not in version.id]  # without stand-ins for gaps
        return {
            "info": (info.id, info.key, info.name, info.created_at),
            "versions": [_plain(version, redacted=redacted) for version in versions],
            "texts": [snapshot.version(version.id)[1] for version in versions],
            "memories": [replace(memory, seal=None) for memory, _ in snapshot.list(ROOT)],
            "tree": {memory.path: snapshot.get(memory.path).data for memory, _ in snapshot.list(ROOT)},
            "usage": snapshot.state.usage,
            "settings": snapshot.state.settings,
            "records": {kind: list(snapshot.records(kind)) for kind in RECORD_KINDS if records},
        }

    return backend.read(store_id, look)


def _plain(version: Version, *, redacted: bool) -> Version:
    return replace(version, seal=None) if redacted else replace(version, seal=None, redacted_at=None, redacted_by=None)


def goes_on(store: MemoryStore) -> None:
    """Check that the store can still be written."""
    assert not store.execute({"command": "create", "path": f"{ROOT}/a later one", "file_text": "x"}).is_error
    assert store.read(f"{ROOT}/a later one") == "x"
    newest, before, *_ = [*store.versions(), *store.versions()]
    assert newest.id > before.id or newest == before


Steps = list[tuple[str, ...]]


def steps(store: MemoryStore, given: Steps) -> None:
    for name, path, *rest in given:
        if name == "edit":
            held = store.load(path)[0]
            store.write(path, rest[0], if_version=held.version_id)
        else:
            fields = {"create": "file_text", "rename": "new_path"}
            command = {"command": name, "old_path" if name == "rename" else "path": path}
            store.execute(command | ({fields[name]: rest[0]} if rest else {})).raise_for_error()


Entries = dict[str, bytes]


def refusal(path: Path) -> RetentiveError | None:
    """Return the error with which a file is refused, and check that nothing of the file was imported."""
    with retentive.open("sqlite://") as target:
        try:
            with open_archive(str(path)) as archive:
                restore(archive, target.backend)
        except RetentiveError as error:
            assert target.stores() == []
            return error
    return None


def read(path: Path) -> Entries:
    """Return the names and bytes of the entries."""
    data = path.read_bytes()
    plain = zstd.decompress(data) if path.suffix == ".zst" else data
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]


def write(path: Path, entries: Entries) -> Path:
    """Write a file with these entries."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def listed(entries: Entries) -> Entries:
    """Return the entries with a manifest that lists them correctly."""
    plain = {name: data for name, data in entries.items() if name != MANIFEST}
    rows = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in plain.items()]
    return plain | {MANIFEST: "".join(rows).encode()}


def store_in(entries: Entries) -> str:
    """Return the name of the entry of the first memory store."""
    return next(name for name in entries if name.startswith("stores/"))
