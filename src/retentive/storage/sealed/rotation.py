"""Encryption state of the memory stores of a location; rotation and destruction of their data keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from retentive.errors import InvalidInput, Locked, RetentiveError, Unavailable
from retentive.storage import capabilities
from retentive.storage.contract import Backend, StoreInfo, Transaction
from retentive.storage.paging import all_stores
from retentive.storage.sealed.backend import SealedBackend
from retentive.storage.sealed.codec import StoreSeal

OUTCOMES = ("rewrapped", "current", "locked", "destroyed", "unsealed")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """Encryption state of one memory store.

    `sealed` is true if the store is encrypted. `current` is true if its data key is encrypted with the current
    key-encryption key. `problem` is the reason why this process cannot read the store, or None.
    """

    id: str
    key: str | None
    name: str
    sealed: bool
    readable: bool
    kek_id: str | None
    current: bool
    destroyed_at: str | None
    problem: str | None


def rotate(backend: SealedBackend, *, progress: Callable[[int], None] | None = None) -> dict[str, int]:
    """Encrypt the data keys of all memory stores again, with the current key-encryption key.

    Returns how many stores had each of the `OUTCOMES`. In `rewrapped` stores, the data key was encrypted again. In
    `current` stores, this was not necessary. The other stores were skipped: their keys are missing (`locked`), their
    data key was destroyed (`destroyed`), or they are not encrypted (`unsealed`). Texts stay unchanged, and the stores
    may be in use. If a rotation is interrupted, run it again. `progress` is called after each store with the number of
    stores processed so far. At the end, the data keys in their old encrypted form are removed from all files of the
    backend. Raises `Unavailable` if a reader still needs these files.
    """
    done = dict.fromkeys(OUTCOMES, 0)
    for store in all_stores(backend):
        done[_rewrap(backend, store)] += 1
        if progress is not None:
            progress(sum(done.values()))
    if done["rewrapped"]:
        _purge(backend)
    return done


def status(backend: Backend) -> list[StoreStatus]:
    """Return the encryption state of each memory store, oldest first.

    If `backend` was opened without keys, encrypted stores are not readable.
    """
    found = []
    for store in all_stores(backend):
        seal, problem = StoreSeal(), None
        try:
            if store.seal is not None:
                seal = StoreSeal.parse(store.seal)
            capabilities.unlock(backend, store)
        except RetentiveError as error:
            problem = str(error)
        found.append(
            StoreStatus(
                id=store.id,
                key=store.key,
                name=store.name,
                sealed=store.seal is not None,
                readable=problem is None,
                kek_id=seal.kek,
                current=isinstance(backend, SealedBackend) and seal.kek == backend.keys.current_id,
                destroyed_at=seal.destroyed_at,
                problem=problem,
            )
        )
    return found


def destroy(backend: Backend, store_id: str) -> str:
    """Destroy the data key of a memory store, so that the store can never be read again.

    Returns the time of the destruction. No keys are needed. Older copies, such as backups, stay readable until the
    key-encryption key is destroyed. Raises `Unavailable` if a reader still needs files that contain the data key.
    """
    inner, clock = (backend.inner, backend.clock) if isinstance(backend, SealedBackend) else (backend, time.time)

    def work(tx: Transaction) -> str:
        if tx.state.seal is None:
            raise InvalidInput("the memory store is not encrypted, so it has no key to destroy")
        seal = StoreSeal.parse(tx.state.seal)
        if seal.destroyed_at is None:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock()))
            seal = replace(seal, kek=None, key=None, destroyed_at=now)
            tx.set_metadata(seal=seal.to_text())
        return str(seal.destroyed_at)

    since = inner.write(store_id, work, may_use_reserve=True)
    _purge(inner)
    return since


def _purge(backend: Backend) -> None:
    if not backend.purge():
        raise Unavailable(
            "the database log still contains old copies of encrypted data keys, because a reader uses the log;"
            " try again later"
        )


def _rewrap(backend: SealedBackend, store: StoreInfo) -> str:
    """Encrypt the data key of a store with the current key-encryption key. Returns one of the `OUTCOMES`."""
    if store.seal is None:
        return "unsealed"

    def work(tx: Transaction) -> str:
        seal = StoreSeal.parse(tx.state.seal or "")
        if seal.destroyed_at is not None:
            return "destroyed"
        if seal.kek == backend.keys.current_id:
            return "current"
        try:
            key = seal.data_key(store.id, backend.keys)
        except Locked:
            return "locked"
        tx.set_metadata(seal=seal.holding(key, store.id, backend.keys).to_text())
        return "rewrapped"

    return backend.inner.write(store.id, work)
