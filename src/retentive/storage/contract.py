"""The storage contract: the core that every backend implements. Extras are in `storage.capabilities`.

A backend keeps memory stores, their memories and every version. It knows nothing of commands, limits or replies.
Promises (held by `retentive.testing.backend_suite`):

* `write` is exclusive per memory store, all or nothing, and durable when it returns: it survives `kill -9` and power
  loss. A write that raised left nothing behind, now or after any recovery, unless it raised `OutcomeUnknown`.
* `read` sees one consistent state, at least as new as the last write that returned anywhere.
* `work` is a function, not a `with` block: it may run more than once, and several may share one commit. It must only
  read the snapshot and record changes.
* All methods may be called from any thread. A backend opened before a fork is used by one side only, unless it says
  otherwise.
* Errors are those of `retentive.errors`; driver errors never escape.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Final, TypeAlias, TypedDict, TypeVar

from retentive.errors import InvalidInput
from retentive.values.paths import ROOT
from retentive.values.records import (
    ACTOR_KINDS,
    EXTERNAL,
    MAX_NAME_CHARS,
    Actor,
    ActorKind,
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

__all__ = [
    "ACTOR_KINDS",
    "EXTERNAL",
    "MAX_NAME_CHARS",
    "Actor",
    "ActorKind",
    "Backend",
    "Change",
    "Clock",
    "Entry",
    "Kept",
    "Memory",
    "NewId",
    "Operation",
    "Recorded",
    "Sealing",
    "Selection",
    "Snapshot",
    "StoreInfo",
    "Transaction",
    "Usage",
    "Version",
    "as_actor",
    "now_us",
    "plain_name",
    "sortable_id",
    "to_datetime",
]

T = TypeVar("T")


class Unchanged(Enum):
    """Type of `UNCHANGED`, the default of `Transaction.set_metadata`."""

    UNCHANGED = 0


UNCHANGED: Final = Unchanged.UNCHANGED
Metadata: TypeAlias = str | Unchanged | None


class Selection(TypedDict, total=False):
    """The arguments of `Snapshot.versions`, for an implementation that takes or passes them on together."""

    memory_id: str | None
    path: str | None
    revision_of: str | None
    after: str | None
    before: str | None
    limit: int | None


class Snapshot(ABC):
    """One consistent state of one memory store, valid only inside the `work` it was passed to."""

    @property
    @abstractmethod
    def revision(self) -> int:
        """The number of commits that changed memories or history so far."""

    @property
    @abstractmethod
    def seal(self) -> str | None:
        """The present `StoreInfo.seal`."""

    @property
    @abstractmethod
    def settings(self) -> str | None:
        """The settings text of the store; opaque to the backend."""

    @abstractmethod
    def get(self, path: str) -> Entry:
        """The entry at a canonical path other than the root, in one round trip."""

    @abstractmethod
    def memories(self, under: str) -> Iterator[Memory]:
        """All memories strictly below a canonical path, in the byte order of their paths."""

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

        `revision_of` selects the versions with the revision of this version, in one query; none if it is unknown.
        `after` and `before` are version ids, or any text that compares with them; both bounds are exclusive.
        """

    @abstractmethod
    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        """A version and the bytes it wrote, None for a deletion. Raises `NotFound`."""

    @abstractmethod
    def usage(self) -> Usage:
        """The number and size of the present memories. Maintained with every change, never counted."""

    @abstractmethod
    def records(self, kind: str) -> Iterator[tuple[str, str]]:
        """Keys and values of all records of a kind, in the order of their keys."""

    # -- derived; a backend overrides them where its storage can answer faster -----------------------------------

    def find(self, memory_id: str) -> Memory | None:
        """The present memory with this id, at whatever path."""
        return next((memory for memory in self.memories(ROOT) if memory.id == memory_id), None)

    def get_record(self, kind: str, key: str) -> str | None:
        """The value of the record of a kind with this key."""
        return next((value for found, value in self.records(kind) if found == key), None)

    def text(self, version_id: str) -> bytes | None:
        """The bytes a version wrote, None for a deletion. Raises `NotFound`."""
        return self.version(version_id)[1]

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        """Path and size in bytes of all memories strictly below a canonical path, in the byte order of their paths."""
        return ((memory.path, memory.size_bytes) for memory in self.memories(under))

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        """All memories strictly below a canonical path with their bytes, in the byte order of their paths."""
        return ((memory, self.text(memory.version_id) or b"") for memory in self.memories(under))

    def as_of(self, before: str) -> Iterator[Version]:
        """The store as it was: of each memory the newest version with an id below `before`, in any order.

        Deletions are left out. A redacted version is included, with an empty path.
        """
        seen: set[str] = set()
        for version in self.versions(before=before):
            if version.memory_id not in seen:
                seen.add(version.memory_id)
                if version.operation != "deleted":
                    yield version


