"""Finds the events of webhooks and sends them. Only one server process of a location does this: the leader."""

from __future__ import annotations

import http.client
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from retentive.engine.lists import events_of
from retentive.errors import Conflict, InvalidInput, RetentiveError
from retentive.history.log import newest_position
from retentive.opening import Retentive
from retentive.review.proposals import PROPOSAL
from retentive.server.metrics import ATTEMPTS
from retentive.server.outgoing import sent
from retentive.server.webhooks import DEAD, DONE, PENDING, Delivery, Endpoint, Webhooks
from retentive.storage.contract import Snapshot, to_datetime
from retentive.store.change_marks import MARK
from retentive.values.properties import listed
from retentive.values.records import time_in_id
from retentive.wire.stores import SentEvent

CREATED: Final = "memory_store.created"
ARCHIVED: Final = "memory_store.archived"
DELETED: Final = "memory_store.deleted"
CHANGED: Final = "memory.changed"
WAITING: Final = "review.waiting"
SEEN = "webhook_seen"
"""Kind of the records of the events that were queued, by the id of their memory store."""
MAX_DELIVERIES = 1_000
"""Maximum number of deliveries with the same state that an endpoint keeps. The oldest pending ones become dead."""
KEPT = timedelta(days=30)
PAUSES_S = (5, 15, 60, 300, 1_800, 7_200, 18_000, 36_000, 36_000)
"""Pauses after failed attempts. Each is lengthened at random by up to a fifth. After the last, a delivery is dead."""
THREADS, BATCH = 16, 20
"""Endpoints that are sent to at the same time, and deliveries to one of them until the others have their turn."""
MARKED_S = 300.0
"""Time for which a memory store stays marked after its last renewal. The change that it announces may still run."""
LOOK_S = 3_600.0
"""Pause between two looks at all memory stores, for changes without a mark, such as edits of plain files."""


class _Found(NamedTuple):
    """An event of a memory store: its time, None if it has not happened, its position, and further data to send."""

    at: datetime | None
    position: str = ""
    about: Mapping[str, str] = {}


