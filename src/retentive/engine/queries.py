"""Read operations of the Python API: memories, texts, versions, usage and search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retentive.engine.operation import ReadOperation
from retentive.errors import InvalidInput, InvalidPath, NotFound, ReadOnly, Refused, SensitiveValue, TooLarge
from retentive.storage.contract import Entry, Memory, Snapshot, Usage, Version
from retentive.values.paths import MemoryPath
from retentive.values.replies import Replies
from retentive.values.settings import Settings
from retentive.values.text import decoded

if TYPE_CHECKING:
    from retentive.search.index import Corpus
    from retentive.search.query import Query, Results


def parsed(path: str, replies: Replies) -> MemoryPath:
    """Parse a path given by a program. Raises `InvalidPath`."""
    try:
        return MemoryPath.parse(path)
    except Refused as refusal:
        raise InvalidPath(replies.phrase(refusal.key, refusal.values)) from None


def raised(refusal: Refused, replies: Replies) -> InvalidInput:
    """The exception for a refusal, with the sentence and code that a model would get as an error reply."""
    said = replies.error(refusal.key, refusal.values)
    return _OF_GUARDS.get(said.code or "", InvalidInput)(said.text.removeprefix("Error: "))


_OF_GUARDS = {each.code: each for each in (ReadOnly, TooLarge, SensitiveValue)}


@dataclass(frozen=True, slots=True)
class Load(ReadOperation[tuple[Memory, str]]):
    """Read the memory at a path, and its text. Raises `NotFound`."""

    name = "load"
    path: MemoryPath

    def paths(self) -> tuple[str, ...]:
        """Path of the memory."""
        return (self.path.text,)

    def facts(self, result: Any) -> Mapping[str, object]:
        """Ids of the memory and version read."""
        return {"read": [result[0].id, result[0].version_id]}

    def apply(self, snapshot: Snapshot, settings: Settings) -> tuple[Memory, str]:
        """Read the memory."""
        entry = None if self.path.is_root else snapshot.get(self.path.text)
        if entry is None or entry.memory is None:
            raise NotFound(f"there is no memory at {self.path.written}")
        return entry.memory, decoded(entry.data, path=entry.memory.path)


@dataclass(frozen=True, slots=True)
class GetEntry(ReadOperation[Entry]):
    """Read the entry at a path other than the root, for editors."""

    name = "load"
    path: MemoryPath

    def paths(self) -> tuple[str, ...]:
        """Path of the entry."""
        return (self.path.text,)

    def facts(self, result: Any) -> Mapping[str, object]:
        """Ids of the memory and version read."""
        return {} if result.memory is None else {"read": [result.memory.id, result.memory.version_id]}

    def apply(self, snapshot: Snapshot, settings: Settings) -> Entry:
        """Read the entry."""
        return snapshot.get(self.path.text)


@dataclass(frozen=True, slots=True)
class BulkRead(ReadOperation[None]):
    """Marks a read of the whole store in many steps, such as an export, with one audit entry before it starts."""

    name: str

    def apply(self, snapshot: Snapshot, settings: Settings) -> None:
        """Read nothing."""


@dataclass(frozen=True, slots=True)
class ListMemories(ReadOperation[list[Memory]]):
    """List all memories below a directory in byte order of their paths; with `or_at`, else the memory at that path."""

    name = "list"
    under: MemoryPath
    or_at: bool = False

    def paths(self) -> tuple[str, ...]:
        """Path of the directory."""
        return (self.under.text,)

    def apply(self, snapshot: Snapshot, settings: Settings) -> list[Memory]:
        """Read the memories."""
        found = list(snapshot.memories(self.under.text))
        if found or not self.or_at or self.under.is_root:
            return found
        memory = snapshot.get(self.under.text).memory
        return [] if memory is None else [memory]


@dataclass(frozen=True, slots=True)
class ListVersions(ReadOperation[list[Version]]):
    """List versions, newest first: of the store, of one path, or of one memory across renames."""

    name = "versions"
    path: MemoryPath | None = None
    memory_id: str | None = None
    limit: int | None = None

    def paths(self) -> tuple[str, ...]:
        """Path, if given."""
        return () if self.path is None else (self.path.text,)

    def apply(self, snapshot: Snapshot, settings: Settings) -> list[Version]:
        """Read the versions."""
        at = None if self.path is None else self.path.text
        return list(snapshot.versions(memory_id=self.memory_id, path=at, limit=self.limit))


@dataclass(frozen=True, slots=True)
class ReadVersion(ReadOperation[tuple[Version, str | None]]):
    """Read a version and the text it wrote; None for a deletion or a redacted version. Raises `NotFound`."""

    name = "show"
    version_id: str

    def facts(self, result: Any) -> Mapping[str, object]:
        """Ids of the memory and version read."""
        return {"read": [result[0].memory_id, result[0].id]}

    def apply(self, snapshot: Snapshot, settings: Settings) -> tuple[Version, str | None]:
        """Read the version."""
        version, data = snapshot.version(self.version_id)
        return version, None if data is None else decoded(data)


@dataclass(frozen=True, slots=True)
class ReadUsage(ReadOperation[Usage]):
    """Read the number and total size of the memories."""

    name = "usage"

    def apply(self, snapshot: Snapshot, settings: Settings) -> Usage:
        """Read the counters."""
        return snapshot.usage()


@dataclass(frozen=True, slots=True)
class Search(ReadOperation["Results"]):
    """Search the memories below a directory; `corpus` caches their texts."""

    name = "search"
    needs_external_edits = True
    query: Query
    under: MemoryPath
    limit: int | None
    corpus: Corpus

    def paths(self) -> tuple[str, ...]:
        """Path of the directory."""
        return (self.under.text,)

    def apply(self, snapshot: Snapshot, settings: Settings) -> Results:
        """Run the query."""
        return self.corpus.search(snapshot, self.query, under=self.under.text, limit=self.limit)
