"""Values shared by the engine and the backends: memories, versions, changes, actors, ids and times."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from retentive.errors import Damaged, InvalidInput
from retentive.values.provenance import Origin, Provenance, parse_provenance
from retentive.values.text import plain_name

ActorKind: TypeAlias = Literal["session", "api_key", "user", "service_account", "job"]
Operation: TypeAlias = Literal["created", "modified", "deleted"]
NewId: TypeAlias = Callable[[str, int], str]
"""Function that takes a prefix and a time in microseconds and returns a new id. Ids of a store must sort by time."""
Clock: TypeAlias = Callable[[], float]
"""Function that returns seconds since 1970, such as `time.time`."""

DEFAULT_WORKSPACE = "wrkspc_default"
"""Workspace of a memory store that was created without one. A store key is unique within its workspace."""
SYSTEM_STORE = "memstore_system"
"""Id of the hidden memory store that contains the records of a location (`store/location_records.py`)."""
ACTOR_KINDS: tuple[ActorKind, ...] = get_args(ActorKind)
PROPOSED_TEXT = "proposal.after"
"""Record kind for the texts of proposed changes, which wait for review."""
_SORTABLE = re.compile(r"[a-z]+_([0-9a-f]{14})[0-9a-f]{18}")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HIGHEST_COUNTER = 1 << 53
"""Upper bound of stored revisions and times. A value that is not below it is damaged. As a time, it is in 2255."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Author of a change: a session, an API key, a user, a service account, or one of retentive's own jobs.

    Raises `InvalidInput` for an unknown kind and for an invalid id.
    """

    kind: ActorKind
    id: str

    def __post_init__(self) -> None:
        if self.kind not in ACTOR_KINDS:
            raise _not_an_actor(f"the actor {str(self)[:80]!r} has an unknown kind")
        plain_name("an actor name", self.id)

    @classmethod
    @lru_cache(maxsize=1_024)  # a history has few actors, and many versions
    def parse(cls, text: str) -> Actor:
        """Parse `kind:id`, such as `user:ann`. Raises `InvalidInput` if the kind is missing or unknown."""
        kind, colon, name = text.partition(":")
        if not colon:
            raise _not_an_actor(f"the actor {text[:80]!r} has no kind")
        return cls(cast("ActorKind", kind), name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


def as_actor(actor: Actor | str | None) -> Actor | None:
    """Convert a string such as `user:ann` to an actor. Raises `InvalidInput` for an invalid string."""
    if isinstance(actor, str):
        return Actor.parse(actor)
    if actor is not None and not isinstance(actor, Actor):
        raise _not_an_actor(f"an actor must be an Actor or a string, not {type(actor).__name__}")
    return actor


def name_of(actor: Actor | None) -> str | None:
    """Return the stored form of an actor, of which `as_actor` is the inverse."""
    return None if actor is None else str(actor)


class By(Origin, total=False):
    """Actor and origin of a change, as keyword arguments."""

    actor: Actor | str | None


def _not_an_actor(problem: str) -> InvalidInput:
    return InvalidInput(f"{problem}; write KIND:NAME, such as user:ann, with one of the kinds {', '.join(ACTOR_KINDS)}")


EXTERNAL = Actor("job", "external")
"""Actor of external edits to files of the directory backend."""

RECOVERY = Actor("job", "recovery")
"""Actor that restores recorded texts after a power cut took the files of the directory backend."""

OF_FILES = frozenset({EXTERNAL, RECOVERY})
"""Actors of changes that come from the files and from no operation."""


@dataclass(frozen=True, slots=True, repr=False)
class Memory:
    """Current state of a memory, without its text. `id` survives renames.

    `seal` (data of the encryption layer) and `provenance_text` are those of the newest version.
    """

    id: str
    path: str
    size_bytes: int
    sha256: str
    version_id: str
    created_at: datetime
    updated_at: datetime
    seal: bytes | None = None
    provenance_text: str | None = None

    def __repr__(self) -> str:
        return f"<Memory {self.path!r}, {self.size_bytes} bytes, {self.version_id}>"

    @classmethod
    def of(cls, version: Version, created_at: datetime) -> Memory:
        """Build the memory whose newest version is `version`. The version must not be a deletion."""
        size_bytes, sha256 = version.size_bytes or 0, version.sha256 or ""
        times = created_at, version.created_at
        kept = version.seal, version.provenance_text
        return cls(version.memory_id, version.path, size_bytes, sha256, version.id, *times, *kept)

    @property
    def provenance(self) -> Provenance:
        """Provenance of the newest version; empty if none was recorded."""
        return parse_provenance(self.provenance_text)


@dataclass(frozen=True, slots=True, repr=False)
class Version:
    """Record of one change to one memory. `size_bytes` and `sha256` are None for a deletion.

    The path of a redacted version is empty. `seal` contains data of the encryption layer. `provenance_text` contains
    data of the engine. The backend interprets neither.
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
    provenance_text: str | None = None

    def __repr__(self) -> str:
        path = repr(self.path) if self.redacted_at is None else "redacted"
        return f"<Version {self.id} {self.operation} {path} by {self.actor or 'nobody'}>"

    @property
    def provenance(self) -> Provenance:
        """Origin of the change, contributors and flags; empty if none was recorded."""
        return parse_provenance(self.provenance_text)


