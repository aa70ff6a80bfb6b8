"""Routes of webhooks."""

from __future__ import annotations

from retentive.server.fields import NAME, Field, choice, required, text, texts
from retentive.server.handlers import repeats, webhooks
from retentive.server.route import Route
from retentive.server.table.shared import ADMIN, LIMIT, PAGE
from retentive.server.webhooks import EVENTS

ENDPOINTS = "/v1/webhook_endpoints"
ENDPOINT = f"{ENDPOINTS}/{{webhook_endpoint_id}}"
URL = text(2_000, min_chars=1)
EVENT_LIST = texts(choice(*EVENTS).read, {"type": "string", "enum": list(EVENTS)})
DESCRIPTION = Field("description", text(1_024), "Notes about the endpoint")
WEBHOOK_ROUTES = (
    Route(
        "POST",
        ENDPOINTS,
        ADMIN,
        webhooks.create_webhook_endpoint,
        "new_webhook_endpoint",
        "Create a webhook endpoint; the answer shows its secret once",
        body=(
            required("url", URL, "URL that events are sent to"),
            required("enabled_events", EVENT_LIST, "Types of the events to send"),
            Field("name", NAME, "Name of the endpoint"),
            DESCRIPTION,
        ),
        again=webhooks.with_secret,
    ),
    Route(
        "GET",
        ENDPOINTS,
        ADMIN,
        webhooks.list_webhook_endpoints,
        "list:webhook_endpoint",
        "List the webhook endpoints of the workspace, newest first, on one page",
    ),
    Route(
        "GET",
        ENDPOINT,
        ADMIN,
        webhooks.retrieve_webhook_endpoint,
        "webhook_endpoint",
        "Retrieve a webhook endpoint",
    ),
    Route(
        "POST",
        ENDPOINT,
        ADMIN,
        webhooks.update_webhook_endpoint,
        "webhook_endpoint",
        "Change a webhook endpoint",
        body=(
            Field("url", URL, "URL that events are sent to"),
            Field("enabled_events", EVENT_LIST, "Types of the events to send; an empty list changes nothing"),
            Field("name", NAME, "Name of the endpoint"),
            DESCRIPTION,
            Field("state", choice("enabled", "disabled"), "A disabled endpoint gets no events, also not later"),
        ),
        conflicts=True,
        again=repeats.unchanged,
    ),
    Route(
        "DELETE",
        ENDPOINT,
        ADMIN,
        webhooks.delete_webhook_endpoint,
        "webhook_endpoint_deleted",
        "Delete a webhook endpoint with its deliveries",
        again=repeats.unchanged,
    ),
    Route(
        "GET",
        f"{ENDPOINT}/deliveries",
        ADMIN,
        webhooks.list_webhook_deliveries,
        "list:webhook_delivery",
        "List the deliveries that have not arrived",
        query=(
            Field("state", choice("pending", "dead"), "`dead` ones are not tried again", default="dead"),
            LIMIT,
            PAGE,
        ),
    ),
    Route(
        "POST",
        f"{ENDPOINT}/deliveries/{{webhook_event_id}}/retry",
        ADMIN,
        webhooks.retry_webhook_delivery,
        "webhook_delivery",
        "Try a delivery again now, also a dead one",
        again=repeats.unchanged,
    ),
)
