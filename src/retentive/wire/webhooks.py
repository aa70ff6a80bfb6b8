"""Webhook endpoints and their deliveries."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from retentive.wire.base import Answer, Count, Fields, Name, UtcTime

WebhookEvent: TypeAlias = Literal[
    "memory_store.created", "memory_store.archived", "memory_store.deleted", "memory.changed"
]
SentEvent: TypeAlias = WebhookEvent | Literal["webhook.test"]
EndpointState: TypeAlias = Literal["enabled", "disabled"]
DeliveryState: TypeAlias = Literal["pending", "delivered", "dead"]


class EndpointUpdate(Fields):
    """Changes of a webhook endpoint."""

    url: str | None = Field(None, min_length=1, max_length=2_000, description="URL that events are sent to")
    enabled_events: list[WebhookEvent] | None = Field(
        None, max_length=100, description="Types of the events to send; an empty list changes nothing"
    )
    name: Name | None = Field(None, description="Name of the endpoint")
    description: str | None = Field(None, max_length=1_024, description="Notes about the endpoint")
    state: EndpointState | None = Field(None, description="A disabled endpoint gets no events, also not later")


class EndpointCreation(Fields):
    """New webhook endpoint."""

    url: str = Field(min_length=1, max_length=2_000, description="URL that events are sent to")
    enabled_events: list[WebhookEvent] = Field(max_length=100, description="Types of the events to send")
    name: Name | None = Field(None, description="Name of the endpoint")
    description: str | None = Field(None, max_length=1_024, description="Notes about the endpoint")


class EndpointObject(Answer):
    """Webhook endpoint, without its secret."""

    id: str
    type: Literal["webhook_endpoint"] = "webhook_endpoint"
    url: str
    name: str
    description: str
    enabled_events: list[WebhookEvent]
    state: EndpointState
    created_at: UtcTime
    updated_at: UtcTime


class NewEndpointObject(EndpointObject):
    """Webhook endpoint with a new secret, which signs its deliveries and is shown once."""

    signing_secret: str


class EndpointDeleted(Answer):
    """Answer to the deletion of a webhook endpoint."""

    id: str
    type: Literal["webhook_endpoint_deleted"] = "webhook_endpoint_deleted"


class DeliveryObject(Answer):
    """Event for a webhook endpoint. A `dead` one is not tried again."""

    type: Literal["webhook_delivery"] = "webhook_delivery"
    webhook_event_id: str
    webhook_endpoint_id: str
    event: SentEvent
    state: DeliveryState
    attempts: Count
    last_error: str | None
    created_at: UtcTime
    last_attempt_at: UtcTime | None
