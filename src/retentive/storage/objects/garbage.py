"""Reachability of objects, and what is deleted by it: orphans by collection, and what was removed by a purge.

A text that is to be erased is in the map, as garbage, from the commit that removed its version until it is erased. A
commit that redacts or prunes also puts a *mark* beside the stores before it is tried, so that `purge` finds what a
crashed writer left without reading the manifest of every store.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TypeVar

from retentive.errors import Damaged
from retentive.storage.objects.manifest import Manifest
from retentive.storage.objects.manifest_swap import ManifestSwap
from retentive.storage.objects.ordered_map import AHEAD, Ref
from retentive.storage.objects.packs import by_pack, pack_of, without
from retentive.storage.objects.reader import PACKS, PAGES, Reader
from retentive.storage.objects.records import GARBAGE, Value, has_passed, text_in
from retentive.storage.objects.requests import Missing, Requests, Taken, Unsure, together

T = TypeVar("T")
OnDamage = Callable[[str, Damaged], None]
COLLECT_AFTER_S = 86_400.0
_MANY = 64  # texts or orphans before a writer takes the time to erase them
_MARKS = "purging"


class Reach:
    """Names of the objects that a manifest leads to; `garbage` are packs with texts that are to be erased."""

    def __init__(self, generation: int) -> None:
        self._generation = generation
        self.pages: set[str] = set()
        self.packs: set[str] = set()
        self.garbage: set[str] = set()

    def add(self, items: Iterable[tuple[str, Value | None]]) -> None:
        """Follow the values of the map."""
        for key, value in items:
            if value is not None and key.startswith(GARBAGE):
                self.garbage.add(pack_of(key[1:]))
            elif value is not None and (text := text_in(value)):
                self.packs.add(pack_of(text))

    def passed(self, names: Iterable[str]) -> list[str]:
        """Those of some pages that no manifest will ever lead to, if this is of the present one or a later one."""
        return [name for name in names if name not in self.pages and has_passed(name, self._generation)]


def reachable(manifest: Manifest, reader: Reader, *, values: bool = True, on_damage: OnDamage | None = None) -> Reach:
    """Walk all that a manifest leads to; without `values`, its pages alone, so that no leaf is read.

    `on_damage` is called with the name of a page that cannot be read, and the walk goes on; else it raises `Damaged`.
    """
    reach = Reach(manifest.generation)
    reach.add(manifest.overlay.items())
    level: Sequence[Ref] = manifest.tree.refs
    for depth in range(manifest.tree.depth, -1, -1):
        reach.pages.update(ref.name for ref in level)
        if depth:
            level = [ref for node in _read(reader.nodes, level, on_damage) for ref in node]
    for start in range(0, len(level) if values else 0, AHEAD):
        for leaf in _read(reader.leaves, level[start : start + AHEAD], on_damage):
            items = zip(leaf.keys, leaf.values, strict=True)
            reach.add(item for item in items if item[0] not in manifest.overlay)
    return reach


def _read(read: Callable[[Sequence[Ref]], list[T]], refs: Sequence[Ref], on_damage: OnDamage | None) -> list[T]:
    if on_damage is None:
        return read(refs)
    found: list[T] = []
    for ref in refs:
        try:
            found += read([ref])
        except Damaged as error:
            on_damage(ref.name, error)
    return found


def collect(store_id: str, before: datetime, *, requests: Requests, manifests: ManifestSwap, reader: Reader) -> int:
    """Delete objects last written before a moment that the present state does not lead to; their number.

    Orphans are listed first and the state is read afterwards, so that what a writer committed in between is found to
    be in use. A fence comes before anything is deleted: a writer that is about to commit over an earlier state fails,
    and no writer tries again with objects that are an hour old.
    """
    old: set[tuple[str, str]] = set()
    for kind in (PAGES, PACKS):
        under = reader.key(kind, "")
        old |= {(kind, one.key[len(under) :]) for one in requests.names(under[:-1]) if one.modified < before}
    if not old:
        return 0
    reach = reachable(manifests.fence(store_id).manifest, reader)
    old -= {(PAGES, name) for name in reach.pages} | {(PACKS, name) for name in reach.packs | reach.garbage}
    requests.delete([reader.key(kind, name) for kind, name in sorted(old)])
    return len(old)


# -- purging -------------------------------------------------------------------------------------------------


class Sweeps:
    """What this process has left to erase. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[str, list[str]] = {}
        self._touched: set[str] = set()
        self._orphans: dict[str, list[str]] = {}

    def committed(self, before: Manifest, after: Manifest, *, marks: Sequence[str], orphans: Sequence[str]) -> None:
        """Note a commit with its marks, and the objects that were written for its earlier attempts alone."""
        if after.edits or before.edits or marks or orphans:
            with self._lock:
                left = self._orphans.setdefault(after.id, [])
                left += orphans
                self._touched.add(after.id)
                if marks or max(len(left), _garbage_in(after.edits)) >= _MANY:
                    self._due.setdefault(after.id, []).extend(marks)

    def compacted(self, store_id: str, edits: Mapping[str, str | None]) -> None:
        """Note a compaction of these edits."""
        with self._lock:
            self._touched.add(store_id)
            if _garbage_in(edits):
                self._due.setdefault(store_id, [])

    def due(self, store_id: str) -> list[str] | None:
        """The marks of what is to be swept now, None if nothing is; the next caller gets None."""
        return self._due.pop(store_id, None)

    def touched(self) -> set[str]:
        """The stores in which something may be left."""
        with self._lock:
            return set(self._touched)

    def take_orphans(self, store_id: str) -> list[str]:
        """The orphans of a store; the caller is to delete them."""
        with self._lock:
            self._touched.discard(store_id)
            return self._orphans.pop(store_id, [])


