"""Route of the stream of events."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from retentive.engine.operation import AuditOnly
from retentive.server.calls import Events, RouteCall
from retentive.server.errors import invalid
from retentive.server.route import READ, STORE, Routes
from retentive.store import core_of

_CURSOR = re.compile(r"0|[0-9a-f]{32}")
After = Annotated[
    str | None,
    Field(max_length=50, description="Begin after the event with this id; the header `Last-Event-ID` wins"),
]
route = Routes()


@route("GET", f"{STORE}/events", READ, "text/event-stream")
def stream_events(call: RouteCall, after: After = None) -> Events:
    """Send the changes of the memories as they happen, as server-sent events.

    If `after` is `0`, the stream begins with the first change of the memory store. Without `after`, it has only new
    changes.
    """
    store, cursor = call.store, call.last_event_id or after
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise invalid("after: must be the id of an event, or 0")
    core_of(store).result_of(AuditOnly("events"))
    keys, key = call.location.keys, call.caller.key

    def may_continue() -> bool:
        return keys.is_active(key)

    return Events(store, store.history.newest() if cursor is None else cursor, may_continue)
