"""Checks a location and all its memory stores, and rebuilds data that follows from other stored data."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import TypeAlias, get_args

from retentive import errors
from retentive.engine import lists
from retentive.engine.access_times import KIND as ACCESSED
from retentive.engine.citations import FRESHNESS
from retentive.engine.lists import HISTORY, PRUNED
from retentive.engine.repeats import KIND as REPEAT
from retentive.engine.visibility import CONFIRMED
from retentive.errors import Damaged, InvalidInput, NotFound, RetentiveError, UnknownSchema
from retentive.history.expiry import CLOCK, SWEPT, parsed_times
from retentive.history.packing import PACKED
from retentive.history.removal import ERASING, PENDING, TOMBSTONE
from retentive.locations import is_foreign, location_exists, open_backend, parse_location
from retentive.opening import Keys, encryption
from retentive.review.proposals import PROPOSAL, REVIEWED, parsed_decision, parsed_proposal, text_of, texts_of
from retentive.storage import capabilities
from retentive.storage.contract import Backend, Memory, Operation, Snapshot, StoreInfo, Usage, Version
from retentive.storage.disk import need_posix
from retentive.storage.findings import KINDS, Finding, Kind, Severity, found
from retentive.storage.paging import all_versions
from retentive.storage.sql.schema import ForeignSchema
from retentive.store import MemoryStore
from retentive.values.paths import ROOT, MemoryPath, ancestors, visible
from retentive.values.properties import listed
from retentive.values.provenance import CARRIED, NOTHING
from retentive.values.records import time_in_id, to_us
from retentive.values.settings import from_text
from retentive.values.text import is_text

__all__ = ["KINDS", "Finding", "Kind", "Severity", "check", "check_location"]

Progress: TypeAlias = Callable[[str, int], None]
"""Function that reports progress.

