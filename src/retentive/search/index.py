"""Search indexes of a process, in memory: a full-text index of SQLite (FTS5) for each store that the process searches.

Before each search, an index is updated from the versions that were written since the last search. An index on disk
would double the time of a write and leave traces of redacted text. The index of an encrypted store contains plain text,
which is only in this process.

The indexes of a process are limited in total size. When the limit is exceeded, the least recently used index is
dropped. A store that alone exceeds the limit is indexed for each search.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import time
import zlib
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple
from weakref import WeakKeyDictionary, finalize

from retentive.errors import Damaged
from retentive.search.analysis import WordTokens, detected, words_of
from retentive.search.query import Term
from retentive.search.results import Document
from retentive.storage import forking
from retentive.storage.contract import Backend, Memory, Snapshot, Usage
from retentive.storage.paging import readable_texts
from retentive.values.paths import ROOT
from retentive.values.text import is_text

MAX_KEPT_BYTES = 256 * 1024 * 1024
"""Maximum bytes of text in all indexes of a process."""
IN_PATH = 3  # a word in the path counts three times, and one in a heading once more
_SAMPLE = 128  # approximate number of memories from which the languages of a store are detected
_FEW = 0.2  # if more than this share of the memories has changed, the index is built again
_HEADING = re.compile(r"(#{1,6})[ \t]")
_HIGHEST = chr(0x10FFFF)


class Rows(NamedTuple):
    """Lines of an indexed text: the position of the first token of each line, and the level of each heading.

    The last position is the number of tokens of the text.
    """

    starts: array[int]
    headings: dict[int, int]


class Index:
    """Inverted index of documents in the given languages. Each document has a number, by which results name it."""

    def __init__(self, languages: Sequence[str], documents: Iterable[Document] = ()) -> None:
        self.languages = tuple(languages)
        self.documents: dict[int, Document] = {}
        self.rows: dict[int, Rows] = {}
        self.numbers: dict[str, int] = {}
        self.size = 0
        self._last = 0
        self._tokens = {language: WordTokens(language) for language in self.languages}
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        finalize(self, self._database.close)
        self._database.executescript(
            "CREATE VIRTUAL TABLE words USING fts5(text, content='', columnsize=0, tokenize='ascii');"
            "CREATE VIRTUAL TABLE places USING fts5vocab(words, 'instance');"
            "CREATE VIRTUAL TABLE counts USING fts5vocab(words, 'row');"
            "BEGIN"  # one transaction: FTS5 writes a segment for each, which would take three times as long
        )
        for document in documents:
            self.add(document)
        self._database.execute("COMMIT")

    def add(self, document: Document) -> None:
        """Add a document. Several may have the same memory id, such as the versions of a memory."""
        self._last += 1
        text, rows = self._analysed(document)
        self._database.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (self._last, text))
        self.documents[self._last], self.rows[self._last] = document, rows
        self.size += len(document.data)
        if document.memory_id:
            self.numbers[document.memory_id] = self._last

    def remove(self, memory_id: str) -> None:
        """Remove the document of a memory, if there is one."""
        number = self.numbers.pop(memory_id, None)
        if number is not None:
            document = self.documents.pop(number)
            text, _ = self._analysed(document)
            self._database.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (number, text))
            self.size -= len(document.data)
            del self.rows[number]

    def _analysed(self, document: Document) -> tuple[str, Rows]:
        """Return the tokens of a document, with its headings and path again behind the text, and its lines."""
        language = self.languages[0]
        if len(self.languages) > 1 and (found := detected([_words(document)])[0]) in self.languages:
            language = found
        rows = self._tokens[language].rows(document.text)
        lines = document.text.split("\n")
        headings = {at: len(level[1]) for at, line in enumerate(lines) if (level := _HEADING.match(line))}
        path = self._tokens[language].rows(document.path.removeprefix(ROOT))
        starts = array("I", accumulate((len(row.split()) for row in rows), initial=0))
        return " ".join([*rows, *(rows[at] for at in headings), *path * IN_PATH]), Rows(starts, headings)

    def tokens(self, word: str) -> list[str]:
        """Return the tokens of a word in the languages of the index."""
        return [each for tokens in self._tokens.values() for each in tokens[word].split()]

    def count(self, term: Term) -> int:
        """Return how often all documents contain a term."""
        return int(self._rows("total(cnt) FROM counts", term).fetchone()[0])

    def places(self, term: Term) -> list[tuple[int, int]]:
        """Return each place of a term: the document and the position. Positions behind the text are in the path."""
        return self._rows("doc, offset FROM places", term).fetchall()

    def _rows(self, what: str, term: Term) -> sqlite3.Cursor:
        where, values = f"term IN ({', '.join('?' * len(term.tokens))})", term.tokens
        if term.is_character:
            where, values = "term >= ? AND term < ?", (term.text, term.text + _HIGHEST)
        return self._database.execute(f"SELECT {what} WHERE {where}", values)


def index_of(documents: Sequence[Document], languages: Sequence[str] = ()) -> Index:
    """Index documents. Without `languages`, those of the texts in Latin script are detected in a sample."""
    step = max(len(documents) // _SAMPLE, 1)
    sample = (each for each in documents if step == 1 or zlib.crc32(each.memory_id.encode()) % step == 0)
    return Index(languages or detected(map(_words, sample)), documents)


def _words(document: Document) -> frozenset[str]:
    return frozenset(map(str.casefold, words_of(document.text)))


class Corpus:
    """Index of one memory store. Threads may share it; one at a time uses it, in `with corpus.lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.last_used = 0.0
        self.index: Index | None = None
        self._newest = ""
        self._usage: Usage | None = None

    def updated(self, snapshot: Snapshot, languages: Sequence[str] = ()) -> tuple[Index, tuple[str, ...]]:
        """Return the index of the memories in a snapshot, and the paths of damaged memories. The caller has the lock.

        The reads, which may fail, come before the changes of the index.
        """
        newest = next((version.id for version in snapshot.versions(limit=1)), "")
        usage = snapshot.state.usage
        index, damaged = self.index, tuple[str, ...]()
        is_fit = index is not None and (not languages or index.languages == tuple(languages))
        if index is None or not is_fit or not self._follow(index, snapshot, newest):
            documents, damaged = all_documents(snapshot)
            index = index_of(documents, languages)
        # A repair of a damaged memory adds no version, so the next search must read all memories again.
        self._newest, self._usage = ("", None) if damaged else (newest, usage)
        self.index = index if usage.size_bytes <= MAX_KEPT_BYTES else None
        return index, damaged

    def _follow(self, index: Index, snapshot: Snapshot, newest: str) -> bool:
        """Apply the versions since the last update. Returns False if the index does not have the memories then."""
        usage = snapshot.state.usage
        if (newest, usage) == (self._newest, self._usage):
            return True
        few = int(len(index.numbers) * _FEW) + 1
        if not self._newest or newest < self._newest:  # the database may have been restored from a backup
            return False
        changed = list(snapshot.versions(after=self._newest, limit=few + 1))
        if len(changed) > few:
            return False
        ids = {version.memory_id for version in changed}
        try:
            present = [memory for each in ids if (memory := snapshot.find(each)) is not None]
            fresh = [_document(memory, snapshot.version(memory.version_id)[1]) for memory in present]
        except Damaged:
            return False
        for each in ids:
            index.remove(each)
        for document in filter(None, fresh):
            index.add(document)
        return (len(index.numbers), index.size) == usage  # not if one is damaged, or was erased without a version


def all_documents(snapshot: Snapshot) -> tuple[list[Document], tuple[str, ...]]:
    """Return all readable memories as documents, and the paths of the damaged memories."""
    found = [(memory.path, _document(memory, data)) for memory, data in readable_texts(snapshot)]
    damaged = tuple(path for path, document in found if document is None)
    return [document for _, document in found if document is not None], damaged


def _document(memory: Memory, data: bytes | None) -> Document | None:
    """Return the document for a memory. None if its text is damaged."""
    if data is None or not is_text(data):
        return None
    return Document(memory.path, data, memory.updated_at, memory.id, memory.version_id, memory.provenance_text)


class Corpora:
    """All search indexes of a process, with a limit on their total bytes of text. Threads may share this object."""

    def __init__(self) -> None:
        self.renew_after_fork()
        forking.watch(self)

    def renew_after_fork(self) -> None:
        """Start without indexes, also in a forked child: a thread of the parent may hold the lock of one."""
        self._lock = threading.Lock()
        self._of_backend: WeakKeyDictionary[Backend, dict[str, Corpus]] = WeakKeyDictionary()

    def of(self, backend: Backend, store_id: str) -> Corpus:
        """Return the index of a store. A new index is empty until the first search."""
        with self._lock:
            by_id = self._of_backend.setdefault(backend, {})
            return by_id.setdefault(store_id, Corpus())

    def trim(self, used: Corpus) -> None:
        """Record `used` as the most recently used index. Then drop indexes while their total size exceeds the limit.

        The least recently used index is dropped first. An index that a thread is using is not dropped.
        """
        with self._lock:
            used.last_used = time.monotonic()
            corpora = [corpus for by_id in self._of_backend.values() for corpus in by_id.values()]
        kept = 0
        for corpus in sorted(corpora, key=attrgetter("last_used"), reverse=True):
            kept += corpus.index.size if corpus.index is not None else 0
            if kept > MAX_KEPT_BYTES and corpus.lock.acquire(blocking=False):
                corpus.index = None
                corpus.lock.release()


CORPORA = Corpora()
