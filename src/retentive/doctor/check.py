"""Checks a location and all its memory stores, and rebuilds data that follows from other stored data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial

from retentive.doctor.store_check import Findings, Progress, check_store, guarded, holds, reason
from retentive.engine.access_times import KIND as ACCESSED
from retentive.errors import Damaged, InvalidInput, Locked, NotFound, UnknownSchema
from retentive.locations import is_foreign, location_exists, open_backend, parse_location
from retentive.opening import Keys, encryption
from retentive.storage import capabilities
from retentive.storage.contract import Backend, Snapshot, StoreInfo
from retentive.storage.disk import need_posix
from retentive.storage.findings import Finding, found
from retentive.storage.paging import all_versions
from retentive.storage.sql.schema import ForeignSchema
from retentive.store import MemoryStore
from retentive.values.properties import listed

_LOST = {"unreadable", "log_damaged", "file_damaged"}  # after one of these findings, no store is called healthy
_ENDS = {"schema_new", "schema_foreign"}  # after one of these findings, nothing else can be checked
# After one of these findings about the location, nothing is rebuilt. A rebuild could cause more damage, or, with
# `directory_plain`, would create `.retentive` in a directory that retentive has never opened.
_PREVENTS_REBUILD = {"file_damaged", "log_damaged", "schema_new", "schema_foreign", "directory_plain", "unreadable"}


def check_location(
    at: str | os.PathLike[str],
    *,
    keys: Keys | None = None,
    quick: bool = False,
    repair: bool = False,
    progress: Progress | None = None,
) -> Findings:
    """Check a location and yield the findings (docs/doctor.md). A store without a problem gets a finding `healthy`.

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
    codes = {finding.code for finding in before if finding.store_id is None}
    if codes & _PREVENTS_REBUILD:
        yield from before
        return
    try:
        with closing(encrypted(open_backend(at))) as backend:
            capabilities.rebuild(backend)
    except (Damaged, UnknownSchema) as error:
        yield from (*before, found("unreadable", None, reason(error)))
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
    except UnknownSchema as error:
        code = "schema_foreign" if isinstance(error, ForeignSchema) else "schema_new"
        yield found(code, None, reason(error))
        return
    except Damaged as error:
        yield found("unreadable", None, reason(error))
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
        infos.extend([listed(info) for info in backend.list_stores()])
        return ()

    unlisted = list(guarded(None, list_stores))
    keys = {info.id: info.key for info in infos}
    wrong: set[str | None] = set()
    for finding in guarded(None, partial(capabilities.check, backend, quick=quick)):
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
        return list(check_store(info, snapshot, quick=quick, progress=progress))

    findings = list(guarded(info.id, lambda: backend.read(info.id, work)))
    findings += guarded(info.id, partial(_check_surroundings, backend, info))
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
    except (Locked, InvalidInput) as error:
        return found("key_destroyed" if capabilities.is_destroyed(info) else "locked", info.id, reason(error))
    except (Damaged, UnknownSchema) as error:
        return found("unreadable", info.id, reason(error))
    return None


def _check_surroundings(backend: Backend, info: StoreInfo) -> Findings:
    """Check the key of a store, its access times and its audit log."""
    if info.damage is None and info.key is not None and not info.key.startswith("memstore_"):  # that is taken for an id
        named = None
        with suppress(Damaged, InvalidInput):
            named = backend.get_store(info.key, workspace=info.workspace_id)
        if named is None or named.id != info.id:
            yield found("key_wrong", info.id)
    for key, value in backend.read(info.id, lambda snapshot: list(snapshot.records(ACCESSED))):
        if not holds(partial(float, value)):
            yield found("record_wrong", info.id, f"{ACCESSED} {key}")
    verified = MemoryStore(backend, info).audit.verify()
    if verified.problem is not None:
        yield found("audit_wrong", info.id, str(verified.problem))
    if verified.unaudited:
        yield found("audit_gap", info.id, f"{len(verified.unaudited)} versions from {verified.unaudited[0].id}")
