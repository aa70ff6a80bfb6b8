"""Routes of memory stores."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from retentive.errors import NotFound
from retentive.server.calls import NO_STORE, RouteCall
from retentive.server.cursors import next_of, start_of
from retentive.server.errors import forbidden, missing
from retentive.server.handlers.repeats import id_of_creation, unchanged
from retentive.server.route import ADMIN, READ, STORE, STORES, Routes
from retentive.storage.contract import StoreInfo, now_us, sortable_id
from retentive.store.location import new_store
from retentive.wire.base import AnswerPage, CreatedFrom, CreatedTo, Cursor, Limit, Name, QueryFlag
from retentive.wire.stores import StoreCreation, StoreDeleted, StoreObject, StoreUpdate

route = Routes()


@route("POST", STORES, ADMIN, conflicts=True, again=unchanged)
def create_memory_store(call: RouteCall, body: StoreCreation) -> StoreObject:
    """Create a memory store.

    If the workspace already has a memory store with this `key`, return that store.
    """
    patterns, key = call.caller.key.stores, body.key
    if call.caller.key.paths:
        raise forbidden("an API key that is limited to some paths cannot create a memory store")
    if patterns and (key is None or not call.caller.key.sees("", key)):
        raise forbidden("key: must match a pattern in the field `stores` of the API key")
    made = new_store(
        call.location.opened,
        body.name,
        description=body.description or "",
        metadata=body.metadata,
        key=key,
        workspace=call.caller.workspace_id,
        store_id=None if key is not None else id_of_creation(call, lambda: sortable_id("memstore_", now_us())),
    )
    if made.erased_at is not None:
        raise missing(NO_STORE)
    return StoreObject.of(made)


@route("GET", STORES, READ)
def list_memory_stores(
    call: RouteCall,
    *,
    limit: Limit = 20,
    page: Cursor = None,
    created_from: CreatedFrom = None,
    created_to: CreatedTo = None,
    include_archived: Annotated[QueryFlag, Field(description="List archived stores too")] = False,
    key: Annotated[Name | None, Field(description="Only the store with this key")] = None,
) -> AnswerPage[StoreObject]:
    """List memory stores, newest first."""
    opened, workspace = call.location.opened, call.caller.workspace_id
    of = f"{call.path} {workspace} {created_from} {created_to} {include_archived} {key}"
    after = start_of(page, of) or None
    if key is not None:
        found = _with_key(call, key, include_archived=include_archived)
        return AnswerPage[StoreObject](data=[_shown(call, info) for info in found])
    shown: list[StoreInfo] = []
    following: str | None = ""
    while following is not None and len(shown) < limit:
        listed = opened.list_stores(
            workspace=workspace,
            include_archived=include_archived,
            created_from=created_from,
            created_to=created_to,
            after=after,
            limit=limit - len(shown),
        )
        shown += filter(call.caller.sees, listed.items)
        after = following = listed.next
    return AnswerPage[StoreObject](data=[_shown(call, info) for info in shown], next_page=next_of(following, of))


@route("GET", STORE, READ)
def retrieve_memory_store(call: RouteCall) -> StoreObject:
    """Retrieve a memory store."""
    return _shown(call, call.info)


def _shown(call: RouteCall, info: StoreInfo) -> StoreObject:
    """Return the object of a memory store. A key for some paths does not see how much is in the whole store."""
    return StoreObject.of(
        info, **(dict.fromkeys(("memory_count", "content_size_bytes")) if call.caller.key.paths else {})
    )


@route("POST", STORE, ADMIN, conflicts=True, again=unchanged)
def update_memory_store(call: RouteCall, body: StoreUpdate) -> StoreObject:
    """Change a memory store."""
    change = call.location.opened.update_store
    actor = call.caller.actor
    return StoreObject.of(
        change(call.info.id, name=body.name, description=body.description, metadata=body.metadata, actor=actor)
    )


@route("DELETE", STORE, ADMIN, again=unchanged)
def delete_memory_store(call: RouteCall) -> StoreDeleted:
    """Erase a memory store."""
    info = call.info
    call.location.opened.erase(info.id, actor=call.caller.actor)
    return StoreDeleted(id=info.id)


@route("POST", f"{STORE}/archive", ADMIN, again=unchanged)
def archive_memory_store(call: RouteCall) -> StoreObject:
    """Archive a memory store.

    This cannot be reversed.
    """
    archived = call.location.opened.archive_store(call.info.id, actor=call.caller.actor)
    return StoreObject.of(archived)


def _with_key(call: RouteCall, key: str, *, include_archived: bool) -> list[StoreInfo]:
    try:
        info = call.location.opened.get_store(key, workspace=call.caller.workspace_id)
    except NotFound:
        return []
    is_shown = call.caller.sees(info) and info.key == key and (include_archived or info.archived_at is None)
    return [info] if is_shown else []
