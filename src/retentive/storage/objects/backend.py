"""Memory stores in object storage: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage, or memory.

Safe for any number of threads, processes and hosts: the root of each memory store (`objects_root.py`) is replaced by
compare-and-swap, and only if it is still the one that was looked at. A read asks for the root unless it is as before,
and keeps what never changes; so a view costs one round trip, and a write at most three that wait for each other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar, cast
from weakref import WeakValueDictionary

from retentive.errors import InvalidInput, NotFound, RetentiveError, Unavailable
from retentive.storage import forking
from retentive.storage.capabilities import Checkable, Collectable, Purgeable
from retentive.storage.contract import Actor, Backend, Clock, NewId, Snapshot, StoreInfo, Transaction, sortable_id
from retentive.storage.findings import Finding
from retentive.storage.objects import check
from retentive.storage.objects.cache import DEFAULT_CACHE_BYTES, Cache
from retentive.storage.objects.collect import COLLECT_AFTER_S, collect
from retentive.storage.objects.commit import TEXT_GOOD_FOR_S, Committer, Roots
from retentive.storage.objects.compaction import Sizes
from retentive.storage.objects.driver import Client, Place
from retentive.storage.objects.immutables import Gone, Immutables
from retentive.storage.objects.manifest import Root
from retentive.storage.objects.notes import NoteSizes
from retentive.storage.objects.purge import marks_of, sweep
from retentive.storage.objects.requests import Requests
from retentive.storage.objects.side_records import Jottings
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.storage.objects.stores import Stores, check_id
from retentive.storage.objects.transaction import Means, ObjectsTransaction
from retentive.storage.queue import StoreJob, WriteQueue

T = TypeVar("T")


def open_objects(url: str, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> ObjectsBackend:
    """The backend at `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` or `memory://name`.

    Credentials come from the environment, as the clouds' own tools take them; options from the URL's query: `endpoint`,
    `region`, `account`, `allow_http=true`, `timeout_s=30`, `quirk=unquoted-etag`. Raises `InvalidInput`.
    """
    return ObjectsBackend(Client(Place.parse(url)), clock=clock, new_id=new_id)


class ObjectsBackend(Backend, Checkable, Collectable, Purgeable):
    """Memory stores at the place of a client. `cache_bytes` bounds what is kept of objects that never change."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock = time.time,
        new_id: NewId = sortable_id,
        sizes: Sizes | None = None,
        note_sizes: NoteSizes | None = None,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self.clock = clock
        self.new_id = new_id
        self._sizes = sizes or Sizes()
        self._note_sizes = note_sizes or NoteSizes()
        self._cache_bytes = cache_bytes
        self._requests = Requests(client)
        self._closed = False
        self._new_state()
        forking.watch(self)

    def _new_state(self) -> None:
        self._cache = Cache(self._cache_bytes)
        self._roots = Roots(self._requests, Cache(self._cache_bytes))
        means = Means(self.clock, self.new_id, self._sizes, self._note_sizes)
        self._committer = Committer(self._requests, self._roots, self._objects, means)
        self._stores = Stores(self._requests, self._roots, self._committer, means)
        self._jottings = Jottings(self._requests, self._cache, self._roots.live)
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

    def create_store(
        self,
        *,
        key: str | None,
        name: str,
        seal: str | None = None,
        store_id: str | None = None,
        created_at: datetime | None = None,
    ) -> StoreInfo:
        self._check_open()
        return self._stores.create(key=key, name=name, seal=seal, store_id=store_id, created_at=created_at)

    def get_store(self, id_or_key: str) -> StoreInfo | None:
        self._check_open()
        return self._stores.get(id_or_key)

    def list_stores(self, *, after: str | None = None, limit: int | None = None) -> list[StoreInfo]:
        self._check_open()
        return self._stores.listed(after=after, limit=limit)

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        self._check_open()
        check_id(store_id)
        with self._queue(store_id).paused():
            self._stores.mark_erased(store_id, actor)
        self._stores.clear(store_id)
        self._cache.clear(store_id)

    # -- reading and writing ---------------------------------------------------------------------------------

    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        self._check_open()
        check_id(store_id)
        held = self._roots.live(store_id)
        while True:
            try:
                return work(ObjectsSnapshot(held.root, self._objects(store_id)))
            except Gone:
                known, held = held, self._roots.live(store_id)
                if held.tag == known.tag:
                    raise

    def write(self, store_id: str, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        self._check_open()
        check_id(store_id)
        queue = self._queue(store_id)
        if store_id in self._running:
            self._committer.rehearse(store_id, work)
        try:
            return cast("T", queue.submit(StoreJob(store_id, work, may_use_reserve=may_use_reserve)))
        finally:
            self._fold_if_due(store_id, queue)
            self._sweep_if_due(store_id)

    def _fold_if_due(self, store_id: str, queue: WriteQueue[StoreJob]) -> None:
        """Shorten the log, while others go on; they wait for the commit alone."""
        held = self._committer.due(store_id)
        if held is not None:
            with suppress(RetentiveError):  # the change is made, and a later writer folds
                prepared = self._committer.prepare(held)
                with queue.paused():
                    self._committer.use(store_id, prepared)

    def _sweep_if_due(self, store_id: str) -> None:
        """Delete what commits of this process dropped."""
        marks = self._committer.sweeping.due(store_id)
        if marks is not None:
            with suppress(RetentiveError):  # the change is made, and `purge` finds the marks
                self._sweep(store_id, wholly=bool(marks))
                self._requests.delete(marks)

    def _sweep(self, store_id: str, *, wholly: bool) -> None:
        sweep(
            lambda: self._roots.live(store_id).root,
            partial(self._change, store_id),
            requests=self._requests,
            objects=self._objects(store_id),
            vain=self._committer.sweeping.vain(store_id),
            wholly=wholly,
        )

    def _change(self, store_id: str, change: Callable[[Root], Root]) -> None:
        with self._queue(store_id).paused():
            self._committer.change(store_id, change)

    def collect(self, store_id: str, *, older_than_s: float = COLLECT_AFTER_S) -> int:
        """Delete what crashed writers left behind and what folding replaced, if it is old enough; how many objects.

        Nobody has to stop for it. An age below two hours is refused, since a writer may still be at work.
        """
        self._check_open()
        check_id(store_id)
        if older_than_s < 2 * TEXT_GOOD_FOR_S:
            raise InvalidInput(f"what is younger than {2 * TEXT_GOOD_FOR_S:.0f} seconds may be in use")
        root = self._roots.now(store_id).root
        if root.erased is not None:
            return self._stores.clear(store_id)
        if root.pending:
            self._sweep(store_id, wholly=False)
        before = datetime.fromtimestamp(self.clock() - older_than_s, UTC)
        return collect(
            store_id,
            before,
            requests=self._requests,
            roots=self._roots,
            committer=self._committer,
            objects=self._objects(store_id),
        )

    def check(self) -> Iterator[Finding]:
        self._check_open()
        before = datetime.fromtimestamp(self.clock() - COLLECT_AFTER_S, UTC)
        return check.examine(self._requests, self._roots, self._objects, before)

    def repair(self) -> None:
        for store in self.list_stores():
            with suppress(RetentiveError):  # what cannot be read cannot be repaired
                self._change(store.id, lambda root: check.corrected(root, self._objects(root.id)))
                self.collect(store.id)

    def purge(self) -> bool:
        """Delete at once what was blanked, pruned, erased or replaced, also by processes that crashed meanwhile."""
        self._check_open()
        marks = marks_of(self._requests)
        for store_id in sorted({*marks, *self._committer.sweeping.dropping()}):
            with suppress(NotFound):
                self._purge_store(store_id)
            self._requests.delete(marks.get(store_id, []))
        return True

    def _purge_store(self, store_id: str) -> None:
        root = self._roots.now(store_id).root
        if root.erased is not None:
            self._stores.clear(store_id)
            return
        self.write(store_id, lambda tx: cast("ObjectsTransaction", tx).merge_notes())
        # Under another tag, a commit that is being tried will fail, and its next try puts a mark of its own.
        self._change(store_id, lambda now: now if now.erased else replace(now))
        self._sweep(store_id, wholly=True)

    # -- records beside the stores ---------------------------------------------------------------------------

    def put_side_records(self, store_id: str, kind: str, values: Mapping[str, str | None]) -> None:
        self._check_open()
        check_id(store_id)
        self._jottings.write(store_id, kind, values)

    def side_records(self, store_id: str, kind: str, *, after: str = "") -> Iterator[tuple[str, str]]:
        self._check_open()
        check_id(store_id)
        found = self._jottings.all(store_id, kind)
        return ((key, value) for key, value in found.items() if key > after)

    # -- batches ---------------------------------------------------------------------------------------------

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
