"""Transaction on a memory store in object storage. Its changes stay in the memory of the process until the commit."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace

from retentive.errors import Conflict, InvalidInput
from retentive.storage.contract import (
    UNCHANGED,
    Actor,
    Change,
    Memory,
    Metadata,
    Recorded,
    Transaction,
    Version,
    now_us,
)
from retentive.storage.objects.manifest import Manifest
from retentive.storage.objects.reader import NewPages, NewTexts, Reader
from retentive.storage.objects.records import MEMORY, VERSION, VersionRow, garbage, record_key, record_value, text_in
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.values.records import to_us

_LONG_LOG = 4  # a transaction that adds this many times `Sizes.log` keys to the log compacts at once


class ObjectsTransaction(ObjectsSnapshot, Transaction):
    """Transaction that starts from the state in `manifest`. `finished` returns the manifest to commit.

    The transaction adds new texts to `texts` and new pages to `pages`. These texts and pages must be uploaded before
    the manifest is committed.
    """

    def __init__(self, manifest: Manifest, reader: Reader, texts: NewTexts, pages: NewPages) -> None:
        super().__init__(manifest, replace(reader, new_texts=texts, new_pages=pages))
        self._revision_before = manifest.state.revision
        self._texts = texts
        self._pages = pages
        self._edited: dict[str, VersionRow | str | None] = {}
        self.changed = False
        self.has_removed = False

    def _edit(self, edits: Mapping[str, VersionRow | str | None]) -> None:
        if self._overlay is not self._edited:
            self._edited = dict(self._overlay)
            self._see(self._edited)
        self._edited.update(edits)

    def finished(self) -> Manifest:
        manifest = replace(self._manifest, state=self._state, log=self._overlay)
        is_left = self.has_removed and manifest.weight > 0  # pages may still have records that were removed
        if is_left or len(manifest.log) - len(self._manifest.log) >= _LONG_LOG * self._reader.storage.sizes.log:
            self._compact()
            return self._manifest
        return manifest

    def _compact(self) -> None:
        """Move the log of the manifest, and the edits of this transaction, into the tree of pages."""
        manifest = replace(self._manifest, state=self._state, log=self._overlay)
        rebuild = manifest.rebuilt(self._reader.storage.sizes, self._reader.pages)
        self._pages.update(rebuild.written)
        self._manifest = manifest.compacted(rebuild)
        self._see(self._manifest.log)

    def compact_log(self) -> None:
        """Move the whole log of the manifest into the tree of pages. The next purge deletes the replaced pages."""
        if self._manifest.weight:
            self.changed = True
            self._compact()

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        if not changes:
            return []
        self._begin_revision()
        sources = [None if change.before is None else self._row_at(change.before.path) for change in changes]
        return [self._record_one(change, source, actor) for change, source in zip(changes, sources, strict=True)]

    def _record_one(self, change: Change, source: VersionRow | None, actor: Actor | None) -> Recorded:
        origin = change.origin
        at = self._tick(origin)
        if origin is not None and origin.redacted_at is not None:
            row = VersionRow(
                origin.id, origin.memory_id, origin.operation, _name(origin.actor), at, at, origin.revision
            )
            return self._add(row.redacted(to_us(origin.redacted_at), _name(origin.redacted_by)))
        source = self._source(change, source)
        memory, born = self._memory(change, source, at)
        version = self._reader.storage.new_id("memver_", at) if origin is None else origin.id
        who = _name(actor if origin is None else origin.actor)
        revision = self._state.revision if origin is None else origin.revision
        is_first = source is None and origin is None and change.again is None
        row = VersionRow(version, memory, change.operation, who, born, at, revision, first=is_first)
        row = self._with_text(row, change, source)
        self._count(row, source)
        vacant = None
        if source is not None and source.path != change.path:
            there = self._row_at(source.path)  # an earlier change of this write may have reused the path
            vacant = source.path if there is not None and there.memory == memory else None
        return self._add(row, vacant=vacant)

    def _with_text(self, row: VersionRow, change: Change, source: VersionRow | None) -> VersionRow:
        """Return the row of a new version, completed with the path and the text of the change.

        `source` is the row of the memory before the change. A deletion has no text. A rename keeps the text of
        `source`.
        """
        kept = change.kept(row.memory, row.id)
        elsewhere = "" if change.origin is None else change.origin.path
        path = change.path or (elsewhere if source is None else source.path)
        seal = None if kept.seal is None else b64encode(kept.seal).decode()
        row = row._replace(path=path, seal=seal, provenance=kept.provenance)
        if change.path is None:
            return row
        if change.size_bytes is None and source is not None:
            return row._replace(size=source.size, sha256=source.sha256, text=source.text)
        return row._replace(size=change.size_bytes, sha256=kept.sha256, text=self._texts.add(kept.data or b""))

    def _source(self, change: Change, source: VersionRow | None) -> VersionRow | None:
        """Return the row of the memory that a change concerns, or None for a new memory.

        `source` is the row of the memory before this write. It is returned if an earlier change of the same write has
        taken the path of the memory. Raises `Conflict` if another writer has moved or deleted the memory.
        """
        before = change.before
        if before is None:
            return None
        now = self._row_at(before.path)
        source = now if now is not None and now.memory == before.id else source
        if source is None or source.memory != before.id:
            raise Conflict("a memory was moved or deleted since it was read")
        return source

    def _memory(self, change: Change, source: VersionRow | None, at: int) -> tuple[str, int]:
        if source is not None:
            return source.memory, source.born
        if change.again is not None:
            return change.again.id, to_us(change.again.created_at)
        return self._reader.storage.new_id("mem_", at) if change.origin is None else change.origin.memory_id, at

    def _add(self, row: VersionRow, *, vacant: str | None = None) -> Recorded:
        edits: dict[str, VersionRow | str | None] = {} if vacant is None else {MEMORY + vacant: None}
        edits[VERSION + row.id] = row
        if row.operation != "deleted" and row.redacted_at is None:
            edits[MEMORY + row.path] = row
        self._edit(edits)
        if row.redacted_at is not None:
            self._manifest = replace(self._manifest, has_gaps=True)
        self._state = self._state._replace(newest=row.id)
        return Recorded(row.memory, row.id)

    def _count(self, row: VersionRow | None, source: VersionRow | None) -> None:
        """Update the number of memories and their total size after a change of one memory.

        `source` is the row of the memory before the change, and `row` is its row after the change. A row is None if
        the memory does not exist at that time.
        """
        is_present = row is not None and row.operation != "deleted"
        memories = self._state.memories + is_present - (source is not None)
        before, after = (0 if one is None else one.size or 0 for one in (source, row))
        self._state = self._state._replace(memories=memories, size_bytes=self._state.size_bytes + after - before)

    def _tick(self, origin: Version | None) -> int:
        """Return the time of the next version: the current time, or the time of the imported version `origin`.

        If the clock went back, the current time is replaced with the time just after the newest version. Raises
        `InvalidInput` if `origin` is not later than the newest version.
        """
        last = self._state.last_at
        at = max(now_us(self._reader.storage.clock), last + 1) if origin is None else to_us(origin.created_at)
        if at <= last:
            raise InvalidInput("imported versions must be later than all existing versions")
        revision = max(self._state.revision, 0 if origin is None else origin.revision)
        self._state = self._state._replace(last_at=at, revision=revision)
        return at

    def _begin_revision(self) -> None:
        self.changed = True
        revision = max(self._state.revision, self._revision_before + 1)
        self._state = self._state._replace(revision=revision)

    def drop(self, memories: Sequence[Memory]) -> None:
        if not memories:
            return
        self._begin_revision()
        for memory in memories:
            source = self._row_at(memory.path)
            if source is None or source.memory != memory.id:
                raise Conflict("a memory was moved or deleted since it was read")
            self._edit({MEMORY + source.path: None})
            self._count(None, source)
        self._manifest = replace(self._manifest, has_gaps=True)

    def set_metadata(
        self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED, properties: Metadata = UNCHANGED
    ) -> None:
        self.changed = True
        if properties is not UNCHANGED:
            self._manifest = replace(self._manifest, properties=properties)
        if settings is not UNCHANGED:
            self._manifest = replace(self._manifest, settings=settings)
        if seal is not UNCHANGED:
            self._manifest = replace(self._manifest, seal=seal)

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self.changed = True
        name = record_key(kind, key)
        edits = {} if (replaced := self._map.get(name)) is None else garbage([text_in(replaced)])
        edits[name] = None if value is None else record_value(value, self._texts.add)
        self._edit(edits)

    def tick(self) -> int:
        self.changed = True
        return self._tick(None)

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        going = [row for row in self._removable(version_ids) if row.redacted_at is None]
        at, who = now_us(self._reader.storage.clock), _name(actor)
        shared, _ = self._shared_texts(going)
        self._remove({row: row.redacted(at, who) for row in going}, shared)

    def prune(self, version_ids: Sequence[str]) -> None:
        going = self._removable(version_ids)
        shared, writers = self._shared_texts(going)
        self._remove({row: None for row in going if row.id not in writers}, shared)

    def _removable(self, version_ids: Sequence[str]) -> list[VersionRow]:
        """Return the rows of the versions with these ids, except the newest version of each existing memory."""
        versions = self._map.get_all([VERSION + each for each in dict.fromkeys(version_ids)])
        found = [row for row in versions if isinstance(row, VersionRow)]
        present = self._map.get_all([MEMORY + row.path for row in found])
        return [
            row
            for row, there in zip(found, present, strict=True)
            if not isinstance(there, VersionRow) or there.id != row.id
        ]

    def _shared_texts(self, going: Sequence[VersionRow]) -> tuple[set[str], set[str]]:
        """Return the texts that the versions to remove (`going`) share with versions that stay.

        The first result has references to these texts. The second has the ids of the versions that wrote them.
        """
        ids, memories = {row.id for row in going}, {row.memory for row in going}
        texts = {row.text for row in going if row.text}
        stay, oldest = set[str](), dict[str, str]()
        rows = self._rows("", None)
        while memories and (found := next(rows, None)) is not None:
            if found.text in texts and found.text is not None:
                oldest[found.text] = found.id
                if found.id not in ids:
                    stay.add(found.text)
            if found.first:
                memories.discard(found.memory)
        return stay, {oldest[text] for text in stay}

    def _remove(self, edits: Mapping[VersionRow, VersionRow | None], shared: set[str]) -> None:
        """Redact or remove versions, and record their texts as garbage, except the texts in `shared`.

        `edits` maps the row of each version to its redacted row, or to None to remove it. The log is compacted too,
        because it may contain the paths of the removed versions.
        """
        if edits:
            self._begin_revision()
            self._edit(garbage({row.text for row in edits} - shared))
            self._edit({VERSION + row.id: edited for row, edited in edits.items()})
            self._compact()
            self.has_removed = True

    def erased(self, refs: Sequence[str]) -> None:
        edits = {key: None for key in garbage(refs) if self._map.get(key) is not None}
        self.changed = self.changed or bool(edits)
        self._edit(edits)


def _name(actor: Actor | None) -> str | None:
    return None if actor is None else str(actor)
