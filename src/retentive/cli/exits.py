"""Table of the exit statuses. It is part of the API, because scripts depend on it."""

from __future__ import annotations

from collections.abc import Mapping

BROKEN_PIPE = 141  # 128 + SIGPIPE, the status that a shell reports for `ls | head`
PROBLEMS = 17
TERMINATED = 143  # 128 + SIGTERM
INTERRUPTED = 130  # 128 + SIGINT, the status that a shell reports for Ctrl-C
FAILED = 1


EXITS: Mapping[int, tuple[str, tuple[str, ...]]] = {
    0: ("Done.", ()),
    FAILED: ("Any other failure.", ("error", "refused", "closed")),
    2: (
        "Invalid option, argument, path or range.",
        ("invalid_input", "invalid_path", "out_of_range", "cursor_expired"),
    ),
    3: ("The memory, directory, memory store or location does not exist.", ("not_found",)),
    4: (
        "Something else exists at the path, or a parent of the path is not a directory.",
        ("already_exists", "not_a_directory", "path_taken"),
    ),
    5: ("The text to replace was not found, or was found more than once.", ("no_match", "many_matches")),
    6: ("Conflict: the memory was changed in the meantime; nothing was saved.", ("conflict",)),
    7: (
        "Not possible: to change `/memories` itself, move a directory into itself, or rename across mounted stores.",
        ("root_protected", "into_itself", "across_mounts"),
    ),
    8: ("A size limit would be exceeded.", ("too_large",)),
    9: (
        "Access was denied, or the memory or the storage is read-only, or the store is archived.",
        ("permission_denied", "storage_read_only", "read_only", "archived"),
    ),
    10: ("No space left on the storage.", ("store_full",)),
    11: ("The storage is unavailable or busy; nothing was written. Try again.", ("unavailable",)),
    12: (
        "The storage failed during the commit, so the change may or may not be stored. Check before you try again.",
        ("outcome_unknown",),
    ),
    13: ("Stored data is damaged.", ("damaged",)),
    14: ("The storage was written by a newer version of retentive.", ("unknown_schema",)),
    15: ("The memory store is encrypted, and its key is missing or was destroyed.", ("locked",)),
    16: ("The text or path contains sensitive values, which the settings reject.", ("sensitive",)),
    PROBLEMS: ("`doctor` did not repair all problems, `check` missed an answer, or `verify` found changes.", ()),
    INTERRUPTED: ("Interrupted (Ctrl-C).", ()),
    BROKEN_PIPE: ("The reader of the output closed the pipe.", ()),
    TERMINATED: ("Ended by SIGTERM.", ()),
}
"""Meaning of each exit status, and the codes of the errors that have it."""

_STATUS: Mapping[str, int] = {code: status for status, (_, codes) in EXITS.items() for code in codes}


def status_of(code: str | None) -> int:
    """Return the exit status of an error code. An unknown code, such as one of a custom backend, has the status 1."""
    return _STATUS.get(code or "error", FAILED)
