"""Checks one consistent state of a memory store: its memories, versions, texts, totals, settings and records."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeAlias, get_args

from retentive.engine import events
from retentive.engine.listings import HISTORY, PRUNED
from retentive.engine.repeats import KIND as REPEAT
from retentive.engine.visibility import CONFIRMED
from retentive.errors import (
    Closed,
    NotFound,
    PermissionDenied,
    Refused,
    RetentiveError,
    StorageReadOnly,
    StoreFull,
    Unavailable,
)
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
Findings: TypeAlias = Iterator[Finding]
NO_DAMAGE = (StoreFull, PermissionDenied, StorageReadOnly, Unavailable, Closed)
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


def reason(error: Exception) -> str:
    """Return the message of an error.

    For an error of a database driver, return only its type, because the message may contain stored data.
    """
    return str(error) if isinstance(error, RetentiveError) else f"reading it raised {type(error).__name__}"


def guarded(store_id: str | None, check: Callable[[], Iterable[Finding]]) -> Findings:
    """Yield the findings of a check. If the check raises an error, yield a finding `unreadable` with the message.

    All exceptions are caught, because parsing damaged data can raise any of them. Errors of the disk, the network or
    the permissions are no damage, and are raised.
    """
    try:
        yield from check()
    except NotFound:  # the store was erased during the check
        return
    except NO_DAMAGE:
        raise
    except Exception as error:
        yield found("unreadable", store_id, reason(error))


def holds(check: Callable[[], object]) -> bool:
    """Return whether a check of stored data neither fails nor returns False. Raises errors of the disk or network."""
    try:
        return check() is not False
    except NO_DAMAGE:
        raise
    except Exception:
        return False


def check_store(info: StoreInfo, snapshot: Snapshot, *, quick: bool, progress: Progress | None) -> Findings:
    """Yield all findings of one state of a store, and `healthy` with the numbers of memories and versions.

    Holds the metadata of all memories, but only one text at a time.
    """
    present, counts, checked = dict[str, Memory](), Counter[str](), 0

    def tick() -> None:
        nonlocal checked
        checked += 1
        if progress is not None and checked % _PROGRESS_EVERY == 0:
            progress(info.key or info.id, checked)

    for part in (
        partial(_memories, info, snapshot, present, tick),
        partial(_versions, info, snapshot, present, tick, quick=quick),
        partial(_totals, info, snapshot, present, counts),
        partial(_records, info, snapshot),
    ):
        for finding in guarded(info.id, part):
            counts[finding.code] += 1
            if counts[finding.code] <= _MAX_FINDINGS:
                yield finding
    yield found("healthy", info.id, f"{len(present)} memories, {checked - len(present)} versions")


def _memories(info: StoreInfo, snapshot: Snapshot, present: dict[str, Memory], tick: Callable[[], None]) -> Findings:
    """Check the memories and their current texts, and add them to `present`."""
    paths: set[str] = set()
    for memory, _ in snapshot.list(ROOT):
        if memory.id in present or memory.path in paths:
            yield found("id_twice", info.id, f"{memory.id} at {visible(memory.path)}")
        present[memory.id] = memory
        paths.add(memory.path)
        if not _is_canonical(memory.path):
            yield found("path_wrong", info.id, f"{visible(memory.path)} ({memory.id})")
        tick()
    for path in sorted(paths):
        above = next((place for place in ancestors(path) if place in paths), None)
        if above is not None:
            yield found("path_below", info.id, f"{visible(path)} below {visible(above)}")

        def fits(path: str = path) -> bool:
            entry = snapshot.get(path)
            return entry.memory is not None and _fits(entry.data, entry.memory)

        if not holds(fits):
            yield found("text_wrong", info.id, visible(path))


def _versions(
    info: StoreInfo, snapshot: Snapshot, present: dict[str, Memory], tick: Callable[[], None], *, quick: bool
) -> Findings:
    """Check the versions, their order and their texts, and that the memories are their newest versions."""
    pruned_us = int(snapshot.get_record(HISTORY, PRUNED) or 0)
    later: Version | None = None
    seen: set[str] = set()
    for version in all_versions(snapshot):
        tick()
        yield from _version(info, snapshot, version, quick=quick)
        if later is not None and version.id == later.id:
            yield found("id_twice", info.id, version.id)
        elif later is not None and (
            version.id > later.id or version.created_at > later.created_at or version.revision > later.revision
        ):
            yield found("order_wrong", info.id, f"{version.id} before {later.id}")
        memory, is_newest = present.get(version.memory_id), version.memory_id not in seen
        if is_newest and memory is not None and Memory.of(version, memory.created_at) != memory:
            yield found("index_wrong", info.id, f"{visible(memory.path)} and {version.id}")
        is_gone = version.operation == "deleted" or version.redacted_at is not None
        # Of a pruned history, deletions may be missing.
        if is_newest and memory is None and not is_gone and to_us(version.created_at) > pruned_us:
            subject = f"{visible(version.path)} ({version.memory_id}, version {version.id})"
            yield found("index_wrong", info.id, subject)
        seen.add(version.memory_id)
        later = version
    for memory in present.values():
        if memory.id not in seen:
            yield found("index_wrong", info.id, f"{visible(memory.path)} names {memory.version_id}")


def _version(info: StoreInfo, snapshot: Snapshot, version: Version, *, quick: bool) -> Findings:
    """Check the fields of a version, and its text unless the check is `quick`."""
    is_redacted = version.redacted_at is not None
    if time_in_id(version.id) not in {None, to_us(version.created_at)}:
        yield found("time_wrong", info.id, version.id)
    if version.provenance_text is not None and provenance_of(version) is NOTHING:
        yield found("provenance_wrong", info.id, version.id)
    if version.operation not in get_args(Operation):
        yield found("operation_wrong", info.id, version.id)
    if not is_redacted and not _is_canonical(version.path):
        yield found("path_wrong", info.id, f"{visible(version.path)} ({version.id})")

    def fits() -> bool:
        data = None if quick else snapshot.version(version.id)[1]
        if is_redacted:
            facts = version.path, version.sha256, version.seal, version.provenance_text
            return not any(facts) and data is None and version.size_bytes is None
        if version.operation == "deleted" and not quick:
            return (data, version.size_bytes, version.sha256) == (None, None, None)
        return quick or _fits(data, version)

    if not holds(fits):
        subject = version.id if is_redacted else f"{visible(version.path)} ({version.id})"
        yield found("redaction_left" if is_redacted else "old_text_wrong", info.id, subject)


def _totals(info: StoreInfo, snapshot: Snapshot, present: Mapping[str, Memory], counts: Mapping[str, int]) -> Findings:
    """Check the usage and the settings."""
    state, sizes = snapshot.state, [memory.size_bytes for memory in present.values()]
    sums = Usage(len(sizes), sum(sizes))
    if state.usage != sums and not counts.get("unreadable") and not counts.get("id_twice"):
        stored = f"{state.usage.memories} memories of {state.usage.size_bytes} bytes"
        yield found("usage_wrong", info.id, f"{stored} instead of {sums.memories} of {sums.size_bytes}")
    if not holds(lambda: from_text(state.settings)):
        yield found("settings_wrong", info.id)


def _records(info: StoreInfo, snapshot: Snapshot) -> Findings:
    """Check that all records can be parsed, and that the texts of proposals are there."""
    for kind, read in _READERS.items():
        for key, value in snapshot.records(kind):
            if not holds(partial(read, value)):
                yield found("record_wrong", info.id, f"{kind} {key}")
            elif kind == PROPOSAL:
                yield from _proposal(info, snapshot, key, value)
    erasing = sum(1 for _ in snapshot.records(ERASING))
    if erasing or snapshot.get_record(PENDING, "since") is not None:
        yield found("removal_pending", info.id, f"{erasing} memories to erase")


def _proposal(info: StoreInfo, snapshot: Snapshot, proposal_id: str, value: str) -> Findings:
    for kind, key, sha256 in texts_of(parsed_proposal(proposal_id, value)):
        text = snapshot.get_record(kind, key)
        if text is None:
            yield found("proposal_text_missing", info.id, f"{kind} {key}")
        elif hashlib.sha256(text.encode()).hexdigest() != sha256:
            yield found("record_wrong", info.id, f"{kind} {key}")


def _is_canonical(path: str) -> bool:
    try:
        return MemoryPath.parse(path).text == path != ROOT
    except Refused:
        return False


def _fits(data: bytes | None, stored: Memory | Version) -> bool:
    """Return whether a text has its size and can be read by a command. Its hash was verified when it was read."""
    return data is not None and len(data) == stored.size_bytes and is_text(data)
