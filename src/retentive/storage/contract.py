"""Storage contract: the core interface of every backend. Optional parts are in `storage.capabilities`.

A backend stores memory stores, their memories and all versions. It knows nothing of commands, limits or replies.
Guarantees (tested by `retentive.testing.backend_suite`):

* `write` is exclusive per memory store, atomic, and durable when it returns: it survives `kill -9` and power loss. A
  write that raises has no effect, now or after any recovery, unless it raises `OutcomeUnknown`.
* `read` sees one consistent state, at least as new as the last write that returned anywhere.
* `work` is a function, not a `with` block: it may run more than once, and several such functions may share one commit.
  It must only read the snapshot and record changes.
* Texts are verified when they are read: `get`, `version`, `text` and `texts` pass stored bytes through `verified` or
  `verify_version`, which raise `Damaged` unless the bytes match the sha256 of their version.
* All methods may be called from any thread. If a backend was opened before a fork, only one of the two processes may
  use it, unless the backend documents otherwise.
* Methods raise the errors of `retentive.errors`; driver errors never escape.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from itertools import islice
from typing import Final, Required, TypeAlias, TypedDict, TypeVar

from retentive.errors import Damaged, InvalidInput
from retentive.values.names import plain_name
from retentive.values.one_level import one_level, path_after
from retentive.values.paths import ROOT
from retentive.values.records import (
    ACTOR_KINDS,
    DEFAULT_WORKSPACE,
    EXTERNAL,
    Actor,
    Change,
    Clock,
    Entry,
    Kept,
    Memory,
    NewId,
    Operation,
    Recorded,
    Sealing,
    StoreInfo,
    Usage,
    Version,
    as_actor,
    now_us,
    sortable_id,
    to_datetime,
    to_us,
)
from retentive.values.text import verified

__all__ = [
    "ACTOR_KINDS", "DEFAULT_WORKSPACE", "EXTERNAL", "Actor", "Backend", "Change", "Clock", "Entry", "Kept", "Memory",
    "NewId", "NewMetadata", "NewStore", "Operation", "Recorded", "Sealing", "Selection", "Snapshot", "StoreInfo",
    "StoreSelection", "Transaction", "Usage", "Version", "as_actor", "now_us", "plain_name", "sortable_id",
    "to_datetime", "verified", "verify_version",
]  # fmt: skip

T = TypeVar("T")


class Unchanged(Enum):
    """Type of the constant `UNCHANGED`, the default value of the arguments of `Transaction.set_metadata`."""

    UNCHANGED = 0


UNCHANGED: Final = Unchanged.UNCHANGED
Metadata: TypeAlias = str | Unchanged | None


class Selection(TypedDict, total=False):
    """Types of the keyword arguments of `Snapshot.versions`, for implementations that forward them."""

    memory_id: str | None
    path: str | None
    revision_of: str | None
    after: str | None
    before: str | None
    limit: int | None
    oldest_first: bool


class NewMetadata(TypedDict, total=False):
    """Types of the keyword arguments of `Transaction.set_metadata`, for implementations."""

    settings: Metadata
    seal: Metadata
    properties: Metadata


class NewStore(TypedDict, total=False):
    """Types of the keyword arguments of `Backend.create_store`, for implementations."""

    key: Required[str | None]
    name: Required[str]
    seal: str | None
    store_id: str | None
    created_at: datetime | None
    workspace: str
    properties: str | None


class StoreSelection(TypedDict, total=False):
    """Types of the keyword arguments of `Backend.list_stores`, for implementations."""

    after: str | None
    before: str | None
    workspace: str | None
    newest_first: bool
    limit: int | None


def verify_version(version: Version, data: bytes | None) -> tuple[Version, bytes | None]:
    """Return the version and its stored bytes (None if it is a deletion or redacted).

    Raises `Damaged` if the bytes do not match the version.
    """
    if version.operation != "deleted" and version.redacted_at is None:
        return version, verified(data, version.sha256, version.seal, version.id)
    if data is not None:
        raise Damaged("a text is stored for a deleted or redacted version")
    return version, None


class Snapshot(ABC):
    """One consistent state of one memory store.

    The snapshot is valid only inside the function `work` that receives it.
    """

    @property
    @abstractmethod
    def revision(self) -> int:
        """Number of commits that changed memories or history."""

    @property
    @abstractmethod
    def seal(self) -> str | None:
        """The current value of `StoreInfo.seal`."""

    @property
    @abstractmethod
    def settings(self) -> str | None:
        """Settings of the store as text, which the backend does not interpret."""

    @property
    @abstractmethod
    def properties(self) -> str | None:
        """The current value of `StoreInfo.properties`."""

    @abstractmethod
    def get(self, path: str) -> Entry:
        """Entry at a canonical path other than the root, read in one round trip."""

    @abstractmethod
    def memories(self, under: str) -> Iterator[Memory]:
        """All memories strictly below a canonical path, in byte order of their paths."""

    @abstractmethod
    def versions(
        self,
        *,
        memory_id: str | None = None,
        path: str | None = None,
        revision_of: str | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        oldest_first: bool = False,
    ) -> Iterator[Version]:
        """Versions of the store, a memory (across renames), a path or a revision. Newest first unless `oldest_first`.

        `revision_of` is a version id. It selects all versions of the revision to which this version belongs, or no
        versions if the id is unknown. `after` and `before` are exclusive bounds: version ids, or any strings to compare
        with version ids.
        """

    @abstractmethod
    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        """A version, with the bytes of its memory after the change (None for a deletion). Raises `NotFound`."""

    @abstractmethod
    def usage(self) -> Usage:
        """Number and total size of the present memories.

        Every change updates these two numbers; they are never recounted.
        """

    @abstractmethod
    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, str]]:
        """Keys and values of at most `limit` records of a kind, in key order, for keys greater than `after`."""

    # Derived methods. A backend overrides a method if its storage can answer faster.

    def expect(self, path: str) -> None:  # noqa: B027 - nothing needs to be done
        """Announce the path of the first `get`, before any other read of this snapshot.

        The path is canonical and not the root. A backend may then read the settings and the entry together. Only `get`
        reports a damaged text.
        """

    @property
    def state(self) -> Hashable:
        """Value that differs whenever paths or sizes of memories differ. None if only reading the memories can tell."""
        return None

    def find(self, memory_id: str) -> Memory | None:
        """The present memory with this id, or None."""
        return next((memory for memory in self.memories(ROOT) if memory.id == memory_id), None)

    def get_record(self, kind: str, key: str) -> str | None:
        """Value of a record, or None."""
        return next((value for found, value in self.records(kind) if found == key), None)

    def text(self, version_id: str) -> bytes | None:
        """Bytes of a memory after the change of this version; None for a deletion. Raises `NotFound`."""
        return self.version(version_id)[1]

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        """Path and size in bytes of all memories strictly below a canonical path, in byte order of their paths."""
        return ((memory.path, memory.size_bytes) for memory in self.memories(under))

    def walk(
        self, under: str, *, start: str = "", limit: int | None = None, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        """At most `limit` memories strictly below a canonical path, from `start` on, in byte order of their paths.

        `start` is the lowest path to return, or any string to compare with paths. Without `texts`, bytes are None.
        """
        found = islice((memory for memory in self.memories(under) if memory.path >= start), limit)
        return ((memory, self.text(memory.version_id) if texts else None) for memory in found)

    def walk_naming(
        self, under: str, names: Sequence[str] | None, *, start: str = "", limit: int
    ) -> tuple[list[Memory], str | None]:
        """Walk `limit` memories; return at least those whose `provenance_text` contains one of `names` or a backslash.

        If `names` is None, all are returned. Also returns the path at which to continue, or None at the end.
        """
        found = [memory for memory, _ in self.walk(under, start=start, limit=limit)]
        return found, path_after(found[-1].path) if found and len(found) == limit else None

    def one_level(self, under: str, *, start: str = "", limit: int | None = None) -> Iterator[Memory]:
        """Memories directly in a directory, and the first memory of each subdirectory, in byte order of their paths.

        `start` has the same meaning as for `walk`. `limit` counts memories and subdirectories.
        """

        def walk(at: str, size: int) -> Iterator[Memory]:
            return (memory for memory, _ in self.walk(under, start=at, limit=size))

        return one_level(walk, under, start=start, limit=limit)

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        """All memories strictly below a canonical path with their bytes, in byte order of their paths."""
        return ((memory, self.text(memory.version_id) or b"") for memory in self.memories(under))

    def scan(
        self,
        most: int,
        *,
        path: str | None = None,
        actor: str | None = None,
        after: str | None = None,
        before: str | None = None,
        oldest_first: bool = False,
    ) -> tuple[list[Version], str | None]:
        """Look at the next `most` versions. Return at least those at or below `path` and by `actor` (in text form).

        Also returns the id of the last version that was looked at, or None at the end of the history.
        """
        found = list(self.versions(after=after, before=before, limit=most, oldest_first=oldest_first))
        return found, found[-1].id if found and len(found) == most else None

    def as_of(self, before: str) -> Iterator[Version]:
        """Earlier state of the store: for each memory, the newest version with an id lower than `before`.

        The order is undefined. Memories whose version is a deletion are left out. A redacted version is included; its
        path is empty.
        """
        seen: set[str] = set()
        for version in self.versions(before=before):
            if version.memory_id not in seen:
                seen.add(version.memory_id)
                if version.operation != "deleted":
                    yield version

    def earlier(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version] | None:
        """Versions of `as_of` strictly below a canonical path, in byte order of paths, or None.

        If None is returned, the caller must select the versions from `as_of`. `start` and `limit` have the same meaning
        as for `walk`. If `one_level` is true, only those versions are returned that the method `one_level` would show
        for the earlier state. Redacted versions have no path and are left out.
        """
        return None


class Transaction(Snapshot):
    """Snapshot that can be changed. Reads see earlier changes of the same transaction."""

    @abstractmethod
    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        """Write memories, versions and usage together. Returns the memory id and version id of each change."""

    @abstractmethod
    def set_metadata(
        self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED, properties: Metadata = UNCHANGED
    ) -> None:
        """Replace the settings (at most 64 KB), `StoreInfo.seal` or the properties. The revision does not change."""

    @abstractmethod
    def put_record(self, kind: str, key: str, value: str | None) -> None:
        """Write or replace a small record of the store. The value None removes the record.

        Kind and key have 1 to 200 printable ASCII characters and are not secret; the value is any text without NUL. The
        revision does not change. If the reply to a commit that contains only records is lost, the commit may be applied
        twice. Callers therefore choose the keys outside `work`.
        """

    @abstractmethod
    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        """Remove the text, path, size and hash of versions. Id, memory, operation, time and actor are kept.

        Newest versions of present memories and already redacted versions stay unchanged. If versions share a text
        because of renames, the text is kept until the last of these versions is redacted. Once `capabilities.purge` has
        returned True, the storage has no other trace of the removed data.
        """

    @abstractmethod
    def prune(self, version_ids: Sequence[str]) -> None:
        """Remove versions, except those that present memories need.

        If another version needs the text of a removed version, the text is kept.
        """

    def tick(self) -> int:
        """Time in microseconds for the id of an event, later than the times of all versions.

        The default assumes a clock that never goes back, so that versions written later are later than the event.
        """
        newest = next(self.versions(limit=1), None)
        return max(now_us(), 0 if newest is None else to_us(newest.created_at) + 1)

    def drop(self, memories: Sequence[Memory]) -> None:
        """Remove present memories without recording a version. Existing versions are kept.

        Used to import a history with gaps (`Change.origin`): if the deletion of a memory is missing there, the memory
        must neither remain present nor occupy the path of a later memory.
        """
        raise InvalidInput(
            "the storage of this location cannot import a history with gaps; import into another location"
        )


class Backend(ABC):
    """Memory stores in an open location.

    Close the backend after use; ending the process without closing loses no data.
    """

    inner: Backend | None = None
    """The wrapped backend, which `capability` searches too."""

    @abstractmethod
    def create_store(
        self,
        *,
        key: str | None,
        name: str,
        seal: str | None = None,
        store_id: str | None = None,
        created_at: datetime | None = None,
        workspace: str = DEFAULT_WORKSPACE,
        properties: str | None = None,
    ) -> StoreInfo:
        """Create a memory store. If the key exists in the workspace, or the id exists, return that store unchanged.

        `store_id` and `created_at` preserve the identity of a store that is copied from another location.
        """

    @abstractmethod
    def get_store(self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo | None:
        """Return the store with this id, otherwise the store of the workspace with this key, otherwise None."""

    @abstractmethod
    def list_stores(
        self,
        *,
        after: str | None = None,
        before: str | None = None,
        workspace: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> list[StoreInfo]:
        """At most `limit` stores in order of their ids, which is oldest first, unless `newest_first`.

        `after` and `before` are exclusive bounds: ids, or any strings to compare with ids.
        """

    @abstractmethod
    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        """Remove memories, versions, records, settings, key and name of a store. Only its id is kept, as a tombstone.

        Afterwards reads and writes raise `NotFound`, the store is not listed, and its key can be reused. Idempotent.
        """

    @abstractmethod
    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on one consistent state. Raises `NotFound` if the store does not exist or was erased."""

    @abstractmethod
    def write(self, store_id: str, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        """Run `work` with exclusive access to this store and commit its changes. If `work` raises, nothing changes.

        Work that deletes may set `may_use_reserve`, to use disk space that is reserved for a full disk.
        """

    @abstractmethod
    def put_side_records(self, store_id: str, kind: str, values: Mapping[str, str | None]) -> None:
        """Write side records, durably, without waiting for writers of the store. The value None removes a record.

        Side records are like records, but are not part of a transaction and have separate kinds. If two processes write
        the same key concurrently, one of the values is stored.
        """

    @abstractmethod
    def side_records(self, store_id: str, kind: str, *, after: str = "") -> Iterator[tuple[str, str]]:
        """Keys and values of the side records of a kind, in key order, for keys greater than `after`."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections. Later calls raise `Closed`. Idempotent."""
