"""Handlers of the routes for memory stores."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from retentive.errors import NotFound, RetentiveError
from retentive.server import cursors
from retentive.server.calls import NO_STORE, Json, RouteCall
from retentive.server.errors import forbidden, missing
from retentive.server.handlers.repeats import id_of_creation
from retentive.server.objects import memory_store
from retentive.storage.contract import StoreInfo, now_us, sortable_id
from retentive.store.location import new_store


def create_memory_store(
    call: RouteCall, *, name: str, description: str | None, metadata: Mapping[str, str] | None, key: str | None
) -> Json:
    """Create a memory store. If the workspace already has a memory store with this `key`, return that store."""
    patterns = call.caller.key.stores
    if call.caller.key.paths:
        raise forbidden("an API key that is limited to some paths cannot create a memory store")
    if patterns and (key is None or not call.caller.key.sees("", key)):
        raise forbidden("key: must match a pattern in the field `stores` of the API key")
    made = new_store(
        call.location.opened.backend,
        name,
        description=description or "",
        metadata=metadata,
        key=key,
        workspace=call.caller.workspace_id,
        store_id=None if key is not None else id_of_creation(call, lambda: sortable_id("memstore_", now_us())),
    )
    if made.erased_at is not None:
        raise missing(NO_STORE)
    with suppress(RetentiveError):  # the leader announces it later
        call.location.webhooks.announce([made])
    return memory_store(made)


def list_memory_stores(
    call: RouteCall,
    *,
    created_at_gte: datetime | None,
    created_at_lte: datetime | None,
    include_archived: bool,
    key: str | None,
    limit: int,
    page: str | None,
) -> Json:
    """List the memory stores that the key may see in its workspace, newest first."""
    opened, workspace = call.location.opened, call.caller.workspace_id
    of = f"{call.path} {workspace} {created_at_gte} {created_at_lte} {include_archived} {key}"
    after = None if page is None else cursors.decode(page, of, 1)[0]
    if key is not None:
        return {"data": [_shown(call, info) for info in _with_key(call, key, include_archived)], "next_page": None}
    shown: list[StoreInfo] = []
    following: str | None = ""
    while following is not None and len(shown) < limit:
        found = opened.list_stores(
            workspace=workspace,
            include_archived=include_archived,
            created_from=created_at_gte,
            created_to=created_at_lte,
            after=after,
            limit=limit - len(shown),
        )
        shown += filter(call.caller.sees, found.items)
        after = following = found.next
    return {
        "data": [_shown(call, info) for info in shown],
        "next_page": None if following is None else cursors.encode([following], of),
    }


def retrieve_memory_store(call: RouteCall) -> Json:
    """Return a memory store."""
    return _shown(call, call.info)


def _shown(call: RouteCall, info: StoreInfo) -> Json:
    """Return the JSON object of a memory store. A key for some paths does not see how much is in the whole store."""
    return memory_store(info, has_sizes=not call.caller.key.paths)


def update_memory_store(
    call: RouteCall, *, name: str | None, description: str | None, metadata: Mapping[str, str | None] | None
) -> Json:
    """Change the name, description or metadata of a memory store. A metadata value of None removes the entry."""
    info = call.info
    return memory_store(
        call.location.opened.update_store(
            info.id, name=name, description=description, metadata=metadata, actor=call.caller.actor
        )
    )


def archive_memory_store(call: RouteCall) -> Json:
    """Archive a memory store. This cannot be reversed."""
    archived = call.location.opened.archive_store(call.info.id, actor=call.caller.actor)
    with suppress(RetentiveError):
        call.location.webhooks.announce([archived])
    return memory_store(archived)


def delete_memory_store(call: RouteCall) -> Json:
    """Permanently remove a memory store with all its memories and its history."""
    info = call.info
    call.location.webhooks.note(info)
    call.location.opened.erase(info.id, actor=call.caller.actor)
    with suppress(RetentiveError):
        call.location.webhooks.announce_deleted([info.id])
    return {"id": info.id, "type": "memory_store_deleted"}


def _with_key(call: RouteCall, key: str, include_archived: bool) -> list[StoreInfo]:
    try:
        info = call.location.opened.get_store(key, workspace=call.caller.workspace_id)
    except NotFound:
        return []
    is_shown = call.caller.sees(info) and info.key == key and (include_archived or info.archived_at is None)
    return [info] if is_shown else []
