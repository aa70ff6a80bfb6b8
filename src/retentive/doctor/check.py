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
from retentive.errors import Damaged, NotFound, RetentiveError
from retentive.redaction.search import has_re2
from retentive.storage import capabilities
from retentive.storage.contract import Backend, StoreInfo
from retentive.storage.findings import Finding, found
from retentive.store import MemoryStore

_LOST = {"unreadable", "log_damaged", "file_damaged"}  # after one of these findings, no store is called healthy
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
    for info in _readable_stores(backend, wrong):
        if isinstance(info, Finding):
            if whole:  # otherwise the damage was reported above
                yield info
        else:
            for finding in _check_store(backend, info, wrong.get(info.id, not whole), quick=quick, progress=progress):
                yield replace(finding, store_key=info.key)


def _check_store(
    backend: Backend, info: StoreInfo, before: int, *, quick: bool, progress: Progress | None
) -> Iterator[Finding]:
    try:
        capabilities.unlock(backend, info)
    except RetentiveError as error:
        yield found("unreadable" if isinstance(error, Damaged) else "locked", info.id, reason(error))
        return
    if not _is_found(backend, info):
        before += 1
        yield found("key_wrong", info.id)
    store_check = StoreCheck(info, quick=quick, progress=progress)
    problems = before
    state = _guarded(info.id, lambda: backend.read(info.id, store_check.run))
    activity = _guarded(info.id, partial(_check_activity, backend, info))
    for finding in chain(state, activity):
        problems += finding.severity == "problem"
        yield finding
    if not problems:
        yield found("healthy", info.id, f"{store_check.memories} memories, {store_check.versions} versions")


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
    except RetentiveError:
        return False
    return named is not None and named.id == info.id


def _guarded(store_id: str | None, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings of a check. If the check raises an error, yield a finding `unreadable` with the message.

    All exceptions are caught, because parsing damaged data can raise any of them.
    """
    try:
        yield from check()
    except NotFound:  # the store was erased during the check
        return
    except Exception as error:
        yield found("unreadable", store_id, reason(error))


def reason(error: Exception) -> str:
    """Return the message of an error.

    For an error of a database driver, return only its type, because the message may contain stored data.
    """
    return str(error) if isinstance(error, RetentiveError) else f"reading it raised {type(error).__name__}"


def _readable_stores(backend: Backend, wrong: Iterable[str]) -> Iterator[StoreInfo | Finding]:
    """Yield all memory stores.

    If listing fails, the stores are read one by one. `wrong` has the ids of stores with known problems; such a store is
    skipped if it cannot be read. If no store was skipped, the last result is a finding `unreadable` with the error of
    the listing.
    """
    try:
        yield from backend.list_stores()
    except Exception as error:
        failure = found("unreadable", None, reason(error))
    else:
        return
    after: str | None = ""
    passed = False
    while after is not None:
        try:
            page = backend.list_stores(after=after, limit=1)
        except Exception:
            after = min((each for each in wrong if each > after), default=None)
            passed |= after is not None
            continue
        yield from page
        after = page[0].id if page else None
    if not passed:
        yield failure


def repair(backend: Backend) -> None:
    """Rebuild damaged pointers, rows, counters, indexes and files from other stored data. Deletes nothing.

    Other processes may write meanwhile. A second check shows which findings were repaired. Raises the errors of
    storage.
    """
    capabilities.repair(backend)
