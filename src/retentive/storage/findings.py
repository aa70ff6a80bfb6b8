"""Findings of storage checks, and a table of their kinds. This module does no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["ok", "note", "problem", "repaired"]

_RESTORE = "restore it from a backup (`retentive admin restore-backup`); `retentive export` saves what can be read"
_REPAIR = "`retentive doctor --repair`"
_OPENING = "the next command at the location repairs it"


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of findings: its code, its meaning, its severity, and advice for the user.

    If `mends` is true, `--repair` corrects such a finding.
    """

    code: str
    meaning: str
    advice: str = _RESTORE
    severity: Severity = "problem"
    mends: bool = False


_repairable = partial(Kind, advice=_REPAIR, mends=True)
_note = partial(Kind, severity="note")

KINDS: dict[str, Kind] = {
    kind.code: kind
    for kind in (
        Kind("healthy", "Nothing is wrong.", "", severity="ok"),
        # Unreadable storage
        Kind("unreadable", "The storage or a part of it cannot be read."),
        Kind("file_damaged", "The database file is damaged."),
        Kind(
            "log_damaged",
            "The write-ahead log of the database is damaged; acknowledged changes behind the damage cannot be read.",
            "put an intact copy of the log back, restore a backup, or go on without these changes: copy the file with"
            " the ending -wal, then cut it with `truncate --size BYTE`",
        ),
        _note(
            "locked",
            "The store was not checked: its key is missing or wrong, or it is not encrypted although keys were given.",
            "open the location with the keys of the store, or without keys if it is not encrypted",
        ),
        _note("key_destroyed", "The encryption key of the store was destroyed, so nothing in it can be read.", ""),
        Kind("schema_foreign", "The storage belongs to another application.", "choose another location"),
        Kind("schema_new", "The storage has the schema of a newer retentive.", "upgrade retentive"),
        Kind("key_wrong", "A memory store cannot be found by its key.", "use its id, or " + _RESTORE),
        Kind("settings_wrong", "The settings cannot be read.", "upgrade retentive, or " + _RESTORE),
        Kind("seal_wrong", "The seal of an encrypted store contradicts its versions."),
        # Memories and versions
        Kind("text_wrong", "The text of a memory is missing, is not UTF-8, or differs from its size or hash."),
        Kind(
            "old_text_wrong",
            "The text of an older version is missing, is not UTF-8, or differs from its size or hash.",
        ),
        _repairable("index_wrong", "The index of memories contradicts itself or the versions."),
        Kind("redaction_left", "A redacted version still has content."),
        Kind("version_wrong", "The order, time, operation, provenance or path of a version cannot be right."),
        _repairable("usage_wrong", "The stored numbers of memories and bytes are wrong."),
        # Records
        Kind("record_wrong", "A record of the store, or the text of a proposal, is missing or cannot be read."),
        _note("removal_pending", "A redaction or an erasure is incomplete.", "`retentive admin maintain`"),
        Kind("audit_wrong", "The audit log was modified or is incomplete.", "docs/security.md"),
        _note("audit_gap", "The audit log lacks changes made while it was on.", "docs/security.md"),
        # Databases
        Kind("rows_left", "Rows belong to no memory store."),
        Kind("text_left", "A text in the database belongs to no version."),
        Kind("pack_wrong", "A pack of earlier texts is damaged, or has texts that belong to no version."),
        # Plain files
        _note(
            "directory_plain",
            "retentive has not taken over this directory of plain files, so there is no record to check.",
            "`retentive init`, or the first change, takes it over",
        ),
        _note("file_edited", "A file was edited or removed externally.", "the next command records it as a version"),
        _note("file_new", "A file was added externally.", "the next command records it as a memory"),
        _note("file_foreign", "A file or directory cannot be a memory and is ignored.", ""),
        # Object storage
        _repairable(
            "object_missing",
            "An object of the store is missing.",
            advice=f"{_REPAIR} restores a lost format; otherwise {_RESTORE}",
        ),
        Kind("object_damaged", "An object was truncated or modified."),
    )
}
"""All kinds of findings by code. Codes are part of the API."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check: `code` names the kind of finding, and `subject` names the data that the finding concerns.

    `store_id` is None if the finding concerns the whole location. The subject contains ids, memory paths and numbers,
    but never a text, a real file name or a URL. `severity` is the severity of the kind, or `repaired`.
    """

    code: str
    store_id: str | None = None
    subject: str = ""
    severity: Severity = "problem"
    store_key: str | None = None

    @property
    def kind(self) -> Kind:
        """The `Kind` for `code`. It has the meaning of the finding and advice for the user."""
        return KINDS[self.code]


def found(code: str, store_id: str | None = None, subject: str = "") -> Finding:
    """Create a finding with the severity of its kind."""
    return Finding(code, store_id, subject, KINDS[code].severity)