It gets the key or id of a memory store, and the number of its memories and versions that were checked so far.
"""
Findings: TypeAlias = Iterator[Finding]
_Subjects: TypeAlias = Iterator[tuple[str, str]]  # codes of findings, and what they concern
_NO_DAMAGE = (errors.StoreFull, errors.PermissionDenied, errors.StorageReadOnly, errors.Unavailable)
_MAX_FINDINGS = 1_000  # maximum number of findings with the same code
_PROGRESS_EVERY = 100
_LOST = {"unreadable", "log_damaged", "file_damaged"}  # after one of these findings, no store is called healthy
_ENDS = {"schema_new", "schema_foreign"}  # after one of these findings, nothing else can be checked
# After one of these findings about the location, nothing is rebuilt. A rebuild could cause more damage, or, with
# `directory_plain`, would create `.retentive` in a directory that retentive has never opened.
_PREVENTS_REBUILD = _LOST | _ENDS | {"directory_plain"}
_READERS: Mapping[str, Callable[[str], object]] = {
    ACCESSED: float,
    CLOCK: parsed_times,
    CONFIRMED: json.loads,
    FRESHNESS: json.loads,
    lists.EVENT: lists.parsed,
    ERASING: json.loads,
    HISTORY: int,
    PENDING: float,
    PROPOSAL: partial(parsed_proposal, ""),
    REPEAT: json.loads,
    REVIEWED: partial(parsed_decision, ""),
    SWEPT: str,
    PACKED: str,
    TOMBSTONE: json.loads,
}
"""Parsers of records by kind. `audit.verify` checks the records of the audit log."""


def check_location(
    at: str | os.PathLike[str],
    *,
    keys: Keys | None = None,
    quick: bool = False,
    repair: bool = False,
    progress: Progress | None = None,
) -> Findings:
    """Check a location and yield the findings (docs/operations.md). A store without a problem gets a finding `healthy`.

    By default, only the check runs, and local files are not changed. Database servers and object storage are opened in
    the same way as for other commands.

    With `repair`, data that follows from other stored data is rebuilt; nothing is deleted. The location is then checked
    again. Findings that the second check does not report are yielded with the severity `repaired`.

    Raises `NotFound` if the location does not exist. If the storage cannot be reached, raises the error of the storage.
    """
    if not location_exists(at, or_is_empty=True):  # the check reports an empty database file
        raise NotFound("there is nothing to check: the location has no memory stores; `retentive init` creates one")
    encrypted = encryption(keys)
    findings = partial(_findings, at, encrypted, quick=quick, progress=progress)
    if not repair:
        yield from findings()
        return
    before = list(findings())
    if any(finding.code in _PREVENTS_REBUILD for finding in before if finding.store_id is None):
        yield from before
        return
    try:
        with closing(encrypted(open_backend(at))) as backend:
            backend.rebuild()
    except (Damaged, UnknownSchema) as error:
        yield from (*before, found("unreadable", None, _reason(error)))
        return
    after = list(findings())
    gone = (finding for finding in before if finding.severity != "ok" and finding not in after)
    yield from (replace(finding, severity="repaired") for finding in gone)
    yield from after


def _findings(
    at: str | os.PathLike[str], encrypted: Callable[[Backend], Backend], *, quick: bool, progress: Progress | None
) -> Findings:
    scheme, rest = parse_location(at)
    if scheme is None:
        need_posix("a directory of memories")
    if is_foreign(at):
        from retentive.storage.files.check import examine_plain  # noqa: PLC0415 - needs Linux or macOS

        yield from examine_plain(rest)
        return
    try:
        opened = open_backend(at, read_only=True)
    except (Damaged, UnknownSchema) as error:
        is_schema = isinstance(error, UnknownSchema)
        code = "schema_foreign" if isinstance(error, ForeignSchema) else "schema_new" if is_schema else "unreadable"
        yield found(code, None, _reason(error))
        return
    with closing(encrypted(opened)) as backend:
        yield from check(backend, quick=quick, progress=progress)


def check(backend: Backend, *, quick: bool = False, progress: Progress | None = None) -> Findings:
    """Check an opened backend and yield the findings. A memory store without a problem gets a finding `healthy`.

    Each store is checked in one consistent state. Other processes may write meanwhile. `quick` skips the texts of older
    versions. `progress` is called from time to time. In a directory of plain files, external edits are recorded before
    the check, as before every command; use `check_location` if they must not be recorded. Damaged data is reported as a
    finding, and never raises an error.
    """
    infos: list[StoreInfo] = []

    def list_stores() -> Iterable[Finding]:
        infos.extend(listed(info) for info in backend.list_stores())
        return ()

    unlisted = list(_guarded(None, list_stores))
    keys = {info.id: info.key for info in infos}
    wrong: set[str | None] = set()
    for finding in _guarded(None, partial(backend.check, quick=quick)):
        yield replace(finding, store_key=keys.get(finding.store_id or ""))
        if finding.code in _ENDS and finding.store_id is None:
            return
        if finding.severity == "problem" and (finding.store_id is not None or finding.code in _LOST):
            wrong.add(finding.store_id)
    if None not in wrong:  # otherwise the damage was reported above
        yield from unlisted
    for info in infos:
        is_wrong = not wrong.isdisjoint({None, info.id})
        for finding in _check_store(backend, info, is_wrong=is_wrong, quick=quick, progress=progress):
            yield replace(finding, store_key=info.key)


def _check_store(
    backend: Backend, info: StoreInfo, *, is_wrong: bool, quick: bool, progress: Progress | None
) -> Findings:
    """Yield the findings of a store. If `is_wrong`, the storage has reported a problem of the store."""
    problem = _problem_of_row(backend, info)
    if problem is not None:
        if not is_wrong or info.damage is None:  # otherwise the cause was reported
            yield problem
        if is_wrong or info.damage is None:
            return

    def work(snapshot: Snapshot) -> list[Finding]:
        return list(_check_state(info, snapshot, quick=quick, progress=progress))

    findings = list(_guarded(info.id, lambda: backend.read(info.id, work)))
    findings += _guarded(info.id, partial(_check_surroundings, backend, info))
    is_wrong = is_wrong or problem is not None or any(finding.severity == "problem" for finding in findings)
    yield from (finding for finding in findings if finding.severity != "ok" or not is_wrong)


def _problem_of_row(backend: Backend, info: StoreInfo) -> Finding | None:
    """Return a finding if commands cannot open a store: its row is damaged, or its encryption is damaged or locked."""
    if info.damage is not None:
        return found("unreadable", info.id, info.damage)

    def is_sealed(snapshot: Snapshot) -> bool | None:
        versions = (version for version in all_versions(snapshot) if version.redacted_at is None)
        return next((version.seal is not None for version in versions), None)

    try:
        if info.seal is not None:
            with suppress(ImportError):  # without the package for encryption, seals cannot be parsed
                from retentive.storage.sealed.codec import StoreSeal  # noqa: PLC0415 - needs cryptography

                StoreSeal.parse(info.seal)
        with suppress(Damaged, NotFound, TypeError):  # reported by the check of the versions
            stored = capabilities.below_encryption(backend).read(info.id, is_sealed)
            if stored not in {None, info.seal is not None}:
                return found("seal_wrong", info.id, "the seal of the store contradicts its versions")
        capabilities.unlock(backend, info)
    except (errors.Locked, InvalidInput) as error:
        return found("key_destroyed" if capabilities.is_destroyed(info) else "locked", info.id, _reason(error))
    except (Damaged, UnknownSchema) as error:
        return found("unreadable", info.id, _reason(error))
    return None


def _check_surroundings(backend: Backend, info: StoreInfo) -> Findings:
    """Check the key of a store and its audit log."""
    if info.damage is None and info.key is not None and not info.key.startswith("memstore_"):  # that is taken for an id
        named = None
        with suppress(Damaged, InvalidInput):
            named = backend.get_store(info.key, workspace=info.workspace_id)
        if named is None or named.id != info.id:
            yield found("key_wrong", info.id)
    verified = MemoryStore(backend, info).audit.verify()
    if verified.problem is not None:
        yield found("audit_wrong", info.id, str(verified.problem))
    if verified.unaudited:
        yield found("audit_gap", info.id, f"{len(verified.unaudited)} versions from {verified.unaudited[0].id}")


def _check_state(info: StoreInfo, snapshot: Snapshot, *, quick: bool, progress: Progress | None) -> Findings:
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
        for finding in _guarded(info.id, lambda part=part: (found(code, info.id, what) for code, what in part())):  # type: ignore[misc]
            counts[finding.code] += 1
            if counts[finding.code] <= _MAX_FINDINGS:
                yield finding
    memories, versions = len(present), checked - len(present)
    counted = f"{memories} memor{'y' if memories == 1 else 'ies'}, {versions} version{'' if versions == 1 else 's'}"
    yield found("healthy", info.id, counted)


def _memories(snapshot: Snapshot, present: dict[str, Memory], tick: Callable[[], None]) -> _Subjects:
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

        if not _holds(fits):
            yield "text_wrong", visible(path)


def _versions(snapshot: Snapshot, present: dict[str, Memory], tick: Callable[[], None], *, quick: bool) -> _Subjects:
    """Check the versions, their order and their texts, and that the memories are their newest versions."""
    pruned_us = int(snapshot.get_record(HISTORY, PRUNED) or 0)
    later: Version | None = None
    seen: set[str] = set()
    for version in all_versions(snapshot):
        tick()
        is_redacted = version.redacted_at is not None
        subject = version.id if is_redacted else f"{visible(version.path)} ({version.id})"  # no path that was redacted
        is_ordered = later is None or (version.id < later.id and version.revision <= later.revision)
        at_us, recorded_us = to_us(version.created_at), time_in_id(version.id)
        may_be_older = is_redacted or version.provenance.cause == CARRIED
        is_sound = (
            (recorded_us in {None, at_us} or (may_be_older and at_us < (recorded_us or 0)))
            and (version.provenance_text is None or version.provenance is not NOTHING)
            and version.operation in get_args(Operation)
            and (is_redacted or _is_canonical(version.path))
        )
        if not (is_ordered and is_sound):
            yield "version_wrong", subject
        if not _holds(partial(_has_text, snapshot, version, quick=quick)):
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


def _has_text(snapshot: Snapshot, version: Version, *, quick: bool) -> bool:
    """Return whether a version has the text that its fields say, and a redacted one has none of its contents."""
    data = None if quick else snapshot.version(version.id)[1]
    if version.redacted_at is not None:
        facts = version.path, version.sha256, version.seal, version.provenance_text
        return not any(facts) and data is None and version.size_bytes is None
    if version.operation == "deleted" and not quick:
        return (data, version.size_bytes, version.sha256) == (None, None, None)
    return quick or _fits(data, version)


def _totals(snapshot: Snapshot, present: Mapping[str, Memory], counts: Mapping[str, int]) -> _Subjects:
    """Check the usage and the settings."""
    state, sizes = snapshot.state, [memory.size_bytes for memory in present.values()]
    sums = Usage(len(sizes), sum(sizes))
    if state.usage != sums and not counts.get("unreadable"):
        stored = f"{state.usage.memories} memories of {state.usage.size_bytes} bytes"
        yield "usage_wrong", f"{stored} instead of {sums.memories} of {sums.size_bytes}"
    if not _holds(lambda: from_text(state.settings)):
        yield "settings_wrong", ""


def _records(snapshot: Snapshot) -> _Subjects:
    """Check that all records can be parsed, and that the texts of proposals are there."""
    for kind, read in _READERS.items():
        for key, value in snapshot.records(kind):
            if not _holds(partial(read, value)):
                yield "record_wrong", f"{kind} {key}"
            elif kind == PROPOSAL:
                for of, name, sha256 in texts_of(parsed_proposal(key, value)):
                    if not _holds(partial(text_of, snapshot, of, name, sha256)):
                        yield "record_wrong", f"{of} {name}"
    erasing = sum(1 for _ in snapshot.records(ERASING))
    if erasing or snapshot.get_record(PENDING, "since") is not None:
        yield "removal_pending", f"{erasing} memories to erase"


def _is_canonical(path: str) -> bool:
    try:
        return MemoryPath.parse(path).text == path != ROOT
    except errors.Refused:
        return False


def _fits(data: bytes | None, stored: Memory | Version) -> bool:
    """Return whether a text has its size and can be read by a command. Its hash was verified when it was read."""
    return data is not None and len(data) == stored.size_bytes and is_text(data)


def _reason(error: Exception) -> str:
    """Return the message of an error.

    For an error of a database driver, return only its type, because the message may contain stored data.
    """
    return str(error) if isinstance(error, RetentiveError) else f"reading it raised {type(error).__name__}"


def _guarded(store_id: str | None, check: Callable[[], Iterable[Finding]]) -> Findings:
    """Yield the findings of a check. If the check raises an error, yield a finding `unreadable` with the message.

    All exceptions are caught, because parsing damaged data can raise any of them. Errors of the disk, the network or
    the permissions are no damage, and are raised.
    """
    try:
        yield from check()
    except NotFound:  # the store was erased during the check
        return
    except _NO_DAMAGE:
        raise
    except Exception as error:
        yield found("unreadable", store_id, _reason(error))


def _holds(check: Callable[[], object]) -> bool:
    """Return whether a check of stored data neither fails nor returns False. Raises errors of the disk or network."""
    try:
        return check() is not False
    except _NO_DAMAGE:
        raise
    except Exception:
        return False
