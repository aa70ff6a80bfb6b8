"""Exceptions of retentive.

Each class has a stable `code`, which is part of the API, and a flag `retryable`, which is true if the same call may
succeed later. Messages contain memory paths and store keys, but never local file names, connection strings, encryption
keys or stored text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Conflicting:
    """Memory that is in the way of a change: at the path, above it, or the first below it."""

    memory_id: str
    path: str


class RetentiveError(Exception):
    """Base class of all errors of retentive. Picklable.

    `conflicting` is set if a path is not free. `position` is the index of the refused command of a batch.
    """

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    conflicting: Conflicting | None = None
    position: int | None = None


class InvalidInput(RetentiveError):
    """Invalid argument, such as a URL, a store key or a limit."""

    code = "invalid_input"


class InvalidPath(InvalidInput):
    """Invalid memory path."""

    code = "invalid_path"


class ReadOnly(InvalidInput):
    """The memory is read-only, or this actor may not change it."""

    code = "read_only"


class Archived(InvalidInput):
    """The memory store is archived: it can be read, and memories in it can be deleted."""

    code = "archived"


class CursorExpired(InvalidInput):
    """Versions that a listing needs were redacted, pruned or erased since its first page. List again from the start."""

    code = "cursor_expired"


class TooLarge(InvalidInput):
    """The change would exceed a limit of the memory store."""

    code = "too_large"


class SensitiveValue(InvalidInput):
    """The settings reject texts and paths with sensitive values. The error message names the kinds of values found."""

    code = "sensitive"


class AlreadyExists(InvalidInput):
    """A memory or directory exists at the path, or at the destination of a rename."""

    code = "already_exists"


class NotADirectory(InvalidInput):
    """A parent of the path is a memory, not a directory."""

    code = "not_a_directory"


class NoMatch(InvalidInput):
    """The memory does not contain the text to replace."""

    code = "no_match"


class ManyMatches(InvalidInput):
    """The memory contains the text to replace more than once."""

    code = "many_matches"


class OutOfRange(InvalidInput):
    """The memory does not have these lines."""

    code = "out_of_range"


class RootProtected(InvalidInput):
    """The root and directories with mount points cannot be deleted or renamed."""

    code = "root_protected"


class AcrossMounts(InvalidInput):
    """The two paths of a rename are in different mounted memory stores."""

    code = "across_mounts"


class IntoItself(InvalidInput):
    """A directory cannot be moved into itself."""

    code = "into_itself"


class PathTaken(InvalidInput):
    """A file that is not a memory, such as a link, is at the path in the directory of the memories."""

    code = "path_taken"


class NotFound(RetentiveError):
    """No memory, version or memory store has this path or id."""

    code = "not_found"


class Conflict(RetentiveError):
    """The memory has changed since it was read. Nothing was written."""

    code = "conflict"
    retryable = True


class PermissionDenied(RetentiveError):
    """The operating system or the server denied access to the storage."""

    code = "permission_denied"


class StoreFull(RetentiveError):
    """The storage has no free space. Nothing was written. Memories can still be deleted."""

    code = "store_full"


class Unavailable(RetentiveError):
    """The storage is unreachable, was locked for too long, or failed. Nothing was written."""

    code = "unavailable"
    retryable = True


class Closed(Unavailable):
    """The application closed the location. To use its memory stores, open the location again."""

    code = "closed"
    retryable = False


class OutcomeUnknown(RetentiveError):
    """The storage failed during the commit, so it is unknown if the change is stored.

    Read the memory before retrying.
    """

    code = "outcome_unknown"


class Damaged(RetentiveError):
    """Stored data is corrupt. If `is_outdated` is true, the state may only be too old, and must be read again."""

    code = "damaged"
    is_outdated = False


class Locked(RetentiveError):
    """The memory store is encrypted, and its encryption key is missing, wrong or destroyed."""

    code = "locked"


class UnknownSchema(RetentiveError):
    """The storage has an unknown format: a newer version of retentive or another application created it."""

    code = "unknown_schema"


@dataclass(frozen=True, slots=True)
class Phrase:
    """Name of a template in the reply catalogue, with the values to fill it with."""

    key: str
    values: Mapping[str, object]


class Refused(RetentiveError):
    """The engine refused a command. The model gets this exception as an error reply.

    `key` is the name of a template in `Replies`, and `values` fill it. The engine adds `path`, `old_path` and
    `new_path` as the caller wrote them.
    """

    code = "refused"

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.key = key
        self.values = values

    def __reduce__(self) -> tuple[object, ...]:
        return partial(Refused, self.key, **self.values), (), {"conflicting": self.conflicting}


def error_of(text: str, code: str | None) -> RetentiveError:
    """The error for the text and code of an error reply."""
    return _by_code(RetentiveError).get(code or "", RetentiveError)(text.removeprefix("Error: "))


def _by_code(base: type[RetentiveError]) -> dict[str, type[RetentiveError]]:
    """The public error classes by code."""
    found = {base.code: base}
    for each in base.__subclasses__():
        if each.__module__ == __name__ and each is not Refused:
            found |= _by_code(each)
    return found
