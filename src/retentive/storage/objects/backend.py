"""Object storage backend: S3 or a compatible service, Google Cloud Storage, Azure Blob Storage, or process memory.

Any number of threads, processes and hosts may write to a memory store, because its manifest (`manifest.py`) is replaced
by compare-and-swap. A read fetches the manifest with If-None-Match. A manifest refers to pages and texts, which never
change and are cached. A view therefore needs one round trip. A write needs at most three round trips, one after the
other.

For each store key there is an object with the first manifest of the store that has the key. When the store is erased, a
value that marks the key as free takes its place: a request to delete the object would have no condition, so it could
delete the object of a new store with the same key.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TypeVar, Unpack, cast
from weakref import WeakValueDictionary

from retentive.errors import Closed, Damaged, InvalidInput, NotFound
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
)
from retentive.storage.findings import Finding
from retentive.storage.objects import reachability
from retentive.storage.objects.batch import Commit
from retentive.storage.objects.manifest import MANIFESTS, Manifest, ManifestSwap
from retentive.storage.objects.ordered_map import Sizes
from retentive.storage.objects.reader import PACKS, Cache, Gone, Reader
from retentive.storage.objects.records import PACKED, pack, unpack
from retentive.storage.objects.requests import Missing, Requests, Tag, check_process, together
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.storage.objects.transaction import ObjectsTransaction
from retentive.storage.queue import StoreJob, WriteQueue, run_batch
from retentive.values.properties import damaged_store
from retentive.values.records import name_of, sortable_id, to_us

T = TypeVar("T")
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PREFIX = "memstore_"
_NEW = ("id", "key", "name", "created", "seal", "workspace", "properties")
_KEY = "key"
_AT_ONCE = 64


class ObjectsBackend(Backend):
    """Backend at `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` or `memory://name`.

    Credentials come from the environment variables that the tools of the cloud provider use. Options are in the query
    of the URL: `endpoint`, `region`, `account`, `allow_http=true`, `timeout_s=30`. Raises `InvalidInput`.

    Only the process that opened the backend may use it. In a forked child, every call raises `InvalidInput`.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock = time.time,
        new_id: NewId = sortable_id,
        sizes: Sizes | None = None,
    ) -> None:
        self.clock = clock
        self.new_id = new_id
        self._process = os.getpid()
        self._is_closed = False
        self._requests = Requests(url)
        cache, sizes = Cache(), sizes or Sizes()
        self._reader = partial(
            Reader,
            requests=self._requests,
            cache=cache,
            clock=clock,
            new_id=new_id,
            sizes=sizes,
            packing=lambda store_id, seal: self.packing(store_id, seal),  # noqa: PLW0108 - it may be replaced later
        )
        self._manifests = ManifestSwap(self._requests, cache)
        self._queues: WeakValueDictionary[str, WriteQueue] = WeakValueDictionary()
        self._written: set[str] = set()  # stores in which commits may have left replaced records and pages
        self._lock = threading.Lock()

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
        key, workspace, created_at = given["key"], given.get("workspace", DEFAULT_WORKSPACE), given.get("created_at")
        at, is_copy = now_us(self.clock) if created_at is None else to_us(created_at), bool(given.get("store_id"))
        named = given.get("store_id") or self.new_id(_PREFIX, at), key, given["name"], at, given.get("seal")
        new = Manifest(*named, workspace=workspace, properties=given.get("properties"))
        if not _ID.fullmatch(new.id):
            raise InvalidInput("store ids on object storage may contain only letters, digits, '_' and '-'")

        def step() -> StoreInfo:
            if key is not None:
                tag, begun = self._key(key, workspace)
                if begun is not None and (info := self._created(begun)).key == key:
                    return info
                if is_copy:
                    with suppress(NotFound):
                        return self._manifests.now(new.id).info()
                data = pack(_KEY, {name: getattr(new, name) for name in _NEW})
                self._requests.replace(_key_object(key, workspace), data, tag)
            return self._created(new)

        return self._requests.until_done(step)

    def _created(self, manifest: Manifest) -> StoreInfo:
        """Return the store, whose first manifest is written if it does not exist: its creator may have crashed."""
        with suppress(NotFound):
            return self._manifests.now(manifest.id).info()
        return self._manifests.create(manifest).info()

    def _key(self, key: str, workspace: str) -> tuple[Tag | None, Manifest | None]:
        """Return the tag of the object of a store key, and the first manifest of the store with this key, if any."""
        try:
            data, tag = self._requests.get(_key_object(key, workspace))
        except Missing:
            return None, None
        value = unpack(_KEY, data)
        try:
            begun = None if value is None else Manifest(**value)
        except TypeError:
            raise Damaged("the object that maps a store key to its memory store cannot be decoded") from None
        if begun is not None and (begun.key, begun.workspace) != (key, workspace):
            raise Damaged("the object that maps a store key to its memory store contains another key")
        return tag, begun

    def get_store(self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo | None:
        self._begin()
        if id_or_key.startswith(_PREFIX) and _ID.fullmatch(id_or_key):
            with suppress(NotFound):
                return self._manifests.now(id_or_key).info()
        _, begun = self._key(id_or_key, workspace)
        if begun is not None:
            with suppress(NotFound):
                found = self._manifests.live(begun.id).info()
                return found if found.key == id_or_key else None
        return None

    def list_stores(self, **chosen: Unpack[StoreSelection]) -> list[StoreInfo]:
        def listed(store_id: str) -> StoreInfo | None:
            try:
                return self._manifests.live(store_id).info()
            except NotFound:
                return None
            except Damaged as error:
                return damaged_store(store_id, error)

        self._begin()
        after, before, limit = chosen.get("after"), chosen.get("before"), chosen.get("limit")
        offset = ManifestSwap.key(after) if after is not None and _ID.fullmatch(after) else None
        names: Iterable[str] = (key.rpartition("/")[2] for key in self._requests.names(MANIFESTS, after=offset))
        if chosen.get("newest_first"):  # object storage lists names only in ascending order
            names = reversed(list(names))
        ids = (each for each in names if each > (after or "") and (before is None or each < before))
        workspace, found = chosen.get("workspace"), list[StoreInfo]()
        while some := list(islice(ids, _AT_ONCE if limit is None else min(limit - len(found), _AT_ONCE))):
            infos = together([partial(listed, store_id) for store_id in some])
            found += [info for info in infos if info and (info.damage or workspace in {None, info.workspace_id})]
        return found

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        self._begin(store_id)
        erased = now_us(self.clock), name_of(actor)

        def emptied(now: Manifest) -> Manifest:
            """Return a tombstone. It contains the store key until `_clear` has made the key free."""
            left = {name: getattr(now, name) for name in ("id", "key", "created", "workspace", "generation", "tag")}
            return now if now.erased else Manifest(name="", seal=None, erased=erased, **left)

        with self._queue(store_id).paused():
            if self._manifests.now(store_id).erased is None:
                reachability.put_mark(self._requests, store_id)
            self._manifests.change(store_id, emptied)
        self._clear(store_id)

    def _clear(self, store_id: str) -> int:
        """Delete the remaining objects of an erased store, and make its store key free. May be repeated.

        Returns the number of deleted objects.
        """
        manifest = self._manifests.now(store_id)
        keys = list(self._requests.names(f"stores/{store_id}"))
        self._requests.delete(keys)
        if (key := manifest.key) is not None:

            def free() -> None:
                tag, begun = self._key(key, manifest.workspace)
                if begun is not None and begun.id == store_id:
                    self._requests.replace(_key_object(key, manifest.workspace), pack(_KEY, None), tag)

            self._requests.until_done(free)
            self._manifests.change(store_id, lambda now: now if now.key is None else replace(now, key=None))
        self._requests.delete(reachability.marks_of(self._requests, store_id).get(store_id, []))
        return len(keys)

    def read(self, store_id: str, work: Callable[[Snapshot], T], *, first_path: str | None = None) -> T:
        self._begin(store_id)
        return self._look(store_id, lambda manifest, reader: work(ObjectsSnapshot(manifest, reader)))

    def _look(self, store_id: str, look: Callable[[Manifest, Reader], T]) -> T:
        """Return the result of `look` for the current manifest. Calls it again if objects were deleted meanwhile."""
        held = self._manifests.live(store_id)
        while True:
            try:
                return look(held, self._reader(store_id))
            except Gone:
                known, held = held, self._manifests.live(store_id)
                if held.tag == known.tag:
                    raise

    def write(self, store_id: str, work: Callable[[Transaction], T], **mode: Unpack[WriteMode]) -> T:
        self._begin(store_id)
        self._written.add(store_id)
        return cast("T", self._queue(store_id).submit(StoreJob(store_id, work, **mode)))

    def _queue(self, store_id: str) -> WriteQueue:
        with self._lock:
            reader = self._reader(store_id)
            run = partial(run_batch, attempt=lambda jobs: Commit(self._manifests, reader).run(jobs))
            return self._queues.setdefault(store_id, WriteQueue(run))

    def collect(self, store_id: str) -> int:
        """Delete orphans, and return their number. Other processes may write to the store meanwhile.

        Orphans are objects of crashed writers, and pages that compaction has replaced.
        """
        self._begin(store_id)
        if self._manifests.now(store_id).erased is not None:
            return self._clear(store_id)
        left = self._look(store_id, reachability.orphans)
        if left:
            self._sweep(store_id, [], packs=True)
        return len(left)

    def purge(self) -> bool:
        """Erase the bytes of all data that was redacted, pruned, erased or replaced.

        This includes data that a crashed process has left. Always returns True, because a reader cannot delay the
        erasure.
        """
        self._begin()
        marks = reachability.marks_of(self._requests)
        for store_id in sorted({*marks, *self._written}):
            with suppress(NotFound):
                if self._manifests.now(store_id).erased is not None:
                    self._clear(store_id)
                else:
                    self._sweep(store_id, marks.get(store_id, []))
            self._written.discard(store_id)
            self._requests.delete(marks.get(store_id, []))
        return True

    def _sweep(self, store_id: str, marks: Sequence[str], *, packs: bool = False) -> None:
        """Compact a store, so that commits in progress start again, and delete what nothing can refer to any more.

        Also erases the texts that `marks` name. Packs are compared only if `packs` is true or if there are such texts.
        """
        self.write(store_id, lambda tx: cast("ObjectsTransaction", tx).compact())
        texts = reachability.marked_texts(self._requests, marks)
        self._look(store_id, partial(reachability.sweep, packs=packs or bool(texts), texts=texts))

    def history_bytes(self, store_id: str) -> int:
        self._begin(store_id)
        reader = self._reader(store_id)

        def loose(manifest: Manifest, reader: Reader) -> int:
            snapshot = ObjectsSnapshot(manifest, reader)
            return sum(ref.length for ref in snapshot.superseded_texts() if not ref.is_packed)

        packs = sum(size for key, size in self._requests.sizes(reader.key(PACKS)) if key.endswith(PACKED))
        return packs + self._look(store_id, loose)

    def check(self, *, quick: bool = False) -> Iterator[Finding]:
        self._begin()
        yield from reachability.examine(self._manifests, self._reader, self._requests)


def _key_object(key: str, workspace: str) -> str:
    """Return the object key for a store key. It is a hash, since a store key may have characters that no name may."""
    return f"keys/{hashlib.sha256(json.dumps([workspace, key]).encode()).hexdigest()}"
