"""What the tests of transfers share: memory stores with all that can be in one, and all there is to see of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import retentive
from backends.places import KEYS, SEALED, opened
from laws.model import Model
from laws.walk import Walk
from retentive import MemoryStore, Retentive
from retentive.storage.contract import Actor, Backend, Snapshot, Transaction, Version
from retentive.transfer.kinds import JOTTING_KINDS, NOTE_KINDS
from retentive.values.paths import ROOT

PERSON = Actor("user", "ann")
BARE = ["memory", "sqlite", "directory"]
OPEN = {"keys": None, "sealed": {"keys": KEYS}, "hidden": {"keys": KEYS, "seal_paths": True}}


@contextmanager
def place(name: str, directory: Path) -> Iterator[Retentive]:
    """A place of a kind inside a directory; `sealed memory` and `hidden memory` too."""
    directory.mkdir(exist_ok=True)
    if name in {"sealed memory", "hidden memory"}:
        found = retentive.open("sqlite://", keys=KEYS, seal_paths=name.startswith("hidden"))
    else:
        found = opened(name, directory)
    with found:
        yield found


def is_sealed(name: str) -> bool:
    return name in SEALED or name in {"sealed memory", "hidden memory"}


def fill(store: MemoryStore, seed: int, *, steps: int = 60, gaps: bool = True) -> None:
    """Run random commands, and what else there is: settings, notes, jottings, and versions that go."""
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
    """Give it settings, notes and jottings."""
    store.change_settings({"view_chars": 123})
    for number, kind in enumerate(NOTE_KINDS[:3]):
        _note(store, kind, str(number))
    for kind in JOTTING_KINDS:
        store.backend.put_side_records(store.id, kind, {"a": "1", "b": "é"})


def _note(store: MemoryStore, kind: str, key: str) -> None:
    store.backend.write(store.id, lambda tx: tx.put_record(kind, key, f"value é {key}"))


def lose(store: MemoryStore, chance: random.Random) -> None:
    """Redact or remove some versions."""
    versions = list(store.versions())
    chosen = [version.id for version in versions if chance.random() < 0.2]
    away = chance.random() < 0.5

    def work(tx: Transaction) -> None:
        if away:
            tx.prune(chosen)
        else:
            tx.redact(chosen, PERSON)

    if chosen:
        store.backend.write(store.id, work)


def facts(backend: Backend, store_id: str, *, redacted: bool = True) -> dict[str, object]:
    """All there is to see of a store, but how it is sealed. `redacted`: also when and by whom versions were."""
    info = backend.get_store(store_id)
    assert info is not None

    def look(snapshot: Snapshot) -> dict[str, object]:
        versions = list(snapshot.versions())
        return {
            "info": (info.id, info.key, info.name, info.created_at),
            "versions": [_plain(version, redacted=redacted) for version in versions],
            "texts": [snapshot.text(version.id) for version in versions],
            "memories": [replace(memory, seal=None) for memory in snapshot.memories(ROOT)],
            "tree": {memory.path: snapshot.get(memory.path).data for memory in snapshot.memories(ROOT)},
            "usage": snapshot.usage(),
            "settings": snapshot.settings,
            "notes": {kind: list(snapshot.records(kind)) for kind in NOTE_KINDS},
        }

    found = backend.read(store_id, look)
    return found | {"jottings": {kind: list(backend.side_records(store_id, kind)) for kind in JOTTING_KINDS}}


def _plain(version: Version, *, redacted: bool) -> Version:
    return replace(version, seal=None) if redacted else replace(version, seal=None, redacted_at=None, redacted_by=None)


def goes_on(store: MemoryStore) -> None:
    """It can be written to as before."""
    assert not store.execute({"command": "create", "path": f"{ROOT}/a later one", "file_text": "x"}).is_error
    assert store.text(f"{ROOT}/a later one") == "x"
    newest, before, *_ = [*store.versions(), *store.versions()]
    assert newest.id > before.id or newest == before


def keys_of(found: Sequence[retentive.StoreInfo]) -> list[str | None]:
    return [info.key for info in found]
