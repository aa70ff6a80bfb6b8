"""Encryption layer: a backend that wraps another backend. The inner backend stores only encrypted data.

Every memory store has a random data key. A key-encryption key (`keys.py`) encrypts the data key. The encrypted data key
is stored with the store. Texts, hashes and (with `seal_paths`) names are encrypted. Data is verified before it is
returned. A read of data that was modified, moved or planted raises `Damaged`. docs/encryption.md lists what is not
protected.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TypeVar, Unpack

from retentive.errors import Damaged, InvalidInput, Locked, RetentiveError, Unavailable, UnknownSchema
from retentive.storage import capabilities
from retentive.storage.capabilities import Checkable, Encrypting
from retentive.storage.contract import (
    DEFAULT_WORKSPACE,
    Actor,
    Backend,
    Clock,
    NewStore,
    Snapshot,
    StoreInfo,
    StoreSelection,
    Transaction,
)
from retentive.storage.findings import Finding, found
from retentive.storage.paging import all_stores
from retentive.storage.sealed.codec import StoreKeys
from retentive.storage.sealed.keys import KEY_BYTES, KeyWrapper
from retentive.storage.sealed.snapshot import SealedSnapshot, SealedTransaction
from retentive.storage.sealed.store_seal import StoreSeal, timestamp

T = TypeVar("T")
_MAX_STORES = 1_000  # stores whose keys are in the cache


class _Pending(Exception):
    """The store has no data key yet, because the process that created the store ended before it created the key."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class SealedBackend(Backend, Checkable, Encrypting):
    """Backend that encrypts the memory stores of the backend `inner`.

    With `seal_paths`, the paths in new stores are encrypted too.
    """

    def __init__(self, inner: Backend, keys: KeyWrapper, *, seal_paths: bool = False, clock: Clock = time.time) -> None:
        self.inner: Backend = inner
        self.keys = keys
        self.clock = clock
        self._seal_paths = seal_paths
        self._opened: dict[str, tuple[str, StoreKeys]] = {}  # store id -> its seal, and the keys in the seal

    def create_store(self, **new: Unpack[NewStore]) -> StoreInfo:
        if new.get("seal") is not None:
            raise InvalidInput("a memory store cannot be encrypted twice")
        new["seal"] = StoreSeal(self._seal_paths, timestamp(self.clock)).to_text()
        properties, new["properties"] = new.get("properties"), None  # encrypted with the key, which needs the store id
        if properties is not None:
            new["name"] = new["key"] or "encrypted"  # the real name is one of the properties
        made = self.inner.create_store(**new)
        if made.seal is None or not StoreSeal.parse(made.seal).pending:
            return self._opened_info(made)
        made = replace(made, seal=self._give_key(made.id, made.seal))
        if properties is not None:
            self.write(made.id, lambda tx: None if tx.properties else tx.set_metadata(properties=properties))
        return replace(made, properties=properties)

    def get_store(self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo | None:
        found = self.inner.get_store(id_or_key, workspace=workspace)
        return None if found is None else self._opened_info(found)

    def list_stores(self, **chosen: Unpack[StoreSelection]) -> list[StoreInfo]:
        return [self._opened_info(info) for info in self.inner.list_stores(**chosen)]

    def _opened_info(self, info: StoreInfo) -> StoreInfo:
        """Return the store with decrypted properties, or without properties if they cannot be decrypted."""
        if info.properties is None or info.seal is None:
            return info
        try:
            properties = self._keys_of(info.id, info.seal).open_metadata("properties", info.properties)
        except (Locked, Damaged, UnknownSchema, _Pending):  # reported when the store is opened
            properties = None
        return replace(info, properties=properties)

    def unlock(self, store: StoreInfo) -> None:
        try:
            self._keys_of(store.id, store.seal)
        except _Pending as pending:
            self._give_key(store.id, pending.text)

    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        def unsealed(snapshot: Snapshot) -> T:
            return work(SealedSnapshot(snapshot, self._keys_of(store_id, snapshot.seal)))

        return self._with_key(store_id, lambda: self.inner.read(store_id, unsealed))

    def write(self, store_id: str, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        def sealing(tx: Transaction) -> T:
            return work(SealedTransaction(tx, self._keys_of(store_id, tx.seal)))

        return self._with_key(store_id, lambda: self.inner.write(store_id, sealing, may_use_reserve=may_use_reserve))

    def _with_key(self, store_id: str, call: Callable[[], T]) -> T:
        """Call `call` and return its result. If the store has no data key yet, create the key and call again."""
        try:
            return call()
        except _Pending as pending:
            self._give_key(store_id, pending.text)
        return call()

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        self._opened.pop(store_id, None)
        self.inner.erase_store(store_id, actor)

    def put_side_records(
        self, store_id: str, kind: str, values: Mapping[str, str | None], *, wait: bool = True
    ) -> None:
        keys = self._keys_at_hand(store_id)
        sealed = {key: None if value is None else keys.seal_record(kind, key, value) for key, value in values.items()}
        self.inner.put_side_records(store_id, kind, sealed, wait=wait)

    def side_records(
        self, store_id: str, kind: str, *, after: str = "", limit: int | None = None
    ) -> Iterator[tuple[str, str]]:
        keys, found = self._keys_at_hand(store_id), self.inner.side_records(store_id, kind, after=after, limit=limit)
        return ((key, keys.open_record(kind, key, value)) for key, value in found)

    def _keys_at_hand(self, store_id: str) -> StoreKeys:
        held = self._opened.get(store_id)
        return held[1] if held is not None else self.read(store_id, lambda _: self._opened[store_id][1])

    def check(self, *, quick: bool = False) -> Iterator[Finding]:
        yield from capabilities.check(self.inner, quick=quick)
        for store in all_stores(self.inner):
            if store.seal is not None:
                yield from self._check_seals(store)

    def _check_seals(self, store: StoreInfo) -> Iterator[Finding]:
        """Yield a finding for each memory or version whose encrypted metadata cannot be decrypted.

        A store whose key is missing is skipped.
        """

        def work(inner: Snapshot) -> list[Finding]:
            sealed = SealedSnapshot(inner, self._keys_of(store.id, inner.seal))
            return [found("seal_wrong", store.id, subject) for subject in sealed.altered()]

        try:
            yield from self.inner.read(store.id, work)
        except (RetentiveError, _Pending):
            return  # the checks that read the store report the problem

    def repair(self) -> None:
        capabilities.repair(self.inner)

    def close(self) -> None:
        self._opened.clear()
        self.inner.close()

    def _keys_of(self, store_id: str, seal: str | None) -> StoreKeys:
        """Return the keys of a store. `seal` is its current seal, so changes by other processes apply at once."""
        held = self._opened.get(store_id)
        if held is not None and held[0] == seal:
            return held[1]
        self._opened.pop(store_id, None)
        if seal is None:
            raise InvalidInput(
                "the memory store is not encrypted; open it without keys, or encrypt it with `retentive migrate`"
            )
        parsed = StoreSeal.parse(seal)
        if parsed.pending:
            raise _Pending(seal)
        keys = parsed.opened(store_id, self.keys)
        if len(self._opened) >= _MAX_STORES:
            self._opened.clear()
        self._opened[store_id] = seal, keys
        return keys

    def _give_key(self, store_id: str, pending: str) -> str:
        """Create the data key of a new store, unless another process has created it. Returns the current seal."""
        given = StoreSeal.parse(pending).holding(os.urandom(KEY_BYTES), store_id, self.keys).to_text()

        def work(tx: Transaction) -> str | None:
            if tx.seal == pending:
                if tx.revision:
                    raise Damaged("the data key of the encrypted memory store is missing, although the store has data")
                tx.set_metadata(seal=given)
            return tx.seal

        return self.inner.write(store_id, work) or ""


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
    inner = backend.inner if isinstance(backend, SealedBackend) else backend
    clock = backend.clock if isinstance(backend, SealedBackend) else time.time

    def work(tx: Transaction) -> str:
        if tx.seal is None:
            raise InvalidInput("the memory store is not encrypted, so it has no key to destroy")
        seal = StoreSeal.parse(tx.seal)
        if seal.destroyed_at is None:
            seal = seal.destroyed(clock)
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
    """Encrypt the data key of a store with the current key-encryption key.

    Returns the outcome: "rewrapped", "current", "locked", "destroyed" or "unsealed". `Rotated` has a field for each
    outcome, with the number of stores.
    """
    while store.seal is not None:
        old = store.seal
        seal = StoreSeal.parse(old)
        if seal.destroyed_at is not None:
            return "destroyed"
        if seal.kek_id == backend.keys.current_id or seal.pending:
            return "current"
        try:
            key = seal.data_key(store.id, backend.keys)
        except Locked:
            return "locked"
        now = timestamp(backend.clock)
        new = replace(seal, rotated_at=now).holding(key, store.id, backend.keys).to_text()
        found = backend.inner.write(store.id, partial(_exchange, old=old, new=new))
        if found == old:
            return "rewrapped"
        store = replace(store, seal=found)  # another process has replaced the seal, so try again
    return "unsealed"


def _exchange(tx: Transaction, *, old: str, new: str) -> str | None:
    """Replace the seal `old` with `new`, unless the store has another seal.

    Returns the seal that the store had before this call.
    """
    found = tx.seal
    if found == old:
        tx.set_metadata(seal=new)
    return found


def _status(backend: Backend, store: StoreInfo) -> StoreStatus:
    plain = StoreStatus(id=store.id, key=store.key, name=store.name, sealed=store.seal is not None, readable=False)
    seal = None
    try:
        seal = StoreSeal.parse(store.seal) if store.seal is not None else None
        capabilities.unlock(backend, store)
        found = replace(plain, readable=True)
    except RetentiveError as error:
        found = replace(plain, problem=str(error))
    if seal is None:
        return found
    return replace(
        found,
        kek_id=seal.kek_id,
        current=isinstance(backend, SealedBackend) and seal.kek_id == backend.keys.current_id,
        paths=seal.paths,
        created_at=seal.created_at,
        rotated_at=seal.rotated_at,
        destroyed_at=seal.destroyed_at,
    )
