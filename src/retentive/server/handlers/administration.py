"""Handlers of the routes for settings, usage, the audit log and erasure."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator
from dataclasses import asdict
from datetime import datetime

from retentive.audit.chain import AuditEntry, entries_page, stored_entries
from retentive.errors import NotFound
from retentive.server import cursors, objects
from retentive.server.calls import Json, RouteCall, Streamed
from retentive.server.errors import missing
from retentive.storage.contract import as_actor
from retentive.store import core_of
from retentive.values.settings import Settings

LOG = logging.getLogger("retentive.server")
NO_MEMORY = "memory"


def retrieve_settings(call: RouteCall) -> Json:
    """Return the effective settings of a memory store."""
    store = call.store
    return _settings(store.id, store.settings())


def update_settings(call: RouteCall, **changes: object) -> Json:
    """Change settings of a memory store. `changes` maps the names of settings to their new values.

    The value None restores the default of a setting.
    """
    store = call.store
    store.change_settings(changes)
    return _settings(store.id, store.settings())


def _settings(store_id: str, settings: Settings) -> Json:
    return {"type": "memory_store_settings", "memory_store_id": store_id, "settings": asdict(settings)}


def retrieve_usage(call: RouteCall) -> Json:
    """Return the number of memories and their total size."""
    store = call.store
    usage = store.usage()
    return {
        "type": "memory_store_usage",
        "memory_store_id": store.id,
        "memories": usage.memories,
        "content_size_bytes": usage.size_bytes,
    }


def list_audit_entries(call: RouteCall, *, limit: int, page: str | None) -> Json:
    """List the entries of the audit log, oldest first."""
    after = "" if page is None else cursors.decode(page, call.path, 1)[0]
    found = core_of(call.store).read(lambda snapshot: entries_page(snapshot, after, limit, newest_first=False))
    following = None if found.next is None else cursors.encode([found.next], call.path)
    return {"data": [_entry(each) for each in found.items], "next_page": following}


def _entry(given: AuditEntry) -> Json:
    return {
        "type": "audit_entry",
        "seq": given.seq,
        "created_at": objects.time(given.time),
        "actor": None if given.actor is None else objects.actor(as_actor(given.actor)),
        "operation": given.operation,
        "integration": given.integration,
        "outcome": given.outcome,
        "change_count": len(given.changes),
        "memory_version_ids": [each.version_id for each in given.changes],
    }


def export_audit(call: RouteCall, *, since: datetime | None) -> Streamed:
    """Stream the audit entries from `since` on, oldest first. Each entry is given as its stored line and its paths."""
    found = core_of(call.store).read(lambda snapshot: stored_entries(snapshot, since))
    return Streamed(_lines(found), "application/x-ndjson")


def _lines(found: list[tuple[str, AuditEntry]]) -> Generator[bytes]:
    for stored, entry in found:
        paths = None if entry.paths is None else list(entry.paths)
        yield json.dumps({"stored": stored, "paths": paths}, ensure_ascii=False).encode() + b"\n"


def verify_audit(call: RouteCall, *, expect: str) -> Json:
    """Verify that every entry of the audit log is present, unchanged and in order."""
    found = call.store.audit.verify(expect=expect.split(",") if expect else ())
    return {
        "type": "audit_report",
        "is_sound": found.is_sound,
        "entries": found.entries,
        "problem": None if found.problem is None else str(found.problem),
        "head": None if found.head is None else str(found.head),
        "unaudited_memory_version_ids": [each.id for each in found.unaudited],
    }


def erase_memory(call: RouteCall) -> Json:
    """Permanently remove a memory and all its versions."""
    memory_id = call.ids["memory_id"]
    try:
        removed = call.store.history.erase(memory_id=memory_id)
    except NotFound:
        raise missing(NO_MEMORY) from None
    return {"id": memory_id, "type": "memory_erased", "versions": removed.versions, "pending": removed.pending}
