"""The contract of a backend: where memories rest. Storage without rules.

A backend keeps memory stores, their memories and every version, and knows nothing of commands, limits or replies.
What it promises (held by `commonplace.testing.backend_suite`):

* `write` is exclusive per memory store, all or nothing, and durable when it returns: it survives `kill -9` and power
  loss. A write that raised left nothing behind, now or after any recovery, unless it raised `OutcomeUnknown`.
* `read` sees one consistent state, at least as new as the last write that returned anywhere.
* `work` is a function handed over, not a `with` block: it may run more than once, and several may share one commit.
  It must do nothing but look and record.
* All methods may be called from any thread, and after a fork.
* Errors are those of `commonplace.errors`; a driver's own never get out.
"""

from __future__ import annotations

import hashlib
import os
import time
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias, TypeVar

from commonplace.errors import InvalidInput, Locked

T = TypeVar("T")

ActorKind: TypeAlias = Literal["session", "api_key", "user", "service_account", "job"]
Operation: TypeAlias = Literal["created", "modified", "deleted"]
NewId: TypeAlias = Callable[[str, int], str]
"""Makes an id from its prefix and the time in microseconds. Later ids of one store must sort after earlier ones."""
Clock: TypeAlias = Callable[[], float]
"""Seconds since 1970, as `time.time`."""

ACTOR_KINDS: tuple[ActorKind, ...] = ("session", "api_key", "user", "service_account", "job")
MAX_NAME_CHARS = 255
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who made a change: a session, an API key, a user, a service account, or a job of commonplace's own."""

    kind: ActorKind
    id: str

    @classmethod
    def parse(cls, text: str) -> Actor:
        """`kind:id`, as in `user:ann`; text without a known kind is a session's id."""
        kind, colon, name = text.partition(":")
        for known in ACTOR_KINDS:
            if colon and kind == known:
                return cls(known, plain_name("actor", name))
        return cls("session", plain_name("actor", text))

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


def as_actor(actor: Actor | str | None) -> Actor | None:
    """The actor meant by a text such as `user:ann`. Raises `InvalidInput`."""
    return Actor.parse(actor) if isinstance(actor, str) else actor


