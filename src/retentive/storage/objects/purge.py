"""Deleting at once what was dropped: texts of versions that were blanked, and all else that held what they said.

A root lists what its state no longer needs as `pending`. A commit that blanks or prunes also puts a *mark* beside the
stores before it is tried, so that one that crashed before all was deleted is found without looking at every store.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from retentive.errors import Unavailable
from retentive.storage.objects.immutables import Gone, Immutables
from retentive.storage.objects.manifest import Root
from retentive.storage.objects.notes import has_overlay
from retentive.storage.objects.records import Ref, has_passed
from retentive.storage.objects.requests import Requests

_MANY = 64  # objects that are dropped before a writer takes the time to delete them
_MARKS = "purging"
_TRIES = 20


class Sweeping:
    """What this process has dropped and not deleted yet. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[str, list[str]] = {}
        self._dropping: set[str] = set()
        self._vain: dict[str, set[str]] = {}

    def committed(self, root: Root, marks: Sequence[str], vain: Iterable[str]) -> None:
        """Take note of a commit, of the marks that were put for it, and of what its earlier tries wrote in vain."""
        with self._lock:
            missed = self._vain.setdefault(root.id, set())
            missed.update(vain)
            if root.pending or missed or any(map(has_overlay, root.notes.values())):
                self._dropping.add(root.id)
            if marks or max(len(root.pending), len(missed)) >= _MANY:
                self._due.setdefault(root.id, []).extend(marks)
            if not missed:
                del self._vain[root.id]

    def due(self, store_id: str) -> list[str] | None:
        """The marks of what is to be swept now, None if nothing is; told to one who asks."""
        if not self._due:
            return None
        with self._lock:
            return self._due.pop(store_id, None)

    def dropping(self) -> set[str]:
        """The stores in which something may be left."""
        with self._lock:
            return set(self._dropping)

    def vain(self, store_id: str) -> list[str]:
        """What was written in vain; told to one who asks, who is to delete it."""
        with self._lock:
            self._dropping.discard(store_id)
            return sorted(self._vain.pop(store_id, ()))


def put_mark(requests: Requests, store_id: str) -> str:
    """Put a mark beside the stores; where it lies."""
    key = f"{_MARKS}/{store_id}/{os.urandom(8).hex()}"
    requests.put(key, b"1")
    return key


def marks_of(requests: Requests, store_id: str | None = None) -> dict[str, list[str]]:
    """All marks by the store they are for, or those for one."""
    found: dict[str, list[str]] = {}
    for listed in requests.names(_MARKS if store_id is None else f"{_MARKS}/{store_id}"):
        found.setdefault(listed.key.split("/")[1], []).append(listed.key)
    return found


def sweep(
    state: Callable[[], Root],
    change: Callable[[Callable[[Root], Root]], object],
    *,
    requests: Requests,
    objects: Immutables,
    vain: Sequence[str],
    wholly: bool,
) -> None:
    """Delete what a state lists as pending; `wholly`: and every page and chunk that no state will name any more.

    `vain` are other objects that nobody names. Names begin with the kind, as in `texts/`.

    `state` reads the root, `change` replaces it. Readers of an earlier state find something missing, and start over.
    """
    root, names = _going(state, objects, wholly=wholly, requests=requests)
    lists = [name for name in names if name.startswith("lists/")]
    _delete([*vain, *(name for name in names if not name.startswith("lists/"))], requests, objects)
    if root.pending:
        done = set(root.pending)
        change(lambda now: _without(now, done))
    _delete(lists, requests, objects)  # not before: the names in them would be lost with a crash


def named_history(root: Root, objects: Immutables) -> set[str]:
    """The names of all chunks and nodes of a state."""
    return {
        name for depth, level in enumerate(root.history) for ref in level for name in _names_under(ref, depth, objects)
    }


def passed(names: Sequence[str], root: Root, objects: Immutables) -> list[str]:
    """Those of some pages and chunks that no state will ever name, `root` being the present one or a later one."""
    old = [name for name in names if has_passed(name.partition("/")[2], root.folds)]
    if not old:
        return []
    pages = {f"pages/{ref.name}" for ref in root.pages}
    named = pages | {f"history/{name}" for name in named_history(root, objects)}
    return [name for name in old if name not in named]


def _going(
    state: Callable[[], Root], objects: Immutables, *, wholly: bool, requests: Requests
) -> tuple[Root, list[str]]:
    for _ in range(_TRIES):
        root = state()
        try:
            names = list(_pending(root.pending, objects))
            if wholly:
                there = [*_listed("pages", requests, objects), *_listed("history", requests, objects)]
                names += passed(there, root, objects)
        except Gone:  # another swept meanwhile
            continue
        return root, names
    raise Unavailable("too many others write to the memory store")


def _pending(names: Sequence[str], objects: Immutables) -> Iterator[str]:
    for name in names:
        yield name
        if name.startswith("lists/"):
            yield from _pending(objects.listed(name.partition("/")[2]), objects)


def _listed(kind: str, requests: Requests, objects: Immutables) -> Iterator[str]:
    for listed in requests.names(objects.key(kind, "").rstrip("/")):
        yield f"{kind}/{listed.key.rpartition('/')[2]}"


def _delete(names: Sequence[str], requests: Requests, objects: Immutables) -> None:
    requests.delete([objects.key(*name.split("/")) for name in names])
    for name in names:
        objects.forget(name.partition("/")[2])


def _without(root: Root, done: set[str]) -> Root:
    left = tuple(name for name in root.pending if name not in done)
    return root if len(left) == len(root.pending) else replace(root, pending=left)


def _names_under(ref: Ref, depth: int, objects: Immutables) -> Iterator[str]:
    yield ref.name
    if depth:
        for child in objects.node(ref):
            yield from _names_under(child, depth - 1, objects)
