"""Storage contract: the core interface of every backend. Optional parts are in `storage.capabilities`.

A backend stores memory stores, their memories and all versions. It knows nothing of commands, limits or replies.
Guarantees (tested by `retentive.testing.backend_suite`):

* `write` is exclusive per memory store, atomic, and durable when it returns: it survives `kill -9` and power loss. A
  write that raises has no effect, now or after any recovery, unless it raises `OutcomeUnknown`.
* `read` sees one consistent state, at least as new as the last write that returned anywhere.
* `work` is a function, not a `with` block: it may run more than once, and several may share one commit. It must only
  read the snapshot and record changes.
* Texts are verified when they are read: `get`, `version`, `text` and `texts` pass stored bytes through `verified` or
  `verify_version`, which raise `Damaged` unless the bytes match the sha256 of their version.
* All methods may be called from any thread. Only one side may use a backend opened before a fork, unless the backend
  documents otherwise.
* Methods raise the errors of `retentive.errors`; driver errors never escape.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Final, Required, TypeAlias, TypedDict, TypeVar

from retentive.errors import Damaged, InvalidInput
from retentive.values.paths import ROOT
from retentive.values.records import (
    ACTOR_KINDS,
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
    plain_name,
    sortable_id,
    to_datetime,
)
from retentive.values.text import verified

__all__ = [
    "ACTOR_KINDS", "EXTERNAL", "Actor", "Backend", "Change", "Clock", "Entry", "Kept", "Memory", "NewId",
    "NewStore", "Operation", "Recorded", "Sealing", "Selection", "Snapshot", "StoreInfo", "Transaction", "Usage",
    "Version", "as_actor", "now_us", "plain_name", "sortable_id", "to_datetime", "verified", "verify_version",
]  # fmt: skip

T = TypeVar("T")


class Unchanged(Enum):
    """Type of `UNCHANGED`, the default of `Transaction.set_metadata`."""

    UNCHANGED = 0


UNCHANGED: Final = Unchanged.UNCHANGED
Metadata: TypeAlias = str | Unchanged | None


class Selection(TypedDict, total=False):
    """Keyword arguments of `Snapshot.versions`, for implementations that forward them."""

    memory_id: str | None
    path: str | None
    revision_of: str | None
    after: str | None
    before: str | None
    limit: int | None


class NewStore(TypedDict, total=False):
    """Keyword arguments of `Backend.create_store`, for implementations."""

    key: Required[str | None]
    name: Required[str]
    seal: str | None
    store_id: str | None
    created_at: datetime | None


def verify_version(version: Version, data: bytes | None) -> tuple[Version, bytes | None]:
    """A version and its stored bytes, if they match; None for a deletion. Raises `Damaged`."""
    if version.operation != "deleted" and version.redacted_at is None:
        return version, verified(data, version.sha256, version.seal, version.id)
    if data is not None:
        raise Damaged("a deleted or redacted version has a text")
    return version, None


class Snapshot(ABC):
    """One consistent state of one memory store, valid only inside the `work` it was passed to."""

    @property
    @abstractmethod
    def revision(self) -> int:
        """Number of commits that changed memories or history."""

    @property
    @abstractmethod
    def seal(self) -> str | None:
        """Current `StoreInfo.seal`."""

    @property
    @abstractmethod
    def settings(self) -> str | None:
        """Settings text of the store; opaque to the backend."""

    @abstractmethod
    def get(self, path: str) -> Entry:
        """Entry at a canonical path other than the root, in one round trip."""

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
    ) -> Iterator[Version]:
        """Versions, newest first: of one memory across its renames, of one path, or of one revision.

        `revision_of` is a version id and selects the versions of its revision, in one query; none if it is unknown.
        `after` and `before` are version ids, or any text that compares with them; both bounds are exclusive.
        """

    @abstractmethod
    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        """Version and the bytes it wrote, None for a deletion. Raises `NotFound`."""

    @abstractmethod
    def usage(self) -> Usage:
        """Number and total size of the present memories. Updated with every change, never recounted."""

    @abstractmethod
    def records(self, kind: str) -> Iterator[tuple[str, str]]:
        """Keys and values of all records of a kind, in key order."""

    # Derived: a backend overrides these if its storage can answer faster.

    def find(self, memory_id: str) -> Memory | None:
        """Present memory with this id, at any path, or None."""
        return next((memory for memory in self.memories(ROOT) if memory.id == memory_id), None)

    def get_record(self, kind: str, key: str) -> str | None:
        """Value of a record, or None."""
        return next((value for found, value in self.records(kind) if found == key), None)

    def text(self, version_id: str) -> bytes | None:
        """Bytes that a version wrote, None for a deletion. Raises `NotFound`."""
        return self.version(version_id)[1]

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        """Path and size in bytes of all memories strictly below a canonical path, in byte order of their paths."""
        return ((memory.path, memory.size_bytes) for memory in self.memories(under))

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        """All memories strictly below a canonical path with their bytes, in byte order of their paths."""
        return ((memory, self.text(memory.version_id) or b"") for memory in self.memories(under))

    def as_of(self, before: str) -> Iterator[Version]:
        """Earlier state of the store: the newest version of each memory with an id below `before`, in any order.

        Deletions are left out. A redacted version is included, with an empty path.
        """
        seen: set[str] = set()
        for version in self.versions(before=before):
            if version.memory_id not in seen:
                seen.add(version.memory_id)
                if version.operation != "deleted":
                    yield version


class Transaction(Snapshot):
    """Snapshot that can be changed. Reads see earlier changes of the same transaction."""

    @abstractmethod
    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        """Write memories, versions and usage together; returns the memory id and version id of each change."""

    @abstractmethod
    def set_metadata(self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED) -> None:
        """Replace the settings (at most 64 KB) or `StoreInfo.seal`. The revision does not change."""

    @abstractmethod
    def put_record(self, kind: str, key: str, value: str | None) -> None:
        """Write or replace a small record of the store; None removes it.

        Kind and key have 1 to 200 printable ASCII characters and are not secret; the value is any text without NUL.
        The revision does not change. A commit of records alone may be applied twice if its reply was lost, so choose
        keys outside `work`.
        """

    @abstractmethod
    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        """Remove text, path, size and hash of versions; id, memory, operation, time and actor are kept.

        Newest versions of present memories and already redacted versions are unchanged. A text that versions share
        through renames is kept until the last of them is redacted. Once `capabilities.purge` has returned True, the
        storage has no other trace of the removed data.
        """

    @abstractmethod
    def prune(self, version_ids: Sequence[str]) -> None:
        """Remove versions, except those that present memories need. Texts that other versions need are kept."""

    def drop(self, memories: Sequence[Memory]) -> None:
        """Remove present memories without recording a version; their existing versions are kept.

        Used for an imported history (`Change.origin`) with gaps: a memory whose deletion is missing must neither
        remain present nor occupy the path of a later one.
        """
        raise InvalidInput("this storage cannot import a history with gaps")


class Backend(ABC):
    """Open location with memory stores. Close it after use; exiting without closing is safe."""

    inner: Backend | None = None
    """Wrapped backend, which `capability` searches too."""

    @abstractmethod
    def create_store(
        self,
        *,
        key: str | None,
        name: str,
        seal: str | None = None,
        store_id: str | None = None,
        created_at: datetime | None = None,
    ) -> StoreInfo:
        """Create a memory store. If the key or the id is taken, returns the existing store unchanged.

        `store_id` and `created_at` preserve the identity of a store copied from another location.
        """

    @abstractmethod
    def get_store(self, id_or_key: str) -> StoreInfo | None:
        """Store with this id, else the store with this key, else None."""

    @abstractmethod
    def list_stores(self, *, after: str | None = None, limit: int | None = None) -> list[StoreInfo]:
        """Stores in id order, oldest first: at most `limit` with an id greater than `after`."""

    @abstractmethod
    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        """Remove memories, versions, records, settings, key and name of a store. Its id is kept as a tombstone.

        Afterwards reads and writes raise `NotFound`, the store is not listed, and its key can be reused. Idempotent.
        """

    @abstractmethod
    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on one consistent state. Raises `NotFound` if the store does not exist or is erased."""

    @abstractmethod
    def write(self, store_id: str, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        """Run `work` exclusively in this store and commit its changes; if it raises, nothing changes.

        `may_use_reserve` marks work that deletes: it may use the space reserved for a full disk.
        """

    @abstractmethod
    def put_side_records(self, store_id: str, kind: str, values: Mapping[str, str | None]) -> None:
        """Write side records: durable on return, without waiting for writers of the store. None removes one.

        They are like records, but with separate kinds and outside any transaction. If two processes write the same
        key concurrently, one of them wins.
        """

    @abstractmethod
    def side_records(self, store_id: str, kind: str, *, after: str = "") -> Iterator[tuple[str, str]]:
        """Keys and values of the side records of a kind with keys greater than `after`, in key order."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections. Later calls raise `Unavailable`. Idempotent."""
