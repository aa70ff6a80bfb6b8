"""Checks one consistent state of a memory store: its memories, versions, texts, totals, settings and records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeAlias, get_args

from retentive.engine import lists
from retentive.engine.lists import HISTORY, PRUNED
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
from retentive.history.expiry import CLOCK, SWEPT, parsed_times
from retentive.history.removal import ERASING, PENDING, TOMBSTONE
from retentive.review.proposals import PROPOSAL, REVIEWED, parsed_decision, parsed_proposal, text_of, texts_of
from retentive.storage.contract import Memory, Operation, Snapshot, StoreInfo, Usage, Version
from retentive.storage.findings import Finding, found
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT, MemoryPath, ancestors, visible
from retentive.values.provenance import NOTHING
from retentive.values.records import time_in_id, to_us
from retentive.values.settings import from_text
from retentive.values.text import is_text

Progress: TypeAlias = Callable[[str, int], None]
"""Function that reports progress.

It gets the key or id of a memory store, and the number of its memories and versions that were checked so far.
"""
Findings: TypeAlias = Iterator[Finding]
Subject: TypeAlias = tuple[str, str]
"""Code of a finding, and what it concerns."""
NO_DAMAGE = (StoreFull, PermissionDenied, StorageReadOnly, Unavailable, Closed)
_MAX_FINDINGS = 1_000  # maximum number of findings with the same code
_PROGRESS_EVERY = 100
_READERS: Mapping[str, Callable[[str], object]] = {
    CLOCK: parsed_times,
    CONFIRMED: json.loads,
    lists.EVENT: lists.parsed,
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
        partial(_memories, snapshot, present, tick),
        partial(_versions, snapshot, present, tick, quick=quick),
        partial(_totals, snapshot, present, counts),
        partial(_records, snapshot),
    ):
        for finding in guarded(info.id, lambda part=part: (found(code, info.id, what) for code, what in part())):  # type: ignore[misc]
            counts[finding.code] += 1
            if counts[finding.code] <= _MAX_FINDINGS:
                yield finding
    memories, versions = len(present), checked - len(present)
    counted = f"{memories} memor{'y' if memories == 1 else 'ies'}, {versions} version{'' if versions == 1 else 's'}"
    yield found("healthy", info.id, counted)


def _memories(snapshot: Snapshot, present: dict[str, Memory], tick: Callable[[], None]) -> Iterator[Subject]:
    """Check the memories and their current texts, and add them to `present`."""
    paths: set[str] = set()
    for memory, _ in snapshot.list(ROOT):
        if memory.id in present or memory.path in paths:
            yield "index_wrong", f"{memory.id} at {visible(memory.path)}"
        present[memory.id] = memory
        paths.add(memory.path)
        if not _is_canonical(memory.path):
            yield "version_wrong", f"{visible(memory.path)} ({memory.id})"
        tick()
    for path in sorted(paths):
        above = next((place for place in ancestors(path) if place in paths), None)
        if above is not None:
            yield "index_wrong", f"{visible(path)} below {visible(above)}"

        def fits(path: str = path) -> bool:
            entry = snapshot.get(path)
            return entry.memory is not None and _fits(entry.data, entry.memory)

        if not holds(fits):
            yield "text_wrong", visible(path)


def _versions(
    snapshot: Snapshot, present: dict[str, Memory], tick: Callable[[], None], *, quick: bool
) -> Iterator[Subject]:
    """Check the versions, their order and their texts, and that the memories are their newest versions."""
    pruned_us = int(snapshot.get_record(HISTORY, PRUNED) or 0)
    later: Version | None = None
    seen: set[str] = set()
    for version in all_versions(snapshot):
        tick()
        is_redacted = version.redacted_at is not None
        subject = version.id if is_redacted else f"{visible(version.path)} ({version.id})"  # no path that was redacted
        is_ordered = later is None or (
            version.id < later.id and version.created_at <= later.created_at and version.revision <= later.revision
        )
        if not (is_ordered and _is_sound(version)):
            yield "version_wrong", subject
        if not holds(partial(_has_text, snapshot, version, quick=quick)):
            yield "redaction_left" if is_redacted else "old_text_wrong", subject
        memory, is_newest = present.get(version.memory_id), version.memory_id not in seen
        # Of a pruned history, deletions may be missing.
        is_missing = memory is None and to_us(version.created_at) > pruned_us
        is_there = version.operation != "deleted" and not is_redacted
        differs = memory is not None and Memory.of(version, memory.created_at) != memory
        if is_newest and (differs or (is_missing and is_there)):
            yield "index_wrong", f"{visible(version.path)} ({version.memory_id}, version {version.id})"
        seen.add(version.memory_id)
        later = version
    for memory in present.values():
        if memory.id not in seen:
            yield "index_wrong", f"{visible(memory.path)} names {memory.version_id}"


def _is_sound(version: Version) -> bool:
    """Return whether the time, the provenance, the operation and the path of a version can be."""
    return (
        time_in_id(version.id) in {None, to_us(version.created_at)}
        and (version.provenance_text is None or version.provenance is not NOTHING)
        and version.operation in get_args(Operation)
        and (version.redacted_at is not None or _is_canonical(version.path))
    )


def _has_text(snapshot: Snapshot, version: Version, *, quick: bool) -> bool:
    """Return whether a version has the text that its fields say, and a redacted one has none of its contents."""
    data = None if quick else snapshot.version(version.id)[1]
    if version.redacted_at is not None:
        facts = version.path, version.sha256, version.seal, version.provenance_text
        return not any(facts) and data is None and version.size_bytes is None
    if version.operation == "deleted" and not quick:
        return (data, version.size_bytes, version.sha256) == (None, None, None)
    return quick or _fits(data, version)


def _totals(snapshot: Snapshot, present: Mapping[str, Memory], counts: Mapping[str, int]) -> Iterator[Subject]:
    """Check the usage and the settings."""
    state, sizes = snapshot.state, [memory.size_bytes for memory in present.values()]
    sums = Usage(len(sizes), sum(sizes))
    if state.usage != sums and not counts.get("unreadable"):
        stored = f"{state.usage.memories} memories of {state.usage.size_bytes} bytes"
        yield "usage_wrong", f"{stored} instead of {sums.memories} of {sums.size_bytes}"
    if not holds(lambda: from_text(state.settings)):
        yield "settings_wrong", ""


def _records(snapshot: Snapshot) -> Iterator[Subject]:
    """Check that all records can be parsed, and that the texts of proposals are there."""
    for kind, read in _READERS.items():
        for key, value in snapshot.records(kind):
            if not holds(partial(read, value)):
                yield "record_wrong", f"{kind} {key}"
            elif kind == PROPOSAL:
                for of, name, sha256 in texts_of(parsed_proposal(key, value)):
                    if not holds(partial(text_of, snapshot, of, name, sha256)):
                        yield "record_wrong", f"{of} {name}"
    erasing = sum(1 for _ in snapshot.records(ERASING))
    if erasing or snapshot.get_record(PENDING, "since") is not None:
        yield "removal_pending", f"{erasing} memories to erase"


def _is_canonical(path: str) -> bool:
    try:
        return MemoryPath.parse(path).text == path != ROOT
    except Refused:
        return False


def _fits(data: bytes | None, stored: Memory | Version) -> bool:
    """Return whether a text has its size and can be read by a command. Its hash was verified when it was read."""
    return data is not None and len(data) == stored.size_bytes and is_text(data)
