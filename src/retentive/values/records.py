"""What backends and engine hand each other: memories, versions, changes, actors, ids and times. Values only."""

from __future__ import annotations

import hashlib
import os
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

from retentive.errors import InvalidInput

ActorKind: TypeAlias = Literal["session", "api_key", "user", "service_account", "job"]
Operation: TypeAlias = Literal["created", "modified", "deleted"]
NewId: TypeAlias = Callable[[str, int], str]
"""Makes an id from its prefix and the time in microseconds. Later ids of one store must sort after earlier ones."""
Clock: TypeAlias = Callable[[], float]
"""Seconds since 1970, as `time.time`."""

ACTOR_KINDS: tuple[ActorKind, ...] = ("session", "api_key", "user", "service_account", "job")
MAX_NAME_CHARS = 255
PROPOSED_TEXT = "proposal.after"
"""Kind of the records that hold the texts of proposed changes."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who made a change: a session, an API key, a user, a service account, or a job of retentive's own."""

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
    """A memory store, as the backend knows it. `seal` is what a layer that encrypts wants kept with it.

    `erased_at` is set for one of which only the id is left.
    """

    id: str
    key: str | None
    name: str
    created_at: datetime
    memories: int
    size_bytes: int
    seal: str | None = None
    erased_at: datetime | None = None


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

    @classmethod
    def of(cls, version: Version, created_at: datetime) -> Memory:
        """The memory whose newest version is `version`, which must not be a deletion."""
        size_bytes, sha256, updated_at = version.size_bytes or 0, version.sha256 or "", version.created_at
        return cls(
            version.memory_id, version.path, size_bytes, sha256, version.id, created_at, updated_at, version.seal
        )


@dataclass(frozen=True, slots=True)
class Version:
    """One change to one memory. `size_bytes` and `sha256` are None for a deletion.

    Of a redacted version also the path is gone: it is empty. `seal` is what a layer that encrypts wants kept with the
    version, and is nothing to the backend.
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
    redacted_at: datetime | None = None
    redacted_by: Actor | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a memory store holds at present."""

    memories: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Entry:
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


class Recorded(NamedTuple):
    """What a change became."""

    memory_id: str
    version_id: str


@dataclass(frozen=True, slots=True)
class Again:
    """The memory that a change makes again."""

    id: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Change:
    """A change to record: `before` becomes a memory at `path` with the bytes `data`.

    `before` None = created; `path` None = deleted; neither `data` nor a size in `sealing` = the bytes stay and the path
    changes (a rename); with bytes and another path, both change in one version. The changes of one `record` apply in
    their order. A backend keeps what `kept` says.

    `again` says which memory it is that is made, when it is one that was deleted: it has its id and age back. A version
    that comes from elsewhere is its own `origin`: id, memory, operation, time, revision and actor are kept. If it is
    redacted, or deletes a memory that is not there (its other versions were removed), nothing but the version is
    recorded. Those of a store must come in the order of their ids, after all that
    are there.
    """

    before: Memory | None
    path: str | None
    data: bytes | None = None
    sealing: Sealing | None = None
    again: Again | None = None
    origin: Version | None = None

    @property
    def operation(self) -> Operation:
        """How the version calls it."""
        if self.origin is not None:
            return self.origin.operation
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


def sortable_id(prefix: str, time_us: int) -> str:
    """A new id that sorts by its time: `mem_` and 32 hexadecimal digits, 72 bits of them random."""
    return f"{prefix}{time_us:014x}{os.urandom(9).hex()}"


def to_datetime(time_us: int) -> datetime:
    """The UTC time for microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=time_us)


def to_us(at: datetime) -> int:
    """Microseconds since 1970 for a time, exactly."""
    return (at - _EPOCH) // timedelta(microseconds=1)


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
