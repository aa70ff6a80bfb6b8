"""Every error a caller of retentive can meet.

Each class has a stable `code`, part of the API, and says whether the same call may simply be tried again
(`retryable`). Messages name memory paths and store keys only: never a file of this machine, a connection
string, a key or somebody's text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


class RetentiveError(Exception):
    """The base of all errors raised here on purpose. Picklable."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False


class InvalidInput(RetentiveError):
    """An argument of the application is not what it must be: a URL, a store key, a limit."""

    code = "invalid_input"


class InvalidPath(InvalidInput):
    """A path an application gave cannot be a memory's."""

    code = "invalid_path"


class ReadOnly(InvalidInput):
    """A memory is not to be changed: it is read-only, or not this actor's to write."""

    code = "read_only"


class TooLarge(InvalidInput):
    """A change would be over a limit of the memory store."""

    code = "too_large"


class SensitiveValue(InvalidInput):
    """A text or path holds sensitive values, and they are to be rejected. The message names their kinds."""

    code = "sensitive"


class NotFound(RetentiveError):
    """What was asked for by path or id is not there."""

    code = "not_found"


class Conflict(RetentiveError):
    """Somebody else changed the memory since it was read. Nothing was written."""

    code = "conflict"
    retryable = True


class PermissionDenied(RetentiveError):
    """The operating system or the server does not let this process read or write there."""

    code = "permission_denied"


class StoreFull(RetentiveError):
    """No space is left where the memory store rests. Nothing was written; deleting still works."""

    code = "store_full"


class Unavailable(RetentiveError):
    """The storage cannot be reached, is locked for too long or failed. Nothing was written."""

    code = "unavailable"
    retryable = True


class OutcomeUnknown(RetentiveError):
    """The storage failed at the moment of commit: the change may or may not be there. Look before trying again."""

    code = "outcome_unknown"


class Damaged(RetentiveError):
    """What rests in the storage cannot be read as what it should be."""

    code = "damaged"


class Locked(RetentiveError):
    """The memory store is sealed and its key is not here, or is another, or was destroyed."""

    code = "locked"


class UnknownSchema(RetentiveError):
    """The storage has an unknown format: that of a newer version of retentive, or of another application."""

    code = "unknown_schema"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A sentence not yet put into words: the name of a template in the reply catalogue, and its values."""

    key: str
    values: Mapping[str, object]


class Refused(RetentiveError):
    """A command that cannot be done as it was asked; becomes an error reply in one place, the engine.

    `key` names the sentence in the reply catalogue (`replies.Replies`), `values` fill it. Values the engine
    knows itself (`path`, `old_path`, `new_path` as written) need not be given.
    """

    code = "refused"

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.key = key
        self.values = values

    def __reduce__(self) -> tuple[object, ...]:
        return (_refused, (self.key, self.values))


def _refused(key: str, values: dict[str, object]) -> Refused:
    return Refused(key, **values)
