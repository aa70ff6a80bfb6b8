"""Reports what has changed in a directory and a memory store since they were last synchronised. Takes no lock."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from retentive.store import MemoryStore
from retentive.sync.files import FolderScan, Stamp
from retentive.sync.folder import SETTLE_S, Folder, is_ignored
from retentive.sync.session import SyncOptions, opened_folder
from retentive.sync.state import Base, saved_state, state_folder
from retentive.values.paths import ROOT

MOST_WAITS = 3
"""Maximum number of further scans while files change, each after `SETTLE_S`."""
_CONFLICT = re.compile(r"\.conflict-[A-Za-z0-9-]+-[0-9a-f]{8,64}(?:\.|\Z)")


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """Changes on both sides since the last common state. All paths are sorted.

    `synchronised_at` is the time when a synchronisation last changed something. It is None if there was no
    synchronisation. `files` is the number of files that were the same on both sides at that time. `here` lists the
    files that were created, changed or deleted since then. `store` lists the memories that were created, changed or
    deleted since then. `awaiting_review` lists files that were sent for review. `conflicts` lists conflict copies that
    still exist.
    """

    synchronised_at: datetime | None
    files: int
    here: tuple[str, ...]
    store: tuple[str, ...]
    awaiting_review: tuple[str, ...]
    conflicts: tuple[str, ...]


def sync_status(store: MemoryStore, directory: str, options: SyncOptions) -> SyncStatus:
    """Compare a directory and a memory store with their last common state. Changes nothing.

    Raises `InvalidInput`, `NotFound` or `PermissionDenied`.
    """
    settings = store.settings()
    with opened_folder(directory) as folder:
        states = options.states or state_folder(os.environ)
        state, at = saved_state(folder, states, store.id)
        ignored = (*options.ignored, *folder.patterns())
        bases: Mapping[str, Base] = {} if state is None else state.bases
        known = {path: (base.local_sha256, base.stamp) for path, base in bases.items()}
        found = _settled_scan(folder, known, ignored, settings.max_memory_bytes)
    there = {memory.path: memory.version_id for memory in store.memories()}
    found = found.without_editor_files({*bases, *there})
    here = {path: file.sha256 for path, file in found.files.items()}
    left_out = {*found.skipped, *found.waiting}
    return SyncStatus(
        None if at is None else datetime.fromtimestamp(at, UTC),
        len(bases),
        _differing({path: base.local_sha256 for path, base in bases.items()}, here, ignored, left_out),
        _differing({path: base.version_id for path, base in bases.items()}, there, ignored, left_out),
        tuple(sorted({} if state is None else state.offered)),
        tuple(sorted(path for path in here if _CONFLICT.search(path))),
    )


def _settled_scan(
    folder: Folder, known: Mapping[str, tuple[str, Stamp | None]], ignored: tuple[str, ...], most_bytes: int
) -> FolderScan:
    """Scan the directory. If files have just changed, wait until they are complete, and scan again."""
    found = folder.scan(known, ignored, most_bytes)
    for _ in range(MOST_WAITS):
        if not found.waiting:
            break
        time.sleep(SETTLE_S)
        found = folder.scan(known, ignored, most_bytes)
    return found


def _differing(
    old: Mapping[str, str], new: Mapping[str, str], ignored: tuple[str, ...], left_out: set[str]
) -> tuple[str, ...]:
    """Return the paths whose values in `old` and `new` differ, except for paths that are not synchronised."""
    changed = (path for path in sorted({*old, *new} - left_out) if old.get(path) != new.get(path))
    return tuple(path for path in changed if not is_ignored(path.removeprefix(f"{ROOT}/"), ignored))
