"""Detects external edits to files of a memory store, and repairs tampered files of an encrypted store."""

from __future__ import annotations

from retentive.storage.contract import Change
from retentive.storage.files.comparison import Comparison
from retentive.storage.files.known import KnownFiles
from retentive.storage.files.tree import MISSING, Found, found_of
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.values.paths import ROOT, ancestors


def external_edits(records: SqlSnapshot, known: KnownFiles, comparison: Comparison, path: str) -> list[Change]:
    """Changes that bring the records up to date with the files at, above and below a path; deletions first."""

    def edit(one: str, found: Found) -> list[Change]:
        entry, mark = records.get_marked(one)
        if entry.memory is None:
            text = known.text(one, found)
            return [] if text is None else [Change(None, one, text)]
        if comparison.holds(one, entry.memory.version_id, mark, found, entry.data):
            return []
        text = known.text(one, found)
        return [] if text == entry.data else [Change(entry.memory, None if text is None else one, text)]

    changes: list[Change] = []
    for one in (*ancestors(path), path)[path == ROOT :]:
        changes += edit(one, known.tree.state(one))
    files = known.tree.scan(path)
    for one, _, _ in comparison.rows(path):
        changes += edit(one, found_of(files.pop(one)) if one in files else MISSING)
    for one, status in files.items():
        changes += edit(one, found_of(status))
    changes.sort(key=lambda change: change.path is not None)  # deletions first: a file may have become a directory
    return changes


def repair_files(records: SqlSnapshot, known: KnownFiles, comparison: Comparison, path: str) -> None:
    """Restore the recorded files at, above and below a path of an encrypted store; quarantine altered ones."""
    for one in (*ancestors(path), path, *(row[0] for row in comparison.rows(path))):
        entry, mark = records.get_marked(one)
        if entry.memory is None or entry.data is None:
            continue
        if not comparison.holds(one, entry.memory.version_id, mark, known.tree.state(one), entry.data):
            known.tree.repair(one, entry.data)
