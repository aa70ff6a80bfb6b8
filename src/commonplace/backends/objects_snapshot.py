"""A memory store in object storage, looked at and changed. A transaction is a value on top of a root."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import cast

from commonplace.backends.base import (
    Actor,
    Change,
    Clock,
    Look,
    Memory,
    NewId,
    Snapshot,
    Transaction,
    Usage,
    Version,
    now_us,
)
from commonplace.backends.objects_cache import Cache
from commonplace.backends.objects_requests import Missing, Requests, together
from commonplace.backends.objects_root import (
    Entry,
    Page,
    PageRef,
    Record,
    Ref,
    Root,
    apply,
    check_name,
    decode_chunk,
    decode_node,
    decode_page,
    name_for,
    sealed,
)
from commonplace.backends.sql import below
from commonplace.errors import Conflict, Damaged, NotFound
from commonplace.paths import ancestors

_SIZE_OF_PARSED = 10  # bytes in memory for a byte of a compressed page: measured
_AHEAD = 16  # chunks of history read at once, when it comes to that


class Immutables:
    """The pages, chunks and texts of one memory store, which never change; kept once they were read."""

    def __init__(self, store_id: str, requests: Requests, cache: Cache) -> None:
        self._store_id = store_id
        self._requests = requests
        self._cache = cache

    def key(self, kind: str, name: str) -> str:
        """Where an object lies; `kind` is `texts`, `pages` or `history`."""
        return f"stores/{self._store_id}/{kind}/{name}"

    def text(self, name: str) -> bytes:
        """A text."""
        return cast("bytes", self._get("texts", name, bytes, 1))

    def pages(self, refs: Sequence[PageRef]) -> list[Page]:
        """Some pages, read at once."""
        return together([partial(self.page, ref) for ref in refs])

    def page(self, ref: PageRef) -> Page:
        """A page."""
        return cast("Page", self._get("pages", ref.name, decode_page, _SIZE_OF_PARSED))

    def chunks(self, refs: Sequence[Ref]) -> list[list[Record]]:
        """Some chunks of the history, read at once."""
        return together([partial(self.chunk, ref) for ref in refs])

    def chunk(self, ref: Ref) -> list[Record]:
        """A chunk of the history."""
        return cast("list[Record]", self._get("history", ref.name, decode_chunk, _SIZE_OF_PARSED))

    def node(self, ref: Ref) -> list[Ref]:
        """A node over chunks."""
        return cast("list[Ref]", self._get("history", ref.name, decode_node, _SIZE_OF_PARSED))

    def keep_text(self, name: str, data: bytes) -> None:
        """A text that was just written."""
        self._cache.put((self._store_id, name), data, len(data))

    def _get(self, kind: str, name: str, decode: Callable[[bytes], object], weight: int) -> object:
        found = self._cache.get((self._store_id, name))
        if found is None:
            try:
                data, _ = self._requests.get(self.key(kind, name))
            except Missing:
                raise Gone("an object of the memory store is missing") from None
            found = decode(check_name(name, data))
            self._cache.put((self._store_id, name), found, len(data) * weight)
        return found


class Gone(Damaged):
    """An object is missing: the state that names it may have passed, and what nothing named any more been collected."""


class NewTexts:
    """The names of texts that are to be written. Work that has to run again finds those written before."""

    def __init__(self) -> None:
        self.named: dict[str, bytes] = {}
        self._free: dict[bytes, list[str]] = {}

    def name(self, data: bytes) -> str:
        """A name that no other version of this run has."""
        free = self._free.get(data)
        name = free.pop() if free else name_for(data)
        self.named[name] = data
        return name

    def again(self) -> None:
        """All names may be given once more."""
        self._free = {}
        for name, data in self.named.items():
            self._free.setdefault(data, []).append(name)


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

    def look(self, path: str) -> Look:
        entry = self._entry(path)
        if entry is not None:
            return Look(entry.memory(), self._text(entry.text))
        above = ancestors(path)
        self._load([path, *above])
        return Look(above=next((one for one in above if self._entry(one)), None), below=self._any_below(path))

    def walk(self, under: str) -> Iterator[Memory]:
        return map(Entry.memory, self._entries(under))

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return ((entry.path, entry.size) for entry in self._entries(under))

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

    def versions(
        self, *, memory_id: str | None = None, path: str | None = None, limit: int | None = None
    ) -> Iterator[Version]:
        chosen = (
            record.version()
            for record in self._records(memory_id)
            if (memory_id is None or record.memory == memory_id) and (path is None or record.path == path)
        )
        return chosen if limit is None else islice(chosen, limit)

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        record = self.record_of(version_id)
        if record is None:
            raise NotFound(f"there is no version {version_id}")
        return record.version(), None if record.text is None else self._text(record.text)

    def record_of(self, version_id: str) -> Record | None:
        """The version with this id, if there is one."""
        found = next((record for record in self._latest() if record.id == version_id), None)
        return found or self._old_record(version_id)

    # -- memories --------------------------------------------------------------------------------------------

    def _entry(self, path: str) -> Entry | None:
        if path in self._changed:
            record = self._changed[path]
            return None if record is None else record.entry()
        ref = self.root.page_of(path)
        return None if ref is None else self._objects.page(ref).get(path)

    def _load(self, paths: Iterable[str]) -> None:
        """Have the pages of all these paths, in one round trip."""
        refs = {self.root.page_of(path) for path in paths if path not in self._changed}
        self._objects.pages([ref for ref in refs if ref is not None])

    def _entries(self, under: str) -> Iterable[Entry]:
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

    def _text(self, name: str | None) -> bytes:
        if name is None:
            raise Damaged("a text of the memory store is missing")
        return self._objects.text(name)

    # -- history ---------------------------------------------------------------------------------------------

    def _latest(self) -> list[Record]:
        """The versions that are not in the history yet, newest first."""
        return list(reversed(self.root.log))

    def _records(self, memory_id: str | None) -> Iterator[Record]:
        """All versions, newest first; those of a memory end with its creation."""
        latest = self._latest()
        return self._until_created(latest, memory_id)

    def _until_created(self, latest: list[Record], memory_id: str | None) -> Iterator[Record]:
        for record in chain(latest, self._old_records()):
            yield record
            if record.memory == memory_id and record.operation == "created":
                return

    def _old_records(self) -> Iterator[Record]:
        chunks = self._chunks_backwards()
        ahead = 1
        while refs := list(islice(chunks, ahead)):
            for chunk in self._objects.chunks(refs):
                yield from reversed(chunk)
            ahead = min(2 * ahead, _AHEAD)

    def _chunks_backwards(self) -> Iterator[Ref]:
        for depth, level in enumerate(self.root.history):
            for ref in reversed(level):
                yield from self._chunks_of(ref, depth)

    def _chunks_of(self, ref: Ref, depth: int) -> Iterator[Ref]:
        if depth == 0:
            yield ref
            return
        for child in reversed(self._objects.node(ref)):
            yield from self._chunks_of(child, depth - 1)

    def _old_record(self, version_id: str) -> Record | None:
        for depth in reversed(range(len(self.root.history))):
            for ref in self.root.history[depth]:
                if version_id <= ref.last:
                    return self._record_in(ref, depth, version_id)
        return None

    def _record_in(self, ref: Ref, depth: int, version_id: str) -> Record | None:
        while depth:
            ref = next(child for child in self._objects.node(ref) if version_id <= child.last)
            depth -= 1
        return next((record for record in self._objects.chunk(ref) if record.id == version_id), None)


class ObjectsTransaction(ObjectsSnapshot, Transaction):
    """A store while it is being changed. `after` is what it becomes."""

    def __init__(self, root: Root, objects: Immutables, *, clock: Clock, new_id: NewId, texts: NewTexts) -> None:
        super().__init__(root, objects)
        self._revision_before = root.revision
        self._clock = clock
        self._new_id = new_id
        self._texts = texts
        self._new: list[Record] = []
        self.has_changed = False

    def record(self, changes: Sequence[Change], actor: Actor | None) -> None:
        if not changes:
            return
        who = None if actor is None else str(actor)
        if not self._new:
            self._changed = dict(self.root.changed)
        sources = [None if change.before is None else self._entry(change.before.path) for change in changes]
        for change, source in zip(changes, sources, strict=True):
            self._record_one(change, source, who)
        self.has_changed = True

    def _record_one(self, change: Change, source: Entry | None, who: str | None) -> None:
        before = change.before
        if before is not None:
            now = self._entry(before.path)
            source = now if now is not None and now.id == before.id else source
            if source is None or source.id != before.id:
                raise Conflict("a memory is no longer where it was")
        at = self._tick()
        memory = self._new_id("mem_", at) if source is None else source.id
        version = self._new_id("memver_", at)
        kept = change.kept(memory, version)
        size, sha256, text, came_from = change.size_bytes, kept.sha256, None, None
        path = change.path
        if path is None:
            assert source is not None
            path, size, sha256 = source.path, None, None
        elif size is None:
            assert source is not None
            size, sha256, text, came_from = source.size, source.sha256, source.text, source.path
        else:
            text = self._texts.name(kept.data or b"")
        record = Record(
            version,
            memory,
            change.operation,
            path,
            size,
            sha256,
            who,
            at,
            self._revision_before + 1,
            sealed(kept.seal),
            text,
            at if source is None else source.born,
            came_from,
        )
        self._new.append(record)
        apply(cast("dict[str, Record | None]", self._changed), [record])
        self.root = replace(
            self.root,
            revision=self._revision_before + 1,
            memories=self.root.memories + (source is None) - (change.path is None),
            size_bytes=self.root.size_bytes + (size or 0) - (0 if source is None else source.size),
        )

    def reseal(self, seal: str | None) -> None:
        self.has_changed = True
        self.root = replace(self.root, seal=seal)

    def set_settings(self, settings: str | None) -> None:
        self.has_changed = True
        self.root = replace(self.root, settings=settings)

    def after(self) -> Root:
        """The root after this transaction."""
        return replace(self.root, log=(*self.root.log, *self._new), changed=self._changed)

    def _latest(self) -> list[Record]:
        return [*reversed(self._new), *reversed(self.root.log)]

    def _text(self, name: str | None) -> bytes:
        unwritten = self._texts.named.get(name or "")
        return super()._text(name) if unwritten is None else unwritten

    def _tick(self) -> int:
        """The time of the next version: now, but later than the one before, whatever the clock says."""
        at = max(now_us(self._clock), self.root.last_at + 1)
        self.root = replace(self.root, last_at=at)
        return at
