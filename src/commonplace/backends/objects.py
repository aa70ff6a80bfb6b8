"""Memory stores in object storage: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage, or memory.

Safe for any number of threads, processes and hosts: the root of each memory store (`objects_root.py`) is replaced by
compare-and-swap, and only if it is still the one that was looked at. A read asks for the root unless it is as before,
and keeps what never changes; so a view costs one round trip, and a write at most three that wait for each other.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar, cast
from weakref import WeakValueDictionary

from commonplace.backends import forking
from commonplace.backends.base import Backend, Clock, NewId, Snapshot, StoreInfo, Transaction, now_us, sortable_id
from commonplace.backends.objects_cache import DEFAULT_CACHE_BYTES, Cache
from commonplace.backends.objects_collect import COLLECT_AFTER_S, collect
from commonplace.backends.objects_commit import TEXT_GOOD_FOR_S, Committer, Held, Roots
from commonplace.backends.objects_driver import Client, Place
from commonplace.backends.objects_folding import Sizes
from commonplace.backends.objects_requests import Missing, Requests, Taken, Unsure, together, within
from commonplace.backends.objects_root import Root, encode_root, pack, unpack
from commonplace.backends.objects_snapshot import Gone, Immutables, ObjectsSnapshot
from commonplace.backends.queue import StoreJob, WriteQueue
from commonplace.errors import CommonplaceError, Damaged, InvalidInput, NotFound, Unavailable

T = TypeVar("T")
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PREFIX = "memstore_"


def open_objects(url: str, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> ObjectsBackend:
    """The backend at `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` or `memory://name`.

    Credentials come from the environment, as the clouds' own tools take them; options from the URL's query: `endpoint`,
    `region`, `account`, `allow_http=true`, `timeout_s=30`, `quirk=unquoted-etag`. Raises `InvalidInput`.
    """
    return ObjectsBackend(Client(Place.parse(url)), clock=clock, new_id=new_id)


class ObjectsBackend(Backend):
    """Memory stores at the place of a client. `cache_bytes` bounds what is kept of objects that never change."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock = time.time,
        new_id: NewId = sortable_id,
        sizes: Sizes | None = None,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self.clock = clock
        self.new_id = new_id
        self._sizes = sizes or Sizes()
        self._cache_bytes = cache_bytes
        self._requests = Requests(client)
        self._closed = False
        self._new_state()
        forking.watch(self)

    def _new_state(self) -> None:
        self._cache = Cache(self._cache_bytes)
        self._roots = Roots(self._requests, Cache(self._cache_bytes))
        self._committer = Committer(
            self._requests, self._roots, self._objects, clock=self.clock, new_id=self.new_id, sizes=self._sizes
        )
        self._queues: WeakValueDictionary[str, WriteQueue[StoreJob]] = WeakValueDictionary()
        self._running: set[str] = set()
        self._lock = threading.Lock()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Over a fork: nothing has to come to rest, since the child leaves alone what it inherits."""
        yield

    def forget_threads(self) -> None:
        """In a forked child: other threads, and the locks they held, are not there."""
        self._requests.forget_threads()
        self._new_state()

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the backend is closed")

    def _objects(self, store_id: str) -> Immutables:
        return Immutables(store_id, self._requests, self._cache)

    # -- memory stores ---------------------------------------------------------------------------------------

    def create_store(self, *, key: str | None, name: str, seal: str | None = None) -> StoreInfo:
        self._check_open()
        if key is None:
            return self._made(self._new_root(None, name, seal)).info()
        root = self._root_of_key(key) or self._claim(key, self._new_root(key, name, seal))
        return self._made(root).info()

    def _new_root(self, key: str | None, name: str, seal: str | None) -> Root:
        at = now_us(self.clock)
        store_id = self.new_id(_PREFIX, at)
        if not _ID.fullmatch(store_id):
            raise InvalidInput("ids must be made of letters, digits, '_' and '-', to name objects by them")
        return Root(store_id, key, name, at, seal)

    def _claim(self, key: str, root: Root) -> Root:
        """Take a key for a store that is not there yet; the store it is taken for, which may be another's."""
        data = pack("key", [root.id, root.key, root.name, root.created, root.seal])
        deadline = time.monotonic() + self._requests.timeout_s
        while within(deadline):
            with suppress(Taken, Unsure):
                self._requests.put_new(_key_object(key), data)
                return root
            found = self._root_of_key(key)
            if found is not None:
                return found
        raise Unavailable("the object storage cannot be reached, or failed")

    def _root_of_key(self, key: str) -> Root | None:
        """The empty root of the store a key was taken for."""
        try:
            data, _ = self._requests.get(_key_object(key))
        except Missing:
            return None
        try:
            root = Root(*unpack("key", data))
        except TypeError:
            raise Damaged("the key of a memory store cannot be read") from None
        if root.key != key:
            raise Damaged("the key of a memory store is that of another")
        return root

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

    def get_store(self, id_or_key: str) -> StoreInfo | None:
        self._check_open()
        if id_or_key.startswith(_PREFIX) and _ID.fullmatch(id_or_key):
            with suppress(NotFound):
                return self._roots.now(id_or_key).root.info()
        begun = self._root_of_key(id_or_key)
        if begun is not None:
            with suppress(NotFound):
                return self._roots.now(begun.id).root.info()
        return None

    def list_stores(self, *, after: str | None = None, limit: int | None = None) -> list[StoreInfo]:
        self._check_open()
        if limit is not None and limit <= 0:
            return []
        ids: list[str] = []
        offset = Roots.key(after) if after is not None and _ID.fullmatch(after) else None
        for listed in self._requests.names("roots", after=offset):
            store_id = listed.key.rpartition("/")[2]
            if after is None or store_id > after:
                ids.append(store_id)
            if limit is not None and len(ids) >= limit:
                break
        found = together([partial(self._info_or_none, store_id) for store_id in ids])
        return [info for info in found if info is not None]

    def _info_or_none(self, store_id: str) -> StoreInfo | None:
        try:
            return self._roots.now(store_id).root.info()
        except NotFound:
            return None

    # -- reading and writing ---------------------------------------------------------------------------------

    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        self._check_open()
        _check_id(store_id)
        held = self._roots.now(store_id)
        while True:
            try:
                return work(ObjectsSnapshot(held.root, self._objects(store_id)))
            except Gone:
                known, held = held, self._roots.now(store_id)
                if held.tag == known.tag:
                    raise

    def write(self, store_id: str, work: Callable[[Transaction], T], *, frees: bool = False) -> T:
        self._check_open()
        _check_id(store_id)
        queue = self._queue(store_id)
        if store_id in self._running:
            self._committer.rehearse(store_id, work)
        try:
            return cast("T", queue.submit(StoreJob(store_id, work, frees=frees)))
        finally:
            self._fold_if_due(store_id, queue)

    def _fold_if_due(self, store_id: str, queue: WriteQueue[StoreJob]) -> None:
        """Shorten the log, while others go on; they wait for the commit alone."""
        held = self._committer.due(store_id)
        if held is not None:
            with suppress(CommonplaceError):  # the change is made, and a later writer folds
                prepared = self._committer.prepare(held)
                with queue.paused():
                    self._committer.use(store_id, prepared)

    def collect(self, store_id: str, *, older_than_s: float = COLLECT_AFTER_S) -> int:
        """Delete what crashed writers left behind and what folding replaced, if it is old enough; how many objects.

        Nobody has to stop for it. An age below two hours is refused, since a writer may still be at work.
        """
        self._check_open()
        _check_id(store_id)
        if older_than_s < 2 * TEXT_GOOD_FOR_S:
            raise InvalidInput(f"what is younger than {2 * TEXT_GOOD_FOR_S:.0f} seconds may be in use")
        before = datetime.fromtimestamp(self.clock() - older_than_s, UTC)
        return collect(
            store_id,
            before,
            requests=self._requests,
            roots=self._roots,
            committer=self._committer,
            objects=self._objects(store_id),
        )

    def _queue(self, store_id: str) -> WriteQueue[StoreJob]:
        with self._lock:
            queue = self._queues.get(store_id)
            if queue is None:
                queue = self._queues[store_id] = WriteQueue(partial(self._run_batch, store_id))
            return queue

    def _run_batch(self, store_id: str, jobs: Sequence[StoreJob]) -> None:
        if self._closed:
            for job in jobs:
                job.error = Unavailable("the backend is closed")
            return
        self._running.add(store_id)
        try:
            self._committer.run(store_id, jobs)
        finally:
            self._running.discard(store_id)


def _check_id(store_id: str) -> None:
    if not _ID.fullmatch(store_id):
        raise NotFound(f"there is no memory store {store_id}")


def _key_object(key: str) -> str:
    """Where the store of a key is named: keys may hold anything, names of objects may not."""
    return f"keys/{hashlib.sha256(json.dumps(key).encode()).hexdigest()}"
