"""Checks one consistent state of a memory store: its memories, versions, texts, counters, settings and records."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias, get_args

from retentive.doctor.records import check_records
from retentive.engine.listings import HISTORY, PRUNED
from retentive.errors import Damaged, InvalidInput, NotFound, Refused, UnknownSchema
from retentive.history.removal import ERASING, PENDING
from retentive.storage.contract import Memory, Operation, Snapshot, StoreInfo, Usage, Version, to_datetime
from retentive.storage.findings import Finding, found
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT, MemoryPath, ancestors, visible
from retentive.values.provenance import NOTHING, provenance_of
from retentive.values.records import HIGHEST_COUNTER, time_in_id, to_us
from retentive.values.settings import from_text
from retentive.values.text import is_text

Progress: TypeAlias = Callable[[str, int], None]
"""Function that reports progress.

It gets the key or id of a memory store, and the number of its memories and versions that were checked so far.
"""
UNREADABLE = (Damaged, UnknownSchema, InvalidInput, Refused, ValueError, TypeError, LookupError, AttributeError)
"""Errors that reading damaged data may raise. The check reports them as findings, and lets other errors pass."""
_MAX_FINDINGS = 1_000  # maximum number of findings with the same code; further ones are only counted
_PROGRESS_EVERY = 100
_OPERATIONS: tuple[Operation, ...] = get_args(Operation)


class StoreCheck:
    """Checks one memory store. Each call of `run` starts from the beginning.

    During a check, it holds the metadata of all memories and of their oldest versions, but only one text at a time.
    """

    def __init__(self, info: StoreInfo, *, quick: bool, progress: Progress | None) -> None:
        self._info = info
        self._quick = quick
        self._progress = progress
        self._begin()

    def _begin(self) -> None:
        self.memories = self.versions = 0
        self._findings: list[Finding] = []
        self._counts: Counter[str] = Counter()
        self._present: dict[str, Memory] = {}
        self._oldest: dict[str, tuple[Version, int]] = {}  # by id of the memory; the number counts newer revisions
        self._unordered: list[tuple[str, Version, int]] = []  # id of the earlier version, later version, same number
        self._revisions = 0
        self._differing: set[str] = set()
        self._later: Version | None = None
        self._max_revision = self._size_bytes = 0
        self._pruned: datetime | None = None

    def run(self, snapshot: Snapshot) -> list[Finding]:
        """Check the state `snapshot` of the store, and return all findings."""
        self._begin()
        if time_in_id(self._info.id) not in {None, to_us(self._info.created_at)}:
            self._report("time_wrong", "the memory store itself")
        self._part("memories", lambda: self._walk(snapshot))
        self._part("history", lambda: self._history(snapshot))
        self._part("counts", lambda: self._sums(snapshot))
        self._settings(snapshot)
        self._part("records", lambda: self._records(snapshot))
        for code, count in self._counts.items():
            if count > _MAX_FINDINGS:
                self._findings.append(found(code, self._info.id, f"and {count - _MAX_FINDINGS} more"))
        return self._findings

    def _part(self, what: str, check: Callable[[], None]) -> None:
        try:
            check()
        except UNREADABLE as error:
            self._report("unreadable", f"its {what} ({error if isinstance(error, Damaged) else type(error).__name__})")

    def _report(self, code: str, subject: str = "") -> None:
        self._counts[code] += 1
        if self._counts[code] <= _MAX_FINDINGS:
            self._findings.append(found(code, self._info.id, subject))

    def _tick(self) -> None:
        if self._progress is not None and (self.memories + self.versions) % _PROGRESS_EVERY == 0:
            self._progress(self._info.key or self._info.id, self.memories + self.versions)

    def _walk(self, snapshot: Snapshot) -> None:
        paths: set[str] = set()
        for memory, _ in snapshot.list(ROOT):
            self.memories += 1
            self._size_bytes += memory.size_bytes
            if memory.id in self._present or memory.path in paths:
                self._report("id_twice", f"{memory.id} at {visible(memory.path)}")
            self._present[memory.id] = memory
            paths.add(memory.path)
            self._check_path(memory.path, memory.id)
            self._tick()
        for path in sorted(paths):
            above = next((each for each in ancestors(path) if each in paths), None)
            if above is not None:
                self._report("path_below", f"{visible(path)} below {visible(above)}")
        for path in sorted(paths):
            self._check_present(snapshot, path)

    def _check_path(self, path: str, what: str) -> None:
        try:
            if MemoryPath.parse(path).text == path and path != ROOT:
                return
        except Refused:
            pass
        self._report("path_wrong", f"{visible(path)} ({what})")

    def _check_present(self, snapshot: Snapshot, path: str) -> None:
        try:
            entry = snapshot.get(path)
        except UNREADABLE:
            self._report("text_wrong", visible(path))
            return
        memory = entry.memory
        if memory is None or not _fits(entry.data, memory.size_bytes, memory.sha256):
            self._report("text_wrong", visible(path))

    def _history(self, snapshot: Snapshot) -> None:
        pruned = snapshot.get_record(HISTORY, PRUNED)
        self._pruned = to_datetime(int(pruned)) if pruned is not None and pruned.isdigit() else None
        for version in all_versions(snapshot):
            self.versions += 1
            self._check_order(version)
            later = self._oldest.get(version.memory_id)
            if later is None:
                self._check_head(version)
            elif (later[0].operation == "created") != (version.operation == "deleted"):
                self._unordered.append((version.id, *later))
            self._oldest[version.memory_id] = version, self._revisions - 1
            if version.redacted_at is None:
                self._check_path(version.path, version.id)
                if not self._quick:
                    self._check_text(snapshot, version)
            else:
                self._check_redacted(snapshot, version)
            self._later = version
            self._tick()
        self._check_beginnings()

    def _check_beginnings(self) -> None:
        """Check the oldest version of each memory, and report wrong sequences of operations.

        Call it after all versions were read.
        """
        for memory_id in self._present.keys() - self._oldest.keys():
            memory = self._present[memory_id]
            self._report("version_missing", f"{visible(memory.path)} names {memory.version_id}")
        for memory_id, (oldest, newer_revisions) in self._oldest.items():
            if oldest.operation in {"modified", "deleted"}:
                self._unordered.append(("nothing", oldest, newer_revisions))
            # If a memory differs from its newest version, these versions may belong to another memory.
            if memory_id in self._present and memory_id not in self._differing:
                self._check_age(self._present[memory_id], oldest, newer_revisions)
        for earlier, version, newer_revisions in self._unordered:
            if self._is_whole_until(version, newer_revisions):
                self._report("sequence_wrong", f"{earlier} before {version.id}")

    def _check_order(self, version: Version) -> None:
        self._max_revision = max(self._max_revision, version.revision)
        later = self._later
        self._revisions += later is None or version.revision != later.revision
        if time_in_id(version.id) not in {None, to_us(version.created_at)}:
            self._report("time_wrong", version.id)
        if version.provenance_text is not None and provenance_of(version) is NOTHING:
            self._report("provenance_wrong", version.id)
        if version.operation not in _OPERATIONS:
            self._report("operation_wrong", version.id)
        if later is None:
            return
        if version.id == later.id:
            self._report("id_twice", version.id)
        elif version.id > later.id or version.created_at >= later.created_at or version.revision > later.revision:
            self._report("order_wrong", f"{version.id} before {later.id}")

    def _check_head(self, version: Version) -> None:
        """Check that a memory agrees with `version`, its newest version."""
        memory = self._present.get(version.memory_id)
        if memory is None:
            known = self._pruned is None or version.created_at > self._pruned
            if version.operation != "deleted" and version.redacted_at is None and known:
                self._report("memory_lost", f"{visible(version.path)} ({version.memory_id}, version {version.id})")
            return
        if Memory.of(version, memory.created_at) != memory:
            self._differing.add(memory.id)
            self._report("version_differs", f"{visible(memory.path)} and {version.id}")

    def _is_whole_until(self, version: Version, newer_revisions: int) -> bool:
        """Return whether `version` and all earlier versions of the store still exist, one for each revision."""
        return self._pruned is None and self._revisions - newer_revisions == version.revision

    def _check_age(self, memory: Memory, oldest: Version, newer_revisions: int) -> None:
        """Compare the creation time of a memory with the time of its oldest version.

        If earlier versions were removed, the memory may be older than its oldest version.
        """
        if oldest.created_at > memory.updated_at:  # the times of the versions are wrong; another check reports this
            return
        is_whole = oldest.operation == "created" and self._is_whole_until(oldest, newer_revisions)
        if memory.created_at > oldest.created_at or (is_whole and memory.created_at != oldest.created_at):
            self._report("age_wrong", visible(memory.path))

    def _check_redacted(self, snapshot: Snapshot, version: Version) -> None:
        left = (
            bool(version.path or version.sha256 or version.seal or version.provenance_text)
            or version.size_bytes is not None
        )
        if left or (not self._quick and snapshot.version(version.id)[1] is not None):
            self._report("redaction_left", version.id)

    def _check_text(self, snapshot: Snapshot, version: Version) -> None:
        try:
            _, data = snapshot.version(version.id)
            if version.operation == "deleted":
                if (data, version.size_bytes, version.sha256) == (None, None, None):
                    return
            elif _fits(data, version.size_bytes, version.sha256):
                return
        except (*UNREADABLE, NotFound):
            pass
        self._report("old_text_wrong", f"{visible(version.path)} ({version.id})")

    def _sums(self, snapshot: Snapshot) -> None:
        state, sums = snapshot.state, Usage(self.memories, self._size_bytes)
        usage = state.usage
        if usage != sums and not self._counts["unreadable"]:
            kept = f"{usage.memories} memories of {usage.size_bytes} bytes"
            self._report("usage_wrong", f"{kept} instead of {sums.memories} of {sums.size_bytes}")
        if not self._max_revision <= state.revision < HIGHEST_COUNTER:
            self._report("revision_wrong", f"{state.revision}, but the newest version has {self._max_revision}")

    def _settings(self, snapshot: Snapshot) -> None:
        try:
            from_text(snapshot.state.settings)
        except UNREADABLE:
            self._report("settings_wrong")

    def _records(self, snapshot: Snapshot) -> None:
        for code, subject in check_records(snapshot):
            self._report(code, subject)
        erasing = sum(1 for _ in snapshot.records(ERASING))
        if erasing or snapshot.get_record(PENDING, "since") is not None:
            self._report("removal_pending", f"{erasing} memories to erase")


def _fits(data: bytes | None, size_bytes: int | None, sha256: str | None) -> bool:
    return data is not None and len(data) == size_bytes and hashlib.sha256(data).hexdigest() == sha256 and is_text(data)
