"""The contract of a backend: where memories rest. Storage without rules.

A backend keeps memory stores, their memories and every version, and knows nothing of commands, limits or replies.
What it promises (held by `retentive.testing.backend_suite`):

* `write` is exclusive per memory store, all or nothing, and durable when it returns: it survives `kill -9` and power
  loss. A write that raised left nothing behind, now or after any recovery, unless it raised `OutcomeUnknown`.
* `read` sees one consistent state, at least as new as the last write that returned anywhere.
* `work` is a function handed over, not a `with` block: it may run more than once, and several may share one commit.
  It must do nothing but look and record.
* All methods may be called from any thread, and after a fork.
* Errors are those of `retentive.errors`; a driver's own never get out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from retentive.errors import InvalidInput, Locked
from retentive.values.records import (
    ACTOR_KINDS,
    EXTERNAL,
    MAX_NAME_CHARS,
    Actor,
    ActorKind,
    Change,
    Clock,
    Kept,
    Look,
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
    "Kept",
    "Look",
    "Memory",
    "NewId",
    "Operation",
    "Recorded",
    "Sealing",
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

if TYPE_CHECKING:
    from retentive.storage.findings import Finding

T = TypeVar("T")


class Snapshot(ABC):
    """One consistent state of one memory store, good only inside the `work` it was handed to."""

    @property
    @abstractmethod
    def revision(self) -> int:
        """How many writes this store has seen: grows by one with every commit that changed memories or history."""

    @property
    @abstractmethod
    def seal(self) -> str | None:
        """`StoreInfo.seal` as it is now."""

    @property
    @abstractmethod
    def settings(self) -> str | None:
        """The settings of the store, as the engine gave them to `set_settings`. To the backend it is a text."""

    @abstractmethod
    def look(self, path: str) -> Look:
        """What stands at a canonical path other than the root; one round trip."""

    @abstractmethod
    def walk(self, under: str) -> Iterator[Memory]:
        """All memories strictly below a canonical path, in the byte order of their paths."""

    @abstractmethod
    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        """Path and size in bytes of all that `walk` would give, without the rest: what a listing needs."""

    @abstractmethod
    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        """All memories strictly below a canonical path with their bytes, in the byte order of their paths."""

    @abstractmethod
    def find(self, memory_id: str) -> Memory | None:
        """The present memory with this id, wherever it lies now."""

    @abstractmethod
    def versions(
        self,
        *,
        memory_id: str | None = None,
        path: str | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Version]:
        """Versions, newest first; of one memory across its renames, or of all that changed at one path.

        `after` and `before` are ids, or any text to compare ids with: only those strictly between are given.
        """

    @abstractmethod
    def heads(self, before: str) -> Iterator[Version]:
        """What the store was: of each memory the newest version with an id below `before`, in any order.

        Deletions are left out. A redacted version is given, with an empty path.
        """

    @abstractmethod
    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        """A version and the bytes it left behind, None for a deletion. Raises `NotFound`."""

    def text(self, version_id: str) -> bytes | None:
        """The bytes a version left behind. None for a deletion. Raises `NotFound`."""
        return self.version(version_id)[1]

    @abstractmethod
    def usage(self) -> Usage:
        """How much is in the store: kept with every change, never counted."""

    @abstractmethod
    def note(self, kind: str, key: str) -> str | None:
        """The note of a kind with this key."""

    @abstractmethod
    def notes(self, kind: str) -> Iterator[tuple[str, str]]:
        """Keys and values of all notes of a kind, in the order of their keys."""


class Transaction(Snapshot):
    """A snapshot that can be changed. Looking sees what was recorded before in the same transaction."""

    @abstractmethod
    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        """Write memories, versions and usage together, so that they cannot diverge; what each change became."""

    @abstractmethod
    def reseal(self, seal: str | None) -> None:
        """Replace `StoreInfo.seal`. The revision stays."""

    @abstractmethod
    def set_settings(self, settings: str | None) -> None:
        """Replace the settings, which have at most 64 KB. The revision stays."""

    @abstractmethod
    def put_note(self, kind: str, key: str, value: str | None) -> None:
        """Keep a small record with the store, in place of the one with this key; None removes it.

        Kind and key have 1 to 200 printable ASCII characters and tell nothing worth sealing; the value is any text
        without NUL. The revision stays. A commit of notes alone may be done twice, should its outcome have been lost:
        make their keys outside `work`.
        """

    @abstractmethod
    def blank(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        """Remove text, path, size and hash of versions; id, memory, operation, time and actor stay.

        Newest versions of present memories and versions blanked before are left as they are. Bytes that another
        version has by a rename stay until the last of them is blanked. Nothing else of them rests in the storage once
        `Backend.purge` has returned True.
        """

    @abstractmethod
    def prune(self, version_ids: Sequence[str]) -> None:
        """Remove versions. Those that present memories need, and texts that others need, stay."""

    def forget(self, memories: Sequence[Memory]) -> None:
        """Let present memories go without a version; those they have stay.

        For a history that is taken over (`Change.origin`) and has gaps: a memory whose end is no longer told must not
        stay present, nor stand in the way of the next at its path.
        """
        raise InvalidInput("this storage cannot take over a history with gaps")


class Backend(ABC):
    """An opened place with memory stores in it. Close it when done; a process that ends without is no harm."""

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
        """A new memory store. If the key or the id is taken, the store that has it, as it is.

        `store_id` and `created_at` are those of a store that comes from elsewhere.
        """

    @abstractmethod
    def get_store(self, id_or_key: str) -> StoreInfo | None:
        """The store with this id, else the one with this key."""

    @abstractmethod
    def list_stores(self, *, after: str | None = None, limit: int | None = None) -> list[StoreInfo]:
        """Stores in the order of their ids, which is that of their age: those after the id `after`, at most `limit`."""

    @abstractmethod
    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on one consistent state. Raises `NotFound` if the store is gone."""

    @abstractmethod
    def write(self, store_id: str, work: Callable[[Transaction], T], *, frees: bool = False) -> T:
        """Run `work`, alone in this store, and commit what it recorded; what it raises, nothing happened.

        `frees` marks work that deletes: it may use the space kept in reserve for a full disk.
        """

    def directory_of(self, store: StoreInfo) -> str | None:
        """The directory in which a store's memories lie as plain files, if they do."""
        return None

    def unlock(self, store: StoreInfo) -> None:
        """Make sure that a store can be read with the keys at hand. Raises `Locked` if it is sealed with another."""
        if store.seal is not None:
            raise Locked("the memory store is sealed, and was opened without keys")

    def collect(self, store_id: str, *, older_than_s: float) -> int:
        """Delete what crashed writers of a store left behind and nobody refers to; how many objects.

        Nobody has to stop for it. Where nothing can be left behind, there is nothing to do.
        """
        return 0

    @abstractmethod
    def jot(self, store_id: str, kind: str, values: Mapping[str, str | None]) -> None:
        """Keep small records beside the store: durable on return, without waiting for its writers. None removes one.

        As notes, but of kinds of their own, and not part of any transaction. Of two processes that write the same key
        at once, one wins.
        """

    @abstractmethod
    def jottings(self, store_id: str, kind: str, *, after: str = "") -> Iterator[tuple[str, str]]:
        """Keys and values of the records of a kind kept by `jot`, with keys beyond `after`, in the order of these."""

    @abstractmethod
    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        """Remove all that is in a store: memories, versions, notes, settings, key and name. Its id stays, as erased.

        Reading and writing it raise `NotFound` from now on, and it is not listed; the key can be given anew. Erasing
        it again does nothing.
        """

    def purge(self) -> bool:
        """Leave nothing of what was overwritten or deleted in logs and free pages.

        False if something still rests there, since a reader is in the way: call it again later.
        """
        return True

    def damaged(self) -> int:
        """How many files of sealed memory stores were found altered, and are kept aside."""
        return 0

    def examine(self) -> Iterator[Finding]:
        """What is not as it should be, beyond what can be seen through the rest of the contract. Changes nothing."""
        return iter(())

    def mend(self) -> None:  # noqa: B027 - there may be nothing that can be repaired
        """Repair what of that can be repaired for certain; what cannot be is left as it is.

        Counts of memories and bytes that are not their sums are made so.
        """

    @abstractmethod
    def close(self) -> None:
        """Give back files and connections. Later calls raise `Unavailable`. Calling it twice is no error."""
