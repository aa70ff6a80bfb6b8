"""Findings of storage checks, and the table of their kinds. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["ok", "note", "problem", "repaired"]

_RESTORE = "restore it from a backup (`retentive restore-backup`); `retentive export` saves what can be read"
_OPENING = "the next command at the location does it"


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of finding: severity, meaning and advice. `mends`: `--repair` fixes it."""

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
        # Unreadable storage
        Kind("unreadable", "problem", "The storage or a part of it cannot be read.", _RESTORE),
        Kind("file_damaged", "problem", "The database file is damaged.", _RESTORE),
        Kind(
            "locked", "note", "The store is encrypted and was not checked, because its key is missing.", "give its keys"
        ),
        Kind(
            "schema_old", "problem", "The tables have the schema of an older retentive.", "`retentive migrate-schema`"
        ),
        Kind("schema_foreign", "problem", "The storage belongs to another application.", "choose another location"),
        Kind("schema_new", "problem", "The storage has the schema of a newer retentive.", "upgrade retentive"),
        Kind("key_wrong", "problem", "The key of a memory store does not find it.", "use its id; " + _RESTORE),
        Kind("settings_wrong", "problem", "The settings cannot be read.", "upgrade retentive, or " + _RESTORE),
        Kind("seal_wrong", "problem", "An encrypted record was modified or moved, or has another key.", _RESTORE),
        # Memories and versions
        Kind(
            "text_wrong",
            "problem",
            "The text of a memory is missing, is not UTF-8, or differs from its size or hash.",
            _RESTORE,
        ),
        Kind(
            "old_text_wrong",
            "problem",
            "The text of an older version is missing, is not UTF-8, or differs from its size or hash.",
            _RESTORE,
        ),
        Kind("version_missing", "problem", "The newest version of a memory is missing.", _RESTORE),
        Kind("version_differs", "problem", "A memory and its newest version differ.", _RESTORE),
        Kind("memory_lost", "problem", "A memory is missing although its newest version is not a deletion.", _RESTORE),
        Kind("id_twice", "problem", "An id is not unique.", _RESTORE),
        Kind("order_wrong", "problem", "Ids, times and revisions of versions are not in the same order.", _RESTORE),
        Kind("operation_wrong", "problem", "A version has an unknown operation.", _RESTORE),
        _repairable("redaction_left", "problem", "A redacted version still has content."),
        _repairable("age_wrong", "problem", "The creation time of a memory differs from its first version."),
        Kind(
            "path_wrong", "problem", "A path is not canonical or exceeds a limit.", "rename the memory, or " + _RESTORE
        ),
        Kind("path_below", "problem", "The path of a memory is below another memory.", _RESTORE),
        _repairable("usage_wrong", "problem", "The stored numbers of memories and bytes are wrong."),
        _repairable(
            "revision_wrong", "problem", "The revision or time of the store is older than that of its versions."
        ),
        # Records and side records
        Kind("record_wrong", "problem", "A record of the store cannot be read.", _RESTORE),
        Kind("proposal_text_missing", "problem", "The text of a proposal is missing.", "refuse it"),
        _repairable("proposal_text_left", "note", "A text belongs to no proposal."),
        _repairable("removal_pending", "note", "A redaction or an erasure is incomplete."),
        Kind("audit_wrong", "problem", "The audit log was modified or is incomplete.", "docs/audit.md"),
        Kind("audit_gap", "note", "The audit log lacks changes made while it was on.", "docs/audit.md"),
        # Databases
        _repairable("rows_left", "problem", "Rows belong to no memory store."),
        _repairable("index_missing", "problem", "An index of the database is missing."),
        _repairable("text_left", "problem", "A text in the database belongs to no version."),
        # Plain files
        _repairable("file_stale", "problem", "Files are older than the database after a crash.", _OPENING),
        _repairable("file_altered", "problem", "A file of an encrypted store was modified, removed or replaced."),
        Kind(
            "file_edited",
            "note",
            "A file was edited or removed externally.",
            "the next command records it as a version",
        ),
        Kind("file_new", "note", "A file was added externally.", "the next command records it as a memory"),
        Kind("file_foreign", "note", "A file or directory cannot be a memory and is ignored.", ""),
        Kind("files_quarantined", "note", "Tampered files are in .retentive/quarantine.", "inspect and remove them"),
        _repairable("files_unsynced", "note", "The files may not be durable yet.", _OPENING),
        _repairable("sync_ahead", "problem", "The synced position is ahead of the written files."),
        _repairable("directory_empty", "note", "There are empty directories."),
        _repairable("files_left", "note", "There are temporary files of a killed process."),
        # Object storage
        Kind("object_missing", "problem", "An object of the store is missing.", _RESTORE),
        Kind("object_damaged", "problem", "An object was truncated or modified.", _RESTORE),
        _repairable("objects_left", "note", "There are orphaned objects older than a day."),
    )
}
"""All kinds of findings by code. Codes are part of the API."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: its kind, the id of the memory store (None for the whole location), and the subject.

    The subject has ids, memory paths and numbers; never a text, a real file name or a URL. `severity` is that of the
    kind, or `repaired`.
    """

    code: str
    store_id: str | None = None
    subject: str = ""
    severity: Severity = "problem"
    store_key: str | None = None

    @property
    def kind(self) -> Kind:
        """Kind of the finding, with meaning and advice."""
        return KINDS[self.code]


def found(code: str, store_id: str | None = None, subject: str = "") -> Finding:
    """Finding with the severity of its kind."""
    return Finding(code, store_id, subject, KINDS[code].severity)
