"""Group commit for one memory store: runs a batch on a manifest, then replaces it by compare-and-swap."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from retentive.errors import NotFound, RetentiveError, Unavailable
from retentive.storage.contract import Transaction
from retentive.storage.objects.garbage import Sweeps, put_mark, reachable
from retentive.storage.objects.manifest import Compaction, Manifest, compact, is_due
from retentive.storage.objects.manifest_swap import Held, ManifestSwap, alive
from retentive.storage.objects.ordered_map import Page
from retentive.storage.objects.packs import NewTexts, pack_of
from retentive.storage.objects.reader import PACKS, PAGES, Gone, Reader
from retentive.storage.objects.records import GARBAGE
from retentive.storage.objects.requests import BUSY, Requests, together
from retentive.storage.objects.transaction import ObjectsTransaction, Settings
from retentive.storage.queue import BatchFailed, Ran, StoreJob, run_batch, run_together

WRITTEN_IS_GOOD_FOR_S = 3_600.0  # longest time from upload to commit; collection spares younger objects


class Prepared(NamedTuple):
    """Compaction whose pages are uploaded, and the time its upload began."""

    compaction: Compaction
    began: float


class _Passed(Exception):
    """The manifest changed since the attempt began."""


@dataclass(slots=True)
class _Batch:
    """State of a batch across its attempts: the manifest to try next, and all objects uploaded so far."""

    store_id: str
    held: Held
    fresh: bool
    texts: NewTexts = field(default_factory=NewTexts)
    written: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    marks: list[str] = field(default_factory=list)
    deadline: float = 0.0
    began: float = field(default_factory=time.time)


class _Attempt:
    """One attempt to run a batch on a manifest and to replace the manifest."""

    def __init__(self, committer: Committer, batch: _Batch) -> None:
        self._committer = committer
        self._batch = batch
        self._mark = 0
        self._kept: dict[str, tuple[bytes, Page]] = {}
        self.manifest = alive(batch.held).manifest
        self.pages: dict[str, tuple[bytes, Page]] = {}
        batch.texts.again()

    def start(self, job: StoreJob) -> ObjectsTransaction:
        """Transaction for a job, on the state left by the jobs before it."""
        self._mark, self._kept = len(self._batch.texts.used), dict(self.pages)
        return self._committer.transaction(self.manifest, self._batch.texts, self.pages)

    def finish(self, transaction: ObjectsTransaction) -> None:
        """Keep the changes of a job."""
        after = transaction.finished()
        self.manifest = after if transaction.changed else self.manifest

    def undo(self, transaction: ObjectsTransaction | None, error: Exception) -> bool:
        """Discard the changes of a job."""
        self._batch.texts.undo(self._mark)
        self.pages = self._kept
        return False

    def commit(self, ran: Sequence[Ran[ObjectsTransaction]], changed: Sequence[ObjectsTransaction]) -> None:
        """Upload pack and pages, and replace the manifest. Raises `_Passed`."""
        self._committer.commit(self._batch, self, ran, changed)


class Committer:
    """Runs batches of writers. Threads may share it; batches of one memory store run one at a time."""

    def __init__(
        self, requests: Requests, manifests: ManifestSwap, reader: Callable[[str], Reader], shared: Settings
    ) -> None:
        self._requests = requests
        self._manifests = manifests
        self._reader = reader
        self._shared = shared
        self._due: dict[str, Held] = {}
        self.sweeps = Sweeps()

    def run(self, store_id: str, jobs: Sequence[StoreJob]) -> None:
        """Run all jobs, commit them together and set the outcome of each."""
        run_batch(jobs, partial(self._attempts, store_id))

    def _attempts(self, store_id: str, jobs: Sequence[StoreJob]) -> None:
        batch: _Batch | None = None
        try:
            cached = self._manifests.cached(store_id)
            batch = _Batch(store_id, cached or self._manifests.now(store_id), fresh=cached is None)
            batch.deadline = time.monotonic() + self._requests.timeout_s
            while True:
                with suppress(_Passed):
                    run_together(_Attempt(self, batch), jobs)
                    return
        except RetentiveError as error:
            if isinstance(error, NotFound) and batch is not None:  # store erased meanwhile: delete our uploads
                with suppress(RetentiveError):
                    self._requests.delete(sorted(batch.written))
            raise BatchFailed(error) from None

    def rehearse(self, store_id: str, work: Callable[[Transaction], object]) -> None:
        """Run the work of a queued writer once to fill the cache; its result is discarded.

        Jobs of a batch run in sequence, and each would wait for its own reads: measured, 48 of the 84 ms of a batch.
        """
        held = self._manifests.cached(store_id)
        if held is not None:
            with suppress(Exception):  # the real run raises it again
                work(self.transaction(alive(held).manifest, NewTexts(), {}))

    def transaction(
        self, manifest: Manifest, texts: NewTexts, pages: dict[str, tuple[bytes, Page]]
    ) -> ObjectsTransaction:
        """Transaction on a manifest that also sees texts and pages not uploaded yet."""
        return ObjectsTransaction(manifest, self._reader(manifest.id), texts, pages, self._shared)

    def commit(
        self,
        batch: _Batch,
        attempt: _Attempt,
        ran: Sequence[Ran[ObjectsTransaction]],
        changed: Sequence[ObjectsTransaction],
    ) -> None:
        """Upload pack and pages of an attempt, and replace the manifest. Raises `_Passed`."""
        manifest, known = self._write(batch, attempt.manifest, attempt.pages), batch.held
        batch.held = alive(self._looked_again(batch, ran, all_changed=len(changed) == len(ran)))
        batch.fresh = True
        if batch.held.tag != known.tag:
            raise _Passed
        if not changed:
            return
        if time.time() - batch.began > WRITTEN_IS_GOOD_FOR_S:
            raise Unavailable("the command was held up for too long")
        if any(transaction.has_removed for transaction in changed):
            batch.marks.append(put_mark(self._requests, batch.store_id))
        batch.held, landed = self._manifests.compare_and_swap(known, manifest, deadline=batch.deadline)
        if landed:
            self._committed(known.manifest, manifest, batch)
            return
        if landed is None:
            batch.doubtful |= set(map(pack_of, batch.texts.used))
        if time.monotonic() > batch.deadline:
            raise Unavailable(BUSY)
        raise _Passed

    def _write(self, batch: _Batch, manifest: Manifest, pages: Mapping[str, tuple[bytes, Page]]) -> Manifest:
        """Upload the pack and pages of a commit; returns the manifest to commit."""
        reader, texts = self._reader(batch.store_id), batch.texts
        objects = {reader.key(PAGES, name): data for name, (data, _) in pages.items()}
        if texts.new:
            objects[reader.key(PACKS, texts.pack)] = texts.encoded()
        batch.written |= objects.keys()
        self.write_all(objects)
        for ref, text in texts.new.items():
            reader.keep_text(ref, text)
        for name, (data, page) in pages.items():
            reader.keep_page(name, data, page)
        texts.written()
        parts, _ = texts.unused()
        return manifest.with_edits({GARBAGE + ref: "" for ref in parts}) if parts else manifest

    def write_all(self, objects: Mapping[str, bytes]) -> None:
        """Upload immutable objects in parallel."""
        together([partial(self._requests.put, key, data) for key, data in objects.items()])

    def _looked_again(self, batch: _Batch, ran: Sequence[Ran[ObjectsTransaction]], *, all_changed: bool) -> Held:
        """Manifest to decide on, read again if needed: a refusal must not come from a stale state or collected objects.

        Under contention it is read after the texts are uploaded, to shorten the time between this read and the commit.
        """
        contention = self._manifests.contention(batch.store_id)
        if not batch.fresh and (contention.is_seen or not all_changed):
            contention.wait(batch.held.manifest.commits)
            return self._manifests.now(batch.store_id)
        if any(isinstance(one.error, Gone) for one in ran):
            return self._manifests.now(batch.store_id)
        return batch.held

    def _committed(self, before: Manifest, after: Manifest, batch: _Batch) -> None:
        self._manifests.forget_contention(batch.store_id)
        if is_due(before, after, self._shared.sizes):
            self._due[batch.store_id] = batch.held
        _, orphans = batch.texts.unused()
        reader = self._reader(batch.store_id)
        keys = [reader.key(PACKS, pack) for pack in orphans if pack not in batch.doubtful]
        self.sweeps.committed(before, after, marks=batch.marks, orphans=keys)

    # -- compaction ------------------------------------------------------------------------------------------

    def due(self, store_id: str) -> Held | None:
        """State whose log is due for compaction, or None. Only one caller gets it."""
        return self._due.pop(store_id, None)

    def prepare(self, held: Held) -> Prepared:
        """Upload the pages of a compacted log. Other writers, in this process too, may commit meanwhile."""
        began, reader = time.time(), self._reader(held.manifest.id)
        compaction = compact(held.manifest, self._shared.sizes, reader)
        self.write_all({reader.key(PAGES, name): data for name, (data, _) in compaction.pages.items()})
        return Prepared(compaction, began)

    def use(self, store_id: str, prepared: Prepared) -> None:
        """Commit a compaction, unless another writer compacted first. The caller pauses the store's queue."""
        compaction, deadline = prepared.compaction, time.monotonic() + self._requests.timeout_s
        reader, names = self._reader(store_id), list(compaction.pages)
        try:
            held = self._manifests.live(store_id)
            landed: bool | None = False
            while not landed and compaction.fits(alive(held).manifest) and time.monotonic() < deadline:
                if time.time() - prepared.began > WRITTEN_IS_GOOD_FOR_S:
                    return
                held, landed = self._manifests.compare_and_swap(
                    held, compaction.applied(held.manifest), deadline=deadline
                )
            going = [] if landed else reachable(held.manifest, reader, values=False).passed(names)
        except NotFound:
            going = names
        self._requests.delete([reader.key(PAGES, name) for name in going])  # they may hold texts redacted since
        if not going:
            for name, (data, page) in compaction.pages.items():
                reader.keep_page(name, data, page)
            self.sweeps.compacted(store_id, compaction.edits)
