"""Checks all memory stores of an opened backend, and repairs them.

A repair changes a stored value only if the correct value is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain

from retentive.doctor.records import can_be_read
from retentive.doctor.store_check import Progress, StoreCheck
from retentive.engine.access_times import KIND as ACCESSED
from retentive.engine.command_handlers import RunView
from retentive.errors import (
    Closed,
    Damaged,
    InvalidInput,
    Locked,
    NotFound,
    PermissionDenied,
    RetentiveError,
    StorageReadOnly,
    StoreFull,
    Unavailable,
    UnknownSchema,
)
from retentive.locations import existing_store
from retentive.redaction.search import has_re2
from retentive.storage import capabilities
from retentive.storage.contract import Backend, Snapshot, StoreInfo
from retentive.storage.findings import Finding, found
from retentive.storage.paging import all_versions
from retentive.store import MemoryStore, core_of
from retentive.values.commands import View
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.properties import listed

_LOST = {"unreadable", "log_damaged", "file_damaged"}  # after one of these findings, no store is called healthy
_NO_DAMAGE = (StoreFull, PermissionDenied, StorageReadOnly, Unavailable, Closed)
_ENDS = {"schema_old", "schema_new", "schema_foreign"}  # after one of these findings, nothing else can be checked


def check(backend: Backend, *, quick: bool = False, progress: Progress | None = None) -> Iterator[Finding]:
    """Check an opened backend and yield the findings. A memory store without a problem gets a finding `healthy`.

    Each store is checked in one consistent state. Other processes may write meanwhile. `quick` skips the texts of older
    versions. `progress` is called from time to time. In a directory of plain files, external edits are recorded before
    the check, as before every command; use `check_location` if they must not be recorded. Damaged data is reported as a
    finding, and never raises an error.
    """
    wrong: dict[str, int] = {}
    keys: dict[str | None, str | None] = {}
    with suppress(Exception):  # reported below
        keys |= {info.id: info.key for info in backend.list_stores()}
    whole = True
    if not has_re2():
        yield found("re2_missing")
    for finding in _guarded(None, partial(capabilities.check, backend, quick=quick)):
        whole &= finding.store_id is not None or finding.code not in _LOST
        yield replace(finding, store_key=keys.get(finding.store_id))
        if finding.code in _ENDS and finding.store_id is None:
            return
        if finding.store_id is not None and finding.severity == "problem":
            wrong[finding.store_id] = wrong.get(finding.store_id, 0) + 1
    try:
        infos = [listed(info) for info in backend.list_stores()]
    except _NO_DAMAGE:
        raise
    except Exception as error:  # parsing damaged data can raise any error
        if whole:  # otherwise the damage was reported above
            yield found("unreadable", None, reason(error))
        return
    for info in infos:
        for finding in _check_store(backend, info, wrong.get(info.id, not whole), quick=quick, progress=progress):
            yield replace(finding, store_key=info.key)


def _check_store(
    backend: Backend, info: StoreInfo, before: int, *, quick: bool, progress: Progress | None
) -> Iterator[Finding]:
    problem = _row_problem(backend, info) or _lock_problem(backend, info)
    if problem is not None:
        if not before or (info.damage is None and problem.severity == "problem"):  # otherwise the cause was reported
            yield problem
        if before or info.damage is None:
            return
        before = 1
    if info.damage is None and not _is_found(backend, info):
        before += 1
        yield found("key_wrong", info.id)
    store_check = StoreCheck(info, quick=quick, progress=progress)
    problems = before
    state = _guarded(info.id, lambda: backend.read(info.id, store_check.run))
    activity = _guarded(info.id, partial(_check_activity, backend, info))
    for finding in chain(state, activity):
        problems += finding.severity == "problem"
        yield finding
    if problems:
        return
    failures = list(_guarded(info.id, partial(_run_a_command, backend, info)))
    yield from failures or (
        found("healthy", info.id, f"{store_check.memories} memories, {store_check.versions} versions"),
    )


def _row_problem(backend: Backend, info: StoreInfo) -> Finding | None:
    """Return a finding if the row of a store cannot be read, or if its seal contradicts its versions."""
    if info.damage is not None:
        return found("unreadable", info.id, info.damage)
    with suppress(ImportError):  # without the package for encryption, seals cannot be parsed
        from retentive.storage.sealed.store_seal import StoreSeal  # noqa: PLC0415 - cryptography is imported late

        try:
            if info.seal is not None:
                StoreSeal.parse(info.seal)
        except (Damaged, UnknownSchema) as error:
            return found("unreadable", info.id, reason(error))
    while backend.inner is not None:
        backend = backend.inner

    def is_sealed(snapshot: Snapshot) -> bool | None:
        newest = (version for version in all_versions(snapshot) if version.redacted_at is None)
        return next((version.seal is not None for version in newest), None)

    with suppress(Damaged, NotFound, TypeError):  # reported by the check of the versions
        if backend.read(info.id, is_sealed) not in {None, info.seal is not None}:
            return found("seal_wrong", info.id, "the seal of the store contradicts its versions")
    return None


def _lock_problem(backend: Backend, info: StoreInfo) -> Finding | None:
    try:
        capabilities.unlock(backend, info)
    except (Locked, InvalidInput) as error:
        return found("key_destroyed" if capabilities.is_destroyed(info) else "locked", info.id, reason(error))
    except (Damaged, UnknownSchema) as error:
        return found("unreadable", info.id, reason(error))
    return None


def _run_a_command(backend: Backend, info: StoreInfo) -> Iterator[Finding]:
    """Read the store as commands do. The errors are those of the commands."""
    store = existing_store(backend, info.id)
    core = core_of(MemoryStore(backend, store))
    core.settings()
    core.peek(RunView(View(MemoryPath.parse(ROOT)), core.lines, core.listings))
    yield from ()


def _check_activity(backend: Backend, info: StoreInfo) -> Iterator[Finding]:
    for key, value in backend.side_records(info.id, ACCESSED):
        if not can_be_read(float, value):
            yield found("record_wrong", info.id, f"{ACCESSED} {key}")
    verified = MemoryStore(backend, info).audit.verify()
    if verified.problem is not None:
        yield found("audit_wrong", info.id, str(verified.problem))
    if verified.unaudited:
        yield found("audit_gap", info.id, f"{len(verified.unaudited)} versions from {verified.unaudited[0].id}")


def _is_found(backend: Backend, info: StoreInfo) -> bool:
    """Return whether a lookup of the key of `info` finds this store.

    Returns True for a key that looks like an id, because a lookup would treat this key as an id.
    """
    if info.key is None or info.key.startswith("memstore_"):
        return True
    try:
        named = backend.get_store(info.key, workspace=info.workspace_id)
    except (Damaged, InvalidInput):
        return False
    return named is not None and named.id == info.id


def _guarded(store_id: str | None, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
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
        yield found("unreadable", store_id, reason(error))


def reason(error: Exception) -> str:
    """Return the message of an error.

    For an error of a database driver, return only its type, because the message may contain stored data.
    """
    return str(error) if isinstance(error, RetentiveError) else f"reading it raised {type(error).__name__}"


def repair(backend: Backend) -> None:
    """Rebuild damaged pointers, rows, counters, indexes and files from other stored data. Deletes nothing.

    Other processes may write meanwhile. A second check shows which findings were repaired. Raises the errors of
    storage.
    """
    capabilities.repair(backend)
