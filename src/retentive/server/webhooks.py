"""Webhook endpoints and their deliveries, stored as records of the location."""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any, Final
from urllib.parse import urlsplit

from standardwebhooks import Webhook

from retentive.errors import Conflict, InvalidInput, NotFound
from retentive.opening import Retentive
from retentive.server.kinds import RecordKind
from retentive.server.rights import in_patterns
from retentive.storage.contract import StoreInfo, now_us, sortable_id
from retentive.store.change_marks import ENDPOINT, new_webhook_secret
from retentive.values.text import digest
from retentive.wire.stores import DeliveryObject, EndpointObject, SentEvent, WebhookEvent

PENDING, DONE, DEAD = STATES = "webhook_pending", "webhook_done", "webhook_dead"
"""Kinds of the records of deliveries, under the key `ENDPOINT.EVENT`: to send, delivered, and given up."""
TEST: Final = "webhook.test"
ORGANIZATION = "org_default"
MAX_ENDPOINTS = 50
OLD_SECRET = timedelta(days=1)
"""Time for which a replaced secret signs the deliveries too."""
AT_ONCE = datetime.fromtimestamp(0, UTC)
"""Time at which a delivery is due that was not tried yet."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class Endpoint(EndpointObject):
    """Stored webhook endpoint.

    `stores` is copied from the API key that created it: the ids and patterns of the memory stores whose events are
    sent. If it is empty, the events of all memory stores of the workspace are sent. `since` has the time from which
    each event is sent.
    """

    workspace_id: str
    secret: str
    old_secret: str | None = None
    stores: tuple[str, ...] = ()
    since: dict[str, datetime]
    rotated_at: datetime | None = None

    def wants(self, event: str, info: StoreInfo, at: datetime) -> bool:
        """Return whether an event of a memory store must be sent to the endpoint. `at` is the time of the event."""
        return (
            self.state == "enabled"
            and self.workspace_id == info.workspace_id
            and event in self.since
            and in_patterns(self.stores, info.id, info.key)
            and at >= self.since[event]
        )

    def signature(self, event_id: str, body: str, at: datetime) -> dict[str, str]:
        """Return the headers of a delivery, which sign it as Standard Webhooks defines them."""
        used = [self.secret]
        if self.old_secret is not None and self.rotated_at is not None and at < self.rotated_at + OLD_SECRET:
            used.append(self.old_secret)
        signed = " ".join(Webhook(each).sign(event_id, at, body) for each in used)
        made = {"webhook-id": event_id, "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": signed}
        return {"content-type": "application/json", **made}


class Delivery(DeliveryObject):
    """Stored event that is sent to one webhook endpoint.

    `due` is the time of the next attempt or, for a dead delivery, the time at which it was given up.
    """

    body: str
    due: datetime

    @property
    def key(self) -> str:
        """Key under which the delivery is stored."""
        return f"{self.webhook_endpoint_id}.{self.webhook_event_id}"


class Webhooks:
    """Webhook endpoints of a location, with their deliveries. Threads and processes may share them."""

    def __init__(self, opened: Retentive) -> None:
        self._opened, self._endpoints = opened, RecordKind(opened.records, ENDPOINT, Endpoint)
        self._deliveries = {kind: RecordKind(opened.records, kind, Delivery) for kind in STATES}

    def create(self, workspace_id: str, url: str, events: Iterable[WebhookEvent], **fields: Any) -> Endpoint:
        """Create an endpoint with a new secret. Raises `InvalidInput` if the workspace has too many endpoints."""
        if len(self.endpoints(workspace_id)) >= MAX_ENDPOINTS:
            raise InvalidInput(
                f"the workspace already has {MAX_ENDPOINTS} webhook endpoints, the maximum; delete one first"
            )
        now = datetime.now(UTC)
        made = Endpoint(
            id=sortable_id("whep_", now_us(time.time)),
            workspace_id=workspace_id,
            url=url,
            secret=new_webhook_secret(),
            enabled_events=list(events),
            created_at=now,
            updated_at=now,
            since=dict.fromkeys(events, now),
            **{"name": "", "description": "", "state": "enabled", **fields},
        )
        self._endpoints.put(made.id, made, before=None)
        self._opened.marks.look_again()
        return made

    def endpoints(self, workspace_id: str | None = None) -> list[Endpoint]:
        """Return the endpoints of a workspace or, without `workspace_id`, all endpoints. Oldest first."""
        return [each for each in self._endpoints.list() if workspace_id in {None, each.workspace_id}]

    def endpoint(self, endpoint_id: str) -> Endpoint:
        """Return an endpoint. Raises `NotFound`."""
        found = self._endpoints.get(endpoint_id)
        if found is None:
            raise NotFound("there is no such webhook endpoint")
        return found

    def change(self, endpoint_id: str, **changes: Any) -> Endpoint:
        """Change an endpoint. Raises `NotFound` or `Conflict`."""
        before, now = self.endpoint(endpoint_id), datetime.now(UTC)
        after = before.model_copy(update={**changes, "updated_at": now})
        known = before.since if before.state == "enabled" else {}
        after = after.model_copy(update={"since": {each: known.get(each, now) for each in after.enabled_events}})
        self._endpoints.put(endpoint_id, after, before=before)
        return after

    def delete(self, endpoint_id: str) -> None:
        """Delete an endpoint with its deliveries. Raises `NotFound`."""
        self.endpoint(endpoint_id)
        self._endpoints.put(endpoint_id, None)
        for kind in STATES:
            for each in self.deliveries(kind, endpoint_id):
                self.forget(kind, each)

    def deliveries(self, kind: str, endpoint_id: str = "") -> list[Delivery]:
        """Return the deliveries of one endpoint, or without `endpoint_id` of all, newest first."""
        start = f"{endpoint_id}." if endpoint_id else ""
        found = takewhile(lambda each: each.key.startswith(start), self._deliveries[kind].list(start))
        return sorted(found, key=lambda each: each.created_at, reverse=True)

    def forget(self, kind: str, delivery: Delivery) -> None:
        """Remove a delivery."""
        self._deliveries[kind].put(delivery.key, None)

    def queue(
        self, endpoint: Endpoint, event: SentEvent, at: datetime, about: str, position: str = "", **more: str
    ) -> Delivery:
        """Queue an event for an endpoint. `about` is the id of what it is about, `position` that of the last change.

        `more` has further data of the event. An event that is queued twice has the same id, so that receivers
        recognise it.
        """
        named = "/".join((event, about, at.isoformat(), position))
        event_id = f"whe_{digest(named)[:32]}"
        data = {"type": event, "id": about, "organization_id": ORGANIZATION, "workspace_id": endpoint.workspace_id}
        data |= ({"last_event_id": position} if position else {}) | more
        created_at = at.astimezone(UTC).isoformat().replace("+00:00", "Z")
        made = Delivery(
            webhook_event_id=event_id,
            webhook_endpoint_id=endpoint.id,
            event=event,
            state="pending",
            attempts=0,
            last_error=None,
            created_at=at,
            last_attempt_at=None,
            body=json.dumps({"type": "event", "id": event_id, "created_at": created_at, "data": data}),
            due=AT_ONCE,
        )
        self._deliveries[PENDING].put(made.key, made)
        return made

    def settle(self, before: Delivery, **outcome: Any) -> None:
        """Store the outcome of an attempt, or a pause until the next one unless the delivery changed meanwhile."""
        after = before.model_copy(update=outcome)
        if after.state == "pending":
            with suppress(Conflict):
                self._deliveries[PENDING].put(after.key, after, before=before)
            return
        self._deliveries[DEAD if after.state == "dead" else DONE].put(after.key, after)
        self.forget(PENDING, after)


def check_url(url: str, *, to_private: bool) -> str:
    """Return `url` if deliveries may be sent to it. Raises `InvalidInput` otherwise."""
    try:
        parts = urlsplit(url)
        is_valid = bool(parts.hostname) and parts.port != 0 and parts.username is None and not parts.fragment
    except ValueError:
        is_valid = False
    if not is_valid or any(not "!" <= char <= "~" for char in url):
        raise InvalidInput("must be a URL without a user name or a fragment")
    if parts.scheme != "https" and not (to_private and parts.scheme == "http"):
        raise InvalidInput("must begin with https://")
    try:
        is_allowed = to_private or is_public(parts.hostname or "")
    except ValueError:  # a host name; its addresses are checked at each delivery
        is_allowed = parts.hostname != "localhost"
    if not is_allowed:
        raise InvalidInput("must not have a private address")
    return url


def is_public(address: str) -> bool:
    """Return whether an IP address is public. If an IPv6 address contains an IPv4 address, the IPv4 address decides.

    Raises `ValueError` if `address` is not an IP address.
    """
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        inside = found.ipv4_mapped or found.sixtofour or (found.teredo or (None, None))[1]
        found = ipaddress.IPv4Address(found.packed[12:]) if found in _NAT64 else inside or found
    return found.is_global and not found.is_multicast and not found.is_reserved
