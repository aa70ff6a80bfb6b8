"""Transaction on a memory store in object storage, and group commit.

The changes of a transaction stay in the memory of the process until the commit, which replaces the manifest once for
all jobs of a batch, by compare-and-swap.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Unpack

from retentive.errors import Conflict, InvalidInput, NotFound, RetentiveError, Unavailable
from retentive.storage.contract import Actor, Change, Created, Imported, Metadata, Recorded, kept, now_us
from retentive.storage.objects.manifest import Manifest, ManifestSwap, alive
from retentive.storage.objects.ordered_map import Rebuild
from retentive.storage.objects.reachability import erase_texts, put_mark, sweep
from retentive.storage.objects.reader import PACKS, PAGES, Gone, NewTexts, Reader
from retentive.storage.objects.records import LONG_CHARS, MEMORY, VERSION, TextRef, VersionRow, record_key, text_in
from retentive.storage.objects.requests import BUSY, together
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.storage.queue import BatchFailed, BatchTransaction, StoreJob, run_batch, run_together
from retentive.values.records import to_us


class ObjectsTransaction(ObjectsSnapshot, BatchTransaction):
    """Transaction that starts from the state in `manifest`, which then has its changes.

    The transaction adds new texts to `texts`, which must be uploaded before the manifest is committed. If the flag
    `must_compact` is set, the log must be compacted, so that it contains nothing of what was removed. `removed` has
    references to the texts that the map does not need any more.
    """

    def __init__(self, manifest: Manifest, reader: Reader, texts: NewTexts) -> None:
        self._log = dict(manifest.log)
        super().__init__(replace(manifest, log=self._log), replace(reader, new_texts=texts.texts))
        self._revision_before = manifest.revision
        self._texts, self._texts_before = texts, len(texts.texts)
        self.removed: list[TextRef] = []
        self.changed = False
        self.must_compact = False

    def finish(self) -> bool:
        return self.changed

    def undo(self, error: Exception) -> None:
        self._texts.undo(self._texts_before)

    def compact(self) -> None:
        """Compact the log with this commit. The next purge deletes the replaced pages."""
        self.changed = self.must_compact = True

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        if changes:
            self.changed = True
            self.manifest = replace(self.manifest, revision=max(self.manifest.revision, self._revision_before + 1))
        present: dict[str, VersionRow] = {}  # by memory; an earlier change may take the path of a later one
        for change in changes:
            row = None if change.before is None else self._row(MEMORY + change.before.path)
            if row is not None:
                present[row.memory] = row
        recorded = []
        for change in changes:
            before = None if change.before is None else present.pop(change.before.id, None)
            if before is None and change.before is not None:
                raise Conflict("a memory was moved or deleted since it was read")
            row = self._new_row(change, before, actor)
            self._apply(row, before, path=change.path)
            if change.path is not None:
                present[row.memory] = row
            recorded.append(Recorded(row.memory, row.id))
        return recorded

    def _apply(self, row: VersionRow, before: VersionRow | None, *, path: str | None) -> None:
        self._log[VERSION + row.id] = row
        if before is not None and before.path != path:
            there = self._row(MEMORY + before.path)
            if there is not None and there.memory == row.memory:
                self._log[MEMORY + before.path] = None
        if path is not None:
            self._log[MEMORY + path] = row
        totals = self.manifest
        self.manifest = replace(
            totals,
            revision=max(totals.revision, row.revision),
            memories=totals.memories + (path is not None) - (before is not None),
            size_bytes=totals.size_bytes + (row.size or 0 if path else 0) - (before.size or 0 if before else 0),
            last_at=row.at,
            newest=row.id,
        )

    def _new_row(self, change: Change, before: VersionRow | None, actor: Actor | None) -> VersionRow:
        """Return the row of the version that a change makes of the memory `before`.

        If the clock went back, the time is the one just after the newest version.
        """
        new_id, totals = self._reader.new_id, self.manifest
        at = max(now_us(self._reader.clock), totals.last_at + 1)
        match change:
            case Imported(version):
                at = to_us(version.created_at)
                if at < totals.last_at or version.id <= totals.newest:
                    raise InvalidInput("imported versions must be later than all existing versions")
                made = version.id, version.memory_id, version.operation, _name(version.actor), at, version.revision
                row = VersionRow(*made, version.path)
                if version.redacted_at is not None:
                    return row.redacted(to_us(version.redacted_at), _name(version.redacted_by))
            case Created(path, again=again):
                memory = new_id("mem_", at) if again is None else again.id
                row = VersionRow(new_id("memver_", at), memory, "created", _name(actor), at, totals.revision, path)
            case _:
                made = new_id("memver_", at), change.before.id, change.operation, _name(actor), at, totals.revision
                row = VersionRow(*made, change.path or change.before.path)
        stored = kept(change, row.memory, row.id)
        seal = None if stored.seal is None else b64encode(stored.seal).decode()
        row = row._replace(seal=seal, provenance=stored.provenance)
        if change.path is None:
            return row
        if stored.data is not None:
            return row._replace(size=stored.size_bytes, sha256=stored.sha256, text=self._texts.add(stored.data))
        if before is None:
            raise InvalidInput("a new memory needs a text")
        return row._replace(size=before.size, sha256=before.sha256, text=before.text)

    def set_metadata(self, **metadata: Unpack[Metadata]) -> None:
        self.changed = True
        self.manifest = replace(self.manifest, **metadata)

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self.changed = True
        name = record_key(kind, key)
        if (replaced := self._map.get(name)) is not None and (text := text_in(replaced)):
            self.removed.append(text)
        is_long = value is not None and len(value) > LONG_CHARS
        self._log[name] = self._texts.add(value.encode(errors="surrogatepass")) if value and is_long else value

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        going = [row for row in self._removable(version_ids) if row.redacted_at is None]
        at, who = now_us(self._reader.clock), _name(actor)
        self._remove({row: row.redacted(at, who) for row in going}, self._texts_that_stay(going).keys())

    def prune(self, version_ids: Sequence[str]) -> None:
        going = self._removable(version_ids)
        staying = self._texts_that_stay(going)
        going = [row for row in going if row.id not in staying.values()]
        ids, deleted = {row.id for row in going}, {row.memory for row in going if row.operation == "deleted"}
        left = dict[str, str]()  # oldest version that stays and is no deletion, by memory
        for row in self._rows("", None) if deleted else ():
            if row.memory in deleted and row.id not in ids and row.operation != "deleted":
                left[row.memory] = row.id
        # Without its deletion, an older version would look current.
        going = [row for row in going if row.operation != "deleted" or left.get(row.memory, row.id) >= row.id]
        self._remove(dict.fromkeys(going), staying.keys())

    def _removable(self, version_ids: Sequence[str]) -> list[VersionRow]:
        """Return the rows of the versions with these ids, except the newest version of each existing memory."""
        versions = self._map.get_all([VERSION + each for each in dict.fromkeys(version_ids)])
        found = [row for row in versions if isinstance(row, VersionRow)]
        present = self._map.get_all([MEMORY + row.path for row in found])
        newest = {row.id for row in present if isinstance(row, VersionRow)}
        return [row for row in found if row.id not in newest]

    def _texts_that_stay(self, going: Sequence[VersionRow]) -> dict[TextRef, str]:
        """Return the texts that `going` share with versions that stay, and the ids of the versions that wrote them."""
        ids, memories = {row.id for row in going}, {row.memory for row in going}
        texts, staying, writers = {row.text for row in going if row.text}, set[TextRef](), dict[TextRef, str]()
        rows = self._rows("", None)
        while memories and (row := next(rows, None)) is not None:
            if row.text is not None and row.text in texts:
                writers[row.text] = row.id  # the last one found is the oldest
                if row.id not in ids:
                    staying.add(row.text)
            if row.is_first:
                memories.discard(row.memory)
        return {text: writers[text] for text in staying}

    def _remove(self, edits: Mapping[VersionRow, VersionRow | None], staying: Collection[TextRef]) -> None:
        """Redact or remove versions and their texts, except the texts in `staying`.

        `edits` maps the row of each version to its redacted row, or to None to remove it.
        """
        if edits:
            self.removed += {row.text for row in edits if row.text}.difference(staying)
            self._log.update({VERSION + row.id: edited for row, edited in edits.items()})
            self.compact()


class _Overtaken(Exception):
    """The attempt to commit failed, because another writer has replaced the manifest, so it must be made again."""


def commit_jobs(manifests: ManifestSwap, reader: Reader, jobs: Sequence[StoreJob]) -> None:
    """Run and commit jobs of one store, and set the outcome of each. What they remove is erased."""
    run_batch(jobs, lambda some: _Batch(manifests, reader).run(some))


class _Batch:
    """Batch of jobs that is being committed, possibly in several attempts.

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
            going = [text for transaction in changed for text in transaction.removed]
            self._swap(going, rebuild, must_compact=must_compact)

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

    def _swap(self, going: Sequence[TextRef], rebuild: Rebuild | None, *, must_compact: bool) -> None:
        if going or must_compact:
            self.marks.append(put_mark(self.requests, self.manifest.id, going))
        pages = {} if rebuild is None else rebuild.written
        using = {self.reader.key(PACKS, self.texts.pack), *(self.reader.key(PAGES, name) for name in pages)}
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


def _name(actor: Actor | None) -> str | None:
    return None if actor is None else str(actor)
