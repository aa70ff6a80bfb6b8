"""Storage contract: the interface of every backend.

A backend stores memory stores, their memories and all versions. It knows nothing of commands, limits or replies.
Guarantees (tested by `retentive.testing.backend_suite`):

* `write` is atomic, and only one write to a memory store runs at a time. When `write` returns, the change survives
  `kill -9` and power loss. If `write` raises, the change has no effect, now or after any recovery. If the error is
  `OutcomeUnknown`, however, the change may have been committed.
* `read` sees one consistent state. The state includes every write that returned before the read began, in any process.
* `work` is a function, not a `with` block, because a backend may call it more than once. A backend may also commit the
  changes of several such functions together. `work` must do nothing except read the snapshot and record changes.
* Texts are verified when they are read. `get`, `version`, `text` and `texts` pass the stored bytes through `verified`
  or `verify_version`. These functions raise `Damaged` unless the bytes match the sha256 of their version.
* All methods may be called from any thread. If a process forks while a backend is open, only one of the two processes
  may use the backend afterwards: the parent or the child. The documentation of a backend may allow both.
* Methods raise the errors of `retentive.errors`. They never raise errors of a database driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Required, TypedDict, TypeVar, Unpack

from retentive.errors import Damaged
from retentive.storage.packs import PackingOf, plain_packing
from retentive.values.changes import (
    Again,
    Change,
    Created,
    Deleted,
    Imported,
    Kept,
    Moved,
    Sealing,
    Updated,
    create_or_update,
    kept,
)
from retentive.values.properties import StoreInfo
from retentive.values.records import (
    ACTOR_KINDS,
    DEFAULT_WORKSPACE,
    EXTERNAL,
    Actor,
    Clock,
    Entry,
    Memory,
    NewId,
    Operation,
    Recorded,
    Usage,
    Version,
    as_actor,
    now_us,
    sortable_id,
    to_datetime,
)
from retentive.values.text import plain_name, verified

if TYPE_CHECKING:
    from retentive.storage.findings import Finding

__all__ = [
    "ACTOR_KINDS", "DEFAULT_WORKSPACE", "EXTERNAL", "Actor", "Again", "Backend", "Change", "Clock", "Created",
    "Deleted", "Entry", "Imported", "Kept", "Memory", "Moved", "NewId", "NewStore", "Operation",
    "Recorded", "Sealing", "Selection", "Snapshot", "State", "StoreInfo", "StoreSelection", "Transaction", "Updated",
    "Usage", "Version", "WriteMode", "as_actor", "create_or_update", "kept", "now_us", "plain_name", "sortable_id",
    "to_datetime", "verified", "verify_version",
]  # fmt: skip

T = TypeVar("T")


class Selection(TypedDict, total=False):
    """Keyword arguments of `Snapshot.versions`."""

    memory_id: str | None
    path: str | None
    revision_of: str | None
    after: str | None
    before: str | None
    limit: int | None
    oldest_first: bool


class NewStore(TypedDict, total=False):
    """Keyword arguments of `Backend.create_store`.

    To copy a store from another location, pass its id as `store_id` and its creation time as `created_at`.
    """

    key: Required[str | None]
    name: Required[str]
    seal: str | None
    store_id: str | None
    created_at: datetime | None
    workspace: str
    properties: str | None


class WriteMode(TypedDict, total=False):
    """Keyword arguments of `Backend.write`.

    `first_path` is as in `read`. Set `may_use_reserve` for work that deletes. If the disk is full, such work may use
    disk space that is reserved for this case. If `wait` is false and another writer has a lock that this write needs,
    or is first, the write raises `Unavailable` at once.
    """

    may_use_reserve: bool
    first_path: str | None
    wait: bool


class Metadata(TypedDict, total=False):
    """Types of the keyword arguments of `Transaction.set_metadata`. What is left out stays unchanged."""

    settings: str | None
    seal: str | None
    properties: str | None


class StoreSelection(TypedDict, total=False):
    """Keyword arguments of `Backend.list_stores`.

    `workspace` selects the stores of one workspace. `after` and `before` are exclusive bounds. They may be any strings;
    they are compared with ids.
    """

    after: str | None
    before: str | None
    workspace: str | None
    newest_first: bool
    limit: int | None


def verify_version(version: Version, data: bytes | None) -> tuple[Version, bytes | None]:
    """Check that the stored bytes `data` match the version `version`. Returns both.

    A deletion and a redacted version have no bytes (None). Raises `Damaged` if the bytes do not match the version.
    """
    if version.operation != "deleted" and version.redacted_at is None:
        return version, verified(data, version.sha256, version.seal, version.id)
    if data is not None:
        raise Damaged("a text is stored for a deleted or redacted version")
    return version, None


class State(NamedTuple):
    """Facts about a whole memory store, which a backend reads at once.

    `revision` is the number of commits that added versions. `settings` and `properties` are texts, and
    `seal` holds the data of the encryption layer (None if the store is not encrypted). The backend interprets none of
    the three.
    """

    revision: int
    settings: str | None
    seal: str | None
    properties: str | None
    usage: Usage


class Snapshot(ABC):
    """One consistent state of one memory store.

    The snapshot is valid only inside the function that `Backend.read` or `Backend.write` calls with it.
    """

    @property
    @abstractmethod
    def state(self) -> State:
        """Revision, settings, seal, properties and usage of the store."""

    @abstractmethod
    def get(self, path: str) -> Entry:
        """Return the entry at a canonical path other than the root.

        The entry has the memory at the path, or shows that there is a memory above or below the path. It is read in one
        round trip.
        """

    @abstractmethod
    def find(self, memory_id: str) -> Memory | None:
        """Return the existing memory with this id, or None."""

    @abstractmethod
    def list(
        self, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        """Return the memories strictly below a canonical path, in byte order of their paths.

        Paths lower than `start` are skipped; `start` may be any string. `limit` is the maximum number of memories.
        With `one_level`, these are the memories directly in the directory `under` and the first memory of each
        subdirectory. Each memory comes with its bytes if `texts` is true, otherwise with None.
        """

    @abstractmethod
    def list_at(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version]:
        """Return an earlier state of the store: of each memory, its newest version with an id lower than `before`.

        A memory is left out if this version is a deletion, is redacted (it has no path), or is not strictly below
        `under`. The order, `start`, `limit` and `one_level` are those of `list`.
        """

    @abstractmethod
    def versions(self, **selection: Unpack[Selection]) -> Iterator[Version]:
        """Return versions of the store, newest first. With `oldest_first`, the oldest version comes first.

        `memory_id` selects the versions of one memory, including those from before a rename. `path` selects the
        versions with this path. If it ends with `/`, it selects the versions with paths below this directory.
        `revision_of` is a version id. It selects all versions that were committed together with this version (the same
        revision). If the id is unknown, it selects no versions. `after` and `before` are exclusive bounds for version
        ids, and may be any strings.
        """

    @abstractmethod
    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        """Return a version and the bytes of its memory after the change that the version records.

        The bytes are None for a deletion or a redacted version. Raises `NotFound`.
        """

    @abstractmethod
    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, str]]:
        """Return the keys and values of the records of a kind, in key order.

        Only records with keys greater than `after` are returned. If `limit` is given, it is the maximum number of
        records.
        """

    @abstractmethod
    def get_record(self, kind: str, key: str) -> str | None:
        """Return the value of a record, or None if there is no such record."""


class Transaction(Snapshot):
    """Snapshot that can be changed. Reads see earlier changes of the same transaction."""

    @abstractmethod
    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        """Apply changes: write memories and versions, and update usage.

        Returns the memory id and version id of each change.
        """

    @abstractmethod
    def set_metadata(self, **metadata: Unpack[Metadata]) -> None:
        """Replace the settings (at most 64 KB), `StoreInfo.seal` or the properties. The revision does not change."""

    @abstractmethod
    def put_record(self, kind: str, key: str, value: str | None) -> None:
        """Write or replace a small record of the store. The value None removes the record.

        Kind and key have 1 to 200 printable ASCII characters and are stored unencrypted. The value is any text without
        NUL. The revision does not change.
        """

    @abstractmethod
    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        """Remove the text, path, size and hash of versions. Id, memory, operation, time and actor are kept.

        The newest version of an existing memory and versions that are already redacted stay unchanged. Versions share
        one text if the memory was only renamed between them. The text is then kept until the last of these versions is
        redacted. After `Backend.purge` has returned True, the storage has no trace of the removed data.
        """

    @abstractmethod
    def prune(self, version_ids: Sequence[str]) -> None:
        """Remove versions from the history, except the newest version of each existing memory.

        If another version needs the text of a removed version, the text is kept. The deletion of a memory is kept until
        all its earlier texts are removed, because without it, an earlier version would look current.
        """

    def pack(self, version_ids: Sequence[str]) -> None:
        """Compress the texts of superseded versions together with the neighbouring texts of the same memory.

        No text changes, and `version` reads and verifies it as before. Left as they are: current texts, texts of
        redacted versions, damaged texts, texts over `packs.FULL_BYTES`, and full packs. A pack that is not full and has
        the text of one of these versions gets the others too. `redact` and `prune` write a pack again without what they
        remove.
        A backend may also compress nothing.
        """


class Backend(ABC):
    """Storage of memory stores at one location.

    A backend is open when it is created. Close it after use. No data is lost if the process ends without closing it.
    `packing` says how packs are encoded. The encryption layer sets it. A layer over another backend has it as `inner`.
    """

    packing: PackingOf = staticmethod(plain_packing)
    inner: Backend | None = None
    encrypts = False

    @abstractmethod
    def create_store(self, **new: Unpack[NewStore]) -> StoreInfo:
        """Create a memory store and return it.

        If the workspace (by default `DEFAULT_WORKSPACE`) already has a store with this key, or the location has a store
        with this id, that store is returned unchanged.
        """

    @abstractmethod
    def get_store(self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo | None:
        """Return the store with this id or, if no store has this id, the store with this key.

        Only stores of `workspace` are found by key. Returns None if no store is found.
        """

    @abstractmethod
    def list_stores(self, **chosen: Unpack[StoreSelection]) -> list[StoreInfo]:
        """Return at most `limit` stores in order of their ids: oldest first, or newest first with `newest_first`."""

    @abstractmethod
    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        """Remove memories, versions, records, settings, key and name of a store. Its id is kept as a tombstone.

        After this call, every read or write of the store raises `NotFound`, the store is not listed, and another store
        can have its key. Erasing an erased store does nothing.
        """

    @abstractmethod
    def read(self, store_id: str, work: Callable[[Snapshot], T], *, first_path: str | None = None) -> T:
        """Call `work` with a snapshot of the store and return the result of `work`.

        If the first entry that `work` gets is at `first_path`, a backend can read it together with the state.
        Raises `NotFound` if the store does not exist or was erased.
        """

    @abstractmethod
    def write(self, store_id: str, work: Callable[[Transaction], T], **mode: Unpack[WriteMode]) -> T:
        """Run `work` with exclusive access to this store, commit its changes and return its result.

        If `work` raises, nothing changes.
        """

    def directory_of(self, store: StoreInfo) -> str | None:
        """Return the directory with the memories of a store as plain files. None if there are none, as by default."""
        return None if self.inner is None else self.inner.directory_of(store)

    def connections(self) -> tuple[int, int, int] | None:
        """Return how many connections of this process are in use, are idle, and may be open. None without a limit."""
        return None if self.inner is None else self.inner.connections()

    def check(self, *, quick: bool = False) -> Iterator[Finding]:
        """Check the storage and yield a finding for each error. Writes nothing.

        With `quick`, the texts of older versions are not checked. Like the next four methods, it is for storage with
        invariants beyond this contract, or with bytes that outlast their deletion; by default it does nothing.
        """
        return iter(()) if self.inner is None else self.inner.check(quick=quick)

    def rebuild(self) -> None:
        """Rebuild data that can be derived from other stored data, such as indexes. Deletes nothing."""
        if self.inner is not None:
            self.inner.rebuild()

    def purge(self) -> bool:
        """Remove overwritten and deleted bytes from logs and free pages.

        Returns False if a reader still needs some of these bytes. In this case, call the method again later.
        """
        return self.inner is None or self.inner.purge()

    def collect(self, store_id: str) -> int:
        """Delete the orphans of a store: objects that nothing refers to. Returns the number of deleted objects."""
        return 0 if self.inner is None else self.inner.collect(store_id)

    def history_bytes(self, store_id: str) -> int | None:
        """Return the number of bytes of superseded texts as they are stored: packs, and texts that are not packed yet.

        Returns None if the storage does not know it.
        """
        return None if self.inner is None else self.inner.history_bytes(store_id)

    @abstractmethod
    def close(self) -> None:
        """Release files and connections. Later calls of other methods raise `Closed`. A second `close` does nothing."""
