"""Group commit in object storage: replaces the manifest once for all jobs of a batch, by compare-and-swap."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from retentive.errors import NotFound, RetentiveError, Unavailable
from retentive.storage.objects.manifest import ManifestSwap, alive
from retentive.storage.objects.ordered_map import Rebuild
from retentive.storage.objects.reachability import erase_texts, put_mark, sweep
from retentive.storage.objects.reader import PACKS, PAGES, Gone, NewTexts, Reader
from retentive.storage.objects.records import TextRef
from retentive.storage.objects.requests import BUSY, together
from retentive.storage.objects.transaction import ObjectsTransaction
from retentive.storage.queue import BatchFailed, StoreJob, run_together


class _Overtaken(Exception):
    """The attempt to commit failed, because another writer has replaced the manifest, so it must be made again."""


class Commit:
    """Batch of jobs of one store that is being committed, possibly in several attempts. What they remove is erased.

    `held` is the manifest from which the attempt starts, and `manifest` the one to commit. An attempt
    with the texts of an earlier one (`uploaded`) uses them again, unless the store was compacted meanwhile. `written`
    has the keys of all objects that were uploaded, and `used` those that became part of the store.
    """

    def __init__(self, manifests: ManifestSwap, reader: Reader) -> None:
        self.manifests, self.reader, self.requests = manifests, reader, reader.requests
        self.deadline = 0.0
        self.losses = 0  # attempts in which another writer was first
        self.uploaded: dict[TextRef, bytes] = {}
        self.written: set[str] = set()
        self.used: set[str] = set()
        self.is_in_doubt = False  # an upload may have become part of the store, although the reply was lost
        self.marks: list[str] = []

    def run(self, jobs: Sequence[StoreJob]) -> None:
        if jobs[0].wait:  # otherwise there is one attempt
            self.deadline = time.monotonic() + self.requests.timeout_s
        try:
            cached = self.manifests.cached(self.reader.store_id)
            self.is_fresh = cached is None  # whether this commit has read the manifest from the storage
            self.held = cached or self.manifests.now(self.reader.store_id)
            self.texts = NewTexts(self.held.generation)
            while True:
                self.manifest = alive(self.held)
                self.texts.undo(0)
                self.texts.packs.clear()
                if self.texts.generation != self.manifest.generation:
                    self.uploaded, self.texts = {}, NewTexts(self.manifest.generation)
                with suppress(_Overtaken):
                    run_together(jobs, self.start, self.commit)
                    return
                self.losses += 1
        except RetentiveError as error:
            if isinstance(error, NotFound):  # the store was erased, so nothing can be or become part of it
                self.used, self.is_in_doubt = set(), False
            raise BatchFailed(error) from None
        finally:
            if not self.is_in_doubt:  # failed attempts may contain something that was redacted meanwhile
                with suppress(RetentiveError):
                    self.requests.delete(sorted(self.written - self.used))

    def start(self, _: StoreJob, changed: Sequence[ObjectsTransaction]) -> ObjectsTransaction:
        return ObjectsTransaction(changed[-1].manifest if changed else self.manifest, self.reader, self.texts)

    def commit(self, changed: Sequence[ObjectsTransaction], errors: Sequence[Exception | None]) -> None:
        """Upload the new texts and pages, replace the manifest, and erase what the jobs have removed.

        Raises `_Overtaken` if another writer has replaced the manifest since the attempt began.
        """
        known, rebuild, missing = self.held, None, None
        self.manifest = changed[-1].manifest if changed else self.manifest
        self._upload_texts()
        must_compact = any(transaction.must_compact for transaction in changed)
        if changed and (must_compact or self.manifest.weight >= self.reader.sizes.log):
            try:
                rebuild = self._compact()
            except Gone as error:  # another writer may have compacted first, and deleted the pages that it replaced
                missing = error
        is_stale = missing is not None or any(isinstance(error, Gone) for error in errors)
        if is_stale or (not self.is_fresh and len(changed) < len(errors)):  # what a job read may be outdated
            self.held = alive(self.manifests.now(self.reader.store_id))
            self.is_fresh = True
        if self.held.tag != known.tag:
            raise _Overtaken
        if missing is not None:
            raise missing
        if changed:
            packs = {self.reader.key(PACKS, name): data for each in changed for name, data in each.packs.items()}
            self._upload(packs)
            if replaced := [text for each in changed for text in each.replaced]:
                put_mark(self.requests, self.manifest.id, replaced)  # for the next purge; they are also in the packs
            going = [text for each in changed for text in each.removed]
            self._swap(going, rebuild, {*packs}, must_compact=must_compact)

    def _upload_texts(self) -> None:
        """Upload the texts of this attempt, unless an earlier attempt has uploaded equal ones."""
        texts = self.texts
        if texts.texts == self.uploaded:
            return
        if self.uploaded:  # the next attempt uses a new pack
            self.uploaded, self.texts = {}, NewTexts(texts.generation)
            raise _Overtaken
        self._upload({self.reader.key(PACKS, texts.pack): b"".join(texts.texts.values())})
        self.uploaded = dict(texts.texts)

    def _swap(self, going: Sequence[TextRef], rebuild: Rebuild | None, using: set[str], *, must_compact: bool) -> None:
        """Replace the manifest. `using` has the keys of the packs that it refers to from now on."""
        if going or must_compact:
            self.marks.append(put_mark(self.requests, self.manifest.id, going))
        pages = {} if rebuild is None else rebuild.written
        using |= {self.reader.key(PACKS, self.texts.pack), *(self.reader.key(PAGES, name) for name in pages)}
        was_in_doubt, self.is_in_doubt = self.is_in_doubt, True
        self.held, landed = self.manifests.compare_and_swap(
            self.held, self.manifest, deadline=self.deadline, losses=self.losses
        )
        if landed:
            self.used = using  # first: what is used must not be deleted, even if an interrupt comes at this moment
        self.is_in_doubt, self.is_fresh = was_in_doubt or landed is None, True
        if not landed:
            if time.monotonic() > self.deadline:
                raise Unavailable(BUSY)
            raise _Overtaken
        self.reader.keep_texts(self.uploaded)
        self.reader.keep_pages(pages)
        if self.marks:
            with suppress(RetentiveError):  # the change is committed; if this fails, `purge` erases the rest
                erase_texts(going, self.reader)
                if must_compact:  # the replaced pages may contain something of what was removed
                    sweep(self.held, self.reader)
                self.requests.delete(self.marks)

    def _compact(self) -> Rebuild:
        """Move the log of the manifest into the tree, and upload the new pages."""
        reader, manifest, generation = self.reader, self.manifest, self.manifest.generation
        rebuild = Rebuild(manifest.tree, manifest.log, pages=reader.pages, sizes=reader.sizes, generation=generation)
        self._upload({reader.key(PAGES, name): data for name, (data, _) in rebuild.written.items()})
        self.manifest = replace(manifest, generation=generation + 1, tree=rebuild.tree, log={})
        return rebuild

    def _upload(self, objects: Mapping[str, bytes]) -> None:
        self.written.update(objects)
        together([partial(self.requests.put, key, data) for key, data in objects.items()])
