"""Checks, repairs and cleans a location. For a check, local files and directories are opened read-only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from retentive.doctor.check import check, reason
from retentive.doctor.check import repair as repair_all
from retentive.doctor.discarding import SavedCopies, default_directory, discard, discard_log, named
from retentive.doctor.store_check import Progress
from retentive.errors import Damaged, InvalidInput, NotFound, UnknownSchema
from retentive.locations import is_foreign, is_in_memory, location_exists, open_backend, parse_location
from retentive.opening import Keys, encryption
from retentive.storage import capabilities
from retentive.storage.contract import Backend
from retentive.storage.disk import expanded, need_posix
from retentive.storage.findings import Finding, found
from retentive.storage.sql.schema import ForeignSchema, OlderSchema

# Codes of findings that prevent a repair. A repair could cause more damage, or, with `directory_plain`, would create
# `.retentive` in a directory that retentive has never opened.
_LOG = "log_damaged"
_PREVENTS_REPAIR = {"file_damaged", _LOG, "schema_new", "schema_foreign", "directory_plain"}


def check_location(
    at: str | os.PathLike[str],
    *,
    keys: Keys | None = None,
    quick: bool = False,
    repair: bool = False,
    discarded: Sequence[str] = (),
    save_to: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Iterator[Finding]:
    """Check a location and yield the findings (docs/doctor.md). A store without a problem gets a finding `healthy`.

    By default, only the check runs, and local files are not changed. Database servers and object storage are opened in
    the same way as for other commands.

    With `repair`, damaged values are rebuilt if the correct value is certain; nothing is deleted. The location is then
    checked again. Findings that the second check does not report are yielded with the severity `repaired`.

    `discarded` has the names (`Finding.name`) of findings whose data is to be deleted. The data is first saved to a new
    file in the directory `save_to`. For a local location, `save_to` is optional.

    Raises `NotFound` if the location does not exist, and `InvalidInput` for a name that no finding has. If the storage
    cannot be reached, raises the error of the storage.
    """
    if not location_exists(at, or_is_empty=True):  # the check reports an empty database file
        raise NotFound("there is nothing to check: the location has no memory stores; `retentive init` creates one")
    encrypted = encryption(keys)
    findings = partial(_findings, at, encrypted, quick=quick, progress=progress)
    if not repair and not discarded:
        yield from findings()
        return
    yield from _repaired(
        findings, discarded, partial(_change, at, encrypted, repair=repair, names=discarded, save_to=save_to)
    )


def _change(
    at: str | os.PathLike[str],
    encrypted: Callable[[Backend], Backend],
    found_before: Sequence[Finding],
    *,
    repair: bool,
    names: Sequence[str],
    save_to: str | os.PathLike[str] | None,
) -> None:
    """Repair the location if `repair` is true. Then discard the data of the findings named in `names`."""
    chosen = named(found_before, names)
    directory = save_to or default_directory(os.fspath(at))
    if chosen and directory is None:
        raise InvalidInput("specify a directory for the copy of the discarded data")
    if any(finding.code == _LOG for finding in chosen):
        discard_log(database_of(at), os.path.abspath(expanded(directory or "")))
        chosen = [finding for finding in chosen if finding.code != _LOG]
    with closing(encrypted(open_backend(at))) as backend:
        if repair:
            repair_all(backend)
        copies = SavedCopies(os.path.abspath(expanded(directory or "")))
        for finding in chosen:
            discard(backend, finding, copies)
        if chosen:
            capabilities.purge(backend)


def _repaired(
    findings: Callable[[], Iterator[Finding]], names: Sequence[str], change: Callable[[Sequence[Finding]], None]
) -> Iterator[Finding]:
    before = list(findings())
    cuts_log = any(finding.code == _LOG and finding.name in names for finding in before)  # may be the cause of others
    if not cuts_log and any(map(_prevents_repair, before)):
        yield from before
        return
    try:
        change(before)
    except (Damaged, UnknownSchema) as error:
        yield from (*before, found("unreadable", None, reason(error)))
        return
    after = list(findings())
    left = set(after)
    yield from (
        replace(finding, severity="repaired") for finding in before if finding.severity != "ok" and finding not in left
    )
    yield from after


def _prevents_repair(finding: Finding) -> bool:
    """Return whether a finding makes a repair of the location dangerous or impossible."""
    return finding.code in _PREVENTS_REPAIR or (finding.code == "unreadable" and finding.store_id is None)


def _findings(
    at: str | os.PathLike[str], encrypted: Callable[[Backend], Backend], *, quick: bool, progress: Progress | None
) -> Iterator[Finding]:
    scheme, rest = parse_location(at)
    if scheme is None:
        need_posix("a directory of memories")
    if is_foreign(at):
        from retentive.storage.files.check import examine_plain  # noqa: PLC0415 - drivers are imported when needed

        yield from examine_plain(rest)
        return
    try:
        opened = open_read_only(at)
    except UnknownSchema as error:
        codes = {OlderSchema: "schema_old", ForeignSchema: "schema_foreign"}
        yield found(codes.get(type(error), "schema_new"), None, reason(error))
        return
    except Damaged as error:
        yield found("unreadable", None, reason(error))
        return
    with closing(encrypted(opened)) as backend:
        yield from check(backend, quick=quick, progress=progress)


def database_of(at: str | os.PathLike[str]) -> str:
    """Return the path of the SQLite file of a local location."""
    scheme, rest = parse_location(at)
    return rest.removeprefix("/") if scheme == "sqlite" else os.path.join(rest, ".retentive", "memory.db")


def open_read_only(at: str | os.PathLike[str]) -> Backend:
    """Return the backend of a location. Local files and directories are opened read-only.

    Raises the errors of storage.
    """
    scheme, rest = parse_location(at)
    if scheme is None:
        from retentive.storage.files.backend import ReadOnlyDirectory  # noqa: PLC0415 - drivers are imported when needed

        return ReadOnlyDirectory(rest)
    if scheme != "sqlite" or is_in_memory(os.fspath(at)):
        return open_backend(at)
    from retentive.storage.sqlite.read_only import ReadOnlyBackend  # noqa: PLC0415 - drivers are imported when needed

    return ReadOnlyBackend(rest.removeprefix("/"))
