"""Checking a place by its name. A file or directory of this machine is opened without writing a byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

from retentive.doctor.check import check, reason
from retentive.doctor.repair import repair as repair_all
from retentive.doctor.store_check import Progress
from retentive.errors import Damaged, InvalidInput, NotFound, UnknownSchema
from retentive.extras import pip_install
from retentive.locations import is_in_memory, is_there, open_backend
from retentive.opening import Keys
from retentive.storage.contract import Backend
from retentive.storage.findings import Finding, found

_IN_THE_WAY = {"file_damaged", "schema_new"}  # with these nothing is repaired: it might be made worse


def check_place(
    at: str | os.PathLike[str],
    *,
    keys: Keys | None = None,
    quick: bool = False,
    repair: bool = False,
    progress: Progress | None = None,
) -> Iterator[Finding]:
    """What is wrong at a place (docs/doctor.md), and `healthy` for each memory store with which nothing is.

    With `repair`, what can be repaired for certain is; what that was comes with the severity `repaired`, after a
    second look. Without it nothing is written; a database server or object storage is opened as every command does.
    Raises `NotFound` if nothing is there, and the errors of storage that cannot be reached.
    """
    if not is_there(at):
        raise NotFound("there is no memory at the place")
    seal = _sealing(keys)
    if not repair:
        yield from _looked(at, seal, quick=quick, progress=progress)
        return
    before = list(_looked(at, seal, quick=quick, progress=progress))
    if any(_is_in_the_way(finding) for finding in before):
        yield from before
        return
    try:
        with closing(seal(open_backend(at))) as backend:
            repair_all(backend)
    except (Damaged, UnknownSchema) as error:
        yield from before
        yield found("unreadable", None, reason(error))
        return
    after = list(_looked(at, seal, quick=quick, progress=progress))
    still = set(after)
    yield from (
        replace(finding, severity="repaired") for finding in before if finding.severity != "ok" and finding not in still
    )
    yield from after


def _is_in_the_way(finding: Finding) -> bool:
    """Whether nothing can be repaired for certain: of what cannot be read as a whole, nobody knows what it was."""
    return finding.code in _IN_THE_WAY or (finding.code == "unreadable" and finding.store_id is None)


def _looked(
    at: str | os.PathLike[str], seal: Callable[[Backend], Backend], *, quick: bool, progress: Progress | None
) -> Iterator[Finding]:
    try:
        opened = open_to_look(at)
    except UnknownSchema as error:
        yield found("schema_old" if "older" in str(error) else "schema_new", None, reason(error))
        return
    except Damaged as error:
        yield found("unreadable", None, reason(error))
        return
    with closing(seal(opened)) as backend:
        yield from check(backend, quick=quick, progress=progress)


def open_to_look(at: str | os.PathLike[str]) -> Backend:
    """The backend at a place; a file or directory of this machine is not written to. Raises the errors of storage."""
    place = os.fspath(at)
    scheme, separator, rest = place.partition("://")
    if isinstance(at, str) and separator and (scheme != "sqlite" or is_in_memory(place)):
        return open_backend(at)
    from retentive.storage.files.read_only import ReadOnlyBackend, ReadOnlyDirectory  # noqa: PLC0415 - drivers come late

    if isinstance(at, str) and separator:
        return ReadOnlyBackend(rest.removeprefix("/"))
    return ReadOnlyDirectory(place)


def _sealing(keys: Keys | None) -> Callable[[Backend], Backend]:
    if keys is None:
        return lambda backend: backend
    try:
        from retentive.storage.sealed.backend import SealedBackend  # noqa: PLC0415
        from retentive.storage.sealed.keys import as_wrapper  # noqa: PLC0415 - cryptography is imported late
    except ImportError:
        raise InvalidInput(f"encryption needs its library: {pip_install('crypto')}") from None
    wrapper = as_wrapper(keys)
    return lambda backend: SealedBackend(backend, wrapper)
