"""Routes of memory stores: their properties, usage, settings, audit logs, exports and imports."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import IO, Annotated, Any, Literal

from pydantic import Field

from retentive.audit.chain import entries_page
from retentive.errors import Damaged, NotFound, UnknownSchema
from retentive.evidence import gather
from retentive.server.calls import ADMIN, ERASE, NO_STORE, READ, STORE, STORES, WRITE, RouteCall, Routes, Streamed
from retentive.server.errors import forbidden, invalid, missing
from retentive.server.handlers.memories import MEMORY
from retentive.server.requests import MAX_FILES, MAX_TEXT_BYTES, MAX_UPLOAD_BYTES, next_of
from retentive.storage.contract import StoreInfo
from retentive.store import MemoryStore, core_of
from retentive.transfer.export import export_to, write_tar
from retentive.transfer.files import spool
from retentive.transfer.import_files import import_files, tar_source
from retentive.wire import base
from retentive.wire import stores as wire
from retentive.wire.history import RemovedObject

route = Routes()


@route("POST", STORES, ADMIN, conflicts=True)
def create_memory_store(call: RouteCall, body: wire.StoreCreation) -> wire.StoreObject:
    """Create a memory store.

    If the workspace already has a memory store with this `key`, return that store.
    """
    there = call.caller.key.within("", body.key)
    if there is None or not there.allows("admin"):
        raise forbidden("key: must match a pattern in the field `stores` of the API key")
    given = body.model_dump(exclude_none=True)
    made = call.location.opened.create_store(**given, workspace=call.caller.workspace_id)
    if made.erased_at is not None:
        raise missing(NO_STORE)
    return wire.StoreObject.of(made)


@route("GET", STORES, READ, pages=True)
def list_memory_stores(
    call: RouteCall,
    *,
    created_from: base.CreatedFrom = None,
    created_to: base.CreatedTo = None,
    include_archived: Annotated[base.QueryFlag, Field(description="List archived stores too")] = False,
    key: Annotated[base.Name | None, Field(description="Only the store with this key")] = None,
) -> base.AnswerPage[wire.StoreObject]:
    """List memory stores, newest first."""
    opened, workspace = call.location.opened, call.caller.workspace_id
    after, limit, shown = call.start or None, call.asked.limit, list[StoreInfo]()
    if key is not None:
        found = _with_key(call, key, include_archived=include_archived)
        return base.AnswerPage[wire.StoreObject](data=[_shown_to(call, info) for info in found])
    following: str | None = ""
    chosen: dict[str, Any] = {
        "include_archived": include_archived,
        "created_from": created_from,
        "created_to": created_to,
    }
    while following is not None and len(shown) < limit:
        listed = opened.list_stores(workspace=workspace, after=after, limit=limit - len(shown), **chosen)
        shown += filter(partial(call.caller.may, "read"), listed.items)
        after = following = listed.next
    data = [_shown_to(call, info) for info in shown]
    return base.AnswerPage[wire.StoreObject](data=data, next_page=next_of(following, call.listing))


@route("GET", STORE, READ)
def retrieve_memory_store(call: RouteCall) -> wire.StoreObject:
    """Retrieve a memory store."""
    return _shown_to(call, call.info)


def _shown_to(call: RouteCall, info: StoreInfo) -> wire.StoreObject:
    """Return the object of a memory store. A key for some paths does not see how much is in the whole store."""
    own = call.caller.within(info).key
    hidden = dict.fromkeys(("memory_count", "content_size_bytes")) if own.paths else {}
    return wire.StoreObject.of(info, **hidden)


@route("POST", STORE, ADMIN, conflicts=True)
def update_memory_store(call: RouteCall, body: wire.StoreUpdate) -> wire.StoreObject:
    """Change a memory store."""
    update = call.location.opened.update_store
    return wire.StoreObject.of(update(call.info.id, **dict(body), actor=call.caller.actor))


@route("DELETE", STORE, ADMIN)
def delete_memory_store(call: RouteCall) -> base.DeletedObject:
    """Erase a memory store."""
    info = call.info
    call.location.opened.erase(info.id, actor=call.caller.actor)
    return base.DeletedObject(id=info.id, type="memory_store_deleted")


@route("POST", f"{STORE}/archive", ADMIN)
def archive_memory_store(call: RouteCall) -> wire.StoreObject:
    """Archive a memory store, which cannot be reversed."""
    return wire.StoreObject.of(call.location.opened.archive_store(call.info.id, actor=call.caller.actor))


def _with_key(call: RouteCall, key: str, *, include_archived: bool) -> list[StoreInfo]:
    try:
        info = call.location.opened.get_store(key, workspace=call.caller.workspace_id)
    except NotFound:
        return []
    is_shown = call.caller.may("read", info) and info.key == key and (include_archived or info.archived_at is None)
    return [info] if is_shown else []


Heads = Annotated[str, Field(max_length=4_000, description="Heads of earlier reports, separated by commas")]


@route("GET", f"{STORE}/usage", READ)
def retrieve_usage(call: RouteCall) -> wire.UsageObject:
    """Count the memories."""
    return wire.UsageObject.of(call.store.usage(), memory_store_id=call.store.id)


@route("GET", f"{STORE}/settings", READ)
def retrieve_settings(call: RouteCall) -> wire.SettingsObject:
    """Retrieve the settings."""
    return _settings(call.store)


@route("POST", f"{STORE}/settings", ADMIN)
def update_settings(call: RouteCall, body: wire.SettingsUpdate) -> wire.SettingsObject:
    """Change settings; null restores a default."""
    store = call.store
    store.change_settings(body.model_extra or {})
    return _settings(store)


def _settings(store: MemoryStore) -> wire.SettingsObject:
    return wire.SettingsObject(memory_store_id=store.id, settings=asdict(store.settings()))


@route("GET", f"{STORE}/audit_entries", ADMIN, pages=True)
def list_audit_entries(call: RouteCall) -> base.AnswerPage[wire.AuditEntryObject]:
    """List the audit log, oldest first."""
    after, limit = call.start, call.asked.limit
    found = core_of(call.store).read(lambda snapshot: entries_page(snapshot, after, limit, newest_first=False))
    return call.page(wire.AuditEntryObject, found.items, found.next)


@route("GET", f"{STORE}/audit/verify", ADMIN)
def verify_audit(call: RouteCall, expect: Heads = "") -> wire.AuditReport:
    """Verify the audit log."""
    return wire.AuditReport.of(call.store.audit.verify(expect=expect.split(",") if expect else ()))


@route("GET", f"{STORE}/audit/evidence", ADMIN, is_long=True)
def retrieve_evidence(
    call: RouteCall,
    session: Annotated[base.Name, Field(description="The actor `session:NAME`, and changes that name it")],
) -> wire.EvidenceObject:
    """Say what a session read, changed and had reviewed, with the proof of the audit log."""
    return wire.EvidenceObject.of(gather([call.store], session))


@route("POST", f"{MEMORY}/erase", ERASE)
def erase_memory(call: RouteCall, body: wire.Erasure) -> RemovedObject:
    """Permanently remove a memory with its history."""
    memory_id = call.ids["memory_id"]
    removed = call.store.history.erase(memory_id=memory_id, reason=body.reason)
    return RemovedObject.of(removed, id=memory_id, type="memory_erased")


_TAR, _ZSTD, _ = ARCHIVES = ("application/x-tar", "application/zstd", "application/gzip")
Format = Annotated[
    Literal["tar", "tar.zst", "files"],
    Field(description="Format of the archive; `files` has the memories as plain files in its directory `memories`"),
]


@route("GET", f"{STORE}/export", ADMIN, *ARCHIVES, is_long=True)
def export_store(call: RouteCall, format: Format = "tar") -> Streamed:  # noqa: A002 - the name of the field
    """Export the memories and their history, or only the memories as plain files."""
    raw = spool()
    try:
        if format == "files":
            write_tar(call.store, raw)
        else:
            export_to(raw, call.store, compressed=format == "tar.zst")
        raw.seek(0)
    except BaseException:
        raw.close()
        raise
    return Streamed(raw, _ZSTD if format == "tar.zst" else _TAR)


@route("POST", f"{STORE}/import", WRITE, upload=ARCHIVES, is_long=True)
def import_memories(
    call: RouteCall,
    *,
    upload: IO[bytes],
    path_prefix: base.Under = "/",
    source: base.Source = None,
    session: base.Session = None,
    overwrite: Annotated[
        base.QueryFlag, Field(description="Replace existing memories, which are kept otherwise")
    ] = False,
    dry_run: Annotated[base.QueryFlag, Field(description="Report the steps, and change nothing")] = False,
) -> wire.ImportResult:
    """Import the files of a tar file as memories, as one change."""
    limits = {"max_bytes": MAX_UPLOAD_BYTES, "max_files": MAX_FILES, "max_file_bytes": MAX_TEXT_BYTES}
    try:
        files = tar_source(upload, **limits)
    except (Damaged, UnknownSchema) as error:
        raise invalid(f"the body cannot be imported: {error}") from None
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
    return wire.ImportResult(
        files=list(map(wire.ImportedFile.of, done.files)), dry_run=dry_run, proposed=done.is_proposed
    )
