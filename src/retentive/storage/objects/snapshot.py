"""A memory store in object storage, as one root has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, takewhile
from operator import attrgetter

from retentive.errors import Damaged, NotFound
from retentive.storage.contract import Entry, Memory, Snapshot, Usage, Version
from retentive.storage.objects.history import History
from retentive.storage.objects.immutables import Immutables
from retentive.storage.objects.manifest import Notes, Root
from retentive.storage.objects.notes import all_notes, find_note
from retentive.storage.objects.records import MemoryEntry, Record
from retentive.storage.sql.snapshot import below
from retentive.values.paths import ROOT, ancestors

_TEXTS_AT_ONCE = 64
_BYTES_AT_ONCE = 8 * 1024 * 1024


class ObjectsSnapshot(Snapshot):
    """A memory store as one root has it."""

    def __init__(self, root: Root, objects: Immutables) -> None:
        self.root = root
        self._objects = objects
        self._changed = root.changed

    @property
    def revision(self) -> int:
        return self.root.revision

    @property
    def seal(self) -> str | None:
        return self.root.seal

    @property
    def settings(self) -> str | None:
        return self.root.settings

    def usage(self) -> Usage:
        return Usage(self.root.memories, self.root.size_bytes)

    def get(self, path: str) -> Entry:
        entry = self._entry(path)
        if entry is not None:
            return Entry(entry.memory(), self._objects.text(_text_of(entry)))
        above = ancestors(path)
        self._load([path, *above])
        return Entry(above=next((one for one in above if self._entry(one)), None), below=self._any_below(path))

    def memories(self, under: str) -> Iterator[Memory]:
        return map(MemoryEntry.memory, self._entries(under))

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return ((entry.path, entry.size) for entry in self._entries(under))

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        for group in _groups(self._entries(under)):
            texts = self._objects.texts(list(map(_text_of, group)))
            yield from zip(map(MemoryEntry.memory, group), texts, strict=True)

    def find(self, memory_id: str) -> Memory | None:
        every = chain(
            (record.entry() for record in self._changed.values() if record is not None),
            (
                entry
                for page in self._objects.pages(self.root.pages)
                for entry in page.entries
                if entry.path not in self._changed
            ),
        )
        return next((entry.memory() for entry in every if entry.id == memory_id), None)

    # -- history ---------------------------------------------------------------------------------------------

    def versions(
        self,
        *,
        memory_id: str | None = None,
        path: str | None = None,
        revision_of: str | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Version]:
        if revision_of is not None:
            record = self.record_of(revision_of)
            found: Iterator[Record] = (
                each
                for each in (() if record is None else _of_revision(self._history(), record))
                if (after or "") < each.id and (before is None or each.id < before) and memory_id in {None, each.memory}
            )
        elif memory_id is None:
            found = self._history().between(after=after, before=before)
        else:
            found = self._history().of_memory(memory_id, after=after, before=before)
        chosen = (record.version() for record in found if path is None or record.path == path)
        return chosen if limit is None else islice(chosen, limit)

    def as_of(self, before: str) -> Iterator[Version]:
        return self._history().heads(before, self._entries(ROOT), self.root.strays)

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        record = self.record_of(version_id)
        if record is None:
            raise NotFound(f"there is no version {version_id}")
        return record.version(), None if record.text is None else self._objects.text(record.text)

    def record_of(self, version_id: str) -> Record | None:
        """The version with this id, if there is one."""
        return self._history().record(version_id)

    def _history(self) -> History:
        return History(self.root.history, [record for record in self._latest() if record.is_version], self._objects)

    def _latest(self) -> list[Record]:
        """What is not in the history yet, newest first."""
        return list(reversed(self.root.log))

    # -- notes -----------------------------------------------------------------------------------------------

    def get_record(self, kind: str, key: str) -> str | None:
        note = find_note(self.root.notes.get(kind, Notes()), key, self._objects.notes)
        return None if note is None or note.is_removed else self._objects.values([note])[0]

    def records(self, kind: str) -> Iterator[tuple[str, str]]:
        every = all_notes(self.root.notes.get(kind, Notes()), self._objects.notes)
        for start in range(0, len(every), _TEXTS_AT_ONCE):
            group = every[start : start + _TEXTS_AT_ONCE]
            yield from zip([note.key for note in group], self._objects.values(group), strict=True)

    # -- memories --------------------------------------------------------------------------------------------

    def _entry(self, path: str) -> MemoryEntry | None:
        if path in self._changed:
            record = self._changed[path]
            return None if record is None else record.entry()
        ref = self.root.page_of(path)
        return None if ref is None else self._objects.page(ref).get(path)

    def _load(self, paths: Iterable[str]) -> None:
        """Have the pages of all these paths, in one round trip."""
        refs = {self.root.page_of(path) for path in paths if path not in self._changed}
        self._objects.pages([ref for ref in refs if ref is not None])

    def _entries(self, under: str) -> Iterable[MemoryEntry]:
        low, high = below(under)
        pages = self._objects.pages(self.root.pages_between(low, high))
        changed = [record for path, record in self._changed.items() if low < path < high]
        kept = (entry for page in pages for entry in page.between(low, high) if entry.path not in self._changed)
        if not changed:
            return kept
        added = (record.entry() for record in changed if record is not None)
        return sorted(chain(kept, added), key=attrgetter("path"))

    def _any_below(self, path: str) -> bool:
        low, high = below(path)
        if any(record is not None and low < one < high for one, record in self._changed.items()):
            return True
        return any(
            entry.path not in self._changed
            for ref in self.root.pages_between(low, high)
            for entry in self._objects.page(ref).between(low, high)
        )


def _of_revision(history: History, record: Record) -> Iterator[Record]:
    """The versions of the revision of one, newest first: its neighbours in the order of ids."""
    yield from (each for each in history.since(record.id) if each.revision == record.revision)
    yield from takewhile(lambda each: each.revision == record.revision, history.between(before=record.id))


def _text_of(entry: MemoryEntry) -> str:
    if entry.text is None:
        raise Damaged("a text of the memory store is missing")
    return entry.text


def _groups(entries: Iterable[MemoryEntry]) -> Iterator[list[MemoryEntry]]:
    """Some at a time, so that not all texts are in memory at once."""
    group: list[MemoryEntry] = []
    size_bytes = 0
    for entry in entries:
        if group and (len(group) >= _TEXTS_AT_ONCE or size_bytes + entry.size > _BYTES_AT_ONCE):
            yield group
            group, size_bytes = [], 0
        group.append(entry)
        size_bytes += entry.size
    if group:
        yield group
