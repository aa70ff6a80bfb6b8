"""Routes of webhook endpoints and their deliveries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from retentive.errors import InvalidInput
from retentive.server.calls import Json, RouteCall
from retentive.server.errors import finding, invalid, missing
from retentive.server.handlers.repeats import id_of_creation, unchanged
from retentive.server.route import ADMIN, Routes
from retentive.server.webhooks import DONE, PENDING, TEST, Delivery, Endpoint, check_url, event_id_of, new_endpoint_id
from retentive.wire.base import AnswerPage
from retentive.wire.webhooks import (
    DeliveryObject,
    DeliveryState,
    EndpointCreation,
    EndpointDeleted,
    EndpointObject,
    EndpointUpdate,
    NewEndpointObject,
)

ENDPOINTS = "/v1/webhook_endpoints"
ENDPOINT = f"{ENDPOINTS}/{{webhook_endpoint_id}}"
NO_ENDPOINT = "webhook endpoint"
Outcome = Annotated[DeliveryState | None, Field(description="Only deliveries with this outcome")]
route = Routes()


def with_secret(call: RouteCall, answer: Json) -> Json:
    """Return the answer to the creation of an endpoint with its secret. Called for a repeated request.

    Raises `HttpError` 404 if the endpoint was deleted meanwhile.
    """
    with finding(NO_ENDPOINT):
        return {**answer, "signing_secret": call.location.webhooks.endpoint(str(answer["id"])).secret}


@route("POST", ENDPOINTS, ADMIN, again=with_secret)
def create_webhook_endpoint(call: RouteCall, body: EndpointCreation) -> NewEndpointObject:
    """Create a webhook endpoint; the answer shows its secret once."""
    if not body.enabled_events:
        raise invalid("enabled_events: must not be empty")
    made = call.location.webhooks.create(
        call.caller.workspace_id,
        _checked(call, body.url),
        dict.fromkeys(body.enabled_events),
        name=body.name or "",
        description=body.description or "",
        stores=call.caller.key.stores,
        id=id_of_creation(call, new_endpoint_id),
    )
    return _with_secret(made)


@route("GET", ENDPOINTS, ADMIN)
def list_webhook_endpoints(call: RouteCall) -> AnswerPage[EndpointObject]:
    """List the webhook endpoints of the workspace, newest first, on one page."""
    found = call.location.webhooks.endpoints(call.caller.workspace_id)
    return AnswerPage[EndpointObject](data=[_shown(each) for each in found[::-1] if _sees(call, each)])


@route("GET", ENDPOINT, ADMIN)
def retrieve_webhook_endpoint(call: RouteCall) -> EndpointObject:
    """Retrieve a webhook endpoint."""
    return _shown(_found(call))


@route("POST", ENDPOINT, ADMIN, conflicts=True, again=unchanged)
def update_webhook_endpoint(call: RouteCall, body: EndpointUpdate) -> EndpointObject:
    """Change a webhook endpoint."""
    endpoint, changes = _found(call), body.model_dump(exclude_none=True)
    if body.url is not None:
        changes["url"] = _checked(call, body.url)
    events = list(dict.fromkeys(changes.pop("enabled_events", ())))
    changes |= {"enabled_events": events} if events else {}
    return _shown(call.location.webhooks.change(endpoint.id, **changes))


@route("POST", f"{ENDPOINT}/rotate_secret", ADMIN, conflicts=True, again=with_secret)
def rotate_webhook_secret(call: RouteCall) -> NewEndpointObject:
    """Replace the secret of a webhook endpoint; for a day, the old one signs too."""
    return _with_secret(call.location.webhooks.rotate(_found(call).id))


@route("POST", f"{ENDPOINT}/test", ADMIN, again=unchanged)
def test_webhook_endpoint(call: RouteCall) -> DeliveryObject:
    """Send an event of the type `webhook.test` to a webhook endpoint."""
    endpoint, now = _found(call), datetime.now(UTC)
    if endpoint.state == "disabled":
        raise invalid("a disabled endpoint gets no events")
    event_id = id_of_creation(call, lambda: event_id_of(TEST, endpoint.id, now.isoformat()))
    return _delivery(call.location.webhooks.queue(endpoint, event_id, TEST, now, endpoint.id))


@route("DELETE", ENDPOINT, ADMIN, again=unchanged)
def delete_webhook_endpoint(call: RouteCall) -> EndpointDeleted:
    """Delete a webhook endpoint with its deliveries."""
    endpoint = _found(call)
    call.location.webhooks.delete(endpoint.id)
    return EndpointDeleted(id=endpoint.id)


@route("GET", f"{ENDPOINT}/deliveries", ADMIN)
def list_webhook_deliveries(call: RouteCall, state: Outcome = None) -> AnswerPage[DeliveryObject]:
    """List the deliveries of a webhook endpoint with their outcome, newest first, on one page."""
    endpoint, hooks = _found(call), call.location.webhooks
    found = [each for kind in (PENDING, DONE) for each in hooks.deliveries(kind, endpoint.id)]
    found.sort(key=lambda each: each.created_at, reverse=True)
    return AnswerPage[DeliveryObject](data=[_delivery(each) for each in found if state in {None, each.state}])


@route("POST", f"{ENDPOINT}/deliveries/{{webhook_event_id}}/retry", ADMIN, again=unchanged)
def retry_webhook_delivery(call: RouteCall) -> DeliveryObject:
    """Send a delivery again now, whatever its outcome was."""
    endpoint = _found(call)
    with finding("webhook delivery"):
        return _delivery(call.location.webhooks.retry(endpoint.id, call.ids["webhook_event_id"]))


def _shown(endpoint: Endpoint) -> EndpointObject:
    return EndpointObject.model_validate(endpoint.model_dump())


def _with_secret(endpoint: Endpoint) -> NewEndpointObject:
    return NewEndpointObject.model_validate({**endpoint.model_dump(), "signing_secret": endpoint.secret})


def _delivery(delivery: Delivery) -> DeliveryObject:
    return DeliveryObject.model_validate(delivery.model_dump())


def _found(call: RouteCall) -> Endpoint:
    with finding(NO_ENDPOINT):
        endpoint = call.location.webhooks.endpoint(call.ids["webhook_endpoint_id"])
    if not _sees(call, endpoint):
        raise missing(NO_ENDPOINT)
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
