"""Transaction on a memory store in object storage. Its changes stay in the memory of the process until the commit."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from retentive.errors import Conflict, InvalidInput
from retentive.storage.contract import (
    Actor,
    Change,
    Created,
    Imported,
    Metadata,
    Recorded,
    Transaction,
    kept,
    now_us,
)
from retentive.storage.objects.manifest import Manifest
from retentive.storage.objects.reader import NewTexts, Reader
from retentive.storage.objects.records import (
    LONG_CHARS,
    MEMORY,
    VERSION,
    TextRef,
    VersionRow,
    record_key,
    text_in,
)
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.values.records import to_us


class ObjectsTransaction(ObjectsSnapshot, Transaction):
    """Transaction that starts from the state in `manifest`, which then has its changes.

    The transaction adds new texts to `texts`, which must be uploaded before the manifest is committed. If the flag
    `must_compact` is set, the log must be compacted, so that it contains nothing of what was removed. `removed` has
    references to the texts that the map does not need any more.
    """

    def __init__(self, manifest: Manifest, reader: Reader, texts: NewTexts) -> None:
        self._log = dict(manifest.log)
        super().__init__(replace(manifest, log=self._log), replace(reader, new_texts=texts.texts))
        self._revision_before = manifest.revision
        self._texts = texts
        self.removed: list[TextRef] = []
        self.changed = False
        self.must_compact = False

    def compact(self) -> None:
        """Compact the log with this commit. The next purge deletes the replaced pages."""
        self.changed = self.must_compact = True

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        if changes:
            self.changed = True
            self.manifest = replace(self.manifest, revision=max(self.manifest.revision, self._revision_before + 1))
        sources = [None if change.before is None else self._row(MEMORY + change.before.path) for change in changes]
        return [self._record_one(change, source, actor) for change, source in zip(changes, sources, strict=True)]

    def _record_one(self, change: Change, source: VersionRow | None, actor: Actor | None) -> Recorded:
        """Record a change. `source` is the row that `change.before` had before the changes of the same call."""
        if change.before is not None:
            now = self._row(MEMORY + change.before.path)  # an earlier change of this write may have taken the path
            source = now if now is not None and now.memory == change.before.id else source
            if source is None or source.memory != change.before.id:
                raise Conflict("a memory was moved or deleted since it was read")
        row = self._new_row(change, source, actor)
        edits: dict[str, VersionRow | None] = {VERSION + row.id: row}
        if source is not None and source.path != change.path:
            there = self._row(MEMORY + source.path)  # an earlier change of this write may have reused the path
            if there is not None and there.memory == row.memory:
                edits[MEMORY + source.path] = None
        if change.path is not None:
            edits[MEMORY + change.path] = row
        self._log.update(edits)
        totals, present = self.manifest, row if change.path is not None else None
        size_before, size_after = (0 if one is None else one.size or 0 for one in (source, present))
        self.manifest = replace(
            totals,
            revision=max(totals.revision, row.revision),
            memories=totals.memories + (present is not None) - (source is not None),
            size_bytes=totals.size_bytes + size_after - size_before,
            last_at=row.at,
            newest=row.id,
        )
        return Recorded(row.memory, row.id)

    def _new_row(self, change: Change, source: VersionRow | None, actor: Actor | None) -> VersionRow:
        """Return the row of the version that a change makes of the memory `source`.

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
        if source is None:
            raise InvalidInput("a new memory needs a text")
        return row._replace(size=source.size, sha256=source.sha256, text=source.text)

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
        """Return the texts that the versions to remove (`going`) share with versions that stay.

        The keys are references to these texts. The values are the ids of the versions that wrote them.
        """
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


def _name(actor: Actor | None) -> str | None:
    return None if actor is None else str(actor)
