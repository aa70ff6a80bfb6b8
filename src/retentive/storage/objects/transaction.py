"""Transaction on a memory store in object storage. Its changes stay in the memory of the process until the commit."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from retentive.errors import Conflict, InvalidInput
from retentive.storage.contract import (
    UNCHANGED,
    Actor,
    Change,
    Created,
    Imported,
    Metadata,
    Recorded,
    Transaction,
    Version,
    kept,
    now_us,
)
from retentive.storage.objects.manifest import Manifest
from retentive.storage.objects.reader import NewTexts, Reader
from retentive.storage.objects.records import MEMORY, VERSION, VersionRow, record_key, record_value, text_in
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.values.records import to_us


class ObjectsTransaction(ObjectsSnapshot, Transaction):
    """Transaction that starts from the state in `manifest`. `finished` returns the manifest to commit.

    The transaction adds new texts to `texts`, which must be uploaded before the manifest is committed. If the flag
    `must_compact` is set, the log must be compacted, so that it contains nothing of what was removed. `removed` has
    references to the texts that the map does not need any more.
    """

    def __init__(self, manifest: Manifest, reader: Reader, texts: NewTexts) -> None:
        super().__init__(manifest, replace(reader, new_texts=texts.texts))
        self._revision_before = manifest.state.revision
        self._texts = texts
        self._edited: dict[str, VersionRow | str | None] = {}
        self.removed: list[str] = []
        self.changed = False
        self.must_compact = False

    def finished(self) -> Manifest:
        return replace(self._manifest, state=self._totals, log=self._overlay)

    def compact(self) -> None:
        """Compact the log with this commit. The next purge deletes the replaced pages."""
        self.changed = self.must_compact = True

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        self._begin_revision(changes)
        sources = [None if change.before is None else self._row_at(change.before.path) for change in changes]
        return [self._record_one(change, source, actor) for change, source in zip(changes, sources, strict=True)]

    def _record_one(self, change: Change, source: VersionRow | None, actor: Actor | None) -> Recorded:
        origin, before = change.version if isinstance(change, Imported) else None, change.before
        at = self._next_time(origin)
        if before is not None:
            now = self._row_at(before.path)  # an earlier change of this write may have taken the path
            source = now if now is not None and now.memory == before.id else source
            if source is None or source.memory != before.id:
                raise Conflict("a memory was moved or deleted since it was read")
        if source is not None:
            memory = source.memory
        elif isinstance(change, Created) and change.again is not None:
            memory = change.again.id
        else:
            memory = self._reader.storage.new_id("mem_", at) if origin is None else origin.memory_id
        if origin is None:
            version = self._reader.storage.new_id("memver_", at)
            row = VersionRow(version, memory, change.operation, _name(actor), at, self._totals.revision)
        else:
            row = VersionRow(origin.id, memory, origin.operation, _name(origin.actor), at, origin.revision)
        if origin is not None and origin.redacted_at is not None:
            row = row.redacted(to_us(origin.redacted_at), _name(origin.redacted_by))
        else:
            row = self._with_text(row, change, source)
        is_present = change.path is not None
        if source is not None and not (is_present and source.path == row.path):
            there = self._row_at(source.path)  # an earlier change of this write may have reused the path
            if there is not None and there.memory == memory:
                self._edit({MEMORY + source.path: None})
        self._edit({VERSION + row.id: row, **({MEMORY + row.path: row} if is_present else {})})
        self._count(row if is_present else None, source)
        self._totals = self._totals._replace(newest=row.id)
        return Recorded(memory, row.id)

    def _with_text(self, row: VersionRow, change: Change, source: VersionRow | None) -> VersionRow:
        """Return the row of a new version, completed with the path and the text of the change.

        `source` is the row of the memory before the change. A deletion has no text. A rename keeps the text of
        `source`.
        """
        stored = kept(change, row.memory, row.id)
        elsewhere = change.version.path if isinstance(change, Imported) else ""
        path = change.path or (elsewhere if source is None else source.path)
        seal = None if stored.seal is None else b64encode(stored.seal).decode()
        row = row._replace(path=path, seal=seal, provenance=stored.provenance)
        if change.path is None:
            return row
        if stored.data is not None:
            return row._replace(size=stored.size_bytes, sha256=stored.sha256, text=self._texts.add(stored.data))
        if source is None:
            raise InvalidInput("a new memory needs a text")
        return row._replace(size=source.size, sha256=source.sha256, text=source.text)

    def set_metadata(
        self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED, properties: Metadata = UNCHANGED
    ) -> None:
        self.changed = True
        if settings is not UNCHANGED:
            self._manifest = replace(self._manifest, settings=settings)
        if seal is not UNCHANGED:
            self._manifest = replace(self._manifest, seal=seal)
        if properties is not UNCHANGED:
            self._manifest = replace(self._manifest, properties=properties)

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self.changed = True
        name = record_key(kind, key)
        if (replaced := self._map.get(name)) is not None and (text := text_in(replaced)):
            self.removed.append(text)
        self._edit({name: None if value is None else record_value(value, self._texts.add)})

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        going = [row for row in self._removable(version_ids) if row.redacted_at is None]
        at, who = now_us(self._reader.storage.clock), _name(actor)
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

    def _begin_revision(self, changes: Sequence[object]) -> None:
        if changes:
            self.changed = True
            revision = max(self._totals.revision, self._revision_before + 1)
            self._totals = self._totals._replace(revision=revision)

    def _next_time(self, origin: Version | None) -> int:
        """Return the time of the next version: the current time, or the time of the imported version `origin`.

        If the clock went back, the current time is replaced with the time just after the newest version. Raises
        `InvalidInput` if `origin` is not later than the newest version.
        """
        last = self._totals.last_at
        at = max(now_us(self._reader.storage.clock), last + 1) if origin is None else to_us(origin.created_at)
        if origin is not None:
            if at < last or origin.id <= self._totals.newest:
                raise InvalidInput("imported versions must be later than all existing versions")
            self._totals = self._totals._replace(revision=max(self._totals.revision, origin.revision))
        self._totals = self._totals._replace(last_at=at)
        return at

    def _count(self, row: VersionRow | None, source: VersionRow | None) -> None:
        """Update the totals. `source` and `row` are the memory before and after a change, or None if it is absent."""
        memories = self._totals.memories + (row is not None) - (source is not None)
        before, after = (0 if one is None else one.size or 0 for one in (source, row))
        self._totals = self._totals._replace(memories=memories, size_bytes=self._totals.size_bytes + after - before)

    def _edit(self, edits: Mapping[str, VersionRow | str | None]) -> None:
        if self._overlay is not self._edited:
            self._edited = dict(self._overlay)
            self._see(self._edited)
        self._edited.update(edits)

    def _removable(self, version_ids: Sequence[str]) -> list[VersionRow]:
        """Return the rows of the versions with these ids, except the newest version of each existing memory."""
        versions = self._map.get_all([VERSION + each for each in dict.fromkeys(version_ids)])
        found = [row for row in versions if isinstance(row, VersionRow)]
        present = self._map.get_all([MEMORY + row.path for row in found])
        newest = {row.id for row in present if isinstance(row, VersionRow)}
        return [row for row in found if row.id not in newest]

    def _texts_that_stay(self, going: Sequence[VersionRow]) -> dict[str, str]:
        """Return the texts that the versions to remove (`going`) share with versions that stay.

        The keys are references to these texts. The values are the ids of the versions that wrote them.
        """
        ids, memories = {row.id for row in going}, {row.memory for row in going}
        texts, staying, writers = {row.text for row in going if row.text}, set[str](), dict[str, str]()
        rows = self._rows("", None)
        while memories and (row := next(rows, None)) is not None:
            if row.text is not None and row.text in texts:
                writers[row.text] = row.id  # the last one found is the oldest
                if row.id not in ids:
                    staying.add(row.text)
            if row.is_first:
                memories.discard(row.memory)
        return {text: writers[text] for text in staying}

    def _remove(self, edits: Mapping[VersionRow, VersionRow | None], staying: Collection[str]) -> None:
        """Redact or remove versions and their texts, except the texts in `staying`.

        `edits` maps the row of each version to its redacted row, or to None to remove it.
        """
        if edits:
            self.removed += {row.text for row in edits if row.text}.difference(staying)
            self._edit({VERSION + row.id: edited for row, edited in edits.items()})
            self.compact()


def _name(actor: Actor | None) -> str | None:
    return None if actor is None else str(actor)
