"""Checks one consistent state of a memory store: its memories, versions, texts, totals, settings and records."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias, get_args

from retentive.engine import events
from retentive.engine.listings import HISTORY, PRUNED
from retentive.engine.repeats import KIND as REPEAT
from retentive.engine.visibility import CONFIRMED
from retentive.errors import Damaged, InvalidInput, NotFound, Refused, UnknownSchema
from retentive.history.clocks import CLOCK
from retentive.history.clocks import parsed as parsed_times
from retentive.history.expiry import SWEPT
from retentive.history.removal import ERASING, PENDING, TOMBSTONE
from retentive.review.proposals import PROPOSAL, REVIEWED, parsed_decision, parsed_proposal, texts_of
from retentive.storage.contract import Memory, Operation, Snapshot, StoreInfo, Usage, Version
from retentive.storage.findings import Finding, found
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT, MemoryPath, ancestors, visible
from retentive.values.provenance import NOTHING, provenance_of
from retentive.values.records import time_in_id, to_us
from retentive.values.settings import from_text
from retentive.values.text import is_text

Progress: TypeAlias = Callable[[str, int], None]
"""Function that reports progress.

It gets the key or id of a memory store, and the number of its memories and versions that were checked so far.
"""
ERRORS = (
    Damaged, UnknownSchema, InvalidInput, Refused, ValueError, TypeError, LookupError, AttributeError, OverflowError,
    RecursionError,
)  # fmt: skip
"""Errors that reading damaged data may raise. The check reports them as findings, and lets other errors pass."""
_MAX_FINDINGS = 1_000  # maximum number of findings with the same code
_PROGRESS_EVERY = 100
_READERS: Mapping[str, Callable[[str], object]] = {
    CLOCK: parsed_times,
    CONFIRMED: json.loads,
    events.EVENT: events.parsed,
    ERASING: json.loads,
    HISTORY: int,
    PENDING: float,
    PROPOSAL: partial(parsed_proposal, ""),
    REPEAT: json.loads,
    REVIEWED: partial(parsed_decision, ""),
    SWEPT: str,
    TOMBSTONE: json.loads,
}
"""Parsers of records by kind. `audit.verify` checks the records of the audit log."""


class StoreCheck:
    """Check of one state of a memory store. It holds the metadata of all memories, but only one text at a time."""

    def __init__(self, info: StoreInfo, snapshot: Snapshot, *, quick: bool, progress: Progress | None) -> None:
        self._info, self._snapshot, self._quick, self._progress = info, snapshot, quick, progress
        self._findings: list[Finding] = []
        self._counts = Counter[str]()
        self._present: dict[str, Memory] = {}
        self._checked = self._max_revision = 0

    def run(self) -> list[Finding]:
        """Return all findings, and `healthy` with the numbers of memories and versions."""
        parts = {
            "memories": self._check_memories,
            "history": self._check_history,
            "counts": self._check_counts,
            "records": self._check_records,
        }
        for name, check in parts.items():
            try:
                check()
            except ERRORS as error:
                self._report(
                    "unreadable", f"its {name} ({error if isinstance(error, Damaged) else type(error).__name__})"
                )
        memories = len(self._present)
        counts = f"{memories} memories, {self._checked - memories} versions"
        return [*self._findings, found("healthy", self._info.id, counts)]

    def _report(self, code: str, subject: str = "") -> None:
        self._counts[code] += 1
        if self._counts[code] <= _MAX_FINDINGS:
            self._findings.append(found(code, self._info.id, subject))

    def _tick(self) -> None:
        self._checked += 1
        if self._progress is not None and self._checked % _PROGRESS_EVERY == 0:
            self._progress(self._info.key or self._info.id, self._checked)

    def _check_memories(self) -> None:
        paths: set[str] = set()
        for memory, _ in self._snapshot.list(ROOT):
            if memory.id in self._present or memory.path in paths:
                self._report("id_twice", f"{memory.id} at {visible(memory.path)}")
            self._present[memory.id] = memory
            paths.add(memory.path)
            self._check_path(memory.path, memory.id)
            self._tick()
        for path in sorted(paths):
            above = next((place for place in ancestors(path) if place in paths), None)
            if above is not None:
                self._report("path_below", f"{visible(path)} below {visible(above)}")
            try:
                entry = self._snapshot.get(path)
                is_right = entry.memory is not None and _fits(entry.data, entry.memory)
            except ERRORS:
                is_right = False
            if not is_right:
                self._report("text_wrong", visible(path))

    def _check_path(self, path: str, what: str) -> None:
        try:
            is_right = MemoryPath.parse(path).text == path != ROOT
        except Refused:
            is_right = False
        if not is_right:
            self._report("path_wrong", f"{visible(path)} ({what})")

    def _check_history(self) -> None:
        pruned_us = int(self._snapshot.get_record(HISTORY, PRUNED) or 0)
        later: Version | None = None
        seen: set[str] = set()
        for version in all_versions(self._snapshot):
            self._tick()
            self._max_revision = max(self._max_revision, version.revision)
            self._check_fields(version)
            if later is not None and version.id == later.id:
                self._report("id_twice", version.id)
            elif later is not None and (
                version.id > later.id or version.created_at > later.created_at or version.revision > later.revision
            ):
                self._report("order_wrong", f"{version.id} before {later.id}")
            if version.memory_id not in seen:
                # Of a pruned history, deletions may be missing.
                self._check_newest(version, is_known=to_us(version.created_at) > pruned_us)
            seen.add(version.memory_id)
            later = version
        for memory in self._present.values():
            if memory.id not in seen:
                self._report("index_wrong", f"{visible(memory.path)} names {memory.version_id}")

    def _check_fields(self, version: Version) -> None:
        if time_in_id(version.id) not in {None, to_us(version.created_at)}:
            self._report("time_wrong", version.id)
        if version.provenance_text is not None and provenance_of(version) is NOTHING:
            self._report("provenance_wrong", version.id)
        if version.operation not in get_args(Operation):
            self._report("operation_wrong", version.id)
        is_redacted = version.redacted_at is not None
        if not is_redacted:
            self._check_path(version.path, version.id)
        if not self._contents_fit(version):
            subject = version.id if is_redacted else f"{visible(version.path)} ({version.id})"
            self._report("redaction_left" if is_redacted else "old_text_wrong", subject)

    def _check_newest(self, version: Version, *, is_known: bool) -> None:
        memory = self._present.get(version.memory_id)
        if memory is None and version.operation != "deleted" and version.redacted_at is None and is_known:
            self._report("index_wrong", f"{visible(version.path)} ({version.memory_id}, version {version.id})")
        if memory is not None and Memory.of(version, memory.created_at) != memory:
            self._report("index_wrong", f"{visible(memory.path)} and {version.id}")

    def _contents_fit(self, version: Version) -> bool:
        try:
            data = None if self._quick else self._snapshot.version(version.id)[1]
        except (*ERRORS, NotFound):
            return False
        if version.redacted_at is not None:
            facts = version.path, version.sha256, version.seal, version.provenance_text
            return not any(facts) and data is None and version.size_bytes is None
        if self._quick:
            return True
        if version.operation == "deleted":
            return (data, version.size_bytes, version.sha256) == (None, None, None)
        return _fits(data, version)

    def _check_counts(self) -> None:
        state, sizes = self._snapshot.state, [memory.size_bytes for memory in self._present.values()]
        sums = Usage(len(sizes), sum(sizes))
        if state.usage != sums and not self._counts["unreadable"] and not self._counts["id_twice"]:
            stored = f"{state.usage.memories} memories of {state.usage.size_bytes} bytes"
            self._report("usage_wrong", f"{stored} instead of {sums.memories} of {sums.size_bytes}")
        if state.revision < self._max_revision:
            self._report("revision_wrong", f"{state.revision}, but the newest version has {self._max_revision}")
        try:
            from_text(state.settings)
        except ERRORS:
            self._report("settings_wrong")

    def _check_records(self) -> None:
        for kind, read in _READERS.items():
            for key, value in self._snapshot.records(kind):
                try:
                    read(value)
                except ERRORS:
                    self._report("record_wrong", f"{kind} {key}")
                else:
                    if kind == PROPOSAL:
                        self._check_texts(key, value)
        erasing = sum(1 for _ in self._snapshot.records(ERASING))
        if erasing or self._snapshot.get_record(PENDING, "since") is not None:
            self._report("removal_pending", f"{erasing} memories to erase")

    def _check_texts(self, proposal_id: str, value: str) -> None:
        for kind, key, sha256 in texts_of(parsed_proposal(proposal_id, value)):
            text = self._snapshot.get_record(kind, key)
            if text is None:
                self._report("proposal_text_missing", f"{kind} {key}")
            elif hashlib.sha256(text.encode()).hexdigest() != sha256:
                self._report("record_wrong", f"{kind} {key}")


def _fits(data: bytes | None, stored: Memory | Version) -> bool:
    if data is None or len(data) != stored.size_bytes or not is_text(data):
        return False
    return hashlib.sha256(data).hexdigest() == stored.sha256
