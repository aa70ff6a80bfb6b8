"""Looking for sensitive values in what a memory store already holds."""

from __future__ import annotations

from functools import partial

from commonplace.backends.base import Actor, Snapshot, Transaction, Version
from commonplace.engine import Engine
from commonplace.errors import NotFound, Refused
from commonplace.guards.examining import Examination
from commonplace.guards.writing import WritePath
from commonplace.history.removal import check_person
from commonplace.history.removal import redact as history_redact
from commonplace.paths import ROOT, MemoryPath
from commonplace.readable import raised
from commonplace.settings import Settings
from commonplace.text import decoded


def scan(
    store: Engine, examine: Examination, who: Actor | None, *, redact: bool, history: bool
) -> list[tuple[str, list[str]]]:
    """Paths of the memories that hold sensitive values, whatever the setting, and the kinds of these.

    `redact` writes those memories anew without the values, and redacts what `history` found in older versions.
    """
    if redact:
        check_person(store, who)
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
        _redact(store, examine, settings, [path for path, _ in found], who)
    if not history:
        return found
    every = dict(found)
    for path, kinds in _scan_history(store, examine, settings, who, redact=redact):
        every[path] = list(dict.fromkeys([*every.get(path, []), *kinds]))
    return list(every.items())


def _scan_history(
    store: Engine, examine: Examination, settings: Settings, who: Actor | None, *, redact: bool
) -> list[tuple[str, list[str]]]:
    """Paths and kinds of the versions that are no longer the newest of a present memory, newest first."""
    present = store.read(lambda snapshot: {memory.version_id for memory in snapshot.walk(ROOT)})
    found: dict[str, dict[str, None]] = {}
    ids: list[str] = []
    for version in store.read(lambda snapshot: list(snapshot.versions())):
        if version.id in present or version.redacted_at is not None or version.operation == "deleted":
            continue
        try:
            _, data = store.read(partial(_version, version_id=version.id))
        except NotFound:  # pruned since it was listed
            continue
        kinds = examine(settings, decoded(data))[1]
        if kinds:
            found.setdefault(version.path, {}).update(dict.fromkeys(kinds))
            ids.append(version.id)
    if redact and ids:
        history_redact(store, ids, who)
    return [(path, list(kinds)) for path, kinds in found.items()]


def _version(snapshot: Snapshot, *, version_id: str) -> tuple[Version, bytes | None]:
    return snapshot.version(version_id)


def _kinds(store: Engine, examine: Examination, settings: Settings, path: str) -> list[str]:
    look = store.read(lambda snapshot: snapshot.look(path))
    if look.memory is None:
        raise NotFound(f"there is no memory at {path}")
    return list(dict.fromkeys(examine(settings, decoded(look.data))[1]))


def _redact(store: Engine, examine: Examination, settings: Settings, paths: list[str], who: Actor | None) -> None:
    """Write memories anew, each by itself. Raises `InvalidInput`, and writes none, if one is read-only."""

    def check(_: Transaction, write: WritePath) -> None:
        for path in paths:
            write.check(MemoryPath.known(path))

    def clean(tx: Transaction, write: WritePath, *, path: str) -> None:
        look, target = tx.look(path), MemoryPath.known(path)
        if look.memory is not None:
            write.check(target)
            write.put(look, target, examine(settings, decoded(look.data))[0])

    try:
        store.write(check, who)
        for path in paths:
            store.write(partial(clean, path=path), who)
    except Refused as refusal:
        raise raised(refusal, store.replies) from None
