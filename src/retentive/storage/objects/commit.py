"""Group commit for one memory store: runs the jobs of a batch, then replaces the manifest once by compare-and-swap."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from retentive.errors import NotFound, RetentiveError, Unavailable
from retentive.storage.objects.manifest import Held, Manifest, ManifestSwap, alive
from retentive.storage.objects.ordered_map import Rebuild
from retentive.storage.objects.reachability import erase_texts, put_mark, sweep
from retentive.storage.objects.reader import PACKS, PAGES, Gone, NewTexts, Reader
from retentive.storage.objects.records import TextRef
from retentive.storage.objects.requests import BUSY, together
from retentive.storage.objects.transaction import ObjectsTransaction
from retentive.storage.queue import BatchFailed, SharedTransaction, StoreJob, run_batch, run_together


class _Overtaken(Exception):
    """The attempt to commit failed, because another writer has replaced the manifest, so it must be made again."""


def commit_jobs(manifests: ManifestSwap, reader: Reader, jobs: Sequence[StoreJob]) -> None:
    """Run and commit jobs of one store, and set the outcome of each. What they remove is erased."""

    def attempt(some: Sequence[StoreJob]) -> None:
        batch = _Batch(manifests, reader)
        try:
            batch.run(some)
        except RetentiveError as error:
            if isinstance(error, NotFound):  # the store was erased during the commit, so delete the uploads
                with suppress(RetentiveError):
                    reader.storage.requests.delete(sorted(batch.written))
            raise BatchFailed(error) from None

    run_batch(jobs, attempt)


@dataclass(slots=True)
class _Batch(SharedTransaction[ObjectsTransaction]):
    """Batch of jobs that is being committed, possibly in several attempts.

    `held` is the manifest from which the next attempt starts. `is_fresh` is true if this commit has read that manifest
    from the storage, and false if it comes from the cache. `written` has the keys of all objects uploaded so far, and
    `uploaded` the texts of the earlier attempts. An attempt with equal texts uses them again, unless the store was
    compacted meanwhile. If an upload may have become part of the store, although the reply was lost, it `is_in_doubt`.
    `pages` are the names of the new pages of this attempt.
    """

    manifests: ManifestSwap
    reader: Reader
    held: Held = field(init=False)
    is_fresh: bool = False
    deadline: float = field(init=False)
    losses: int = 0  # attempts in which another writer was first
    texts: NewTexts = field(init=False)
    uploaded: dict[TextRef, bytes] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    is_in_doubt: bool = False
    pages: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    # State of the current attempt, and the number of texts before the running job.
    manifest: Manifest = field(init=False)
    texts_before: int = 0

    def run(self, jobs: Sequence[StoreJob]) -> None:
        self.deadline = time.monotonic() + self.reader.storage.requests.timeout_s
        cached = self.manifests.cached(self.reader.store_id)
        self.is_fresh, self.held = cached is None, cached or self.manifests.now(self.reader.store_id)
        self.texts = NewTexts(self.held.manifest.generation)
        while True:
            self.manifest = alive(self.held).manifest
            self.texts.undo(0)
            if self.texts.generation != self.manifest.generation:
                self._start_pack()
            with suppress(_Overtaken):
                run_together(self, jobs)
                return
            self.losses += 1
            self.manifests.met_others(self.reader.store_id)
            self._drop_pages()

    def start(self, job: StoreJob) -> ObjectsTransaction:
        self.texts_before = len(self.texts.texts)
        return ObjectsTransaction(self.manifest, self.reader, self.texts)

    def finish(self, transaction: ObjectsTransaction) -> None:
        if transaction.changed:
            self.manifest = transaction.finished()

    def undo(self, transaction: ObjectsTransaction | None, error: Exception) -> None:
        self.texts.undo(self.texts_before)

    def commit(self, changed: Sequence[ObjectsTransaction], errors: Sequence[Exception | None]) -> None:
        """Upload the new texts and pages, and replace the manifest.

        Raises `_Overtaken` if another writer has replaced the manifest since the attempt began.
        """
        requests, known = self.reader.storage.requests, self.held
        must_compact = any(transaction.must_compact for transaction in changed)
        self._upload_texts()
        manifest, missing = self.manifest, None
        try:
            manifest = self._compacted(must_compact=must_compact) if changed else manifest
        except Gone as error:  # another writer may have compacted first, and deleted the pages that it replaced
            missing = error
        is_stale = missing is not None or any(isinstance(error, Gone) for error in errors)
        self._read_again(is_stale=is_stale, all_changed=len(changed) == len(errors))
        if self.held.tag != known.tag:
            raise _Overtaken
        if missing is not None:
            raise missing
        if not changed:
            return
        going = [text for transaction in changed for text in transaction.removed]
        if going or must_compact:
            self.marks.append(put_mark(requests, manifest.id, going))
        self.held, landed = self.manifests.compare_and_swap(known, manifest, deadline=self.deadline, losses=self.losses)
        if landed:
            if self.marks:
                with suppress(RetentiveError):  # the change is committed; if this fails, `purge` erases the rest
                    self._erase(going, has_pages=must_compact)
            return
        self.is_in_doubt |= landed is None
        if time.monotonic() > self.deadline:
            raise Unavailable(BUSY)
        raise _Overtaken

    def _read_again(self, *, is_stale: bool, all_changed: bool) -> None:
        """Read the current manifest if the one of this attempt is likely to be outdated.

        A cached manifest is read again if other writers are active, or if a job changed nothing, because the job may
        have read an outdated state. Any manifest is read again if an object was missing (`is_stale`). The texts are
        uploaded before this call, so that the commit soon follows the read.
        """
        others = self.manifests.others(self.held.manifest)
        is_doubtful = not self.is_fresh and (others > 0 or not all_changed)
        if is_doubtful:
            self.manifests.wait(others, self.losses)
        if is_doubtful or is_stale:
            self.held = alive(self.manifests.now(self.reader.store_id))
        self.is_fresh = True

    def _erase(self, texts: Sequence[TextRef], *, has_pages: bool) -> None:
        """Erase removed texts. If `has_pages` is true, replaced pages may contain something of what was removed."""
        erase_texts(texts, self.reader)
        if has_pages:
            sweep(self.held.manifest, self.reader)
        self.reader.storage.requests.delete(self.marks)

    def _upload_texts(self) -> None:
        """Upload the texts of this attempt, unless an earlier attempt has uploaded equal ones.

        If that attempt has uploaded other texts, delete them, and raise `_Overtaken`: the next attempt uses a new pack.
        """
        texts, reader = self.texts, self.reader
        if texts.texts == self.uploaded:
            return
        if self.uploaded:
            self._start_pack()
            raise _Overtaken
        self._upload({reader.key(PACKS, texts.pack): texts.encoded()})
        self.uploaded = dict(texts.texts)
        reader.keep_texts(self.uploaded)

    def _start_pack(self) -> None:
        """Delete the pack that earlier attempts uploaded, and begin another one."""
        if self.uploaded:
            self.reader.forget(self.uploaded)
            if not self.is_in_doubt:
                self.reader.storage.requests.delete([self.reader.key(PACKS, self.texts.pack)])
        self.uploaded, self.texts = {}, NewTexts(self.manifest.generation)

    def _compacted(self, *, must_compact: bool) -> Manifest:
        """Return the manifest to commit, after moving its log into the tree if this is due. Uploads the new pages."""
        reader, sizes, manifest = self.reader, self.reader.storage.sizes, self.manifest
        if not must_compact and manifest.weight < sizes.log:
            return manifest
        generation = manifest.generation
        rebuild = Rebuild(manifest.tree, manifest.log, pages=reader.pages, sizes=sizes, generation=generation)
        self.pages = list(rebuild.written)
        self._upload({reader.key(PAGES, name): data for name, (data, _) in rebuild.written.items()})
        reader.keep_pages(rebuild.written)
        return replace(manifest, generation=generation + 1, tree=rebuild.tree, log={})

    def _drop_pages(self) -> None:
        """Delete the pages of an attempt that failed. They may contain something that was redacted meanwhile."""
        pages, self.pages = self.pages, []
        self.reader.forget(pages)
        if not self.is_in_doubt:
            self.reader.storage.requests.delete([self.reader.key(PAGES, name) for name in pages])

    def _upload(self, objects: Mapping[str, bytes]) -> None:
        self.written.update(objects)
        together([partial(self.reader.storage.requests.put, key, data) for key, data in objects.items()])
