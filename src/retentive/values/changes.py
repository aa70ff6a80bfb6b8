"""Changes: what an operation decides, for a backend to record. Each of the five makes one version of one memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import ClassVar, TypeAlias

from retentive.values.records import Memory, Operation, Version


@dataclass(frozen=True, slots=True)
class Kept:
    """Form in which a backend stores a change. Without `data`, the change is a deletion, or the text stays as it was.

    `size_bytes` is the length of the plain text.
    """

    data: bytes | None = field(repr=False)
    size_bytes: int | None
    sha256: str | None
    seal: bytes | None
    provenance: str | None = None


Sealing: TypeAlias = Callable[[str, str], Kept]
"""Function of the encryption layer that returns the encrypted form of a change for the ids of its memory and version.

Decryption needs the same ids. A change with a sealing has no text of its own.
"""


@dataclass(frozen=True, slots=True)
class Again:
    """Id and creation time of a deleted memory that a change restores."""

    id: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Created:
    """Create a memory at `path`. If `again` is set, it is a deleted memory, which gets its old id back."""

    path: str
    data: bytes = field(repr=False)
    provenance_text: str | None = None
    again: Again | None = None
    sealing: Sealing | None = field(default=None, repr=False)
    before: ClassVar[None] = None
    operation: ClassVar[Operation] = "created"


@dataclass(frozen=True, slots=True)
class Updated:
    """Give the memory `before` the text `data`. If `path` is not its path, one version records text and path."""

    before: Memory
    path: str
    data: bytes = field(repr=False)
    provenance_text: str | None = None
    sealing: Sealing | None = field(default=None, repr=False)
    operation: ClassVar[Operation] = "modified"


@dataclass(frozen=True, slots=True)
class Moved:
    """Rename the memory `before` to `path`. Its text stays."""

    before: Memory
    path: str
    provenance_text: str | None = None
    sealing: Sealing | None = field(default=None, repr=False)
    data: ClassVar[None] = None
    operation: ClassVar[Operation] = "modified"


@dataclass(frozen=True, slots=True)
class Deleted:
    """Delete the memory `before`."""

    before: Memory
    provenance_text: str | None = None
    sealing: Sealing | None = field(default=None, repr=False)
    path: ClassVar[None] = None
    data: ClassVar[None] = None
    operation: ClassVar[Operation] = "deleted"


@dataclass(frozen=True, slots=True)
class Imported:
    """Record `version` from elsewhere, with its id, memory, operation, time, revision, actor and provenance.

    `before` is the memory before the version, if it exists. Without `data`, the version renames or deletes it. A
    redacted version takes it away, because it does not say whether it deleted the memory. A deletion without `before`
    is only recorded: the other versions of the memory were removed.

    Imported versions of a store must be recorded in the order of their ids, after all existing versions.
    """

    version: Version
    before: Memory | None
    data: bytes | None = field(default=None, repr=False)
    sealing: Sealing | None = field(default=None, repr=False)

    @property
    def path(self) -> str | None:
        """Path of the memory after the version; None if it is then absent."""
        is_absent = self.version.operation == "deleted" or self.version.redacted_at is not None
        return None if is_absent else self.version.path

    @property
    def operation(self) -> Operation:
        """Operation of the version."""
        return self.version.operation

    @property
    def provenance_text(self) -> str | None:
        """Provenance of the version; None if it is redacted."""
        return None if self.version.redacted_at is not None else self.version.provenance_text


Change: TypeAlias = Created | Updated | Moved | Deleted | Imported
"""Change of one memory. All have `before`, `path` (None if no memory is left), `data` and `provenance_text`."""


def create_or_update(
    before: Memory | None, path: str, data: bytes, provenance_text: str | None = None, again: Again | None = None
) -> Created | Updated:
    """Return the change that writes a text to the memory `before`. Without one, a memory is created."""
    if before is None:
        return Created(path, data, provenance_text, again)
    return Updated(before, path, data, provenance_text)


def kept(change: Change, memory_id: str, version_id: str) -> Kept:
    """Return the form in which to store a change. If it is encrypted, decryption needs these ids."""
    if change.sealing is not None:
        return change.sealing(memory_id, version_id)
    data = change.data
    if data is None:
        return Kept(None, None, None, None, change.provenance_text)
    return Kept(data, len(data), sha256(data).hexdigest(), None, change.provenance_text)
