"""The exit status of every error, in one table. Part of the API: scripts depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BROKEN_PIPE = 141  # 128 + SIGPIPE, what a shell reports of `ls | head`
PROBLEMS = 17
INTERRUPTED = 130  # 128 + SIGINT, what a shell reports of Ctrl-C
FAILED = 1


@dataclass(frozen=True, slots=True)
class Exit:
    """One exit status: what it means, and the error codes (`retentive.errors`, `replies`) that end in it."""

    status: int
    meaning: str
    codes: tuple[str, ...] = ()


EXITS: tuple[Exit, ...] = (
    Exit(0, "Done."),
    Exit(FAILED, "Failed for a reason that has no status of its own.", ("error", "refused")),
    Exit(
        2,
        "Asked in a way that cannot be right: a wrong option, argument, path or range.",
        ("invalid_input", "invalid_path", "out_of_range"),
    ),
    Exit(3, "The memory, directory, memory store or place is not there.", ("not_found",)),
    Exit(
        4,
        "Something else stands at that path, or above it.",
        ("already_exists", "not_a_directory", "path_taken"),
    ),
    Exit(5, "The text to replace is not there, or more than once.", ("no_match", "many_matches")),
    Exit(6, "The memory was changed meanwhile; nothing was saved.", ("conflict",)),
    Exit(
        7,
        "Not possible with a directory: with `/memories` itself, or into itself.",
        ("root_protected", "into_itself", "across_mounts"),
    ),
    Exit(8, "Over a limit of size.", ("too_large",)),
    Exit(
        9,
        "Not permitted: by the operating system or server, or since it is read-only.",
        ("permission_denied", "read_only"),
    ),
    Exit(10, "No space is left.", ("store_full",)),
    Exit(11, "The storage cannot be reached or is busy; nothing was written, try again.", ("unavailable",)),
    Exit(12, "The storage failed while saving: look before trying again.", ("outcome_unknown",)),
    Exit(13, "What is stored is damaged.", ("damaged",)),
    Exit(14, "The storage was written by a newer retentive.", ("unknown_schema",)),
    Exit(15, "The memory store is sealed and its key is not here, or was destroyed.", ("locked",)),
    Exit(16, "The text or path holds sensitive values, and they are to be rejected.", ("sensitive",)),
    Exit(PROBLEMS, "`retentive doctor` found problems, and they are left."),
    Exit(
        18,
        "The API of the model cannot be reached, failed or refused (`retentive chat`).",
        (
            "agent_error",
            "api_failed",
            "connection_lost",
            "not_authorized",
            "not_saved",
            "overloaded",
            "rate_limited",
            "request_refused",
            "stopped",
        ),
    ),
    Exit(INTERRUPTED, "Interrupted (Ctrl-C)."),
    Exit(BROKEN_PIPE, "The reader of the output went away."),
)

_STATUS: Mapping[str, int] = {code: row.status for row in EXITS for code in row.codes}


def status_of(code: str | None) -> int:
    """The exit status for an error code; one from outside retentive (somebody's own backend) is a plain failure."""
    return _STATUS.get(code or "error", FAILED)
