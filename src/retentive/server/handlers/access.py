"""Routes of API keys, and of webhook endpoints and their deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field

from retentive.errors import InvalidInput, NotFound
from retentive.server.calls import ADMIN, RouteCall, Routes
from retentive.server.errors import forbidden, invalid
from retentive.server.handlers.people import After, Before, Count, page_of, warnings_of
from retentive.server.rights import KeyRecord
from retentive.server.webhooks import STATES, TEST, Endpoint, check_url
from retentive.storage.contract import as_actor
from retentive.store.change_marks import new_webhook_secret
from retentive.wire import stores as wire
from retentive.wire.base import PRINCIPALS, AnswerPage, DeletedObject, IdPage

KEYS = "/v1/organizations/api_keys"
KEY = f"{KEYS}/{{api_key_id}}"
route = Routes()


@route("POST", KEYS, ADMIN, conflicts=True)
def create_api_key(call: RouteCall, body: wire.KeyCreation) -> wire.NewKeyObject:
    """Create an API key in the workspace.

    Only the response to this call contains the text of the key.
    """
    own = call.caller.key
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in dict(body).items()
        if value or (name == "scopes" and value is not None)
    }
    if not _manages(own, given.get("stores", ())):
        raise forbidden("stores: the new key can have only patterns that the API key of the request has too")
    given |= {} if body.principal is None else {"principal": str(body.principal)}
    by: dict[str, Any] = {
        "workspace_id": own.workspace_id,
        "created_by": str(call.caller.actor),
        "joins_groups": own.is_admin,
    }
    made = call.location.keys.create(**given, **by, **call.logged)
    warnings = warnings_of(call, made.record.stores)
    return wire.NewKeyObject(**dict(_key(call, made.record)), api_key=made.text, warnings=warnings)


@route("GET", KEYS, ADMIN)
def list_api_keys(
    call: RouteCall,
    *,
    after_id: After = None,
    before_id: Before = None,
    created_by_user_id: Annotated[
        str | None, Field(max_length=255, description="List the keys that this user created")
    ] = None,
    limit: Count = 20,
    status: Annotated[wire.KeyStatus | None, Field(description="List the keys with this status")] = None,
    workspace_id: Annotated[str | None, Field(max_length=255, description="List the keys of this workspace")] = None,
) -> IdPage[wire.KeyObject]:
    """List the API keys of the workspace, newest first."""
    keys = call.location.keys
    now, uses = keys.now(), keys.last_uses()
    found = [
        record
        for record in keys.all(call.caller.workspace_id)
        if _manages(call.caller.key, record.stores)
        and status in {None, record.status_at(now)}
        and workspace_id in {None, record.workspace_id}
        and created_by_user_id in {None, (record.created_by or "").removeprefix("user:")}
    ]
    shown = [key_object(record, now, uses.get(record.id)) for record in found]
    return IdPage[wire.KeyObject](**page_of(shown, after_id, before_id, limit))


@route("GET", KEY, ADMIN)
def retrieve_api_key(call: RouteCall) -> wire.KeyObject:
    """Retrieve an API key."""
    return _key(call, _key_of(call))


@route("POST", KEY, ADMIN, conflicts=True)
def update_api_key(call: RouteCall, body: wire.KeyUpdate) -> wire.KeyObject:
    """Rename, limit, deactivate or archive an API key."""
    key_id, workspace_id = _key_of(call).id, call.caller.workspace_id
    return _key(call, call.location.keys.change(key_id, workspace_id, **dict(body), **call.logged))


def key_object(record: KeyRecord, now: datetime, last_used_at: str | None) -> wire.KeyObject:
    """Return the object of an API key. It does not contain the text of the key."""
    by = as_actor(record.created_by)
    changed = {
        "status": record.status_at(now),
        "created_by": {"id": by.id, "type": by.kind} if by is not None and by.kind in PRINCIPALS else None,
        "principal": as_actor(record.principal),
        "scope": {"workspace_id": record.workspace_id},
        "last_used_at": last_used_at,
    }
    return wire.KeyObject.model_validate({**asdict(record), **changed})


def _key_of(call: RouteCall) -> KeyRecord:
    found = call.location.keys.get(call.ids["api_key_id"], call.caller.workspace_id)
    if not _manages(call.caller.key, found.stores):
        raise NotFound("no such API key")
    return found


def _manages(own: KeyRecord, stores: Sequence[str]) -> bool:
    """Return whether the key `own` may see and change a key or an endpoint that has these patterns of memory stores.

    If `own` has patterns, the other must have patterns too, and `own` must have all of these.
    """
    return not own.stores or (bool(stores) and set(stores) <= set(own.stores))


def _key(call: RouteCall, record: KeyRecord) -> wire.KeyObject:
    keys = call.location.keys
    return key_object(record, keys.now(), keys.last_uses().get(record.id))


ENDPOINTS = "/v1/webhook_endpoints"
ENDPOINT = f"{ENDPOINTS}/{{webhook_endpoint_id}}"
Outcome = Annotated[wire.DeliveryState | None, Field(description="Only deliveries with this outcome")]


@route("POST", ENDPOINTS, ADMIN)
def create_webhook_endpoint(call: RouteCall, body: wire.EndpointCreation) -> wire.NewEndpointObject:
    """Create a webhook endpoint; the answer shows its secret once."""
    if not body.enabled_events:
        raise invalid("enabled_events: must not be empty")
    given = {**body.model_dump(exclude_none=True), "url": _checked_url(call, body.url)}
    events = dict.fromkeys(given.pop("enabled_events"))
    workspace_id, stores = call.caller.workspace_id, call.caller.key.stores
    return _with_secret(call.location.webhooks.create(workspace_id, events=events, stores=stores, **given))


@route("GET", ENDPOINTS, ADMIN)
def list_webhook_endpoints(call: RouteCall) -> AnswerPage[wire.EndpointObject]:
    """List the webhook endpoints of the workspace, newest first, on one page."""
    found = call.location.webhooks.endpoints(call.caller.workspace_id)
    return AnswerPage[wire.EndpointObject](data=[each for each in found[::-1] if _sees_endpoint(call, each)])


@route("GET", ENDPOINT, ADMIN)
def retrieve_webhook_endpoint(call: RouteCall) -> wire.EndpointObject:
    """Retrieve a webhook endpoint."""
    return _endpoint_of(call)


@route("POST", ENDPOINT, ADMIN, conflicts=True)
def update_webhook_endpoint(call: RouteCall, body: wire.EndpointUpdate) -> wire.EndpointObject:
    """Change a webhook endpoint."""
    endpoint, changes = _endpoint_of(call), body.model_dump(exclude_none=True)
    if body.url is not None:
        changes["url"] = _checked_url(call, body.url)
    events = list(dict.fromkeys(changes.pop("enabled_events", ())))
    changes |= {"enabled_events": events} if events else {}
    return call.location.webhooks.change(endpoint.id, **changes)


@route("POST", f"{ENDPOINT}/rotate_secret", ADMIN, conflicts=True)
def rotate_webhook_secret(call: RouteCall) -> wire.NewEndpointObject:
    """Replace the secret of a webhook endpoint; for a day, the old one signs too."""
    old = _endpoint_of(call)
    changes = {"secret": new_webhook_secret(), "old_secret": old.secret, "rotated_at": datetime.now(UTC)}
    return _with_secret(call.location.webhooks.change(old.id, **changes))


@route("POST", f"{ENDPOINT}/test", ADMIN)
def test_webhook_endpoint(call: RouteCall) -> wire.DeliveryObject:
    """Send an event of the type `webhook.test` to a webhook endpoint."""
    endpoint, now = _endpoint_of(call), datetime.now(UTC)
    if endpoint.state == "disabled":
        raise invalid("a disabled endpoint gets no events")
    return call.location.webhooks.queue(endpoint, TEST, now, endpoint.id)


@route("DELETE", ENDPOINT, ADMIN)
def delete_webhook_endpoint(call: RouteCall) -> DeletedObject:
    """Delete a webhook endpoint with its deliveries."""
    endpoint = _endpoint_of(call)
    call.location.webhooks.delete(endpoint.id)
    return DeletedObject(id=endpoint.id, type="webhook_endpoint_deleted")


@route("GET", f"{ENDPOINT}/deliveries", ADMIN)
def list_webhook_deliveries(call: RouteCall, state: Outcome = None) -> AnswerPage[wire.DeliveryObject]:
    """List the deliveries of a webhook endpoint with their outcome, newest first, on one page."""
    endpoint, hooks = _endpoint_of(call), call.location.webhooks
    found = [each for kind in STATES for each in hooks.deliveries(kind, endpoint.id)]
    found.sort(key=lambda each: each.created_at, reverse=True)
    return AnswerPage[wire.DeliveryObject](data=[each for each in found if state in {None, each.state}])


def _with_secret(endpoint: Endpoint) -> wire.NewEndpointObject:
    return wire.NewEndpointObject.model_validate({**endpoint.model_dump(), "signing_secret": endpoint.secret})


def _endpoint_of(call: RouteCall) -> Endpoint:
    endpoint = call.location.webhooks.endpoint(call.ids["webhook_endpoint_id"])
    if not _sees_endpoint(call, endpoint):
        raise NotFound("no such webhook endpoint")
    return endpoint


def _sees_endpoint(call: RouteCall, endpoint: Endpoint) -> bool:
    return endpoint.workspace_id == call.caller.workspace_id and _manages(call.caller.key, endpoint.stores)


def _checked_url(call: RouteCall, url: str) -> str:
    try:
        return check_url(url, to_private=call.location.webhooks_to_private)
    except InvalidInput as error:
        raise invalid(f"url: {error}") from None
