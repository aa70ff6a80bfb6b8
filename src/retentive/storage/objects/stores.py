"""Memory stores in object storage: making, finding, listing and erasing them.

A key is an object that names a store, taken once. When the store is erased the object stays, and says that the key is
free: it can only be written over by compare-and-swap, while a deletion might hit one that took the key anew.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import NamedTuple

from retentive.errors import Damaged, InvalidInput, NotFound, Unavailable
from retentive.storage.contract import Actor, StoreInfo, now_us
from retentive.storage.objects.commit import Committer, Held, Roots
from retentive.storage.objects.manifest import Erased, Root, encode_root
from retentive.storage.objects.purge import marks_of, put_mark
from retentive.storage.objects.records import pack, unpack
from retentive.storage.objects.requests import Missing, Requests, Tag, Taken, Unsure, together, within
from retentive.storage.objects.transaction import Means
from retentive.values.records import to_us

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PREFIX = "memstore_"
_AT_ONCE = 64


class Key(NamedTuple):
    """What is known of a key: the object's tag, None if there is none, and the new store it was taken for."""

    tag: Tag | None
    root: Root | None


class Stores:
    """The memory stores of one place. Threads may share it."""

    def __init__(self, requests: Requests, roots: Roots, committer: Committer, means: Means) -> None:
        self._requests = requests
        self._roots = roots
        self._committer = committer
        self._means = means

    # -- making ----------------------------------------------------------------------------------------------

    def create(
        self, *, key: str | None, name: str, seal: str | None, store_id: str | None, created_at: datetime | None
    ) -> StoreInfo:
        """A new memory store, or the one that has the key or the id."""
        new = self._new_root(key, name, seal, store_id, created_at)
        if key is None:
            return self._made(new).info()
        found = self._key(key)
        deadline = time.monotonic() + self._requests.timeout_s
        while within(deadline):
            if found.root is not None:
                made = self._made(found.root)
                if made.erased is None and made.key == key:
                    return made.info()
            if store_id is not None:
                with suppress(NotFound):
                    return self._roots.now(store_id).root.info()
            with suppress(Taken, Unsure):
                self._put_key(key, pack("key", [new.id, new.key, new.name, new.created, new.seal]), found.tag)
                return self._made(new).info()
            found = self._key(key)
        raise Unavailable("the object storage cannot be reached, or failed")

    def _new_root(
        self, key: str | None, name: str, seal: str | None, store_id: str | None, created_at: datetime | None
    ) -> Root:
        at = now_us(self._means.clock) if created_at is None else to_us(created_at)
        chosen = self._means.new_id(_PREFIX, at) if store_id is None else store_id
        if not _ID.fullmatch(chosen):
            raise InvalidInput("ids must be made of letters, digits, '_' and '-', to name objects by them")
        return Root(chosen, key, name, at, seal)

    def _put_key(self, key: str, data: bytes, tag: Tag | None) -> None:
        if tag is None:
            self._requests.put_new(_key_object(key), data)
        else:
            self._requests.replace(_key_object(key), data, tag)

    def _key(self, key: str) -> Key:
        try:
            data, tag = self._requests.get(_key_object(key))
        except Missing:
            return Key(None, None)
        value = unpack("key", data)
        if value is None:
            return Key(tag, None)
        try:
            root = Root(*value)
        except TypeError:
            raise Damaged("the key of a memory store cannot be read") from None
        if root.key != key:
            raise Damaged("the key of a memory store is that of another")
        return Key(tag, root)

    def _made(self, root: Root) -> Root:
        """The root of a store whose making was begun, here or by one that crashed."""
        deadline = time.monotonic() + self._requests.timeout_s
        while within(deadline):
            with suppress(NotFound):
                if self._roots.cached(root.id) is not None or root.key is not None:
                    return self._roots.now(root.id).root
            try:
                data = encode_root(root)
                tag = self._requests.put_new(Roots.key(root.id), data)
                return self._roots.keep(Held(tag, root), len(data)).root
            except (Taken, Unsure):
                with suppress(NotFound):
                    return self._roots.now(root.id).root
        raise Unavailable("the object storage cannot be reached, or failed")

    # -- finding ---------------------------------------------------------------------------------------------

    def get(self, id_or_key: str) -> StoreInfo | None:
        """The store with this id, also if it was erased; else the one with this key."""
        if id_or_key.startswith(_PREFIX) and _ID.fullmatch(id_or_key):
            with suppress(NotFound):
                return self._roots.now(id_or_key).root.info()
        begun = self._key(id_or_key).root
        found = None if begun is None else self._present(begun.id)
        return found if found is not None and found.key == id_or_key else None

    def listed(self, *, after: str | None, limit: int | None) -> list[StoreInfo]:
        """Stores in the order of their ids."""
        ids = self._ids(after)
        found: list[StoreInfo] = []
        while limit is None or len(found) < limit:
            some = list(islice(ids, _AT_ONCE if limit is None else min(limit - len(found), _AT_ONCE)))
            if not some:
                break
            infos = together([partial(self._present, store_id) for store_id in some])
            found += [info for info in infos if info is not None]
        return found

    def _ids(self, after: str | None) -> Iterator[str]:
        offset = Roots.key(after) if after is not None and _ID.fullmatch(after) else None
        for listed in self._requests.names("roots", after=offset):
            store_id = listed.key.rpartition("/")[2]
            if after is None or store_id > after:
                yield store_id

    def _present(self, store_id: str) -> StoreInfo | None:
        with suppress(NotFound):
            return self._roots.live(store_id).root.info()
        return None

    # -- erasing ---------------------------------------------------------------------------------------------

    def mark_erased(self, store_id: str, actor: Actor | None) -> None:
        """Replace the root by one that says that the store is erased. For one that is alone in this process."""
        if self._roots.now(store_id).root.erased is None:
            put_mark(self._requests, store_id)
        erased = Erased(now_us(self._means.clock), None if actor is None else str(actor))
        self._committer.change(store_id, lambda root: _emptied(root, erased))

    def clear(self, store_id: str) -> int:
        """Delete all that is left of an erased store, and free its key; how many objects. Once more does no harm."""
        root = self._roots.now(store_id).root
        keys = [listed.key for listed in self._requests.names(f"stores/{store_id}")]
        self._requests.delete(keys)
        if root.key is not None:
            self._free(root.key, store_id)
            self._committer.change(store_id, lambda now: now if now.key is None else replace(now, key=None))
        self._requests.delete(marks_of(self._requests, store_id).get(store_id, []))
        return len(keys)

    def _free(self, key: str, store_id: str) -> None:
        deadline = time.monotonic() + self._requests.timeout_s
        while within(deadline):
            found = self._key(key)
            if found.root is None or found.root.id != store_id:
                return
            with suppress(Taken, Unsure):
                self._put_key(key, pack("key", None), found.tag)
                return
        raise Unavailable("the object storage cannot be reached, or failed")


def check_id(store_id: str) -> None:
    """Raises `NotFound` for what cannot be an id."""
    if not _ID.fullmatch(store_id):
        raise NotFound(f"there is no memory store {store_id}")


def _emptied(root: Root, erased: Erased) -> Root:
    """What is left of a store: its key, too, until it is free."""
    if root.erased is not None:
        return root
    return Root(root.id, root.key, "", root.created, None, folds=root.folds, erased=erased)


def _key_object(key: str) -> str:
    """Where the store of a key is named: keys may hold anything, names of objects may not."""
    return f"keys/{hashlib.sha256(json.dumps(key).encode()).hexdigest()}"
