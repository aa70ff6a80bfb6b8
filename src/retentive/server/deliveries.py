"""Sends webhooks. Only one server process of a location does this: the leader.

A failed delivery is sent again after a pause. A periodic search finds events that no process has queued.
"""

from __future__ import annotations

import http.client
import random
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from threading import Timer
from urllib.parse import urlsplit

from retentive import __version__
from retentive.errors import Locked, NotFound, RetentiveError
from retentive.opening import Retentive
from retentive.server.webhooks import CHANGED, Delivery, Endpoint, Webhooks, resolve, signature
from retentive.storage.contract import StoreInfo
from retentive.values.records import time_in_id

PAUSES_S = (5, 15, 60, 300, 1_800, 7_200, 18_000, 36_000, 36_000)
"""Pauses after failed attempts.

Each is lengthened at random by up to a fifth. After the last attempt, a delivery is dead.
"""
TIMEOUT_S = 10.0
TOTAL_S = 15.0
AT_ONCE = 8
PER_ENDPOINT = 2
"""Maximum number of concurrent deliveries to one endpoint, so that a slow endpoint does not delay the others."""
SWEEP_S = 30.0
"""Pause between searches for events that no process has queued, such as changes made on the command line."""
KEPT_DAYS = 30
"""Age at which dead deliveries are removed."""
MAX_DELIVERIES = 1_000
"""Maximum number of pending deliveries of one endpoint, and maximum number of its dead deliveries.

When there are more, the oldest pending deliveries become dead, and the oldest dead deliveries are removed.
"""
Send = Callable[[Endpoint, Delivery], int]