class Transaction(Snapshot):
    """A snapshot that can be changed. Reads see what was recorded before in the same transaction."""

    @abstractmethod
    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        """Write memories, versions and usage together; the ids of the memory and version each change became."""

    @abstractmethod
    def set_metadata(self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED) -> None:
        """Replace the settings (at most 64 KB) or `StoreInfo.seal`. The revision stays."""

    @abstractmethod
    def put_record(self, kind: str, key: str, value: str | None) -> None:
        """Write a small record of the store, replacing the one with this key; None removes it.

        Kind and key have 1 to 200 printable ASCII characters and are not secret; the value is any text without NUL.
        The revision stays. A commit of records alone may be applied twice after its outcome was lost: choose keys
        outside `work`.
        """

    @abstractmethod
    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        """Remove text, path, size and hash of versions; id, memory, operation, time and actor stay.

        Newest versions of present memories and versions redacted before are left unchanged. Bytes that another version
        shares through a rename stay until the last of them is redacted. Nothing else of them is left in the storage
        once `capabilities.purge` has returned True.
        """

    @abstractmethod
    def prune(self, version_ids: Sequence[str]) -> None:
        """Remove versions. Those that present memories need, and texts that others need, stay."""

    def drop(self, memories: Sequence[Memory]) -> None:
        """Remove present memories without recording a version; their versions stay.

        For an imported history (`Change.origin`) with gaps: a memory whose deletion is missing must not stay present,
        nor occupy the path of the next one.
        """
        raise InvalidInput("this storage cannot import a history with gaps")


class Backend(ABC):
    """An opened location with memory stores in it. Close it when done; a process that exits without is no harm."""

    inner: Backend | None = None
    """The backend that this one wraps; `capability` looks there too."""

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
        """A new memory store. If the key or the id is taken, the store that has it, unchanged.

        `store_id` and `created_at` are those of a store that is copied from elsewhere.
        """

    @abstractmethod
    def get_store(self, id_or_key: str) -> StoreInfo | None:
        """The store with this id, else the one with this key."""

    @abstractmethod
    def list_stores(self, *, after: str | None = None, limit: int | None = None) -> list[StoreInfo]:
        """Stores in the order of their ids, oldest first: those after the id `after`, at most `limit`."""

    @abstractmethod
    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        """Remove everything in a store: memories, versions, records, settings, key and name. Its id stays, as erased.

        Reading and writing it raise `NotFound` afterwards, and it is not listed; the key can be used again. Erasing it
        twice does nothing.
        """

    @abstractmethod
    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on one consistent state. Raises `NotFound` if the store is gone."""

    @abstractmethod
    def write(self, store_id: str, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        """Run `work` exclusively in this store and commit what it recorded; if it raises, nothing is changed.

        `may_use_reserve` marks work that deletes: it may use the space reserved for a full disk.
        """

    @abstractmethod
    def put_side_records(self, store_id: str, kind: str, values: Mapping[str, str | None]) -> None:
        """Write small records beside the store: durable on return, without waiting for its writers. None removes one.

        As records, but of kinds of their own, and not part of any transaction. When two processes write the same key
        at the same time, one wins.
        """

    @abstractmethod
    def side_records(self, store_id: str, kind: str, *, after: str = "") -> Iterator[tuple[str, str]]:
        """Keys and values of the side records of a kind, with keys beyond `after`, in the order of their keys."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections. Later calls raise `Unavailable`. Closing twice is no error."""
