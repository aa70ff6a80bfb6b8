"""Table of the exit statuses. It is part of the API, because scripts depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

BROKEN_PIPE = 141  # 128 + SIGPIPE, the status that a shell reports for `ls | head`
PROBLEMS = 17
TERMINATED = 143  # 128 + SIGTERM
INTERRUPTED = 130  # 128 + SIGINT, the status that a shell reports for Ctrl-C
FAILED = 1


class Exit(NamedTuple):  # faster to create than a dataclass, at the start of every command
    """An exit status, its meaning, and the codes of the errors that have this status."""

    status: int
    meaning: str
    codes: tuple[str, ...] = ()


EXITS: tuple[Exit, ...] = (
    Exit(0, "Done."),
    Exit(FAILED, "Any other failure.", ("error", "refused", "closed")),
    Exit(
        2,
        "Invalid option, argument, path or range.",
        ("invalid_input", "invalid_path", "out_of_range", "cursor_expired"),
    ),
    Exit(3, "The memory, directory, memory store or location does not exist.", ("not_found",)),
    Exit(
        4,
        "Something else exists at the path, or a parent of the path is not a directory.",
        ("already_exists", "not_a_directory", "path_taken"),
    ),
    Exit(5, "The text to replace was not found, or was found more than once.", ("no_match", "many_matches")),
    Exit(6, "Conflict: the memory was changed in the meantime; nothing was saved.", ("conflict",)),
    Exit(
        7,
        "Not possible: to change `/memories` itself, move a directory into itself, or rename across mounted stores.",
        ("root_protected", "into_itself", "across_mounts"),
    ),
    Exit(8, "A size limit would be exceeded.", ("too_large",)),
    Exit(
        9,
        "The operating system or a server denied access, or the memory or storage is read-only, or the store is "
        "archived.",
        ("permission_denied", "storage_read_only", "read_only", "archived"),
    ),
    Exit(10, "No space left on the storage.", ("store_full",)),
    Exit(11, "The storage is unavailable or busy; nothing was written. Try again.", ("unavailable",)),
    Exit(
        12,
        "The storage failed during the commit, so the change may or may not be stored. Check before you try again.",
        ("outcome_unknown",),
    ),
    Exit(13, "Stored data is damaged.", ("damaged",)),
    Exit(14, "The storage was written by a newer version of retentive.", ("unknown_schema",)),
    Exit(15, "The memory store is encrypted, and its key is missing or was destroyed.", ("locked",)),
    Exit(16, "The text or path contains sensitive values, which the settings reject.", ("sensitive",)),
    Exit(PROBLEMS, "`retentive doctor` found problems and did not repair all of them."),
    Exit(INTERRUPTED, "Interrupted (Ctrl-C)."),
    Exit(BROKEN_PIPE, "The reader of the output closed the pipe."),
    Exit(TERMINATED, "Ended by SIGTERM."),
)

_STATUS: Mapping[str, int] = {code: row.status for row in EXITS for code in row.codes}


def status_of(code: str | None) -> int:
    """Return the exit status of an error code. An unknown code, such as one of a custom backend, has the status 1."""
    return _STATUS.get(code or "error", FAILED)
