"""Routes of exports and imports."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import IO, Annotated, Literal

from pydantic import Field

from retentive.engine.operation import AuditOnly
from retentive.engine.repeats import known_result, remember
from retentive.errors import Damaged, NotFound, UnknownSchema
from retentive.server.calls import RouteCall, Streamed
from retentive.server.errors import forbidden, invalid
from retentive.server.route import ADMIN, STORE, WRITE, Routes
from retentive.server.uploads import MAX_FILES, MAX_TEXT_BYTES, MAX_UPLOAD_BYTES
from retentive.store import core_of
from retentive.transfer.archive import Archive
from retentive.transfer.export import export_to, write_tar
from retentive.transfer.files import CHUNK, spool
from retentive.transfer.import_files import ImportFiles, import_files
from retentive.transfer.restore import import_whole
from retentive.transfer.sources import tar_source
from retentive.wire.base import Name, QueryFlag, Session, Source, Under
from retentive.wire.stores import ImportedFile, ImportResult, StoreImported, StoreObject

_TAR, _GZIP = ARCHIVES = ("application/x-tar", "application/gzip")
Format = Annotated[
    Literal["tar", "tar.gz", "files"],
    Field(description="Format of the archive; `files` has the memories as plain files in its directory `memories`"),
]
StoreKey = Annotated[Name | None, Field(description="Key of the memory store; default: the one in the export")]
route = Routes()


@route("GET", f"{STORE}/export", ADMIN, *ARCHIVES, is_long=True)
def export_store(call: RouteCall, format: Format = "tar") -> Streamed:  # noqa: A002 - the name of the field
    """Export the memories and their history, or only the memories as plain files."""
    raw = spool()
    try:
        if format == "files":
            write_tar(call.store, raw)
        else:
            export_to(raw, call.store, compressed=format == "tar.gz")
    except BaseException:
        raw.close()
        raise
    return Streamed(pieces_of(raw), _GZIP if format == "tar.gz" else _TAR)


def pieces_of(raw: IO[bytes]) -> Generator[bytes]:
    """Return a generator of the bytes of a file. The file is closed when the generator ends or is closed."""
    found = _pieces(raw)
    next(found)
    return found


def _pieces(raw: IO[bytes]) -> Generator[bytes]:
    with raw:
        raw.seek(0)
        yield b""
        while piece := raw.read(CHUNK):
            yield piece


@route("POST", f"{STORE}/import", WRITE, upload=ARCHIVES, is_long=True)
def import_memories(
    call: RouteCall,
    *,
    path_prefix: Under = "/",
    source: Source = None,
    session: Session = None,
    overwrite: Annotated[QueryFlag, Field(description="Replace existing memories, which are kept otherwise")] = False,
    dry_run: Annotated[QueryFlag, Field(description="Report the steps, and change nothing")] = False,
) -> ImportResult:
    """Import the files of a tar file as memories, as one change."""
    limits = {"max_bytes": MAX_UPLOAD_BYTES, "max_files": MAX_FILES, "max_file_bytes": MAX_TEXT_BYTES}
    with _as_request():
        files = tar_source(call.upload.file, **limits)
    done = import_files(
        call.store,
        files,
        under=path_prefix,
        overwrite=overwrite,
        dry_run=dry_run,
        actor=call.caller.actor,
        source=source,
        session=session,
    )
    return ImportResult(files=list(map(ImportedFile.of, done.files)), dry_run=dry_run, proposed=done.is_proposed)


@contextmanager
def _as_request() -> Iterator[None]:
    try:
        yield
    except (Damaged, UnknownSchema) as error:
        raise invalid(f"the body cannot be imported: {error}") from None


def _archive(raw: IO[bytes]) -> Archive:
    """Return the archive in the body of a request. The archive is verified first."""
    with _as_request():
        return Archive(raw, max_bytes=MAX_UPLOAD_BYTES, max_text_bytes=MAX_TEXT_BYTES)


@route("POST", "/v1/memory_store_imports", ADMIN, upload=ARCHIVES, is_long=True)
def import_memory_store(call: RouteCall, key: StoreKey = None) -> StoreImported:
    """Import the memory store of an export with its ids, times and history."""
    archive = _archive(call.upload.file)
    header = archive.exported()
    _check_store(call, header.id, header.key if key is None else key)
    added = _known(call, header.id)
    if added is None:
        done = import_whole(archive, call.location.opened.backend, key=key, workspace=call.caller.workspace_id)
        added = done.added
        _remember(call, header.id, added)
    info = call.location.info(header.id)
    call.location.opened.marks.mark(info)
    return StoreImported(
        memory_store=StoreObject.of(info),
        memories=header.memories,
        content_size_bytes=header.size_bytes,
        versions=header.versions,
        added_versions=added,
    )


def _check_store(call: RouteCall, store_id: str, key: str | None) -> None:
    """Raise `HttpError` if the caller may not import the memory store of an archive.

    The memory store must match the patterns of the API key. If a memory store with the same id exists, it must be
    erased or visible to the API key.
    """
    if not call.caller.key.sees(store_id, key):
        raise forbidden("the patterns of the API key do not include the memory store of the archive")
    try:
        present = call.location.info(store_id)
    except NotFound:
        return
    if present.erased_at is None and not call.caller.sees(present):
        raise invalid("the memory store of the archive cannot be imported; a memory store with the same id exists here")


def _known(call: RouteCall, store_id: str) -> int | None:
    """Return the number of versions that the first attempt of this request added. None if this is the first attempt."""
    request, backend = call.request, call.location.opened.backend
    if request is None or backend.get_store(store_id) is None:
        return None
    kept = backend.read(store_id, lambda snapshot: known_result(snapshot, request, time.time()))
    return None if kept is None else int(kept["added"])


def _remember(call: RouteCall, store_id: str, added: int) -> None:
    """Write the audit entry of an import, and record its result for later attempts of the same request."""
    core, request = core_of(call.location.store(store_id, call.caller)[1]), call.request
    core.result_of(AuditOnly(ImportFiles.name))
    if request is not None:
        core.follow_up(lambda tx: remember(tx, request, {"added": added}, core.clock()))
