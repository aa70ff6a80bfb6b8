"""The search indexes of a process: one for each memory store that the process searches.

Before each search, an index is updated from the versions that were written since the last search. Indexes are only in
RAM: storing them on disk would double the time of a write and leave traces of redacted text. The index of an encrypted
store contains plain text, which is only in this process.

The indexes of a process are limited in total size. When the limit is exceeded, the least recently used index is
dropped. A store that alone exceeds the limit has no index, and each search reads all its texts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias
from weakref import WeakKeyDictionary

from retentive.errors import Damaged
from retentive.search.literal import Literal, search_literal
from retentive.search.postings import Index, counted
from retentive.search.query import Query
from retentive.search.ranking import Admit, Doubts, Ranking, Statistics, statistics_of
from retentive.search.results import Document, Results
from retentive.search.scan import Scan
from retentive.search.terms import terms_of
from retentive.storage import forking
from retentive.storage.contract import Backend, Memory, Snapshot
from retentive.storage.paging import readable_texts
from retentive.values.paths import ROOT
from retentive.values.text import decoded

MAX_KEPT_BYTES = 256 * 1024 * 1024
"""Maximum bytes of text in all indexes of a process. The indexes take two to three times as many bytes of RAM."""
_FEW = 0.2  # if more than this share of the memories has changed, the index is built again from all memories
_LARGE = 2_000  # while an index is built, a message is logged after each so many memories
_REPORTED = 500  # while an index is built, the caller is informed after each so many memories
_log = logging.getLogger("retentive.search")
ReportIndexed: TypeAlias = "Callable[[int], None] | None"
"""Function called while an index is built, with the number of memories indexed so far. If it raises, building stops."""


class Corpus:
    """Index of one memory store. Threads may share it; a lock lets one thread at a time use the index."""

    def __init__(self, *, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self.max_kept_bytes = max_kept_bytes
        self.renew_after_fork()
        forking.watch(self)

    def renew_after_fork(self) -> None:
        """Replace the lock and drop the index in a forked child.

        A thread that exists only in the parent process may hold the lock.
        """
        self._lock = threading.Lock()
        self._drop()

    def drop_if_idle(self) -> None:
        """Drop the index to free its memory, unless a thread is using it."""
        if self._lock.acquire(blocking=False):
            self._drop()
            self._lock.release()

    def _drop(self) -> None:
        self._index, self._revision, self._newest = Index(), -1, ""

    @property
    def size(self) -> int:
        """Bytes of text in the index."""
        return self._index.size

    @property
    def is_built(self) -> bool:
        """True after a search has built the index."""
        return self._revision >= 0

    def search(
        self,
        snapshot: Snapshot,
        query: Query | Literal,
        *,
        limit: int | None,
        languages: tuple[str, ...] = (),
        admit: Admit | None = None,
        sees: Admit | None = None,
        statistics: Statistics | None = None,
        may_be_newer: bool = True,
        doubts: Doubts | None = None,
        counted: Admit | None = None,
        progress: ReportIndexed = None,
    ) -> tuple[Results, tuple[str, ...]] | None:
        """Search the memories of a store. Return the results and the paths of damaged memories.

        Another thread may already have updated the index to a newer state than the snapshot. In this case, the
        newer state is searched. If `may_be_newer` is False, None is returned instead. `admit` decides which memories
        can be found. `sees` decides which memories the actor may see. `doubts` hides some of the memories that the
        actor may see. `counted` decides which memories count for the rarity of words; by default, all do.
        """
        if doubts is not None and (self._is_too_large(snapshot) or not isinstance(query, Query)):
            admit, sees, doubts = _both(admit, doubts.shows), _both(sees, doubts.shows), None
        if self._is_too_large(snapshot):
            documents, damaged = all_documents(snapshot)
            documents = documents if counted is None else list(filter(counted, documents))
            more = {"admit": admit, "sees": sees}
            return scanned(documents, query, limit, languages, statistics=statistics, **more), damaged
        with self._lock:
            damaged = self._sync(snapshot, progress)
            if self._revision > snapshot.revision and not may_be_newer:
                return None
            index = self._index
            if isinstance(query, Query):
                terms = terms_of(query, languages or index.languages())
                hidden = frozenset(_hidden(index, doubts))
                sees = sees if doubts is None else _both(sees, doubts.shows)
                if statistics is None and counted is not None:
                    statistics = statistics_of(index, terms, counted)
                ranking = Ranking(index, terms, query, statistics=statistics, admit=admit, sees=sees, hidden=hidden)
                return ranking.results(limit), damaged
            documents = [each for each in index.documents if each is not None]
        return scanned(documents, query, limit, admit=admit), damaged

    def statistics(
        self, snapshot: Snapshot, query: Query, *, languages: tuple[str, ...] = (), progress: ReportIndexed = None
    ) -> Statistics:
        """Return the statistics of the store for the terms of a query."""
        if self._is_too_large(snapshot):
            return Scan(all_documents(snapshot)[0], query, languages).statistics()
        with self._lock:
            self._sync(snapshot, progress)
            return statistics_of(self._index, terms_of(query, languages or self._index.languages()))

    def _is_too_large(self, snapshot: Snapshot) -> bool:
        if snapshot.usage().size_bytes <= self.max_kept_bytes:
            return False
        self.drop_if_idle()
        return True

    # -- updates: the reads, which may fail, come before the changes of the index -------------------------------------

    def _sync(self, snapshot: Snapshot, progress: ReportIndexed) -> tuple[str, ...]:
        """Update the index to the state of the snapshot. Return the paths of damaged memories."""
        newest = next((version.id for version in snapshot.versions(limit=1)), "")
        if self._revision >= snapshot.revision:
            is_older = newest < self._newest if self._revision > snapshot.revision else newest == self._newest
            if is_older or newest == self._newest:
                return ()
            self._newest = ""  # another history: the database was restored from a backup while it was open
        damaged: tuple[str, ...] = ()
        if not self._follow(snapshot):
            damaged = self._compare(snapshot, progress)
        if damaged:  # compare again in the next search: a repair does not change the revision of the store
            self._revision, self._newest = -1, ""
        else:
            self._revision, self._newest = snapshot.revision, newest
        return damaged

    def _follow(self, snapshot: Snapshot) -> bool:
        """Apply the versions written since the last update.

        Returns False if the index cannot be updated this way: too many memories changed, a text is damaged, or a memory
        was erased. An erased memory leaves no version.
        """
        if not self._newest:
            return False
        few = int(self._index.memories * _FEW) + 1
        changed = list(snapshot.versions(after=self._newest, limit=few + 1))
        if len(changed) > few:
            return False
        ids = dict.fromkeys(version.memory_id for version in changed)
        try:
            present = {each: memory for each in ids if (memory := snapshot.find(each)) is not None}
            fresh = [document_of(each, snapshot.text(each.version_id) or b"") for each in present.values()]
        except Damaged:
            return False
        self._replace(ids, fresh)
        return self._index.memories == snapshot.usage().memories

    def _compare(self, snapshot: Snapshot, progress: ReportIndexed) -> tuple[str, ...]:
        """Update the index: compare its memories with those of the snapshot. Return the paths of damaged memories."""
        index = self._index
        memories = {memory.id: memory for memory in snapshot.memories(ROOT)}
        known = index.version_ids()
        gone = [each for each in known if each not in memories]
        stale = [each for each, memory in memories.items() if known.get(each) != memory.version_id]
        if len(stale) > _FEW * len(memories):
            fresh, damaged = all_documents(snapshot)
            self._build(fresh, progress)
            return damaged
        damaged_paths: list[str] = []
        documents: list[Document] = []
        for each in stale:
            try:
                documents.append(document_of(memories[each], snapshot.text(memories[each].version_id) or b""))
            except Damaged as error:
                if error.is_outdated:
                    raise
                damaged_paths.append(memories[each].path)
        self._replace([*gone, *stale], documents)
        return tuple(sorted(damaged_paths))

    def _build(self, documents: list[Document], progress: ReportIndexed) -> None:
        index = Index()
        for number, document in enumerate(documents, 1):
            index.add(document, counted(document.path, document.text))
            if progress is not None and number % _REPORTED == 0:
                progress(number)
            if number % _LARGE == 0:
                _log.info("indexed %d of %d memories", number, len(documents))
        self._index = index

    def _replace(self, ids: Iterable[str], documents: list[Document]) -> None:
        for each in ids:
            self._index.remove(each)
        for document in documents:
            self._index.add(document, counted(document.path, document.text))


def _both(first: Admit | None, second: Admit) -> Admit:
    return second if first is None else lambda document: first(document) and second(document)


def _hidden(index: Index, doubts: Doubts | None) -> Iterator[int]:
    if doubts is None:
        return
    for number in index.marked(doubts.key, doubts.is_doubted):
        document = index.documents[number]
        if document is not None and not doubts.shows(document):
            yield number


def scanned(
    documents: list[Document],
    query: Query | Literal,
    limit: int | None,
    languages: tuple[str, ...] = (),
    *,
    admit: Admit | None = None,
    sees: Admit | None = None,
    statistics: Statistics | None = None,
) -> Results:
    """Search documents without an index."""
    if isinstance(query, Query):
        return Scan(documents, query, languages).results(limit, statistics=statistics, admit=admit, sees=sees)
    return search_literal(query, [each for each in documents if admit is None or admit(each)], limit=limit)


def all_documents(snapshot: Snapshot) -> tuple[list[Document], tuple[str, ...]]:
    """Return all readable memories as documents, and the paths of the damaged memories."""
    damaged: list[str] = []
    return list(_documents(snapshot, damaged)), tuple(damaged)


def _documents(snapshot: Snapshot, damaged: list[str]) -> Iterator[Document]:
    for memory, data in readable_texts(snapshot):
        try:
            if data is not None:
                yield document_of(memory, data)
                continue
        except Damaged:  # the text is not UTF-8
            pass
        damaged.append(memory.path)


def document_of(memory: Memory, data: bytes) -> Document:
    """Return the document for a memory. Raises `Damaged` if the bytes are not UTF-8."""
    decoded(data, path=memory.path)
    return Document(memory.path, data, memory.updated_at, memory.id, memory.version_id, memory.provenance_text)


class Corpora:
    """All search indexes of a process, with a limit on their total bytes of text. Threads may share this object."""

    def __init__(self, *, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._of_backend: WeakKeyDictionary[Backend, dict[str, Corpus]] = WeakKeyDictionary()
        self._recent: list[Corpus] = []
        self.renew_after_fork()
        forking.watch(self)

    def renew_after_fork(self) -> None:
        """Replace the lock in a forked child."""
        self._lock = threading.Lock()

    def of(self, backend: Backend, store_id: str) -> Corpus:
        """Return the index of a store. A new index is empty until the first search."""
        with self._lock:
            by_id = self._of_backend.setdefault(backend, {})
            corpus = by_id.get(store_id)
            if corpus is None:
                corpus = by_id[store_id] = Corpus(max_kept_bytes=self._max_kept_bytes)
            return corpus

    def trim(self, used: Corpus) -> None:
        """Record `used` as the most recently used index. Then drop indexes while their total size exceeds the limit.

        The least recently used index is dropped first. An index that a thread is using is not dropped.
        """
        with self._lock:
            living = {id(corpus) for by_id in self._of_backend.values() for corpus in by_id.values()}
            self._recent = [each for each in self._recent if each is not used and id(each) in living] + [used]
            kept = sum(each.size for each in self._recent)
            for each in self._recent[:-1]:
                if kept > self._max_kept_bytes:
                    kept -= each.size
                    each.drop_if_idle()


CORPORA = Corpora()
