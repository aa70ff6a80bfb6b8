"""Group commit for one memory store: runs the jobs of a batch, and then replaces the manifest by compare-and-swap."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from retentive.errors import NotFound, RetentiveError, Unavailable
from retentive.storage.contract import Transaction
from retentive.storage.objects.manifest import Manifest
from retentive.storage.objects.manifest_swap import Held, ManifestSwap, alive
from retentive.storage.objects.ordered_map import Rebuild
from retentive.storage.objects.reachability import put_mark, reachable
from retentive.storage.objects.reader import PACKS, PAGES, Gone, NewPages, NewTexts, ObjectStorage, Reader, pack_of
from retentive.storage.objects.records import GARBAGE, Edits, garbage
from retentive.storage.objects.requests import BUSY, together
from retentive.storage.objects.transaction import ObjectsTransaction
from retentive.storage.queue import BatchFailed, Ran, StoreJob, run_batch, run_together

_MANY = 64  # number of texts or orphans after which a writer erases them
WRITTEN_IS_GOOD_FOR_S = 3_600.0  # longest time from upload to commit; collection does not delete younger objects


class _Overtaken(Exception):
    """Another writer replaced the manifest since this attempt began, so the attempt must be repeated."""


@dataclass(slots=True)
class _Batch:
    """State of a commit with all its attempts: the manifest from which the next attempt starts, and the uploads so far.

    `held` is this manifest. `is_fresh` is true if it was read by this commit and not taken from the cache.
    """

    committer: Committer
    reader: Reader
    held: Held
    is_fresh: bool
    deadline: float
    began: float = field(default_factory=time.time)
    texts: NewTexts = field(default_factory=NewTexts)
    written: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    marks: list[str] = field(default_factory=list)
    # State of the current attempt, and a copy of the state from before the running job.
    manifest: Manifest = field(init=False)
    pages: NewPages = field(init=False)
    before: tuple[int, NewPages] = field(init=False)

    def again(self) -> _Batch:
        self.manifest, self.pages = alive(self.held).manifest, {}
        self.texts.undo(0)
        return self

    def start(self, job: StoreJob) -> ObjectsTransaction:
        self.before = len(self.texts.used), dict(self.pages)
        return ObjectsTransaction(self.manifest, self.reader, self.texts, self.pages)

    def finish(self, transaction: ObjectsTransaction) -> None:
        after = transaction.finished()
        self.manifest = after if transaction.changed else self.manifest

    def undo(self, transaction: ObjectsTransaction | None, error: Exception) -> bool:
        texts, self.pages = self.before
        self.texts.undo(texts)
        return False

    def commit(self, ran: Sequence[Ran[ObjectsTransaction]], changed: Sequence[ObjectsTransaction]) -> None:
        """Upload the new texts and pages, and replace the manifest.

        Raises `_Overtaken` if another writer has replaced the manifest since the attempt began.
        """
        manifests, known = self.committer.manifests, self.held
        manifest = self._uploaded()
        self.held = alive(self._read_again(ran, all_changed=len(changed) == len(ran)))
        self.is_fresh = True
        if self.held.tag != known.tag:
            raise _Overtaken
        if not changed:
            return
        if time.time() - self.began > WRITTEN_IS_GOOD_FOR_S:
            raise Unavailable("the command took too long; try again")
        if any(transaction.has_removed for transaction in changed):
            self.marks.append(put_mark(self.reader.storage.requests, manifest.id))
        self.held, landed = manifests.compare_and_swap(known, manifest, deadline=self.deadline)
        if landed:
            _, orphans = self.texts.unused()
            keys = [self.reader.key(PACKS, pack) for pack in orphans if pack not in self.doubtful]
            self.committer.committed(known.manifest, self.held, marks=self.marks, orphans=keys)
            return
        if landed is None:
            self.doubtful |= set(map(pack_of, self.texts.used))
        if time.monotonic() > self.deadline:
            raise Unavailable(BUSY)
        raise _Overtaken

    def _uploaded(self) -> Manifest:
        """Upload the new texts and pages of an attempt. Returns the manifest to commit."""
        reader, texts = self.reader, self.texts
        objects = {reader.key(PAGES, name): data for name, (data, _) in self.pages.items()}
        if texts.new:
            objects[reader.key(PACKS, texts.pack)] = texts.encoded()
        self.written.update(objects)
        _upload(reader, objects)
        reader.keep_texts(texts.new)
        reader.keep_pages(self.pages)
        texts.written()
        parts, _ = texts.unused()
        return replace(self.manifest, log={**self.manifest.log, **garbage(parts)}) if parts else self.manifest

    def _read_again(self, ran: Sequence[Ran[ObjectsTransaction]], *, all_changed: bool) -> Held:
        """Return the current manifest. The manifest `held` is returned if it need not be read again.

        A cached manifest is read again if a job changed nothing, because the job may have been refused on account of an
        old state. Any manifest is read again if an object was missing. If other writers are active, a cached manifest
        is always read again. This happens only after the upload of the texts, to shorten the time until the commit.
        """
        manifests, store_id = self.committer.manifests, self.reader.store_id
        contention = manifests.contention(store_id)
        must_wait = not self.is_fresh and (contention.is_seen or not all_changed)
        if must_wait:
            contention.wait(self.held.manifest.commits)
        is_stale = any(isinstance(one.error, Gone) for one in ran)
        if not must_wait and not is_stale:
            return self.held
        now = manifests.now(store_id)
        if now.tag != self.held.tag:
            contention.met()
        return now


class Committer:
    """Runs batches of jobs and compactions. Threads may share it, but batches of one store must run one at a time."""

    def __init__(self, storage: ObjectStorage, manifests: ManifestSwap) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self.compactions_due: dict[str, Held] = {}  # states whose log should be compacted
        self.sweeps_due: dict[str, list[str]] = {}  # stores whose garbage should be erased, each with its marks
        self.orphans: dict[str, list[str]] = {}  # orphans to delete, by store id
        self.manifests = manifests

    def run(self, store_id: str, jobs: Sequence[StoreJob]) -> None:
        run_batch(jobs, partial(self._attempts, store_id))

    def _attempts(self, store_id: str, jobs: Sequence[StoreJob]) -> None:
        reader, written, contention = Reader(store_id, self._storage), set[str](), self.manifests.contention(store_id)
        try:
            contention.begin()
            cached = self.manifests.cached(store_id)
            deadline = time.monotonic() + reader.storage.requests.timeout_s
            held = cached or self.manifests.now(store_id)
            batch = _Batch(self, reader, held, cached is None, deadline, written=written)
            while True:
                with suppress(_Overtaken):
                    run_together(batch.again(), jobs)
                    return
        except RetentiveError as error:
            if isinstance(error, NotFound):  # the store was erased during the commit, so delete the uploads
                with suppress(RetentiveError):
                    reader.storage.requests.delete(sorted(written))
            raise BatchFailed(error) from None
        finally:
            contention.end()

    def rehearse(self, store_id: str, work: Callable[[Transaction], object]) -> None:
        """Run the work of a job once to fill the cache with the objects that it reads. The result is discarded.

        This is done while another batch of the store runs, before the job joins the queue. The jobs of a batch run one
        after the other, and each job would wait for its reads. In measurements, these waits took 48 of the 84 ms of a
        batch.
        """
        held = self.manifests.cached(store_id)
        if held is not None:
            with suppress(Exception):  # the real run raises the same error
                work(ObjectsTransaction(alive(held).manifest, Reader(store_id, self._storage), NewTexts(), {}))

    def committed(self, before: Manifest, after: Held, *, marks: Sequence[str], orphans: Sequence[str]) -> None:
        """Note after a commit whether the log should be compacted, and which objects should be deleted.

        `marks` are the marks that the commit has written for `purge`. `orphans` are objects that failed attempts left.
        """
        log = self._storage.sizes.log
        if after.manifest.weight // log > before.weight // log:  # again at each multiple of `log`, in case one fails
            self.compactions_due[before.id] = after
        if after.manifest.edits or before.edits or marks or orphans:
            self._left_to_erase(before.id, orphans, is_due=_garbage_in(after.manifest.log) >= _MANY, marks=marks)

    def _left_to_erase(self, store_id: str, orphans: Sequence[str], *, is_due: bool, marks: Sequence[str] = ()) -> None:
        with self._lock:
            left = self.orphans.setdefault(store_id, [])
            left += orphans
            if is_due or marks or len(left) >= _MANY:
                self.sweeps_due.setdefault(store_id, []).extend(marks)

    def take_orphans(self, store_id: str) -> list[str]:
        """Return the known orphans of a store and forget them. The caller must delete these objects."""
        with self._lock:
            return self.orphans.pop(store_id, [])

    def prepare(self, held: Held) -> Rebuild:
        """Build the tree of a compaction and upload its pages. Other writers may commit meanwhile."""
        reader = Reader(held.manifest.id, self._storage)
        rebuild = held.manifest.rebuilt(self._storage.sizes, reader.pages)
        _upload(reader, {reader.key(PAGES, name): data for name, (data, _) in rebuild.written.items()})
        return rebuild

    def use(self, store_id: str, rebuild: Rebuild) -> None:
        """Commit a compaction. If another writer has compacted first, delete the pages of this compaction instead.

        The caller pauses the queue of the store.
        """

        def compacted(now: Manifest) -> Manifest:
            is_late = time.time() - rebuild.began > WRITTEN_IS_GOOD_FOR_S
            return now if is_late or now.erased else now.compacted(rebuild)

        reader, now = Reader(store_id, self._storage), self.manifests.change(store_id, compacted).manifest
        if not now.erased and now.tree == rebuild.tree:
            reader.keep_pages(rebuild.written)
            self._left_to_erase(store_id, [], is_due=_garbage_in(rebuild.edits) > 0)
            return
        names = list(rebuild.written)  # these unused pages may contain texts that have been redacted since
        going = names if now.erased else reachable(now, reader, values=False).passed(names)
        reader.storage.requests.delete([reader.key(PAGES, name) for name in going])


def _upload(reader: Reader, objects: Mapping[str, bytes]) -> None:
    together([partial(reader.storage.requests.put, key, data) for key, data in objects.items()])


def _garbage_in(log: Edits) -> int:
    return sum(key.startswith(GARBAGE) and value is not None for key, value in log.items())
