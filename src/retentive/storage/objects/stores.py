"""Creates, finds, lists and erases memory stores in object storage.

For each store key there is an object, which has the id of the store with this key. When the store is erased, this
object is not deleted. Instead, compare-and-swap replaces it with a value that marks the key as free. A request to
delete the object would have no condition, so it could delete the object of a new store that has just been created with
the same key.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Unpack

from retentive.errors import Closed, Damaged, InvalidInput, NotFound
from retentive.storage.contract import DEFAULT_WORKSPACE, Actor, Backend, NewStore, StoreInfo, StoreSelection, now_us
from retentive.storage.objects.manifest import MANIFESTS, Manifest
from retentive.storage.objects.manifest_swap import Held, ManifestSwap
from retentive.storage.objects.reachability import marks_of, put_mark
from retentive.storage.objects.reader import ObjectStorage
from retentive.storage.objects.records import pack, unpack
from retentive.storage.objects.requests import Missing, Requests, Tag, Taken, Unsure, check_process, together
from retentive.values.properties import damaged_store
from retentive.values.records import to_us

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PREFIX = "memstore_"
_NEW = ("id", "key", "name", "created", "seal", "workspace", "properties")
_AT_ONCE = 64


class StoresBackend(Backend):
    """Part of the object storage backend that creates, finds, lists and erases memory stores."""

    _process: int
    _storage: ObjectStorage
    _requests: Requests
    _manifests: ManifestSwap
    _is_closed = False

    def close(self) -> None:
        self._is_closed = True

    def _begin(self, store_id: str | None = None) -> None:
        """Raise an exception if the backend cannot be used. Every method calls this first."""
        check_process(self._process)
        if self._is_closed:
            raise Closed("the location is closed; open it again")
        if store_id is not None and not _ID.fullmatch(store_id):
            raise NotFound(f"there is no memory store {store_id}")

    def create_store(self, **given: Unpack[NewStore]) -> StoreInfo:
        self._begin()
        key, store_id, created_at = given["key"], given.get("store_id"), given.get("created_at")
        at = now_us(self._storage.clock) if created_at is None else to_us(created_at)
        new = Manifest(
            store_id or self._storage.new_id(_PREFIX, at),
            key,
            given["name"],
            at,
            given.get("seal"),
            workspace=given.get("workspace", DEFAULT_WORKSPACE),
            properties=given.get("properties"),
        )
        if not _ID.fullmatch(new.id):
            raise InvalidInput("store ids on object storage may contain only letters, digits, '_' and '-'")
        if key is None:
            return self._made(new)
        return self._requests.until_done(partial(self._made_under, key, new, is_copy=store_id is not None))

    def _made_under(self, key: str, new: Manifest, *, is_copy: bool) -> StoreInfo:
        """Reserve the store key `key` for the new store `new` and create the store. Return the store that has the key.

        `is_copy` is true if the caller chose the store id. In this case, an existing store with this id is returned.
        Raises `Taken` or `Unsure` if another process changes the key at the same time.
        """
        tag, begun = self._key(key, new.workspace)
        if begun is not None and (made := self._made(begun)).key == key:
            return made
        if is_copy:
            with suppress(NotFound):
                return self._manifests.now(new.id).manifest.info()
        data = pack("key", {name: getattr(new, name) for name in _NEW})
        self._requests.replace(_key_object(key, new.workspace), data, tag)
        return self._made(new)

    def _key(self, key: str, workspace: str) -> tuple[Tag | None, Manifest | None]:
        """Read the object that maps a store key to its store. Returns its tag and the first manifest of the store.

        The tag is None if the object does not exist. The manifest is None if no store has the key.
        """
        try:
            data, tag = self._requests.get(_key_object(key, workspace))
        except Missing:
            return None, None
        value = unpack("key", data)
        try:
            begun = None if value is None else Manifest(**value)
        except TypeError:
            raise Damaged("the object that maps a store key to its memory store cannot be decoded") from None
        if begun is not None and (begun.key, begun.workspace) != (key, workspace):
            raise Damaged("the object that maps a store key to its memory store contains another key")
        return tag, begun

    def _made(self, manifest: Manifest) -> StoreInfo:
        """Write the first manifest of a store, unless the store exists. Returns the store.

        The creation may have been started by another process that has crashed.
        """
        data = manifest.encoded()
        for _ in self._requests.attempts():
            with suppress(NotFound):
                return self._manifests.now(manifest.id).manifest.info()
            with suppress(Taken, Unsure):
                tag = self._requests.replace(ManifestSwap.key(manifest.id), data, None)
                return self._manifests.keep(Held(tag, manifest), len(data)).manifest.info()
        raise AssertionError("unreachable")

    def get_store(self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo | None:
        self._begin()
        if id_or_key.startswith(_PREFIX) and _ID.fullmatch(id_or_key):
            with suppress(NotFound):
                return self._manifests.now(id_or_key).manifest.info()
        _, begun = self._key(id_or_key, workspace)
        if begun is not None:
            with suppress(NotFound):
                found = self._manifests.live(begun.id).manifest.info()
                return found if found.key == id_or_key else None
        return None

    def list_stores(self, **chosen: Unpack[StoreSelection]) -> list[StoreInfo]:
        self._begin()
        after, before, limit = chosen.get("after"), chosen.get("before"), chosen.get("limit")
        offset = ManifestSwap.key(after) if after is not None and _ID.fullmatch(after) else None
        names: Iterable[str] = (key.rpartition("/")[2] for key, _ in self._requests.names(MANIFESTS, after=offset))
        if chosen.get("newest_first"):  # object storage lists names only in ascending order
            names = reversed(list(names))
        ids = (each for each in names if each > (after or "") and (before is None or each < before))
        workspace, found = chosen.get("workspace"), list[StoreInfo]()
        while some := list(islice(ids, _AT_ONCE if limit is None else min(limit - len(found), _AT_ONCE))):
            infos = together([partial(self._listed, store_id) for store_id in some])
            found += [info for info in infos if info and (info.damage or workspace in {None, info.workspace_id})]
        return found

    def _listed(self, store_id: str) -> StoreInfo | None:
        try:
            return self._manifests.live(store_id).manifest.info()
        except NotFound:
            return None
        except Damaged as error:
            return damaged_store(store_id, error)

    def _mark_erased(self, store_id: str, actor: Actor | None) -> None:
        """Replace the manifest of a store with an empty one that records the erasure (a tombstone).

        The tombstone contains the store key until `_clear` has made the key free. The caller must pause the queue of
        the store.
        """
        if self._manifests.now(store_id).manifest.erased is None:
            put_mark(self._requests, store_id)
        erased = now_us(self._storage.clock), None if actor is None else str(actor)

        def emptied(now: Manifest) -> Manifest:
            kept = replace(Manifest(now.id, now.key, "", now.created, None), workspace=now.workspace)
            return now if now.erased else replace(kept, generation=now.generation, erased=erased)

        self._manifests.change(store_id, emptied)

    def _clear(self, store_id: str) -> int:
        """Delete the remaining objects of an erased store, and make its store key free.

        Returns the number of deleted objects. If this method fails, call it again.
        """
        manifest = self._manifests.now(store_id).manifest
        keys = [key for key, _ in self._requests.names(f"stores/{store_id}")]
        self._requests.delete(keys)
        if manifest.key is not None:
            self._requests.until_done(partial(self._free, manifest.key, manifest.workspace, store_id))
            self._manifests.change(store_id, lambda now: now if now.key is None else replace(now, key=None))
        self._requests.delete(marks_of(self._requests, store_id).get(store_id, []))
        return len(keys)

    def _free(self, key: str, workspace: str, store_id: str) -> None:
        tag, begun = self._key(key, workspace)
        if begun is not None and begun.id == store_id:
            self._requests.replace(_key_object(key, workspace), pack("key", None), tag)


def _key_object(key: str, workspace: str) -> str:
    """Return the name of the object that maps a store key to its store.

    The name contains a hash of the key, because a key may contain characters that are not allowed in object names.
    """
    return f"keys/{hashlib.sha256(json.dumps([workspace, key]).encode()).hexdigest()}"
