"""Routes of usage, settings, the audit log and erasure."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import asdict
from typing import Annotated

from pydantic import Field

from retentive.audit.chain import AuditEntry, entries_page, stored_entries
from retentive.server.calls import RouteCall, Streamed
from retentive.server.cursors import next_of, start_of
from retentive.server.errors import finding
from retentive.server.handlers.memories import MEMORY, NO_MEMORY
from retentive.server.route import ADMIN, ERASE, READ, STORE, Routes
from retentive.storage.contract import as_actor
from retentive.store import MemoryStore, core_of
from retentive.wire.administration import (
    AuditEntryObject,
    AuditReport,
    MemoryErased,
    SettingsObject,
    SettingsUpdate,
    UsageObject,
)
from retentive.wire.base import AnswerPage, Cursor, Limit, Time

Since = Annotated[Time | None, Field(description="Only entries since this time")]
Heads = Annotated[str, Field(max_length=4_000, description="Heads of earlier reports, separated by commas")]
route = Routes()


@route("GET", f"{STORE}/usage", READ)
def retrieve_usage(call: RouteCall) -> UsageObject:
    """Count the memories."""
    return UsageObject.of(call.store.usage(), memory_store_id=call.store.id)


@route("GET", f"{STORE}/settings", READ)
def retrieve_settings(call: RouteCall) -> SettingsObject:
    """Retrieve the settings."""
    return _settings(call.store)


@route("POST", f"{STORE}/settings", ADMIN)
def update_settings(call: RouteCall, body: SettingsUpdate) -> SettingsObject:
    """Change settings; null restores a default."""
    store = call.store
    store.change_settings(body.model_extra or {})
    return _settings(store)


def _settings(store: MemoryStore) -> SettingsObject:
    return SettingsObject(memory_store_id=store.id, settings=asdict(store.settings()))


@route("GET", f"{STORE}/audit_entries", ADMIN)
def list_audit_entries(call: RouteCall, limit: Limit = 20, page: Cursor = None) -> AnswerPage[AuditEntryObject]:
    """List the audit log, oldest first."""
    after = start_of(page, call.path)
    found = core_of(call.store).read(lambda snapshot: entries_page(snapshot, after, limit, newest_first=False))
    return AnswerPage[AuditEntryObject](data=list(map(_entry, found.items)), next_page=next_of(found.next, call.path))


def _entry(given: AuditEntry) -> AuditEntryObject:
    return AuditEntryObject(
        seq=given.seq,
        created_at=given.time,
        actor=as_actor(given.actor),
        operation=given.operation,
        integration=given.integration,
        outcome=given.outcome,
        change_count=len(given.changes),
        memory_version_ids=[each.version_id for each in given.changes],
    )


@route("GET", f"{STORE}/audit/export", ADMIN, "application/x-ndjson")
def export_audit(call: RouteCall, since: Since = None) -> Streamed:
    """Export the audit log: in each line the stored entry and its paths, null if they were removed."""
    found = core_of(call.store).read(lambda snapshot: stored_entries(snapshot, since))
    return Streamed(_lines(found), "application/x-ndjson")


def _lines(found: list[tuple[str, AuditEntry]]) -> Generator[bytes]:
    for stored, entry in found:
        paths = None if entry.paths is None else list(entry.paths)
        yield json.dumps({"stored": stored, "paths": paths}, ensure_ascii=False).encode() + b"\n"


@route("GET", f"{STORE}/audit/verify", ADMIN)
def verify_audit(call: RouteCall, expect: Heads = "") -> AuditReport:
    """Verify the audit log."""
    found = call.store.audit.verify(expect=expect.split(",") if expect else ())
    return AuditReport(
        is_sound=found.is_sound,
        entries=found.entries,
        problem=None if found.problem is None else str(found.problem),
        head=None if found.head is None else str(found.head),
        unaudited_memory_version_ids=[each.id for each in found.unaudited],
    )


@route("POST", f"{MEMORY}/erase", ERASE)
def erase_memory(call: RouteCall) -> MemoryErased:
    """Permanently remove a memory with its history."""
    memory_id = call.ids["memory_id"]
    with finding(NO_MEMORY):
        removed = call.store.history.erase(memory_id=memory_id)
    return MemoryErased.of(removed, id=memory_id)
