"""Whether the objects of memory stores are all there, and none besides. Looks only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from retentive.errors import Damaged, NotFound, UnknownSchema
from retentive.storage.findings import Finding, found
from retentive.storage.objects.commit import Held, Roots
from retentive.storage.objects.immutables import KINDS, Immutables
from retentive.storage.objects.manifest import Root
from retentive.storage.objects.notes import names_in
from retentive.storage.objects.records import Note, Ref, check_name, unpack
from retentive.storage.objects.requests import Listed, Missing, Requests
from retentive.storage.objects.snapshot import ObjectsSnapshot
from retentive.values.paths import ROOT

T = TypeVar("T")
_TRIES = 5  # while others write, and delete what was named a moment ago


def examine(
    requests: Requests, roots: Roots, objects_of: Callable[[str], Immutables], before: datetime
) -> Iterator[Finding]:
    """What is missing, damaged, or named by nothing since `before`, of every store."""
    for listed in requests.names("roots"):
        store_id = listed.key.rpartition("/")[2]
        try:
            yield from _examine_store(store_id, requests, roots, objects_of(store_id), before)
        except NotFound:
            continue
        except UnknownSchema:
            yield found("schema_new", store_id)
        except Damaged:
            yield found("object_damaged", store_id, "its root")


def _examine_store(
    store_id: str, requests: Requests, roots: Roots, objects: Immutables, before: datetime
) -> Iterator[Finding]:
    held = roots.live(store_id)
    for _ in range(_TRIES):
        listed = list(requests.names(f"stores/{store_id}"))
        findings = list(_Objects(held, objects, listed).compare(before))
        now = roots.live(store_id)
        if now.tag == held.tag or not any(one.code == "object_missing" for one in findings):
            break
        held = now
    yield from findings
    yield from _jottings(store_id, requests, listed)


class _Objects:
    """The objects that one root leads to, next to those that are there."""

    def __init__(self, held: Held, objects: Immutables, listed: Iterable[Listed]) -> None:
        self._root = held.root
        self._objects = objects
        self._there: dict[str, dict[str, datetime]] = {kind: {} for kind in KINDS}
        for one in listed:
            kind, _, name = one.key.removeprefix(objects.key("", "").rstrip("/")).strip("/").partition("/")
            if kind in self._there:
                self._there[kind][name] = one.modified
        self._named: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self._wrong: list[Finding] = []

    def compare(self, before: datetime) -> Iterator[Finding]:
        """What is named and missing or damaged; what is there, old, and not named, unless names are not all known."""
        self._follow_root(self._root)
        yield from self._wrong
        store_id, missing = self._root.id, 0
        for kind, names in self._named.items():
            for name in sorted(names - self._there[kind].keys()):
                missing += 1
                yield found("object_missing", store_id, f"{kind}/{name}")
        left = [
            name
            for kind, there in self._there.items()
            for name, modified in there.items()
            if name not in self._named[kind] and modified < before
        ]
        if left and not (missing or self._wrong):
            yield found("objects_left", store_id, f"{len(left)} objects")

    def _follow_root(self, root: Root) -> None:
        self._name_texts(record.text for record in root.log)
        for depth, level in enumerate(root.history):
            for ref in level:
                self._follow(ref, depth)
        for page in root.pages:
            self._named["pages"].add(page.name)
            read = self._read("pages", page.name, partial(self._objects.page, page))
            self._name_texts(entry.text for entry in (read.entries if read else ()))
        for notes in root.notes.values():
            self._name_values(notes.recent.values())
            for name in names_in(notes):
                self._named["notes"].add(name)
                parts = self._read("notes", name, partial(self._objects.notes, [name]))
                self._name_values(note for part in parts or () for note in part.values())
        for pending in root.pending:  # on their way out
            kind, _, name = pending.partition("/")
            if name in self._there.get(kind, ()):
                self._named[kind].add(name)

    def _follow(self, ref: Ref, depth: int) -> None:
        self._named["history"].add(ref.name)
        if depth == 0:
            records = self._read("history", ref.name, partial(self._objects.chunk, ref))
            self._name_texts(record.text for record in records or ())
            return
        for child in self._read("history", ref.name, partial(self._objects.node, ref)) or ():
            self._follow(child, depth - 1)

    def _name_texts(self, texts: Iterable[str | None]) -> None:
        self._named["texts"].update(text for text in texts if text is not None)

    def _name_values(self, notes: Iterable[Note]) -> None:
        self._named["values"].update(note.held_in for note in notes if note.held_in is not None)

    def _read(self, kind: str, name: str, read: Callable[[], T]) -> T | None:
        """What an object holds; None if it is missing, which is told elsewhere, or damaged."""
        if name not in self._there[kind]:
            return None
        try:
            return read()
        except Damaged:
            self._wrong.append(found("object_damaged", self._root.id, f"{kind}/{name}"))
            return None


def _jottings(store_id: str, requests: Requests, listed: Iterable[Listed]) -> Iterator[Finding]:
    for one in listed:
        if f"stores/{store_id}/jottings/" not in one.key:
            continue
        try:
            data, _ = requests.get(one.key)
            unpack("jottings", check_name(one.key, data))
        except Missing:  # merged with others meanwhile
            continue
        except Damaged:
            yield found("object_damaged", store_id, "jottings/" + one.key.rpartition("/")[2])


def corrected(root: Root, objects: Immutables) -> Root:
    """The root with the counts that its memories and versions come to; the same if it has them."""
    if root.erased is not None:
        return root
    snapshot = ObjectsSnapshot(root, objects)
    sizes = [size for _, size in snapshot.sizes(ROOT)]
    newest = next(snapshot.versions(limit=1), None)
    revision = root.revision if newest is None else max(root.revision, newest.revision)
    right = (revision, len(sizes), sum(sizes))
    if right == (root.revision, root.memories, root.size_bytes):
        return root
    return replace(root, revision=revision, memories=len(sizes), size_bytes=sum(sizes))