EXTERNAL = Actor("job", "external")
"""Who edited a file of the directory backend by hand."""


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """A memory store, as the backend knows it. `seal` is what a layer that encrypts wants kept with it."""

    id: str
    key: str | None
    name: str
    created_at: datetime
    memories: int
    size_bytes: int
    seal: str | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """The present state of one memory, without its text. `id` survives renames; `seal` is that of its version."""

    id: str
    path: str
    size_bytes: int
    sha256: str
    version_id: str
    created_at: datetime
    updated_at: datetime
    seal: bytes | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """One change to one memory. `size_bytes` and `sha256` are None for a deletion.

    `seal` is what a layer that encrypts wants kept with the version, and is nothing to the backend.
    """

    id: str
    memory_id: str
    operation: Operation
    path: str
    size_bytes: int | None
    sha256: str | None
    actor: Actor | None
    created_at: datetime
    revision: int
    seal: bytes | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a memory store holds at present."""

    memories: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Look:
    """What stands at a path: a memory with its bytes, or else a memory above it, memories below it, or nothing."""

    memory: Memory | None = None
    data: bytes | None = None
    above: str | None = None
    below: bool = False

    @property
    def exists(self) -> bool:
        """Whether the path names a memory or a directory."""
        return self.memory is not None or self.below


@dataclass(frozen=True, slots=True)
class Kept:
    """What comes to rest of a change. `data` None: the bytes stay as they are, or there are none."""

    data: bytes | None
    sha256: str | None
    seal: bytes | None


@dataclass(frozen=True, slots=True)
class Sealing:
    """What a layer that encrypts gives in place of `Change.data`.

    `keep` makes it from the ids of the memory and the version, to which it is bound. `size_bytes` is the length of the
    plain text, None where no bytes change.
    """

    size_bytes: int | None
    keep: Callable[[str, str], Kept]


@dataclass(frozen=True, slots=True)
class Change:
    """A change to record: `before` becomes a memory at `path` with the bytes `data`.

    `before` None = created; `path` None = deleted; neither `data` nor a size in `sealing` = the bytes stay and the path
    changes (a rename). With bytes, the path of an existing memory stays. A backend keeps what `kept` says.
    """

    before: Memory | None
    path: str | None
    data: bytes | None = None
    sealing: Sealing | None = None

    @property
    def operation(self) -> Operation:
        """How the version calls it."""
        if self.path is None:
            return "deleted"
        return "created" if self.before is None else "modified"

    @property
    def size_bytes(self) -> int | None:
        """The length of the new text, None where the bytes stay or go."""
        if self.sealing is not None:
            return self.sealing.size_bytes
        return None if self.data is None else len(self.data)

    def kept(self, memory_id: str, version_id: str) -> Kept:
        """What is to rest under these ids."""
        if self.sealing is not None:
            return self.sealing.keep(memory_id, version_id)
        return Kept(self.data, None if self.data is None else hashlib.sha256(self.data).hexdigest(), None)


class Snapshot(ABC):
    """One consistent state of one memory store, good only inside the `work` it was handed to."""

    @property
    @abstractmethod
    def revision(self) -> int:
        """How many writes this store has seen: grows by one with every commit that changed something."""

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
    def find(self, memory_id: str) -> Memory | None:
        """The present memory with this id, wherever it lies now."""

    @abstractmethod
    def versions(
        self, *, memory_id: str | None = None, path: str | None = None, limit: int | None = None
    ) -> Iterator[Version]:
        """Versions, newest first; of one memory across its renames, or of all that changed at one path."""

    @abstractmethod
    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        """A version and the bytes it left behind, None for a deletion. Raises `NotFound`."""

    def text(self, version_id: str) -> bytes | None:
        """The bytes a version left behind. None for a deletion. Raises `NotFound`."""
        return self.version(version_id)[1]

    @abstractmethod
    def usage(self) -> Usage:
        """How much is in the store: kept with every change, never counted."""


class Transaction(Snapshot):
    """A snapshot that can be changed. Looking sees what was recorded before in the same transaction."""

    @abstractmethod
    def record(self, changes: Sequence[Change], actor: Actor | None) -> None:
        """Write memories, versions and usage together, so that they cannot diverge."""

    @abstractmethod
    def reseal(self, seal: str | None) -> None:
        """Replace `StoreInfo.seal`. The revision stays."""

    @abstractmethod
    def set_settings(self, settings: str | None) -> None:
        """Replace the settings, which have at most 64 KB. The revision stays."""


class Backend(ABC):
    """An opened place with memory stores in it. Close it when done; a process that ends without is no harm."""

    @abstractmethod
    def create_store(self, *, key: str | None, name: str, seal: str | None = None) -> StoreInfo:
        """A new memory store. If the key is taken, the store that has it, as it is."""

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

    def purge(self) -> None:  # noqa: B027 - most keep nothing of the kind
        """Leave nothing of what was overwritten or deleted in logs and free pages. Does nothing where none is kept."""

    def damaged(self) -> int:
        """How many files of sealed memory stores were found altered, and are kept aside."""
        return 0

    @abstractmethod
    def close(self) -> None:
        """Give back files and connections. Later calls raise `Unavailable`. Calling it twice is no error."""


def sortable_id(prefix: str, time_us: int) -> str:
    """A new id that sorts by its time: `mem_` and 32 hexadecimal digits, 72 bits of them random."""
    return f"{prefix}{time_us:014x}{os.urandom(9).hex()}"


def to_datetime(time_us: int) -> datetime:
    """The UTC time for microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=time_us)


def now_us(clock: Clock = time.time) -> int:
    """Microseconds since 1970."""
    return int(clock() * 1_000_000)


def plain_name(what: str, text: str) -> str:
    """`text` if it can name something: 1 to 255 characters, none of them a control. Raises `InvalidInput`."""
    if not 1 <= len(text) <= MAX_NAME_CHARS:
        raise InvalidInput(f"{what} must have 1 to {MAX_NAME_CHARS} characters, not {len(text)}")
    if any(unicodedata.category(char) in {"Cc", "Cs"} for char in text):
        raise InvalidInput(f"{what} may not contain control characters or lone surrogates")
    return text
