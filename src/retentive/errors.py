"""Exceptions of retentive.

Each class has a `code`, which is part of the API and does not change. `retryable` is true if the same call may succeed
later. Messages may contain memory paths and store keys. They never contain local file names, connection strings,
encryption keys or stored text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True, slots=True)
class Conflicting:
    """Memory that prevents a change, because it is at, above or below the path of the change.

    If several memories are below the path, this is the first of them.
    """

    memory_id: str
    path: str


class RetentiveError(Exception):
    """Base class of all errors of retentive. Errors can be pickled.

    If another memory prevents the change, `conflicting` names this memory. If a command of a batch was refused,
    `position` is the index of the command in the batch.
    """

    code: str = "error"
    retryable: bool = False
    conflicting: Conflicting | None = None
    position: int | None = None


class InvalidInput(RetentiveError):
    """Invalid argument, such as a URL, a store key or a limit."""

    code = "invalid_input"


class InvalidPath(InvalidInput):
    """Invalid memory path."""

    code = "invalid_path"


class ReadOnly(InvalidInput):
    """The memory is read-only, or this actor has no permission to change it."""

    code = "read_only"


class Archived(InvalidInput):
    """The memory store is archived. Its memories can be read and deleted, but not created or edited."""

    code = "archived"


class CursorExpired(InvalidInput):
    """The next page of a listing cannot be returned, because versions were redacted, pruned or erased meanwhile.

    Start the listing again from its first page.
    """

    code = "cursor_expired"


class TooLarge(InvalidInput):
    """The change would exceed a limit of the memory store."""

    code = "too_large"


class SensitiveValue(InvalidInput):
    """The text or path contains a sensitive value, such as a password, and the settings reject such values.

    The error message names the kinds of sensitive values that were found.
    """

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
    """The line number or range of lines is outside of the memory."""

    code = "out_of_range"


class RootProtected(InvalidInput):
    """The path is the root, a mount point or a directory above a mount point. It cannot be deleted or renamed."""

    code = "root_protected"


class AcrossMounts(InvalidInput):
    """The two paths of a rename are in different mounted memory stores."""

    code = "across_mounts"


class IntoItself(InvalidInput):
    """A directory cannot be moved into itself."""

    code = "into_itself"


class PathTaken(InvalidInput):
    """In a directory of plain files, the path is used by a file that cannot be a memory, such as a symbolic link."""

    code = "path_taken"


class NotFound(RetentiveError):
    """No memory, version or memory store has this path or id."""

    code = "not_found"


class Conflict(RetentiveError):
    """Another writer changed the memory after it was read. Nothing was written."""

    code = "conflict"
    retryable = True


class PermissionDenied(RetentiveError):
    """The operating system, the database server or the object store denied access."""

    code = "permission_denied"


class StorageReadOnly(RetentiveError):
    """The storage cannot be written: it is on a read-only file system, or in files that this process may only read."""

    code = "storage_read_only"


class StoreFull(RetentiveError):
    """The storage has no free space. Nothing was written. Memories can still be deleted."""

    code = "store_full"


class Unavailable(RetentiveError):
    """The storage failed, cannot be reached, or was locked by another process for too long. Nothing was written."""

    code = "unavailable"
    retryable = True


class Closed(Unavailable):
    """The application closed the location. To use its memory stores, open the location again."""

    code = "closed"
    retryable = False


class OutcomeUnknown(RetentiveError):
    """The storage failed during the commit, so the change may or may not be stored.

    Before you try again, read the memory to find out whether the change is stored.
    """

    code = "outcome_unknown"


class Damaged(RetentiveError):
    """Stored data is corrupt.

    If `is_outdated` is true, the data may be intact: perhaps a reader used an old state whose data was deleted
    meanwhile. The reader must then read the current state.
    """

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
    """Key of a sentence template in `Replies`, and the values for its placeholders."""

    key: str
    values: Mapping[str, object]


class Refused(RetentiveError):
    """The engine refused a command. This error names the sentence that is the reply to the model.

    `key` is the key of a sentence template in `Replies`, and `values` are the values for its placeholders. For the
    placeholders `path`, `old_path` and `new_path`, the engine uses the paths as the caller wrote them.
    """

    code = "refused"

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.key = key
        self.values = values

    def __reduce__(self) -> tuple[object, ...]:
        return partial(Refused, self.key, **self.values), (), {"conflicting": self.conflicting}


def error_of(text: str, code: str | None) -> RetentiveError:
    """Return an exception of the class that has this `code`. Its text is `text`."""
    return _by_code(RetentiveError).get(code or "", RetentiveError)(text.removeprefix("Error: "))


def _by_code(base: type[RetentiveError]) -> dict[str, type[RetentiveError]]:
    found = {base.code: base}
    for each in base.__subclasses__():
        if each.__module__ == __name__ and each is not Refused:
            found |= _by_code(each)
    return found