class Deliverer:
    """Queues new webhook events and sends the deliveries that are due. Each call of the object runs one round."""

    def __init__(
        self,
        opened: Retentive,
        *,
        to_private: bool = False,
        console: str = "",
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._opened = opened
        self._records = opened.records
        self._webhooks = Webhooks(opened)
        self._to_private = to_private
        self._console = console  # URL of the console, or ""
        self._clock = clock
        self._monotonic = monotonic
        self._pool = ThreadPoolExecutor(THREADS, "retentive-webhook")
        self._running: dict[str, Future[None]] = {}
        self._marks: dict[str, tuple[str, float]] = {}
        self._next_look = float("-inf")

    def __call__(self, may_go_on: Callable[[], bool]) -> None:
        """Queue new events, and start the deliveries that are due. Stop when `may_go_on` returns False.

        A slow delivery may continue after this call; `close` waits for it.
        """
        endpoints = {each.id: each for each in self._webhooks.endpoints()}
        if not endpoints:
            return
        now = self._monotonic()
        self._look_at_marked(endpoints, now)
        if now >= self._next_look:
            self._look_at_all(endpoints, may_go_on)
            self._trim()
            self._next_look = now + LOOK_S
        self._start_due(endpoints, may_go_on)
        wait(self._running.values(), timeout=0.2)

    def close(self) -> None:
        """Wait for the running deliveries to end."""
        self._pool.shutdown()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def _look_at_marked(self, endpoints: Mapping[str, Endpoint], now: float) -> None:
        """Queue the events of the marked memory stores. Remove the marks that were not renewed for a while."""
        marks = dict(self._records.list(MARK))
        self._marks = {each: known for each, known in self._marks.items() if marks.get(each) == known[0]}
        for store_id, text in marks.items():
            _, since = self._marks.setdefault(store_id, (text, now))
            with suppress(RetentiveError):  # damage of one memory store must not hold up the others
                self._look_at(store_id, json.loads(text), endpoints)
            if now - since >= MARKED_S:
                with suppress(Conflict):  # it was renewed
                    self._records.put(MARK, store_id, None, expected=text)

    def _look_at_all(self, endpoints: Mapping[str, Endpoint], may_go_on: Callable[[], bool]) -> None:
        workspaces = {each.workspace_id for each in endpoints.values()}
        infos = {info.id for info in self._opened.stores() if info.workspace_id in workspaces}
        seen = {store_id: json.loads(text) for store_id, text in self._records.list(SEEN)}
        for store_id in [*infos, *(seen.keys() - infos - self._marks.keys())]:
            if not may_go_on():
                break
            with suppress(RetentiveError):  # as above
                if not self._look_at(store_id, seen.get(store_id, {}), endpoints) and store_id not in infos:
                    self._records.put(SEEN, store_id, None)

    def _look_at(self, store_id: str, owner: Mapping[str, Any], endpoints: Mapping[str, Endpoint]) -> bool:
        """Queue the events of a memory store that were not queued before. Return whether there were some.

        `owner` is what is known of the memory store, for one that is erased. After a crash, an event may be queued
        twice, both times with the same id.
        """
        info = self._opened.backend.get_store(store_id)
        if info is None:
            return False
        text = self._records.get(SEEN, store_id)
        known: dict[str, str] = {} if text is None else json.loads(text)["events"]
        archived = owner.get("archived_at")
        found: dict[SentEvent, _Found] = {CREATED: _Found(info.created_at)}
        if info.erased_at is not None:
            info = replace(info, workspace_id=owner["workspace_id"], key=owner["key"])
            found[ARCHIVED] = _Found(archived and datetime.fromisoformat(archived))
            found[DELETED] = _Found(info.erased_at)
        else:
            info = listed(info)
            found[ARCHIVED] = _Found(info.archived_at)
            if any(CHANGED in each.since for each in endpoints.values()):
                with suppress(RetentiveError):  # its key is missing, or it was erased meanwhile
                    newest = self._opened.backend.read(info.id, newest_position)
                    found[CHANGED] = _Found(
                        to_datetime(time_in_id(f"memver_{newest}") or 0) if newest else None, newest
                    )
            if any(WAITING in each.since for each in endpoints.values()):
                with suppress(RetentiveError):  # as above
                    found[WAITING] = self._waiting(info.id, known.get(WAITING, ""))
        new = dict[str, str]()
        for event, (at, position, about) in found.items():
            for endpoint in endpoints.values():
                if at is not None and known.get(event) != position and endpoint.wants(event, info, at):
                    new[event] = position
                    self._webhooks.queue(endpoint, event, at, info.id, position, **about)
        if new:
            seen = {"workspace_id": info.workspace_id, "key": info.key, "events": {**known, **new}}
            self._records.put(SEEN, info.id, json.dumps(seen))
        return bool(new)

    def _waiting(self, store_id: str, seen: str) -> _Found:
        """Return the newest proposal that still waits, of those made after the event at the position `seen`."""

        def read(snapshot: Snapshot) -> _Found:
            made = [each for each in events_of(snapshot, after=f"evt_{seen}") if each.type == "proposed"]
            waiting = {key for key, _ in snapshot.records(PROPOSAL)} if made else ()
            newest = next((each for each in reversed(made) if each.ids[0] in waiting), None)
            if newest is None:
                return _Found(None)
            link = {"url": f"{self._console}/s/{store_id}/review/{newest.ids[0]}"} if self._console else {}
            return _Found(newest.at, newest.id.partition("_")[2], {"proposal_id": newest.ids[0], **link})

        return self._opened.backend.read(store_id, read)

    def _trim(self) -> None:
        """Remove deliveries that were settled long ago, or that are not among the newest of their endpoint."""
        kept = Counter[tuple[str, str]]()
        for kind in (DONE, DEAD):
            for each in self._webhooks.deliveries(kind):
                of = each.webhook_endpoint_id, kind
                kept[of] += 1
                if kept[of] > MAX_DELIVERIES or self._now() - (each.last_attempt_at or each.created_at) > KEPT:
                    self._webhooks.forget(kind, each)

    def _start_due(self, endpoints: Mapping[str, Endpoint], may_go_on: Callable[[], bool]) -> None:
        """Start a batch of due deliveries of each endpoint that has none running."""
        self._running = {endpoint_id: each for endpoint_id, each in self._running.items() if not each.done()}
        pending: dict[str, list[Delivery]] = {}
        for delivery in self._webhooks.deliveries(PENDING):
            endpoint = endpoints.get(delivery.webhook_endpoint_id)
            if endpoint is None or endpoint.state == "disabled":
                self._webhooks.forget(PENDING, delivery)
                continue
            kept = pending.setdefault(endpoint.id, [])
            if len(kept) < MAX_DELIVERIES:
                kept.append(delivery)
            else:
                error = f"dropped: more than {MAX_DELIVERIES:,} deliveries were pending"
                self._webhooks.settle(delivery, state="dead", due=self._now(), last_error=error)
        for endpoint_id, kept in pending.items():
            due = [each for each in reversed(kept) if each.due <= self._now()]  # the oldest first
            if due and endpoint_id not in self._running and may_go_on():
                batch = self._pool.submit(self._send_some, endpoints[endpoint_id], due[:BATCH], may_go_on)
                self._running[endpoint_id] = batch

    def _send_some(self, endpoint: Endpoint, batch: list[Delivery], may_go_on: Callable[[], bool]) -> None:
        """Send deliveries until one fails, so that an endpoint without an answer holds its thread for one time-out."""
        for delivery in batch:
            if not may_go_on() or not self._attempt(endpoint, delivery):
                break

    def _attempt(self, endpoint: Endpoint, delivery: Delivery) -> bool:
        """Try to send a delivery once, and store the outcome. Any status from 200 to 299 counts as success."""
        error = None
        try:
            headers = endpoint.signature(delivery.webhook_event_id, delivery.body, self._now())
            status, _ = sent("POST", endpoint.url, headers, delivery.body, to_private=self._to_private)
            error = None if 200 <= status <= 299 else f"status {status}"
        except InvalidInput as failure:
            error = str(failure)
        except (OSError, http.client.HTTPException, ValueError) as failure:
            error = "timeout" if isinstance(failure, TimeoutError) else type(failure).__name__
        now, attempts = self._now(), delivery.attempts + 1
        state, due = "delivered" if error is None else "pending" if attempts <= len(PAUSES_S) else "dead", now
        ATTEMPTS.labels("failed" if state == "pending" else state).inc()
        if state == "pending":
            due = now + timedelta(seconds=PAUSES_S[attempts - 1] * (1 + 0.2 * random.random()))  # noqa: S311 - no secret
        with suppress(RetentiveError):  # while the storage is unreachable, the delivery stays due
            self._webhooks.settle(
                delivery, state=state, attempts=attempts, due=due, last_attempt_at=now, last_error=error
            )
        return error is None
