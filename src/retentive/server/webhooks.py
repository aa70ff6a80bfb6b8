"""Webhook endpoints, their events and their deliveries, stored as records of the location."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import secrets
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any
from urllib.parse import urlsplit

from retentive.errors import Conflict, InvalidInput, NotFound
from retentive.opening import Retentive
from retentive.server.keys import in_patterns
from retentive.storage.contract import StoreInfo, now_us, sortable_id
from retentive.wire.webhooks import DeliveryState, EndpointState

ENDPOINT, PENDING, DEAD, SEEN, CURSOR = (
    "webhook_endpoint",
    "webhook_pending",
    "webhook_dead",
    "webhook_seen",
    "webhook_cursor",
)
"""Kinds of records.

A delivery is stored under the key `ENDPOINT.EVENT`. Records of the last two kinds have the id of a memory store as key.
"""
CREATED, ARCHIVED, DELETED = "memory_store.created", "memory_store.archived", "memory_store.deleted"
CHANGED = "memory.changed"
ORGANIZATION = "org_default"
SECRET = "whsec_"  # noqa: S105 - the prefix of Standard Webhooks
MAX_ENDPOINTS = 50


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Stored webhook endpoint, which receives events at a URL.

    `stores` is copied from the API key that created the endpoint: the ids and patterns of the memory stores whose
    events are sent. If it is empty, the events of all memory stores are sent.
    """

    id: str
    workspace_id: str
    url: str
    enabled_events: tuple[str, ...]
    secret: str
    created_at: str
    updated_at: str
    name: str = ""
    description: str = ""
    state: EndpointState = "enabled"
    stores: tuple[str, ...] = ()

    def wants(self, event: str, info: StoreInfo, at: datetime) -> bool:
        """Return whether an event of a memory store must be sent to the endpoint.

        `info` describes the memory store, and `at` is the time of the event. Events that are older than the
        endpoint are not sent.
        """
        return (
            self.state == "enabled"
            and self.workspace_id == info.workspace_id
            and event in self.enabled_events
            and in_patterns(self.stores, info.id, info.key)
            and at >= datetime.fromisoformat(self.created_at)
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """Stored event that must be sent to one webhook endpoint.

    `due` is the Unix time of the next attempt. `tried_at` and `error` describe the last attempt.
    """

    endpoint_id: str
    event_id: str
    event: str
    body: str
    created_at: str
    due: float
    attempts: int = 0
    tried_at: str | None = None
    error: str | None = None

    @property
    def key(self) -> str:
        """Key under which the delivery is stored."""
        return f"{self.endpoint_id}.{self.event_id}"

    def to_text(self) -> str:
        """Return the delivery as JSON, in the form in which it is stored."""
        return json.dumps(asdict(self))


class Webhooks:
    """Webhook endpoints of a location, with their deliveries. Threads and processes may share them."""

    def __init__(self, opened: Retentive) -> None:
        self._opened = opened
        self._records = opened.records

    def create(
        self,
        workspace_id: str,
        url: str,
        events: tuple[str, ...],
        *,
        endpoint_id: str | None = None,
        **options: Any,
    ) -> Endpoint:
        """Create an endpoint with a new secret. If there is an endpoint with this id, return it instead.

        Raises `InvalidInput` if the workspace has too many endpoints.
        """
        if len(self.endpoints(workspace_id)) >= MAX_ENDPOINTS:
            raise InvalidInput(
                f"the workspace already has {MAX_ENDPOINTS} webhook endpoints, the maximum; delete one first"
            )
        now = datetime.now(UTC).isoformat()
        secret = SECRET + base64.b64encode(secrets.token_bytes(32)).decode()
        made = Endpoint(endpoint_id or new_endpoint_id(), workspace_id, url, events, secret, now, now, **options)
        try:
            self._records.put(ENDPOINT, made.id, json.dumps(asdict(made)), expected=None)
        except Conflict:  # another attempt of the same request
            return self.endpoint(made.id)
        return made

    def endpoints(self, workspace_id: str | None = None) -> list[Endpoint]:
        """Return the endpoints of a workspace or, without `workspace_id`, all endpoints. Oldest first."""
        found = (_endpoint(text) for _, text in self._records.list(ENDPOINT))
        return [each for each in found if workspace_id in {None, each.workspace_id}]

    def endpoint(self, endpoint_id: str) -> Endpoint:
        """Return an endpoint. Raises `NotFound`."""
        text = self._records.get(ENDPOINT, endpoint_id) if _is_id(endpoint_id) else None
        if text is None:
            raise NotFound("there is no such webhook endpoint")
        return _endpoint(text)

    def change(self, endpoint_id: str, **changes: Any) -> Endpoint:
        """Change an endpoint. Raises `NotFound` or `Conflict`."""
        before = self.endpoint(endpoint_id)
        after = replace(before, **changes, updated_at=datetime.now(UTC).isoformat())
        self._records.put(ENDPOINT, endpoint_id, json.dumps(asdict(after)), expected=json.dumps(asdict(before)))
        return after

    def delete(self, endpoint_id: str) -> None:
        """Delete an endpoint with its deliveries. Raises `NotFound`."""
        self.endpoint(endpoint_id)
        self._records.put(ENDPOINT, endpoint_id, None)
        for kind in ("pending", "dead"):
            for each in self.deliveries(kind, endpoint_id):
                self._records.put(_kind(kind), each.key, None)

    def deliveries(
        self, state: DeliveryState, endpoint_id: str = "", *, after: str = "", limit: int | None = None
    ) -> Iterator[Delivery]:
        """Yield the pending or the dead deliveries, sorted by key.

        With `endpoint_id`, yield only deliveries of that endpoint, and only those with event ids greater than `after`.
        """
        start = f"{endpoint_id}." if endpoint_id else ""
        found = self._records.list(_kind(state), after=start + after, limit=limit)
        return (Delivery(**json.loads(text)) for _, text in takewhile(lambda pair: pair[0].startswith(start), found))

    def delivery(self, endpoint_id: str, event_id: str) -> tuple[DeliveryState, Delivery]:
        """Return a delivery and its state. Raises `NotFound`."""
        for state in ("dead", "pending"):
            key = f"{endpoint_id}.{event_id}"
            text = self._records.get(_kind(state), key) if _is_id(endpoint_id) and _is_id(event_id) else None
            if text is not None:
                return state, Delivery(**json.loads(text))
        raise NotFound("there is no such webhook delivery")

    def retry(self, endpoint_id: str, event_id: str) -> Delivery:
        """Make a pending or dead delivery due now, and set its number of attempts to 0. Raises `NotFound`."""
        _, before = self.delivery(endpoint_id, event_id)
        again = replace(before, due=0.0, attempts=0)
        self._records.put(PENDING, again.key, again.to_text())
        self._records.put(DEAD, again.key, None)
        return again

    def delivered(self, delivery: Delivery) -> None:
        """Remove a pending delivery, because it was delivered or because its endpoint no longer wants it."""
        self._records.put(PENDING, delivery.key, None)

    def failed(self, before: Delivery, after: Delivery, *, is_dead: bool) -> None:
        """Store a delivery after a failed attempt, unless another process has changed it in the meantime.

        `before` is the delivery before the attempt, and `after` is the delivery to store. With `is_dead`, the
        delivery is not sent again.
        """
        if is_dead:
            self._records.put(DEAD, after.key, after.to_text())
        try:
            new = None if is_dead else after.to_text()
            self._records.put(PENDING, before.key, new, expected=before.to_text())
        except Conflict:
            if is_dead:  # a person retried the delivery meanwhile, so it stays pending
                with suppress(Conflict):
                    self._records.put(DEAD, after.key, None, expected=after.to_text())

    def forget(self, delivery: Delivery) -> None:
        """Remove a dead delivery."""
        self._records.put(DEAD, delivery.key, None)

    def note(self, info: StoreInfo) -> None:
        """Record the workspace and key of a memory store before it is deleted.

        The event of the deletion needs them, and the tombstone of the memory store does not have them.
        """
        if self.endpoints(info.workspace_id) and self._records.get(SEEN, info.id) is None:
            self._records.put(SEEN, info.id, _seen_text(info, ()))

    def announce(self, infos: Iterable[StoreInfo]) -> None:
        """Queue the events "created" and "archived" of the memory stores `infos`. Skip events that were queued before.

        After a crash, an event may be queued twice, both times with the same id.
        """
        endpoints = self.endpoints()
        watched = {each.workspace_id for each in endpoints}
        for info in infos:
            if info.workspace_id not in watched:
                continue
            text = self._records.get(SEEN, info.id)
            announced: list[str] = [] if text is None else json.loads(text)["announced"]
            happened = {CREATED: info.created_at, ARCHIVED: info.archived_at}
            new = {event: at for event, at in happened.items() if at is not None and event not in announced}
            for event, at in new.items():
                self._queue(endpoints, event, info, at)
            if new:
                self._records.put(SEEN, info.id, _seen_text(info, (*announced, *new)))

    def gone(self, present: set[str]) -> list[str]:
        """Return the ids of the memory stores that `note` or `announce` has recorded but that are not in `present`."""
        return [store_id for store_id, _ in self._records.list(SEEN) if store_id not in present]

    def announce_deleted(self, store_ids: Iterable[str]) -> None:
        """Queue the event "deleted" of each memory store in `store_ids` that was deleted."""
        endpoints = self.endpoints()
        for store_id in store_ids:
            found, text = self._opened.backend.get_store(store_id), self._records.get(SEEN, store_id)
            if text is None or found is None or found.erased_at is None:
                continue
            seen = json.loads(text)
            info = replace(found, workspace_id=seen["workspace_id"], key=seen["key"])
            self._queue(endpoints, DELETED, info, found.erased_at)
            self._records.put(SEEN, store_id, None)
            self._records.put(CURSOR, store_id, None)

    def announce_changes(self, info: StoreInfo, newest: str, at: datetime, endpoints: list[Endpoint]) -> None:
        """Queue an event for `newest`, the newest change of a memory store, unless that event was queued before."""
        if newest and self._records.get(CURSOR, info.id) != newest:
            self._queue(endpoints, CHANGED, info, at, last_event_id=newest)
            self._records.put(CURSOR, info.id, newest)

    def _queue(self, endpoints: list[Endpoint], event: str, info: StoreInfo, at: datetime, **more: str) -> None:
        digest = hashlib.sha256("/".join((event, info.id, *more.values())).encode()).hexdigest()
        event_id = f"whe_{digest[:32]}"
        created_at = at.astimezone(UTC).isoformat().replace("+00:00", "Z")
        data = {"type": event, "id": info.id, "organization_id": ORGANIZATION, "workspace_id": info.workspace_id}
        body = json.dumps({"type": "event", "id": event_id, "created_at": created_at, "data": {**data, **more}})
        for endpoint in endpoints:
            if endpoint.wants(event, info, at):
                made = Delivery(endpoint.id, event_id, event, body, created_at, 0.0)
                if self._records.get(DEAD, made.key) is None:
                    self._records.put(PENDING, made.key, made.to_text())


def new_endpoint_id() -> str:
    """Return a new id of a webhook endpoint. Ids sort by time."""
    return sortable_id("whep_", now_us(time.time))


def signature(endpoint: Endpoint, event_id: str, timestamp: int, body: str) -> dict[str, str]:
    """Return the headers that sign a delivery, as Standard Webhooks defines them."""
    key = base64.b64decode(endpoint.secret.removeprefix(SECRET))
    digest = hmac.digest(key, f"{event_id}.{timestamp}.{body}".encode(), "sha256")
    signed = "v1," + base64.b64encode(digest).decode()
    return {"webhook-id": event_id, "webhook-timestamp": str(timestamp), "webhook-signature": signed}


def check_url(url: str, *, to_private: bool) -> str:
    """Return `url` if deliveries may be sent to it. Raises `InvalidInput` otherwise."""
    try:
        parts = urlsplit(url)
        is_valid = bool(parts.hostname) and parts.port != 0 and parts.username is None and not parts.fragment
    except ValueError:
        is_valid = False
    if not is_valid or not url.isascii() or len(url) > 2_000 or any(not "!" <= char <= "~" for char in url):
        raise InvalidInput("must be a URL without a user name or a fragment")
    if parts.scheme != "https" and not (to_private and parts.scheme == "http"):
        raise InvalidInput("must begin with https://")
    try:
        is_allowed = to_private or is_public(parts.hostname or "")
    except ValueError:
        is_allowed = True  # a host name; its addresses are checked at each delivery
    if not is_allowed or (parts.hostname == "localhost" and not to_private):
        raise InvalidInput("must not have a private address")
    return url


def is_public(address: str) -> bool:
    """Return whether an IP address is public. If an IPv6 address contains an IPv4 address, the IPv4 address decides.

    Raises `ValueError` if `address` is not an IP address.
    """
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        packed = found.packed
        inside = found.ipv4_mapped or found.sixtofour or (found.teredo or (None, None))[1]
        if found in _NAT64:
            inside = ipaddress.IPv4Address(packed[12:])
        if inside is not None:
            return inside.is_global and not inside.is_multicast
    return found.is_global and not found.is_multicast and not found.is_reserved


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def resolve(host: str, port: int, *, to_private: bool) -> str:
    """Return an IP address of a host. Raises `OSError` if one of its addresses is private and `to_private` is False."""
    found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not to_private and not all(is_public(each.partition("%")[0]) for each in found):
        raise OSError("the host has a private address")
    return found[0]


def _seen_text(info: StoreInfo, announced: tuple[str, ...]) -> str:
    return json.dumps({"workspace_id": info.workspace_id, "key": info.key, "announced": announced})


def _endpoint(text: str) -> Endpoint:
    given = json.loads(text)
    return Endpoint(**{**given, "enabled_events": tuple(given["enabled_events"]), "stores": tuple(given["stores"])})


def _kind(state: DeliveryState) -> str:
    return PENDING if state == "pending" else DEAD


def _is_id(text: str) -> bool:
    return text.isascii() and text.replace("_", "").isalnum() and len(text) <= 60
