"""Looking for sensitive values in what a memory store already holds."""

from __future__ import annotations

from commonplace.backends.base import Actor, Transaction
from commonplace.engine import Engine
from commonplace.errors import NotFound
from commonplace.guards.examining import Examination
from commonplace.guards.writing import WritePath
from commonplace.paths import ROOT, MemoryPath
from commonplace.readable import decoded
from commonplace.settings import Settings


def scan(store: Engine, examine: Examination, who: Actor | None, *, redact: bool) -> list[tuple[str, list[str]]]:
    """Paths of the memories that hold sensitive values, whatever the setting, and the kinds of these.

    `redact` writes those memories anew without the values; their older versions keep them.
    """
    settings = store.settings().changed({"sensitive": "redact"})
    found: list[tuple[str, list[str]]] = []
    for path in store.read(lambda snapshot: [memory.path for memory in snapshot.walk(ROOT)]):
        try:
            kinds = _kinds(store, examine, settings, path)
        except NotFound:  # gone since it was listed
            continue
        if kinds:
            found.append((path, kinds))
            if redact:
                _redact(store, examine, settings, path, who)
    return found


def _kinds(store: Engine, examine: Examination, settings: Settings, path: str) -> list[str]:
    look = store.read(lambda snapshot: snapshot.look(path))
    if look.memory is None:
        raise NotFound(f"there is no memory at {path}")
    return list(dict.fromkeys(examine(settings, decoded(look.data))[1]))


def _redact(store: Engine, examine: Examination, settings: Settings, path: str, who: Actor | None) -> None:
    def work(tx: Transaction) -> None:
        look = tx.look(path)
        if look.memory is not None:
            clean = examine(settings, decoded(look.data))[0]
            WritePath(tx, settings, who, examine).put(look, MemoryPath.known(path), clean)

    store.backend.write(store.id, work)