class Deliverer:
    """Queues new webhook events and sends the deliveries that are due. Each call of the object runs one round."""

    def __init__(
        self,
        opened: Retentive,
        *,
        to_private: bool = False,
        clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
        max_deliveries: int = MAX_DELIVERIES,
    ) -> None:
        self._opened = opened
        self._webhooks = Webhooks(opened)
        self._to_private = to_private
        self._clock = clock
        self._jitter = jitter
        self._max_deliveries = max_deliveries
        self._pool = ThreadPoolExecutor(AT_ONCE, "retentive-webhook")
        self._running: dict[str, tuple[str, Future[None]]] = {}
        self._swept_at = 0.0

    def __call__(self, may_go_on: Callable[[], bool]) -> None:
        """Queue new events, and start the deliveries that are due. Stop when `may_go_on` returns False.

        A slow delivery may continue after this call; `close` waits for it.
        """
        endpoints = {each.id: each for each in self._webhooks.endpoints()}
        if not endpoints:
            return
        if self._clock() - self._swept_at >= SWEEP_S:
            self.sweep()
            self._swept_at = self._clock()
        self._announce_changes(list(endpoints.values()))
        self._running = {key: each for key, each in self._running.items() if not each[1].done()}
        busy = Counter(endpoint_id for endpoint_id, _ in self._running.values())
        pending = list(self._webhooks.deliveries("pending"))
        excess = {each.key for each in self._excess(pending)}
        for delivery in pending:
            if not may_go_on():
                break
            endpoint = endpoints.get(delivery.endpoint_id)
            if endpoint is None or endpoint.state == "disabled":
                self._webhooks.delivered(delivery)
            elif delivery.key in excess:
                if delivery.key not in self._running:
                    self._drop(delivery)
            elif (
                delivery.due <= self._clock()
                and delivery.key not in self._running
                and busy[endpoint.id] < PER_ENDPOINT
                and len(self._running) < AT_ONCE
            ):
                busy[endpoint.id] += 1
                self._running[delivery.key] = endpoint.id, self._pool.submit(self.attempt, endpoint, delivery)
        wait([future for _, future in self._running.values()], timeout=0.2)

    def sweep(self) -> None:
        """Queue events that no process has queued. Remove dead deliveries that are too old.

        For each endpoint, only the newest `max_deliveries` dead deliveries are kept.
        """
        infos = self._opened.stores()
        self._webhooks.announce(infos)
        self._webhooks.announce_deleted(self._webhooks.gone({info.id for info in infos}))
        dead = list(self._webhooks.deliveries("dead"))
        excess = {each.key for each in self._excess(dead)}
        for each in dead:
            tried_at = datetime.fromisoformat(each.tried_at or each.created_at).timestamp()
            if each.key in excess or self._clock() - tried_at > KEPT_DAYS * 86_400:
                self._webhooks.forget(each)

    def attempt(self, endpoint: Endpoint, delivery: Delivery) -> None:
        """Try to send a delivery once, and store the outcome. Any status from 200 to 299 counts as success."""
        error = None
        try:
            status = send(endpoint, delivery, int(self._clock()), to_private=self._to_private)
            if not 200 <= status <= 299:
                error = f"status {status}"
        except (OSError, http.client.HTTPException, ValueError) as failure:
            error = "timeout" if isinstance(failure, TimeoutError) else type(failure).__name__
            if str(failure) == "the host has a private address":
                error = str(failure)
        with suppress(RetentiveError):  # while the storage is unreachable, the delivery stays due
            if error is None:
                self._webhooks.delivered(delivery)
                return
            now, attempts = self._clock(), delivery.attempts + 1
            is_dead = attempts > len(PAUSES_S)
            pause = 0.0 if is_dead else PAUSES_S[attempts - 1] * (1 + 0.2 * self._jitter())
            tried_at = datetime.fromtimestamp(now, UTC).isoformat()
            after = replace(delivery, attempts=attempts, due=now + pause, tried_at=tried_at, error=error)
            self._webhooks.failed(delivery, after, is_dead=is_dead)

    def _excess(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Return the deliveries to drop: for each endpoint, all but the newest `max_deliveries`."""
        kept, excess = Counter[str](), list[Delivery]()
        for each in sorted(deliveries, key=lambda found: datetime.fromisoformat(found.created_at), reverse=True):
            kept[each.endpoint_id] += 1
            if kept[each.endpoint_id] > self._max_deliveries:
                excess.append(each)
        return excess

    def _drop(self, delivery: Delivery) -> None:
        """Make a pending delivery dead, because its endpoint has too many pending deliveries."""
        error = f"dropped: more than {self._max_deliveries:,} deliveries were pending"
        self._webhooks.failed(delivery, replace(delivery, error=error), is_dead=True)

    def close(self) -> None:
        """Wait for the running deliveries to end."""
        self._pool.shutdown()

    def _announce_changes(self, endpoints: list[Endpoint]) -> None:
        """Queue an event for the newest change of each memory store, unless that event was queued before."""
        asking = [each for each in endpoints if CHANGED in each.enabled_events and each.state == "enabled"]
        for workspace_id in {each.workspace_id for each in asking}:
            for info in self._opened.backend.list_stores(workspace=workspace_id):
                with suppress(NotFound, Locked):
                    self._announce_newest(info, asking)

    def _announce_newest(self, info: StoreInfo, asking: list[Endpoint]) -> None:
        newest = self._opened.store(info.id).history.newest()
        at_us = time_in_id(f"memver_{newest}") if newest else None
        at = info.created_at if at_us is None else datetime.fromtimestamp(at_us / 1e6, UTC)
        self._webhooks.announce_changes(info, newest, at, asking)


def send(endpoint: Endpoint, delivery: Delivery, timestamp: int, *, to_private: bool) -> int:
    """Send a delivery, and return the status of the response. Redirects are not followed.

    The connection uses the IP address that `resolve` has checked, so a later DNS change has no effect. Raises
    `OSError`, `HTTPException` or `ValueError`.
    """
    parts = urlsplit(endpoint.url)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    if not is_tls and not to_private:
        raise OSError("the URL must begin with https://")
    address = resolve(host, port, to_private=to_private)
    headers = {
        "content-type": "application/json",
        "user-agent": f"retentive/{__version__}",
        **signature(endpoint, delivery.event_id, timestamp, delivery.body),
    }
    opened = socket.create_connection((address, port), TIMEOUT_S)
    if is_tls:
        opened = ssl.create_default_context().wrap_socket(opened, server_hostname=host)
    end = Timer(TOTAL_S, _cut, [opened])
    end.daemon = True
    end.start()
    try:
        connection = http.client.HTTPConnection(host, parts.port)
        connection.sock = opened
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, delivery.body.encode(), headers)
        return connection.getresponse().status
    finally:
        end.cancel()
        opened.close()


def _cut(connection: socket.socket) -> None:
    """End a connection that takes too long, for example because the receiver sends its response one byte at a time."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
