"""Findings of a check of memory stores, and one table of their kinds. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["ok", "note", "problem", "repaired"]

_RESTORE = "restore it from a backup (`retentive restore-backup`); `retentive export` saves what can be read"
_OPENING = "the next command at the place does it"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding: how bad, what it means, and what to do. `mends` says that `--repair` does it."""

    code: str
    severity: Severity
    meaning: str
    advice: str
    mends: bool = False


def _repairable(code: str, severity: Severity, meaning: str, advice: str = "`retentive doctor --repair`") -> Kind:
    return Kind(code, severity, meaning, advice, mends=True)


KINDS: dict[str, Kind] = {
    kind.code: kind
    for kind in (
        Kind("healthy", "ok", "Nothing is wrong.", ""),
        # What cannot be read
        Kind("unreadable", "problem", "The storage, or a part of it, cannot be read.", _RESTORE),
        Kind("file_damaged", "problem", "The database file is damaged.", _RESTORE),
        Kind("locked", "note", "The store is sealed and its key is not here: not checked.", "give its keys"),
        Kind("schema_old", "problem", "The tables are of an older retentive.", "`retentive migrate-schema`"),
        Kind("schema_foreign", "problem", "The storage is another application's.", "choose another location"),
        Kind("schema_new", "problem", "The storage was written by a newer retentive.", "upgrade retentive"),
        Kind("key_wrong", "problem", "A memory store is not found by its key.", "name it by its id; " + _RESTORE),
        Kind("settings_wrong", "problem", "The settings cannot be read.", "upgrade retentive, or " + _RESTORE),
        Kind("seal_wrong", "problem", "A sealed record was altered or moved, or has another key.", _RESTORE),
        # Memories and versions
        Kind(
            "text_wrong", "problem", "The text of a memory is missing, no text, or not of its size and hash.", _RESTORE
        ),
        Kind(
            "old_text_wrong", "problem", "The text of an older version is missing, no text, or was altered.", _RESTORE
        ),
        Kind("version_missing", "problem", "The version a memory names is not there.", _RESTORE),
        Kind("version_differs", "problem", "A memory and its newest version differ.", _RESTORE),
        Kind("memory_lost", "problem", "The newest version is no deletion, and the memory is not there.", _RESTORE),
        Kind("id_twice", "problem", "An id is there twice.", _RESTORE),
        Kind("order_wrong", "problem", "Ids, times or revisions do not grow together.", _RESTORE),
        Kind("operation_wrong", "problem", "A version is of an operation that there is not.", _RESTORE),
        _repairable("redaction_left", "problem", "A redacted version still has something of what it was."),
        _repairable("age_wrong", "problem", "A memory is not as old as its first version."),
        Kind("path_wrong", "problem", "A path is not canonical, or over a limit.", "rename it by hand, or " + _RESTORE),
        Kind("path_below", "problem", "A memory lies below another.", _RESTORE),
        _repairable("usage_wrong", "problem", "The counts of memories and bytes are not their sum."),
        _repairable("revision_wrong", "problem", "The store is behind the revisions or times of its versions."),
        # Records beside them
        Kind("note_wrong", "problem", "A small record of the store cannot be read.", _RESTORE),
        Kind("proposal_text_missing", "problem", "A change that awaits review is without its text.", "refuse it"),
        _repairable("proposal_text_left", "note", "A text of a proposal that is no more."),
        _repairable("removal_pending", "note", "A redaction or an erasure was not ended."),
        Kind("audit_wrong", "problem", "The audit log is not as it was written.", "docs/audit.md"),
        Kind("audit_gap", "note", "Changes were made while the audit log was on, and are not in it.", "docs/audit.md"),
        # Databases
        _repairable("rows_left", "problem", "Rows belong to no memory store."),
        _repairable("index_missing", "problem", "An index of the database is not there."),
        _repairable("text_left", "problem", "A text rests in the database that nothing refers to."),
        # Plain files
        _repairable("file_stale", "problem", "Files are behind the database, after a crash.", _OPENING),
        _repairable("file_altered", "problem", "A file of a sealed store was altered, removed or replaced."),
        Kind(
            "file_edited", "note", "A file was edited or removed by hand.", "the next command records it as a version"
        ),
        Kind("file_new", "note", "A file was added by hand.", "the next command records that"),
        Kind("file_foreign", "note", "A file or directory that cannot be a memory; it is left alone.", ""),
        Kind(
            "files_quarantined",
            "note",
            "Altered files are kept in .retentive/quarantine.",
            "look at them, and remove them",
        ),
        _repairable("files_unsynced", "note", "It is not known that files are durable.", _OPENING),
        _repairable("sync_ahead", "problem", "Files count as durable that are not yet written."),
        _repairable("directory_empty", "note", "Empty directories."),
        _repairable("files_left", "note", "Temporary files of a process that was killed."),
        # Object storage
        Kind("object_missing", "problem", "An object that the store names is not there.", _RESTORE),
        Kind("object_damaged", "problem", "An object was cut or altered.", _RESTORE),
        _repairable("objects_left", "note", "Objects that nothing names, older than a day."),
    )
}
"""Every kind of finding, by its code. Codes are part of the API."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found: its kind, in which memory store (by id; None: in the whole place), and what exactly.

    `subject` names it: ids, paths, numbers; never a text, a file of the machine or a URL. `severity` is that of the
    kind, or `repaired`.
    """

    code: str
    store_id: str | None = None
    subject: str = ""
    severity: Severity = "problem"
    store_key: str | None = None

    @property
    def kind(self) -> Kind:
        """The meaning, and what to do."""
        return KINDS[self.code]


def found(code: str, store_id: str | None = None, subject: str = "") -> Finding:
    """A finding with the severity of its kind."""
    return Finding(code, store_id, subject, KINDS[code].severity)
