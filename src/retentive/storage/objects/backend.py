"""Object storage backend: S3 or a compatible service, Google Cloud Storage, Azure Blob Storage, or process memory.

Any number of threads, processes and hosts may write to a memory store, because its manifest (`manifest.py`) is replaced
by compare-and-swap. A read fetches the manifest with If-None-Match. A manifest refers to pages and texts, which never
change and are cached. A view therefore needs one round trip. A write needs at most three round trips, one after the
other.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TypeVar, cast
from weakref import WeakValueDictionary

from retentive.errors import InvalidInput, NotFound, RetentiveError
from retentive.storage.capabilities import Maintained
from retentive.storage.contract import Actor, Clock, NewId, Snapshot, Transaction
from retentive.storage.findings import Finding
from retentive.storage.objects import reachability, side_records
from retentive.storage.objects.commit import WRITTEN_IS_GOOD_FOR_S, commit_jobs
from retentive.storage.objects.manifest_swap import ManifestSwap
from retentive.storage.objects.ordered_map import Sizes
from retentive.storage.objects.reader import Cache, Gone, ObjectStorage, Reader
from retentive.storage.objects.requests import BUSY, ObjectLocation, Requests
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.storage.objects.stores import StoresBackend
from retentive.storage.objects.transaction import ObjectsTransaction
from retentive.storage.queue import StoreJob, WriteQueue
from retentive.values.records import sortable_id

T = TypeVar("T")


def open_objects(url: str, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> ObjectsBackend:
    """Open the backend at `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` or `memory://name`.

    Credentials come from the environment variables that the tools of the cloud provider use. Options are in the query
    of the URL: `endpoint`, `region`, `account`, `allow_http=true`, `timeout_s=30`, `quirk=unquoted-etag`. Raises
    `InvalidInput`.
    """
    return ObjectsBackend(ObjectLocation.parse(url), clock=clock, new_id=new_id)


class ObjectsBackend(StoresBackend, Maintained):
    """Backend that keeps memory stores in object storage.

    Only the process that opened the backend may use it. In a forked child, every call raises `InvalidInput`.
    """

    def __init__(
        self,
        location: ObjectLocation,
        *,
        clock: Clock = time.time,
        new_id: NewId = sortable_id,
        sizes: Sizes | None = None,
    ) -> None:
        self.clock = clock
        self.new_id = new_id
        self._process = os.getpid()
        self._requests = Requests(location)
        self._storage = ObjectStorage(self._requests, Cache(), clock, new_id, sizes or Sizes())
        self._reader = partial(Reader, storage=self._storage)
        self._manifests = ManifestSwap(self._storage)
        self._queues: WeakValueDictionary[str, WriteQueue] = WeakValueDictionary()
        self._written: set[str] = set()  # stores in which commits may have left replaced records and pages
        self._lock = threading.Lock()

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        self._begin(store_id)
        with self._queue(store_id).paused():
            self._mark_erased(store_id, actor)
        self._clear(store_id)

    def read(self, store_id: str, work: Callable[[Snapshot], T], *, first_path: str | None = None) -> T:
        self._begin(store_id)
        held = self._manifests.live(store_id)
        while True:
            try:
                return work(ObjectsSnapshot(held.manifest, self._reader(store_id)))
            except Gone:
                known, held = held, self._manifests.live(store_id)
                if held.tag == known.tag:
                    raise

    def write(
        self,
        store_id: str,
        work: Callable[[Transaction], T],
        *,
        may_use_reserve: bool = False,
        first_path: str | None = None,
    ) -> T:
        self._begin(store_id)
        self._written.add(store_id)
        job = StoreJob(store_id, work, may_use_reserve=may_use_reserve)
        return cast("T", self._queue(store_id).submit(job))

    def collect(self, store_id: str, *, older_than_s: float = reachability.COLLECT_AFTER_S) -> int:
        """Delete orphans that are older than `older_than_s` seconds, and return their number.

        Orphans are objects of crashed writers, and pages that compaction has replaced. Other writers may write to the
        store meanwhile. Raises `InvalidInput` if `older_than_s` is less than two hours, because a slow writer may still
        commit objects that are younger than that. The age is measured with the clock of the storage, so a wrong clock
        of this host does no harm.
        """
        self._begin(store_id)
        if older_than_s < 2 * WRITTEN_IS_GOOD_FOR_S:
            least_s = 2 * WRITTEN_IS_GOOD_FOR_S
            raise InvalidInput(f"the age must be at least {least_s:.0f} seconds; writers may use younger objects")
        if self._manifests.now(store_id).manifest.erased is not None:
            return self._clear(store_id)
        before = datetime.fromtimestamp(self.storage_time() - older_than_s, UTC)
        return reachability.collect(before, manifests=self._manifests, reader=self._reader(store_id))

    def storage_time(self) -> float:
        """Return the current time by the clock of the storage, in seconds since 1970."""
        return self._requests.time()

    def check(self, *, quick: bool = False) -> Iterator[Finding]:
        self._begin()
        before = datetime.fromtimestamp(self.clock() - reachability.COLLECT_AFTER_S, UTC)
        yield from reachability.examine(self._storage, self._manifests, before)

    def rebuild(self) -> None:
        for store in self.list_stores():
            with suppress(RetentiveError), self._queue(store.id).paused():  # an unreadable store cannot be repaired
                self._manifests.change(store.id, lambda one: reachability.corrected(one, self._reader(one.id)))

    def purge(self) -> bool:
        """Erase the bytes of all data that was redacted, pruned, erased or replaced.

        This includes data that a crashed process has left. Always returns True, because a reader cannot delay the
        erasure.
        """
        self._begin()
        marks = reachability.marks_of(self._requests)
        for store_id in sorted({*marks, *self._written}):
            with suppress(NotFound):
                self._purge_store(store_id, marks.get(store_id, []))
            self._written.discard(store_id)
            self._requests.delete(marks.get(store_id, []))
        return True

    def _purge_store(self, store_id: str, marks: Sequence[str]) -> None:
        if self._manifests.now(store_id).manifest.erased is not None:
            self._clear(store_id)
            return
        self.write(store_id, lambda tx: cast("ObjectsTransaction", tx).compact())
        # The fence changes the tag, so a commit in progress fails. The next attempt of that commit writes its own mark.
        with self._queue(store_id).paused():
            self._manifests.fence(store_id)
        reader = self._reader(store_id)
        if texts := reachability.marked_texts(self._requests, marks):
            for _ in self._requests.attempts(BUSY):
                with suppress(Gone):  # another process has deleted pages of this manifest meanwhile
                    in_use = reachability.reachable(self._manifests.live(store_id).manifest, reader).texts
                    reachability.erase_texts(sorted(texts - in_use), reader)
                    break

    def put_side_records(
        self, store_id: str, kind: str, values: Mapping[str, str | None], *, wait: bool = True
    ) -> None:
        self._begin(store_id)
        key = side_records.key_of(store_id, kind)
        if values:
            side_records.write(self._requests, key, values)
        try:
            self._manifests.live(store_id)
        except NotFound:  # the store was erased during the write, and must leave no object
            self._requests.delete([key])
            raise

    def side_records(
        self, store_id: str, kind: str, *, after: str = "", limit: int | None = None
    ) -> Iterator[tuple[str, str]]:
        self._begin(store_id)
        self._manifests.live(store_id)
        _, records = side_records.read(self._requests, side_records.key_of(store_id, kind))
        return islice(((key, value) for key, value in records.items() if key > after), limit)

    def _queue(self, store_id: str) -> WriteQueue:
        with self._lock:
            run_batch = partial(commit_jobs, self._manifests, self._reader(store_id))
            return self._queues.setdefault(store_id, WriteQueue(run_batch))
