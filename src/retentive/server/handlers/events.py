"""Route of the stream of events."""

from __future__ import annotations

import re

from retentive.engine.operation import AuditOnly
from retentive.server.calls import Events, RouteCall
from retentive.server.errors import invalid
from retentive.server.route import READ, STORE, Routes
from retentive.store import core_of
from retentive.wire.history import EventQuery

_CURSOR = re.compile(r"0|[0-9a-f]{32}")
route = Routes()


@route("GET", f"{STORE}/events", READ, "text/event-stream")
def stream_events(call: RouteCall, query: EventQuery) -> Events:
    """Send the changes of the memories as they happen, as server-sent events.

    If `after` is `0`, the stream begins with the first change of the memory store. Without `after`, it has only new
    changes.
    """
    store, cursor = call.store, call.last_event_id or query.after
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise invalid("after: must be the id of an event, or 0")
    core_of(store).result_of(AuditOnly("events"))
    keys, key = call.location.keys, call.caller.key

    def may_continue() -> bool:
        return keys.is_active(key)

    return Events(store, store.history.newest() if cursor is None else cursor, may_continue)
