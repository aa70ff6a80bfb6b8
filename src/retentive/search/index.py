"""In-memory search index of one memory store, updated from the versions since the last search.

A scan of 10,000 memories of 2 KB takes about 20 ms, in any language. An index in the database would more than double
the time of a write and would retain traces of redacted text. The size of the cache is limited; a store that does not
fit in it is read again for each search. For an encrypted store, plain text is cached in this process only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from retentive.errors import Damaged
from retentive.search.query import Document, Query, Results, fold_document, search
from retentive.storage import forking
from retentive.storage.contract import Memory, Snapshot
from retentive.storage.paging import readable_texts
from retentive.values.paths import ROOT
from retentive.values.patterns import covers
from retentive.values.text import decoded

MAX_KEPT_BYTES = 64 * 1024 * 1024
"""Maximum bytes of text cached for each store; the process needs two to three times as much memory."""
_FEW = 0.2  # share of the memories; if more than this share has changed, all are read again


@dataclass(frozen=True, slots=True)
class _Cache:
    """Documents of a store at a revision, and the id of the newest version at that revision."""

    revision: int = -1
    newest: str = ""
    by_path: Mapping[str, Document] = field(default_factory=dict)


class Corpus:
    """Cached texts of one memory store. Threads may share it."""

    def __init__(self, *, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._cache = _Cache()
        self.renew_after_fork()
        forking.watch(self)

    def renew_after_fork(self) -> None:
        """Replace the lock in a forked child, where the thread that acquired the old lock does not exist."""
        self._lock = threading.Lock()

    def search(
        self,
        snapshot: Snapshot,
        query: Query,
        *,
        under: str,
        limit: int | None,
        levels: Mapping[str, str] | None = None,
    ) -> Results:
        """Search the memories below a directory, in one snapshot of the store.

        `levels` maps paths to trust levels. If it is given, only memories with a path in `levels` are found.
        """
        damaged: list[str] = []
        documents = self._documents(snapshot, damaged)
        found = search(query, (each for each in documents if _is_shown(each.path, under, levels)), limit=limit)
        within = [path for path in damaged if not query.within or covers(query.within, path)]
        named = tuple(path for path in within if _is_shown(path, under, levels))
        hits = found.hits if levels is None else tuple(replace(hit, trust=levels[hit.path]) for hit in found.hits)
        return replace(found, hits=hits, damaged=named)

    def _documents(self, snapshot: Snapshot, damaged: list[str]) -> Iterable[Document]:
        """The documents of a store. Once all are read, `damaged` has the paths of the memories that cannot be read."""
        if snapshot.usage().size_bytes > self._max_kept_bytes:
            self._cache = _Cache()
            return _all(snapshot, damaged)
        with self._lock:
            cache, revision = self._cache, snapshot.revision
            if cache.revision > revision:  # another thread has cached a later revision
                return list(_all(snapshot, damaged))
            if cache.revision < revision:
                cache = _updated(snapshot, cache, damaged)
                if not damaged:  # a repair does not change the revision
                    self._cache = cache
            return cache.by_path.values()


def _updated(snapshot: Snapshot, cache: _Cache, damaged: list[str]) -> _Cache:
    newest = next((version.id for version in snapshot.versions(limit=1)), "")
    documents = _changed(snapshot, cache) or {each.path: each for each in _all(snapshot, damaged)}
    return _Cache(snapshot.revision, newest, documents)


def _changed(snapshot: Snapshot, cache: _Cache) -> dict[str, Document]:
    """Cached documents, updated with the changes since they were cached. Empty if all memories must be read again."""
    few = int(len(cache.by_path) * _FEW)
    changed = list(snapshot.versions(after=cache.newest, limit=few + 1)) if cache.newest else []
    if len(changed) > few or not cache.newest:
        return {}
    ids = {version.memory_id for version in changed}
    documents = {path: document for path, document in cache.by_path.items() if document.memory_id not in ids}
    for memory_id in ids:
        memory = snapshot.find(memory_id)
        if memory is not None:
            try:
                documents[memory.path] = _document(memory, snapshot.text(memory.version_id) or b"")
            except Damaged:
                return {}
    return documents if len(documents) == snapshot.usage().memories else {}  # an erased memory leaves no version


def _all(snapshot: Snapshot, damaged: list[str]) -> Iterator[Document]:
    for memory, data in readable_texts(snapshot):
        try:
            if data is not None:
                yield _document(memory, data)
                continue
        except Damaged:  # the text is not UTF-8
            pass
        damaged.append(memory.path)


def _document(memory: Memory, data: bytes) -> Document:
    text = decoded(data, path=memory.path)
    folded = fold_document(memory.path, text)
    return Document(memory.path, text, folded, memory.updated_at, memory.id, memory.version_id)


def _is_shown(path: str, under: str, levels: Mapping[str, str] | None) -> bool:
    is_below = under in {ROOT, path} or path.startswith(under + "/")
    return is_below and (levels is None or path in levels)
