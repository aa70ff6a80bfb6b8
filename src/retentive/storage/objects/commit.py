"""Group commit for one memory store: runs the jobs of a batch, then replaces the manifest once by compare-and-swap."""

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
    """Another writer has replaced the manifest during this attempt to commit, so the batch must be tried again."""


@dataclass(slots=True)
class _Batch:
    """Batch of jobs that is being committed, possibly in several attempts.

    `held` is the manifest from which the next attempt starts. `is_fresh` is true if this commit has read that manifest
    from the storage, and false if it comes from the cache. `written` has the keys of all objects uploaded so far.
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
        return True

    def commit(self, ran: Sequence[Ran[ObjectsTransaction]], changed: Sequence[ObjectsTransaction]) -> None:
        """Upload the new texts and pages, and replace the manifest.

        `ran` has the results of all jobs of the batch. `changed` has the transactions that changed something. Raises
        `_Overtaken` if another writer has replaced the manifest since the attempt began.
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
        """Upload the new texts and pages of this attempt, and return the manifest to commit."""
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
        """Return the current manifest, or `held` if there is no reason to read the manifest again.

        A cached manifest is read again if other writers are active. It is also read again if a job changed nothing
        (`all_changed` is false), because the job may have read an outdated state. If an object was missing when a job
        read it, the manifest is read again in any case. The caller uploads the texts before this call, so that the
        commit soon follows the read.
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
    """Commits batches of jobs, and compactions. Threads may share it, but a store has one running batch at a time."""

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
        """Call `work` once to fill the cache with the objects that it reads. Its result is discarded.

        `work` is the function of a job that waits while another batch of the store runs. The jobs of a batch run one
        after the other, so without this call, each job would wait for its reads. In measurements, these waits took 48
        of the 84 ms of a batch.
        """
        held = self.manifests.cached(store_id)
        if held is not None:
            with suppress(Exception):  # the real run raises the same error
                work(ObjectsTransaction(alive(held).manifest, Reader(store_id, self._storage), NewTexts(), {}))

    def committed(self, before: Manifest, after: Held, *, marks: Sequence[str], orphans: Sequence[str]) -> None:
        """Schedule the work that follows a commit: compaction of the log, and deletion of objects.

        `before` and `after` are the manifests before and after the commit. `marks` are the keys of the small objects
        that the commit wrote so that `purge` finds this store. `orphans` are the keys of objects that were used by
        failed attempts of the commit and not by the successful attempt.
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
        """Return the keys of a store's recorded orphans, and remove the record. The caller must delete the orphans."""
        with self._lock:
            return self.orphans.pop(store_id, [])

    def prepare(self, held: Held) -> Rebuild:
        """Start a compaction: build a new tree from the manifest `held`, and upload its pages.

        Other writers may commit meanwhile. `use` then commits the compaction.
        """
        reader = Reader(held.manifest.id, self._storage)
        rebuild = held.manifest.rebuilt(self._storage.sizes, reader.pages)
        _upload(reader, {reader.key(PAGES, name): data for name, (data, _) in rebuild.written.items()})
        return rebuild

    def use(self, store_id: str, rebuild: Rebuild) -> None:
        """Commit the compaction `rebuild`, which `prepare` returned.

        If another writer has compacted first, the pages of this compaction are deleted instead. The caller must pause
        the queue of the store.
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
