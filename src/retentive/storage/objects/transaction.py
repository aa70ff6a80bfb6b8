"""Transaction on a memory store in object storage. Its changes stay in the memory of the process until the commit."""

from __future__ import annotations

from base64 import b64encode
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias, Unpack

from retentive.errors import Conflict, Damaged, InvalidInput
from retentive.storage.contract import (
    Actor,
    Change,
    Created,
    Imported,
    Metadata,
    Recorded,
    kept,
    now_us,
    verify_version,
)
from retentive.storage.objects.manifest import Manifest
from retentive.storage.objects.reader import NewTexts, Reader, by_pack
from retentive.storage.objects.records import (
    LONG_CHARS,
    MEMORY,
    PACKED,
    VERSION,
    TextRef,
    VersionRow,
    new_name,
    packed,
    record_key,
    text_in,
)
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.storage.packs import FULL_BYTES, filled, is_full
from retentive.storage.queue import BatchTransaction
from retentive.values.records import name_of, to_us

_Member: TypeAlias = "tuple[bytes, str, list[VersionRow]]"
"""Text in a pack, the id of the version that wrote it (which may be redacted), and the rows of its versions."""


class ObjectsTransaction(ObjectsSnapshot, BatchTransaction):
    """Transaction that starts from the state in `manifest`, which then has its changes.

    The transaction adds new texts to `texts`, which must be uploaded before the manifest is committed. If the flag
    `must_compact` is set, the log must be compacted, so that it contains nothing of what was removed. `removed` has
    references to the texts that the map does not need any more, `replaced` to those that are also in a new pack, and
    `packs` the new packs by name.
    """

    def __init__(self, manifest: Manifest, reader: Reader, texts: NewTexts) -> None:
        self._log = dict(manifest.log)
        super().__init__(
            replace(manifest, log=self._log), replace(reader, new_texts=texts.texts, new_packs=texts.packs)
        )
        self._revision_before = manifest.revision
        self._texts, self._texts_before = texts, len(texts.texts)
        self.removed: list[TextRef] = []
        self.replaced: list[TextRef] = []
        self.packs: dict[str, bytes] = {}
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
            last_at=max(totals.last_at, row.at),
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
                if version.id <= totals.newest:
                    raise InvalidInput("imported versions must be later than all existing versions")
                made = version.id, version.memory_id, version.operation, name_of(version.actor), at, version.revision
                row = VersionRow(*made, version.path)
                if version.redacted_at is not None:
                    return row.redacted(to_us(version.redacted_at), name_of(version.redacted_by))
            case Created(path, again=again):
                memory = new_id("mem_", at) if again is None else again.id
                row = VersionRow(new_id("memver_", at), memory, "created", name_of(actor), at, totals.revision, path)
            case _:
                made = new_id("memver_", at), change.before.id, change.operation, name_of(actor), at, totals.revision
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
        at, who = now_us(self._reader.clock), name_of(actor)
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
            going = {row.text for row in edits if row.text}.difference(staying)
            for name, refs in by_pack(ref for ref in going if ref.is_packed).items():
                self._take_out(name, {ref.offset for ref in refs}, edits)
            self.removed += going
            self._log.update({VERSION + row.id: edited for row, edited in edits.items()})
            self.compact()

    def _take_out(self, name: str, going: Set[int], edits: Collection[VersionRow]) -> None:
        """Write a pack again without the texts with these numbers.

        A damaged pack cannot be written again, so all its texts must go. Raises `Damaged`.
        """
        try:
            left = [member for number, member in enumerate(self._members(name)) if number not in going]
        except Damaged:
            if any(row.text and row.text.pack == name for row in self._rows("", None) if row not in edits):
                raise
            left = []
        self._put_packs(left)

    def pack(self, version_ids: Sequence[str]) -> None:
        found = self._map.get_all([VERSION + each for each in version_ids])
        memories = {row.memory for row in found if isinstance(row, VersionRow)}
        ids, of_memory = set(version_ids), defaultdict[str, list[VersionRow]](list)
        for row in self._rows(min(ids, default="~"), None, reverse=False):
            if row.memory in memories:
                of_memory[row.memory].append(row)
        for rows in of_memory.values():
            self._pack(rows, ids)

    def _pack(self, rows: Sequence[VersionRow], ids: Set[str]) -> None:
        """Pack the texts of versions of one memory. `rows` has all its versions since the first of these.

        Versions that only rename a memory share one text, and a pack must know all of them. So the text of the first
        version is left out, unless it is the first one of the memory, and also a text behind a redacted version.
        """
        left_out = {rows[-1].text, None if rows[0].is_first else rows[0].text}
        sharing = defaultdict[TextRef, list[VersionRow]](list)
        for before, row in pairwise((rows[0], *rows)):
            if before.redacted_at is not None:
                left_out.add(row.text)
            if row.text and not row.text.is_packed and row.text.length <= FULL_BYTES:
                sharing[row.text].append(row)
        loose = [ref for ref, some in sharing.items() if ref not in left_out and any(row.id in ids for row in some)]
        packs = sorted({row.text.pack for row in rows if row.id in ids and row.text and row.text.is_packed})
        try:
            open_ones = [name for name in packs if not is_full(dict(self.texts_in(name)))]
            members = [member for name in open_ones for member in self._members(name)]
            for ref, text in zip(loose, self._reader.texts(loose), strict=True):
                writer = sharing[ref][0]
                verify_version(writer.as_version(), text)
                members.append((self.packing.opened(writer.id, text), writer.id, sharing[ref]))
        except Damaged:  # left as it is, so that a sweep goes on
            return
        if not loose and len(open_ones) < 2:
            return
        self._put_packs(members)
        self.replaced += [*loose, *(packed(name, 0, b"") for name in open_ones)]
        self.changed = True

    def _members(self, name: str) -> list[_Member]:
        """Return the texts of a pack."""
        members = []
        for number, (ids, text) in enumerate(self.texts_in(name)):
            rows = self._map.get_all([VERSION + each for each in ids.split()])
            ref = packed(name, number, text)
            having = [row for row in rows if isinstance(row, VersionRow) and row.text == ref]
            members.append((text, ids.partition(" ")[0], having))
        return members

    def _put_packs(self, members: Sequence[_Member]) -> None:
        """Make packs of texts. The name of a text in its pack is the id of its writer and those of its versions."""
        named = {
            " ".join(dict.fromkeys((writer, *(row.id for row in rows)))): (text, rows)
            for text, writer, rows in members
            if rows
        }
        for texts in filled({ids: text for ids, (text, _) in named.items()}) if named else ():
            data = self.packing.encode(texts)
            name = new_name(self.manifest.generation, data) + PACKED
            self.packs[name] = self._texts.packs[name] = data
            self.keep_pack(name, list(texts.items()))
            for number, (ids, text) in enumerate(texts.items()):
                ref = packed(name, number, text)
                self._log.update({VERSION + row.id: row._replace(text=ref) for row in named[ids][1]})
