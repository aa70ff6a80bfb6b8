"""Reachability of objects: garbage collection deletes orphans, and purge deletes removed data.

The commit that removes a version adds its text to the map as garbage; the entry stays until the text is erased. A
commit that redacts or prunes first writes a *mark* beside the stores, so that `purge` finds the leftovers of a
crashed writer without reading the manifest of every store.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial

from retentive.errors import Damaged
from retentive.storage.objects.manifest import Manifest
from retentive.storage.objects.manifest_swap import ManifestSwap
from retentive.storage.objects.ordered_map import AHEAD
from retentive.storage.objects.packs import by_pack, pack_of, without
from retentive.storage.objects.reader import PACKS, PAGES, Reader
from retentive.storage.objects.records import GARBAGE, Overlay, Page, Ref, Value, has_passed, text_in
from retentive.storage.objects.requests import Missing, Requests, together

OnDamage = Callable[[str, Damaged], None]
COLLECT_AFTER_S = 86_400.0
_MANY = 64  # texts or orphans that make a writer erase them after its commit
_MARKS = "purging"


class Reach:
    """Names of the objects reachable from a manifest; `garbage` are packs with texts to erase."""

    def __init__(self, generation: int) -> None:
        self._generation = generation
        self.pages: set[str] = set()
        self.packs: set[str] = set()
        self.garbage: set[str] = set()

    def add(self, items: Iterable[tuple[str, Value | None]]) -> None:
        """Add the packs that items of the map refer to."""
        for key, value in items:
            if value is not None and key.startswith(GARBAGE):
                self.garbage.add(pack_of(key[1:]))
            elif value is not None and (text := text_in(value)):
                self.packs.add(pack_of(text))

    def passed(self, names: Iterable[str]) -> list[str]:
        """Pages among `names` that no present or later manifest can refer to."""
        return [name for name in names if name not in self.pages and has_passed(name, self._generation)]


def reachable(manifest: Manifest, reader: Reader, *, values: bool = True, on_damage: OnDamage | None = None) -> Reach:
    """Find all objects reachable from a manifest; without `values`, only pages, and no leaf is read.

    `on_damage` is called with the name of an unreadable page, and the walk continues. Without it, raises `Damaged`.
    """
    reach = Reach(manifest.generation)
    reach.add(manifest.log.items())
    refs: Sequence[Ref] = manifest.tree.refs
    for depth in range(manifest.tree.depth, -1, -1):
        reach.pages.update(ref.name for ref in refs)
        below: list[Ref] = []
        for start in range(0, len(refs) if depth or values else 0, AHEAD):
            for page in _pages(reader, refs[start : start + AHEAD], on_damage):
                below += page.refs
                items = zip(page.keys, page.values, strict=True)
                reach.add(item for item in items if item[0] not in manifest.log)
        refs = below
    return reach


def _pages(reader: Reader, refs: Sequence[Ref], on_damage: OnDamage | None) -> list[Page]:
    if on_damage is None:
        return reader.pages(refs)
    found: list[Page] = []
    for ref in refs:
        try:
            found += reader.pages([ref])
        except Damaged as error:
            on_damage(ref.name, error)
    return found


def collect(before: datetime, *, manifests: ManifestSwap, reader: Reader) -> int:
    """Delete unreachable objects last written before `before`; returns their number.

    Objects are listed before the state is read, so objects committed in between count as reachable. A fence precedes
    the deletion: a commit over an earlier state then fails, and no writer retries with objects that are an hour old.
    """
    old = {(kind, name) for kind in (PAGES, PACKS) for name, at in reader.listed(kind).items() if at < before}
    if not old:
        return 0
    reach = reachable(manifests.fence(reader.store_id).manifest, reader)
    old -= {(PAGES, name) for name in reach.pages} | {(PACKS, name) for name in reach.packs | reach.garbage}
    reader.requests.delete([reader.key(kind, name) for kind, name in sorted(old)])
    return len(old)


class Sweeps:
    """Garbage and orphans that this process has yet to erase. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[str, list[str]] = {}
        self._orphans: dict[str, list[str]] = {}

    def committed(self, before: Manifest, after: Manifest, *, marks: Sequence[str], orphans: Sequence[str]) -> None:
        """Record a commit, its marks, and the orphans of its failed attempts."""
        if after.edits or before.edits or marks or orphans:
            with self._lock:
                left = self._orphans.setdefault(after.id, [])
                left += orphans
                if marks or max(len(left), _garbage_in(after.log)) >= _MANY:
                    self._due.setdefault(after.id, []).extend(marks)

    def compacted(self, store_id: str, log: Overlay) -> None:
        """Record a compaction of a log."""
        with self._lock:
            self._orphans.setdefault(store_id, [])
            if _garbage_in(log):
                self._due.setdefault(store_id, [])

    def due(self, store_id: str) -> list[str] | None:
        """Marks of a store whose sweep is due, or None. Only one caller gets them."""
        return self._due.pop(store_id, None)

    def touched(self) -> set[str]:
        """Stores that may have data left to erase."""
        with self._lock:
            return set(self._orphans)

    def take_orphans(self, store_id: str) -> list[str]:
        """Orphans of a store, handed to the caller for deletion."""
        with self._lock:
            return self._orphans.pop(store_id, [])


def _garbage_in(log: Overlay) -> int:
    return sum(key.startswith(GARBAGE) and value is not None for key, value in log.items())


def put_mark(requests: Requests, store_id: str) -> str:
    """Write a mark for a store; returns its key."""
    key = f"{_MARKS}/{store_id}/{os.urandom(8).hex()}"
    requests.put(key, b"1")
    return key


def marks_of(requests: Requests, store_id: str | None = None) -> dict[str, list[str]]:
    """Keys of marks by store id, for all stores or for one."""
    found: dict[str, list[str]] = {}
    for listed in requests.names(_MARKS if store_id is None else f"{_MARKS}/{store_id}"):
        found.setdefault(listed.key.split("/")[1], []).append(listed.key)
    return found


def erase_texts(refs: Sequence[str], reader: Reader) -> None:
    """Rewrite packs without these texts; delete packs left empty.

    A reader of an earlier state that finds a text missing starts over.
    """
    emptied = together([partial(_erase, pack, some, reader) for pack, some in by_pack(refs).items()])
    reader.requests.delete([key for key in emptied if key is not None])
    reader.forget(refs)


def _erase(pack: str, refs: Sequence[str], reader: Reader) -> str | None:
    """Rewrite one pack by compare-and-swap; returns its key if no text would remain."""
    key = reader.key(PACKS, pack)

    def rewrite() -> str | None:
        try:
            data, tag = reader.requests.get(key)
        except Missing:
            return None
        left = without(pack, data, refs)
        if left is not None and left is not data:
            reader.requests.replace(key, left, tag)
        return key if left is None else None

    return reader.requests.until_done(rewrite)


def delete_passed(manifest: Manifest, reader: Reader) -> None:
    """Delete every page that no present or later manifest can refer to."""
    there = reader.listed(PAGES)
    passed = reachable(manifest, reader, values=False).passed(there)
    reader.requests.delete([reader.key(PAGES, name) for name in passed])
    reader.forget(passed)