def _garbage_in(edits: Mapping[str, str | None]) -> int:
    return sum(key.startswith(GARBAGE) and value is not None for key, value in edits.items())


def put_mark(requests: Requests, store_id: str) -> str:
    """Put a mark beside the stores; its key."""
    key = f"{_MARKS}/{store_id}/{os.urandom(8).hex()}"
    requests.put(key, b"1")
    return key


def marks_of(requests: Requests, store_id: str | None = None) -> dict[str, list[str]]:
    """All marks by the store they are for, or those for one."""
    found: dict[str, list[str]] = {}
    for listed in requests.names(_MARKS if store_id is None else f"{_MARKS}/{store_id}"):
        found.setdefault(listed.key.split("/")[1], []).append(listed.key)
    return found


def erase_texts(refs: Sequence[str], *, requests: Requests, reader: Reader) -> None:
    """Rewrite packs without these texts; packs that are empty then are deleted.

    Readers of an earlier state find a text missing, and start over.
    """
    packs = by_pack(refs)
    emptied = together([partial(_erase, pack, some, requests, reader) for pack, some in packs.items()])
    requests.delete([key for key in emptied if key is not None])
    reader.forget(refs)


def _erase(pack: str, refs: Sequence[str], requests: Requests, reader: Reader) -> str | None:
    """Rewrite one pack, over the state that was read; its key, if no text would be left in it."""
    key = reader.key(PACKS, pack)
    for _ in requests.attempts():
        try:
            data, tag = requests.get(key)
        except Missing:
            return None
        left = without(pack, data, refs)
        if left is None or left is data:
            return key if left is None else None
        with suppress(Taken, Unsure):
            requests.replace(key, left, tag)
            break
    return None


def delete_passed(manifest: Manifest, *, requests: Requests, reader: Reader) -> None:
    """Delete every page that no manifest will lead to any more."""
    under = reader.key(PAGES, "")
    there = [listed.key[len(under) :] for listed in requests.names(under[:-1])]
    passed = reachable(manifest, reader, values=False).passed(there)
    requests.delete([under + name for name in passed])
    reader.forget(passed)
