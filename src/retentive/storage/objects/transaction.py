"""A memory store in object storage while it is being changed: a value on top of a root."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from retentive.errors import Conflict, InvalidInput
from retentive.storage.contract import (
    UNCHANGED,
    Actor,
    Change,
    Clock,
    Memory,
    Metadata,
    NewId,
    Recorded,
    Transaction,
    Version,
    now_us,
)
from retentive.storage.objects.compaction import Sizes, fold
from retentive.storage.objects.history import Rewriting
from retentive.storage.objects.immutables import Immutables, NewObjects
from retentive.storage.objects.manifest import Root
from retentive.storage.objects.notes import LONG_CHARS, NoteSizes, Settled, has_overlay, merge_all, settle, with_note
from retentive.storage.objects.records import MemoryEntry, Note, Record, apply, name_for, pack, sealed
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.values.records import to_us

_PENDING_IN_ROOT = 256  # more names of objects to be deleted go into an object


@dataclass(frozen=True, slots=True)
class Means:
    """What transactions of one backend share."""

    clock: Clock
    new_id: NewId
    sizes: Sizes
    note_sizes: NoteSizes


class ObjectsTransaction(ObjectsSnapshot, Transaction):
    """A store while it is being changed. `after` is what it becomes, `made` are objects to be written before that."""

    def __init__(self, root: Root, objects: Immutables, new: NewObjects, means: Means) -> None:
        super().__init__(root, objects.with_new(new))
        self._revision_before = root.revision
        self._means = means
        self._written = new
        self._new: list[Record] = []
        self._has_noted = self._has_blanked = False
        self.made: set[str] = set()
        self.has_changed = False
        self.has_removed = False

    # -- memories --------------------------------------------------------------------------------------------

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        if not changes:
            return []
        if not self._new:
            self._changed = dict(self.root.changed)
        self.has_changed = True
        self._changes_history()
        sources = [None if change.before is None else self._entry(change.before.path) for change in changes]
        return [self._record_one(change, source, actor) for change, source in zip(changes, sources, strict=True)]

    def _record_one(self, change: Change, source: MemoryEntry | None, actor: Actor | None) -> Recorded:
        origin = change.origin
        if origin is not None and origin.redacted_at is not None:
            return self._add(self._blank_from_elsewhere(origin))
        source = self._source(change, source)
        who = actor if origin is None else origin.actor
        at = self._tick(origin)
        memory = self._memory_id(change, source, at)
        version = self._means.new_id("memver_", at) if origin is None else origin.id
        kept = change.kept(memory, version)
        record = Record(
            version,
            memory,
            change.operation,
            change.path or "",
            change.size_bytes,
            kept.sha256,
            _name(who),
            at,
            self.root.revision if origin is None else origin.revision,
            sealed(kept.seal),
            None,
            _born(change, source, at),
            None,
            source is None and origin is None and change.again is None,
        )
        if change.path is None:
            gone = origin.path if source is None and origin is not None else None if source is None else source.path
            left = None if source is None else source.path
            record = record._replace(path=gone or "", size=None, sha256=None, left=left)
        elif change.size_bytes is None:
            assert source is not None
            record = record._replace(size=source.size, sha256=source.sha256, text=source.text, left=source.path)
        else:
            left = None if source is None or source.path == change.path else source.path
            record = record._replace(text=self._named("texts", kept.data or b""), left=left)
        self._count(record, source)
        return self._add(record)

    def _source(self, change: Change, source: MemoryEntry | None) -> MemoryEntry | None:
        """The memory that is changed, as it is now."""
        before = change.before
        if before is None:
            return None
        now = self._entry(before.path)
        source = now if now is not None and now.id == before.id else source
        if source is None or source.id != before.id:
            raise Conflict("a memory is no longer where it was")
        return source

    def _memory_id(self, change: Change, source: MemoryEntry | None, at: int) -> str:
        if source is not None:
            return source.id
        if change.again is not None:
            return change.again.id
        return self._means.new_id("mem_", at) if change.origin is None else change.origin.memory_id

    def _blank_from_elsewhere(self, origin: Version) -> Record:
        at = self._tick(origin)
        revision, redacted = origin.revision, None if origin.redacted_at is None else to_us(origin.redacted_at)
        who, by = _name(origin.actor), _name(origin.redacted_by)
        return Record(
            origin.id,
            origin.memory_id,
            origin.operation,
            "",
            None,
            None,
            who,
            at,
            revision,
            None,
            None,
            at,
            None,
            first=False,
            redacted_at=redacted,
            redacted_by=by,
        )

    def _add(self, record: Record) -> Recorded:
        self._new.append(record)
        apply(cast("dict[str, Record | None]", self._changed), [record])
        is_stray = record.redacted_at is not None and (
            record.operation != "deleted" or self.find(record.memory) is not None
        )
        if is_stray or record.memory in self.root.strays:
            others = tuple(memory for memory in self.root.strays if memory != record.memory)
            self.root = replace(self.root, strays=(*others, record.memory) if is_stray else others)
        return Recorded(record.memory, record.id)

    def _count(self, record: Record, source: MemoryEntry | None) -> None:
        is_gone = record.operation == "deleted"
        memories = (not is_gone) - (source is not None)
        self.root = replace(
            self.root,
            memories=self.root.memories + memories,
            size_bytes=self.root.size_bytes + (record.size or 0) - (0 if source is None else source.size),
        )

    def _tick(self, origin: Version | None) -> int:
        """The time of the next version: now, but later than the one before, whatever the clock says."""
        at = max(now_us(self._means.clock), self.root.last_at + 1) if origin is None else to_us(origin.created_at)
        if at <= self.root.last_at:
            raise InvalidInput("versions from elsewhere must be later than those that are there")
        revision = self.root.revision if origin is None else max(self.root.revision, origin.revision)
        self.root = replace(self.root, last_at=at, revision=revision)
        return at

    def _changes_history(self) -> None:
        self.root = replace(self.root, revision=max(self.root.revision, self._revision_before + 1))

    def _latest(self) -> list[Record]:
        return [*reversed(self._new), *reversed(self.root.log)]

    def drop(self, memories: Sequence[Memory]) -> None:
        if not memories:
            return
        if not self._new:
            self._changed = dict(self.root.changed)
        self.has_changed = True
        self._changes_history()
        for memory in memories:
            self._forget(memory)

    def _forget(self, memory: Memory) -> None:
        entry = self._entry(memory.path)
        if entry is None or entry.id != memory.id:
            raise Conflict("a memory is no longer where it was")
        newest = self._new[-1].id if self._new else self.root.newest
        gone = Record(newest, entry.id, "deleted", "", None, None, None, 0, 0, None, None, 0, entry.path, first=False)
        self._count(gone, entry)
        self._add(gone)
        self.root = replace(self.root, strays=(*self.root.strays, entry.id))

    # -- what is kept with them ------------------------------------------------------------------------------

    def set_metadata(self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED) -> None:
        self.has_changed = True
        if settings is not UNCHANGED:
            self.root = replace(self.root, settings=settings)
        if seal is not UNCHANGED:
            self.root = replace(self.root, seal=seal)

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self.has_changed = self._has_noted = True
        held = value is not None and len(value) > LONG_CHARS
        note = Note(key, None, self._named("values", pack("value", value))) if held else Note(key, value, None)
        before = self.root.notes.get(kind)
        replaced = None if before is None else before.recent.get(key)
        if replaced is not None and replaced.held_in is not None:
            self._drop([f"values/{replaced.held_in}"])
        self.root = replace(self.root, notes=with_note(self.root.notes, kind, note))
        notes = self.root.notes.get(kind)
        if notes is not None and len(notes.recent) >= self._means.note_sizes.segment:
            self._use(settle(self.root.notes, self._means.note_sizes, self._objects.notes))

    def merge_notes(self) -> None:
        """Leave nothing of notes that were replaced or removed."""
        if any(has_overlay(notes) for notes in self.root.notes.values()):
            self.has_changed = True
            self._use(merge_all(self.root.notes, self._means.note_sizes, self._objects.notes))

    def _use(self, settled: Settled) -> None:
        for name, data in settled.objects.items():
            self._make(f"notes/{name}", data)
        self.root = replace(self.root, notes=settled.notes)
        self._drop([f"notes/{name}" for name in sorted(settled.dropped)])
        self._drop([f"values/{name}" for name in sorted(settled.dropped_values)])

    # -- what goes for good ----------------------------------------------------------------------------------

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        chosen = [record for record in self._removable(version_ids) if record.redacted_at is None]
        at, who = now_us(self._means.clock), _name(actor)
        self._remove(chosen, lambda record: record.blanked(at, who))
        self._has_blanked = self._has_blanked or bool(chosen)

    def prune(self, version_ids: Sequence[str]) -> None:
        chosen = self._removable(version_ids)
        _, writers = self._history().shared_texts(chosen)
        self._remove([record for record in chosen if record.id not in writers], lambda record: None)

    def _removable(self, version_ids: Sequence[str]) -> list[Record]:
        """The versions with these ids, but for the newest of present memories."""
        history = self._history()
        found = [record for record in map(history.record, dict.fromkeys(version_ids)) if record is not None]
        self._load([record.path for record in found])
        return [record for record in found if not self._is_present(record)]

    def _is_present(self, record: Record) -> bool:
        entry = self._entry(record.path)
        return entry is not None and entry.version == record.id

    def _remove(self, going: Sequence[Record], edit: Callable[[Record], Record | None]) -> None:
        """Edit versions, and drop the texts that no other has.

        Before, the log becomes pages and history, which are then all there is of them.
        """
        if not going:
            return
        self.has_changed = self.has_removed = True
        shared, _ = self._history().shared_texts(going)
        texts = {record.text for record in going if record.text is not None} - shared
        self._fold()
        rewriting = Rewriting(self._objects, self._means.sizes, edit, folds=self.root.folds)
        levels = rewriting.levels(self.root.history, [record.id for record in going])
        for name, data in rewriting.objects.items():
            self._make(name, data)
        self._changes_history()
        self.root = replace(self.root, history=levels, folds=self.root.folds + 1)
        self._drop([f"texts/{name}" for name in sorted(texts)])
        self.made.difference_update(f"history/{name}" for name in rewriting.replaced)

    def _fold(self) -> None:
        folded = fold(self._with_log(), self._means.sizes, self._objects.pages)
        for name, data in folded.objects.items():
            self._make(name, data)
        self.root = folded.applied(self._with_log())
        self._new, self._changed = [], self.root.changed

    # -- objects ---------------------------------------------------------------------------------------------

    def _named(self, kind: str, data: bytes) -> str:
        name = self._written.name(kind, data)
        self.made.add(f"{kind}/{name}")
        return name

    def _make(self, name: str, data: bytes) -> None:
        self._written.add(name.partition("/")[2], data)
        self.made.add(name)

    def _drop(self, names: Sequence[str]) -> None:
        """Have objects deleted once this is committed; those of this transaction are not written at all."""
        pending = (*self.root.pending, *(name for name in names if name not in self.made))
        self.made.difference_update(names)
        if len(pending) > _PENDING_IN_ROOT:
            data = pack("list", pending)
            name = f"lists/{name_for(data)}"
            self._make(name, data)
            pending = (name,)
        self.root = replace(self.root, pending=pending)

    def after(self) -> Root:
        """The root after this transaction."""
        if self._has_blanked:  # what was removed of notes in the same write shall not rest in older objects either
            self._use(merge_all(self.root.notes, self._means.note_sizes, self._objects.notes))
        if self._has_noted:
            self._use(settle(self.root.notes, self._means.note_sizes, self._objects.notes))
        return self._with_log()

    def _with_log(self) -> Root:
        return replace(self.root, log=(*self.root.log, *self._new), changed=self._changed)


def _born(change: Change, source: MemoryEntry | None, at: int) -> int:
    if source is not None:
        return source.born
    return at if change.again is None else to_us(change.again.created_at)


def _name(actor: Actor | None) -> str | None:
    return None if actor is None else str(actor)
