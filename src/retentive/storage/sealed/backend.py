"""Encryption layer: a backend that wraps another backend. The inner backend stores only encrypted data.

Every memory store has a random data key. A key-encryption key (`keys.py`) encrypts the data key. The encrypted data key
is stored with the store. Texts and hashes are encrypted, paths are not. Data is verified before it is
returned. A read of data that was modified, moved or planted raises `Damaged`. docs/security.md lists what is not
protected.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar, Unpack

from retentive.errors import Damaged, InvalidInput, Locked, UnknownSchema
from retentive.storage.contract import (
    DEFAULT_WORKSPACE,
    Actor,
    Backend,
    Clock,
    NewId,
    NewStore,
    Snapshot,
    StoreInfo,
    StoreSelection,
    Transaction,
    WriteMode,
    now_us,
    sortable_id,
    to_datetime,
)
from retentive.storage.packs import PLAIN, Packing
from retentive.storage.sealed.codec import StoreKeys, StoreSeal
from retentive.storage.sealed.keys import KEY_BYTES, KeyWrapper
from retentive.storage.sealed.snapshot import SealedSnapshot, SealedTransaction
from retentive.values.records import to_us

T = TypeVar("T")
_MAX_STORES = 1_000  # stores whose keys are in the cache


class SealedBackend(Backend):
    """Backend that encrypts the memory stores of the backend `inner`."""

    encrypts = True
    inner: Backend

    def __init__(
        self,
        inner: Backend,
        keys: KeyWrapper,
        *,
        clock: Clock = time.time,
        new_id: NewId = sortable_id,
    ) -> None:
        self.inner = inner
        self.keys = keys
        self.clock = clock
        self._new_id = new_id
        # Keys by the seal of the store. To unwrap a data key, a key service is called.
        self._opened: dict[tuple[str, str | None], StoreKeys] = {}
        inner.packing = self._packing

    def create_store(self, **new: Unpack[NewStore]) -> StoreInfo:
        if new.get("seal") is not None:
            raise InvalidInput("a memory store cannot be encrypted twice")
        created_at = new.get("created_at")
        at = now_us(self.clock) if created_at is None else to_us(created_at)
        # The data key is bound to the id of the store, so the id is chosen here.
        store_id, data_key = new.get("store_id") or self._new_id("memstore_", at), os.urandom(KEY_BYTES)
        seal = StoreSeal().holding(data_key, store_id, self.keys)
        if new.get("properties") is not None:
            new["name"] = new["key"] or "encrypted"  # the real name is one of the properties
            new["properties"] = StoreKeys(data_key, store_id).seal_value(new["properties"], "properties")
        new |= {"seal": seal.to_text(), "store_id": store_id, "created_at": to_datetime(at)}
        return self._info(self.inner.create_store(**new))

    def get_store(self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo | None:
        info = self.inner.get_store(id_or_key, workspace=workspace)
        return None if info is None else self._info(info)

    def list_stores(self, **chosen: Unpack[StoreSelection]) -> list[StoreInfo]:
        return [self._info(info) for info in self.inner.list_stores(**chosen)]

    def _info(self, info: StoreInfo) -> StoreInfo:
        """Return the store with decrypted properties, or without properties if they cannot be decrypted."""
        if info.properties is None or info.seal is None:
            return info
        with suppress(Locked, Damaged, UnknownSchema):  # reported when the store is opened
            properties = self._keys_of(info.id, info.seal).open_value(info.properties, "properties")
            return replace(info, properties=properties)
        return replace(info, properties=None)

    def read(self, store_id: str, work: Callable[[Snapshot], T], *, first_path: str | None = None) -> T:
        def opening(inner: Snapshot) -> T:
            return work(SealedSnapshot(inner, self._keys_of(store_id, inner.state.seal)))

        return self.inner.read(store_id, opening, first_path=first_path)

    def write(self, store_id: str, work: Callable[[Transaction], T], **mode: Unpack[WriteMode]) -> T:
        def sealing(tx: Transaction) -> T:
            return work(SealedTransaction(tx, self._keys_of(store_id, tx.state.seal)))

        return self.inner.write(store_id, sealing, **mode)

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        self._opened = {store: keys for store, keys in self._opened.items() if store[0] != store_id}
        self.inner.erase_store(store_id, actor)

    def close(self) -> None:
        self._opened.clear()
        self.inner.close()

    def _packing(self, store_id: str, seal: str | None) -> Packing:
        return PLAIN if seal is None else self._keys_of(store_id, seal)

    def _keys_of(self, store_id: str, seal: str | None) -> StoreKeys:
        """Return the keys of a store. `seal` is its current seal, so changes by other processes apply at once."""
        keys = self._opened.get((store_id, seal))
        if keys is None:
            if seal is None:
                raise InvalidInput(
                    "the memory store is not encrypted; open it without keys, or run `retentive admin migrate`"
                )
            keys = StoreKeys(StoreSeal.parse(seal).data_key(store_id, self.keys), store_id)
            if len(self._opened) >= _MAX_STORES:
                self._opened.clear()
            self._opened[store_id, seal] = keys
        return keys
