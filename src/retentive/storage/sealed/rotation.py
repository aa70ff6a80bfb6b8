"""Encryption state of the memory stores of a location; rotation and destruction of their data keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from retentive.errors import InvalidInput, Locked, RetentiveError, Unavailable
from retentive.storage import capabilities
from retentive.storage.contract import Backend, StoreInfo, Transaction
from retentive.storage.paging import all_stores
from retentive.storage.sealed.backend import SealedBackend
from retentive.storage.sealed.store_seal import StoreSeal, timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """Encryption state of one memory store.

    `sealed` is true if the store is encrypted. `readable` is true if this process can read it. `current` is true if the
    data key of the store is encrypted with the current key-encryption key. `paths` is true if its paths are encrypted
    too. `problem` is the reason why the store cannot be read.
    """

    id: str
    key: str | None
    name: str
    sealed: bool
    readable: bool
    kek_id: str | None = None
    current: bool = False
    paths: bool = False
    created_at: str | None = None
    rotated_at: str | None = None
    destroyed_at: str | None = None
    problem: str | None = None


@dataclass(slots=True, kw_only=True)
class Rotated:
    """Result of a key rotation: how many memory stores had each outcome.

    In `rewrapped` stores, the data key was encrypted again with the current key-encryption key. In `current` stores,
    this was not necessary. The other stores were skipped: their keys are missing (`locked`), their data key was
    destroyed (`destroyed`), or they are not encrypted (`unsealed`).
    """

    rewrapped: int = 0
    current: int = 0
    locked: int = 0
    destroyed: int = 0
    unsealed: int = 0

    @property
    def total(self) -> int:
        """Number of all memory stores."""
        return sum(asdict(self).values())


def rotate(backend: SealedBackend, *, progress: Callable[[int], None] | None = None) -> Rotated:
    """Encrypt the data keys of all memory stores again, with the current key-encryption key.

    Texts stay unchanged, and the stores may be in use. If a rotation is interrupted, run it again. `progress` is called
    after each store with the number of stores processed so far. At the end, the data keys in their old encrypted form
    are removed from all files of the backend. Raises `Unavailable` if a reader still needs these files.
    """
    done = Rotated()
    for store in all_stores(backend):
        outcome = _rewrap(backend, store)
        setattr(done, outcome, getattr(done, outcome) + 1)
        if progress is not None:
            progress(done.total)
    if done.rewrapped:
        _purge(backend)
    return done


def status(backend: Backend) -> list[StoreStatus]:
    """Return the encryption state of each memory store, oldest first.

    If `backend` was opened without keys, encrypted stores are not readable.
    """
    return [_status(backend, store) for store in all_stores(backend)]


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
            seal = replace(seal, kek=None, key=None, destroyed_at=timestamp(clock))
            tx.set_metadata(seal=seal.to_text())
        return str(seal.destroyed_at)

    since = inner.write(store_id, work, may_use_reserve=True)
    _purge(inner)
    return since


def _purge(backend: Backend) -> None:
    if not capabilities.purge(backend):
        raise Unavailable(
            "the database log still contains old copies of encrypted data keys, because a reader uses the log;"
            " try again later"
        )


def _rewrap(backend: SealedBackend, store: StoreInfo) -> str:
    """Encrypt the data key of a store with the current key-encryption key. Returns the name of a field of `Rotated`."""
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
        rotated = replace(seal, rotated_at=timestamp(backend.clock))
        tx.set_metadata(seal=rotated.holding(key, store.id, backend.keys).to_text())
        return "rewrapped"

    return backend.inner.write(store.id, work)


def _status(backend: Backend, store: StoreInfo) -> StoreStatus:
    state = StoreStatus(id=store.id, key=store.key, name=store.name, sealed=store.seal is not None, readable=False)
    try:
        if store.seal is not None:
            seal = StoreSeal.parse(store.seal)
            state = replace(
                state,
                kek_id=seal.kek,
                current=isinstance(backend, SealedBackend) and seal.kek == backend.keys.current_id,
                paths=seal.paths,
                created_at=seal.created_at,
                rotated_at=seal.rotated_at,
                destroyed_at=seal.destroyed_at,
            )
        capabilities.unlock(backend, store)
    except RetentiveError as error:
        return replace(state, problem=str(error))
    return replace(state, readable=True)