@dataclass(frozen=True, slots=True)
class Written:
    """Result of a method that changes memories.

    `version_id` is the newest version of the memory, even if the memory already had the text. Pass it to `undo`, or as
    `if_version` to the next change. If a directory was changed, `version_id` is one of the versions of the change.
    `memories` is the number of changed memories. If `is_proposed` is True, the change waits for review by a person.
    `notes` are remarks, such as the kinds of sensitive values that were removed. `memory_id` is empty if several
    memories or no memory changed. `memory` is set only by changes that name the memory by its id.
    """

    path: str
    version_id: str
    memories: int = 1
    is_proposed: bool = False
    notes: tuple[str, ...] = ()
    memory_id: str = ""
    memory: Memory | None = None


class Usage(NamedTuple):
    """Number and total size of the memories in a store."""

    memories: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Result of looking up a path.

    If there is a memory at the path, `memory` and its text `data` are set. If the path leads through a memory, as if
    the memory were a directory, `above` is the path of that memory. `below` is True if there are memories below the
    path.
    """

    memory: Memory | None = None
    data: bytes | None = field(default=None, repr=False)
    above: str | None = None
    below: bool = False

    @property
    def exists(self) -> bool:
        """Return whether there is a memory or a directory at the path."""
        return self.memory is not None or self.below


class Recorded(NamedTuple):
    """Ids of a recorded change."""

    memory_id: str
    version_id: str


def sortable_id(prefix: str, time_us: int) -> str:
    """Return a new id that sorts by time: a prefix such as `mem_`, then 32 hexadecimal digits.

    14 digits encode the time, and 18 digits (72 bits) are random.
    """
    return f"{prefix}{time_us:014x}{os.urandom(9).hex()}"


def time_in_id(text: str) -> int | None:
    """Return the time (in microseconds) of an id from `sortable_id`. Return None for any other id."""
    found = _SORTABLE.fullmatch(text)
    return None if found is None else int(found[1], 16)


def to_datetime(time_us: int) -> datetime:
    """Convert microseconds since 1970 to a UTC time. Raises `Damaged` if the value is not a valid time."""
    try:
        return EPOCH + timedelta(microseconds=time_us)
    except (OverflowError, TypeError, ValueError):
        raise Damaged("a stored time is out of range") from None


def to_us(at: datetime) -> int:
    """Convert a time to microseconds since 1970, without rounding errors."""
    return (at - EPOCH) // timedelta(microseconds=1)


def now_us(clock: Clock = time.time) -> int:
    """Return the current time in microseconds since 1970."""
    return int(clock() * 1_000_000)


@dataclass(frozen=True, slots=True)
class RequestKey:
    """Digests of the idempotency key and of the content of a request. They show whether a request is repeated."""

    key: str
    digest: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """Context of one call: the actor, the tool_use id, the integration, and the origin that the application named.

    If `actor` is None, the recorded actor is the one with which the store was opened. `request` identifies the client's
    request that made the call. If the client repeats the request, the operation does not run again. `run` names the run
    of the application in which the `tool_use_id` is unique.
    """

    actor: Actor | None = None
    tool_use_id: str | None = None
    integration: str = "python"
    source: str | None = None
    session: str | None = None
    request: RequestKey | None = None
    run: str | None = None
