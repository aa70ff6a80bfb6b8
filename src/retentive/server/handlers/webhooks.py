"""Handlers of the routes for webhook endpoints and their deliveries."""

from __future__ import annotations

from datetime import datetime

from retentive.errors import InvalidInput, NotFound
from retentive.server import cursors
from retentive.server.calls import Json, RouteCall
from retentive.server.errors import invalid, missing
from retentive.server.handlers.repeats import id_of_creation
from retentive.server.objects import time
from retentive.server.webhooks import Delivery, Endpoint, EndpointState, List, check_url, new_endpoint_id


def create_webhook_endpoint(
    call: RouteCall, *, url: str, enabled_events: tuple[str, ...], name: str | None, description: str | None
) -> Json:
    """Create an endpoint. Only the response to this call contains the secret that signs the deliveries."""
    made = call.location.webhooks.create(
        call.caller.workspace_id,
        _checked(call, url),
        _events(enabled_events),
        name=name or "",
        description=description or "",
        stores=call.caller.key.stores,
        endpoint_id=id_of_creation(call, new_endpoint_id),
    )
    return {**webhook_endpoint(made), "signing_secret": made.secret}


def with_secret(call: RouteCall, answer: Json) -> Json:
    """Return the answer to the creation of an endpoint with its secret. Called for a repeated request.

    Raises `HttpError` 404 if the endpoint was deleted meanwhile.
    """
    try:
        return {**answer, "signing_secret": call.location.webhooks.endpoint(str(answer["id"])).secret}
    except NotFound:
        raise missing("webhook endpoint") from None


def list_webhook_endpoints(call: RouteCall) -> Json:
    """List the endpoints that the key may see in its workspace, newest first. There is only one page."""
    found = call.location.webhooks.endpoints(call.caller.workspace_id)
    return {"data": [webhook_endpoint(each) for each in found[::-1] if _sees(call, each)], "next_page": None}


def retrieve_webhook_endpoint(call: RouteCall) -> Json:
    """Return an endpoint, without its secret."""
    return webhook_endpoint(_found(call))


def update_webhook_endpoint(
    call: RouteCall,
    *,
    url: str | None,
    enabled_events: tuple[str, ...] | None,
    name: str | None,
    description: str | None,
    state: EndpointState | None,
) -> Json:
    """Change an endpoint. Arguments that are None change nothing."""
    endpoint = _found(call)
    changes = {
        "url": None if url is None else _checked(call, url),
        "enabled_events": _events(enabled_events) if enabled_events else None,
        "name": name,
        "description": description,
        "state": state,
    }
    given = {field: value for field, value in changes.items() if value is not None}
    return webhook_endpoint(call.location.webhooks.change(endpoint.id, **given))


def delete_webhook_endpoint(call: RouteCall) -> Json:
    """Delete an endpoint with its deliveries."""
    endpoint = _found(call)
    call.location.webhooks.delete(endpoint.id)
    return {"id": endpoint.id, "type": "webhook_endpoint_deleted"}


def list_webhook_deliveries(call: RouteCall, *, state: List, limit: int, page: str | None) -> Json:
    """List the pending or the dead deliveries of an endpoint, sorted by event id."""
    endpoint = _found(call)
    of = f"{call.path} {call.caller.workspace_id} {state}"
    after = "" if page is None else cursors.decode(page, of, 1)[0]
    found = list(call.location.webhooks.deliveries(state, endpoint.id, after=after, limit=limit + 1))
    following = cursors.encode([found[limit - 1].event_id], of) if len(found) > limit else None
    return {"data": [webhook_delivery(state, each) for each in found[:limit]], "next_page": following}


def retry_webhook_delivery(call: RouteCall) -> Json:
    """Make a pending or dead delivery due now."""
    endpoint = _found(call)
    try:
        return webhook_delivery("pending", call.location.webhooks.retry(endpoint.id, call.ids["webhook_event_id"]))
    except NotFound:
        raise missing("webhook delivery") from None


def webhook_endpoint(endpoint: Endpoint) -> Json:
    """Return the JSON object of an endpoint, without its secret."""
    return {
        "id": endpoint.id,
        "type": "webhook_endpoint",
        "url": endpoint.url,
        "name": endpoint.name,
        "description": endpoint.description,
        "enabled_events": list(endpoint.enabled_events),
        "state": endpoint.state,
        "created_at": time(datetime.fromisoformat(endpoint.created_at)),
        "updated_at": time(datetime.fromisoformat(endpoint.updated_at)),
    }


def webhook_delivery(state: List, delivery: Delivery) -> Json:
    """Return the JSON object of a delivery."""
    tried_at = delivery.tried_at
    return {
        "type": "webhook_delivery",
        "webhook_event_id": delivery.event_id,
        "webhook_endpoint_id": delivery.endpoint_id,
        "event": delivery.event,
        "state": state,
        "attempts": delivery.attempts,
        "last_error": delivery.error,
        "created_at": delivery.created_at,
        "last_attempt_at": None if tried_at is None else time(datetime.fromisoformat(tried_at)),
    }


def _found(call: RouteCall) -> Endpoint:
    try:
        endpoint = call.location.webhooks.endpoint(call.ids["webhook_endpoint_id"])
    except NotFound:
        raise missing("webhook endpoint") from None
    if not _sees(call, endpoint):
        raise missing("webhook endpoint")
    return endpoint


def _sees(call: RouteCall, endpoint: Endpoint) -> bool:
    """Return whether the caller may see an endpoint.

    The endpoint must be in the caller's workspace. If the key has patterns of memory stores, the endpoint must have
    patterns too, and the key must have all of these.
    """
    own = call.caller.key.stores
    is_within = not own or (bool(endpoint.stores) and set(endpoint.stores) <= set(own))
    return endpoint.workspace_id == call.caller.workspace_id and is_within


def _checked(call: RouteCall, url: str) -> str:
    try:
        return check_url(url, to_private=call.location.webhooks_to_private)
    except InvalidInput as error:
        raise invalid(f"url: {error}") from None


def _events(given: tuple[str, ...]) -> tuple[str, ...]:
    if not given:
        raise invalid("enabled_events: must not be empty")
    return tuple(dict.fromkeys(given))
