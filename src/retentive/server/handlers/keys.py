"""Handlers of the routes for API keys."""

from __future__ import annotations

from datetime import datetime

from retentive.errors import Conflict, NotFound
from retentive.server.calls import Json, RouteCall
from retentive.server.errors import api_error, forbidden, invalid, missing
from retentive.server.handlers.repeats import id_of_creation
from retentive.server.keys import DEFAULT_SCOPES, KeyRecord, new_key_id, principal_of
from retentive.server.objects import api_key


def create_api_key(
    call: RouteCall,
    *,
    name: str,
    scopes: tuple[str, ...] | None,
    stores: tuple[str, ...] | None,
    paths: tuple[str, ...] | None,
    act_as: tuple[str, ...] | None,
    principal: dict[str, object] | None,
    expires_at: datetime | None,
    rate_limit: str | None,
    max_body_bytes: int | None,
) -> Json:
    """Create a key in the workspace of the caller. Only the response to this call contains the text of the key."""
    own = call.caller.key
    if own.stores and not (stores and set(stores) <= set(own.stores)):  # as in `_manages`
        raise forbidden("stores: the new key can have only patterns that the API key of the request has too")
    key_id = id_of_creation(call, new_key_id)
    try:
        made = call.location.keys.create(
            name,
            key_id=key_id,
            workspace_id=own.workspace_id,
            scopes=scopes or DEFAULT_SCOPES,
            stores=stores or (),
            paths=paths or (),
            act_as=act_as or (),
            principal=principal_of(principal),
            expires_at=expires_at,
            created_by=str(call.caller.actor),
            rate_limit=rate_limit,
            max_body_bytes=max_body_bytes,
        )
    except Conflict:  # another attempt of the same request
        return shown_once(call, {"id": key_id})
    return {**_shown(call, made.record), "api_key": made.text}


def shown_once(call: RouteCall, answer: Json) -> Json:
    """Raise `HttpError` 409, because the text of a created key is not stored. Called for a repeated request."""
    raise api_error(Conflict(f"this request has created the API key {answer['id']}, whose text is shown only once"))


def list_api_keys(
    call: RouteCall,
    *,
    after_id: str | None,
    before_id: str | None,
    created_by_user_id: str | None,
    limit: int,
    status: str | None,
    workspace_id: str | None,
) -> Json:
    """List the keys of the workspace, newest first."""
    if after_id is not None and before_id is not None:
        raise invalid("before_id: cannot be combined with after_id")
    now = call.location.keys.now()
    found = [
        record
        for record in call.location.keys.all(call.caller.workspace_id)
        if _manages(call.caller.key, record)
        and status in {None, record.status_at(now)}
        and workspace_id in {None, record.workspace_id}
        and created_by_user_id in {None, (record.created_by or "").removeprefix("user:")}
    ]
    page, has_more = _page(found, after_id, before_id, limit)
    uses = call.location.keys.last_uses()
    return {
        "data": [api_key(record, now, uses.get(record.id)) for record in page],
        "has_more": has_more,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }


def retrieve_api_key(call: RouteCall) -> Json:
    """Return the record of an API key, without the text of the key."""
    return _shown(call, _found(call))


def update_api_key(call: RouteCall, *, name: str | None, status: str | None, rate_limit: str | None) -> Json:
    """Change the name, the status or the rate limit of a key."""
    key_id, keys = _found(call).id, call.location.keys
    return _shown(call, keys.change(key_id, call.caller.workspace_id, name=name, status=status, rate_limit=rate_limit))


def _found(call: RouteCall) -> KeyRecord:
    try:
        found = call.location.keys.get(call.ids["api_key_id"], call.caller.workspace_id)
    except NotFound:
        raise missing("API key") from None
    if not _manages(call.caller.key, found):
        raise missing("API key")
    return found


def _manages(own: KeyRecord, other: KeyRecord) -> bool:
    """Return whether the key `own` may see and change the key `other`.

    If `own` has patterns of memory stores, `other` must have patterns too, and `own` must have all of these.
    """
    return not own.stores or (bool(other.stores) and set(other.stores) <= set(own.stores))


def _shown(call: RouteCall, record: KeyRecord) -> Json:
    keys = call.location.keys
    return api_key(record, keys.now(), keys.last_use(record.id))


def _page(
    found: list[KeyRecord], after_id: str | None, before_id: str | None, limit: int
) -> tuple[list[KeyRecord], bool]:
    """Return the page of keys after or before an id, and whether more keys follow in the same direction.

    If the given id is not in `found`, the page after it is the first page, and the page before it is empty.
    """
    ids = [record.id for record in found]
    if before_id is not None:
        end = ids.index(before_id) if before_id in ids else 0
        return found[max(0, end - limit) : end], end > limit
    start = ids.index(after_id) + 1 if after_id in ids else 0
    return found[start : start + limit], len(found) > start + limit
