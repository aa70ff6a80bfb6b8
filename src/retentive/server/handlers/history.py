"""Routes of the history: blame, changes, events, differences, undo and restore."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from retentive.engine.operation import AuditOnly
from retentive.engine.visibility import Level
from retentive.errors import InvalidInput
from retentive.history.plan import RestoreOutcome
from retentive.server.calls import Events, RouteCall
from retentive.server.errors import HttpError, finding, invalid
from retentive.server.handlers.memories import MEMORY, NO_MEMORY
from retentive.server.handlers.versions import NO_VERSION, VERSION, check_version_id
from retentive.server.route import READ, STORE, WRITE, Routes
from retentive.store import core_of
from retentive.store.by_id import read_memory
from retentive.values import diff
from retentive.values.provenance import origin_of
from retentive.wire.base import FROM_TEXT, NamePattern, api_path
from retentive.wire.history import (
    BlameObject,
    ChangeFeed,
    ChangeResult,
    ConflictObject,
    DiffObject,
    RestoreRequest,
    UndoRequest,
    change_object,
)

PREVIOUS = "previous"
BlamedSource = Annotated[
    NamePattern | None, Field(description="Only lines of versions with a source that matches, such as web:*")
]
BlamedLevel = Annotated[Level | None, Field(description="Only versions at this level of trust")]
After = Annotated[
    str, Field(max_length=50, description="The `next` of the answer before; without it, from the first change")
]
FeedLimit = Annotated[int, Field(ge=1, le=500, description="Changes in one answer"), FROM_TEXT]
Against = Annotated[str, Field(max_length=200, description="Id of the version to compare with, or `previous`")]
_CURSOR = re.compile(r"0|[0-9a-f]{32}")
EventCursor = Annotated[
    str | None,
    Field(max_length=50, description="Begin after the event with this id; the header `Last-Event-ID` wins"),
]
route = Routes()


@route("GET", f"{MEMORY}/blame", READ)
def blame_memory(call: RouteCall, source: BlamedSource = None, trust: BlamedLevel = None) -> BlameObject:
    """Retrieve each line of a memory with the version that added it."""
    store, memory_id = call.store, call.ids["memory_id"]
    with finding(NO_MEMORY):
        found, _ = core_of(store).peek(read_memory(memory_id))
        return BlameObject.of(memory_id, found.path, store.history.blame(found.path, source=source, trust=trust))


@route("GET", f"{STORE}/changes", READ)
def list_changes(call: RouteCall, after: After = "", limit: FeedLimit = 100) -> ChangeFeed:
    """List all changes in their order: versions, and events of changes without one."""
    store = call.store
    found = store.history.feed(after, limit=limit)
    data = [change_object(each, store.id) for each in found.items]
    return ChangeFeed(data=data, next=found.next, newest=store.history.newest(), has_gap=found.has_gap)


@route("GET", f"{VERSION}/diff", READ)
def diff_memory_version(call: RouteCall, against: Against = PREVIOUS) -> DiffObject:
    """Compare a version with another one."""
    version_id, history = call.ids["memory_version_id"], call.store.history
    check_version_id(version_id, version_id if against == PREVIOUS else against)
    with finding(NO_VERSION):
        if against == PREVIOUS:
            found = history.differences(change=version_id).found
        else:
            found = history.differences(since=against, until=version_id).found
    chosen = found[0]
    if chosen.reason:
        raise InvalidInput(chosen.reason)
    names = ("" if each is None else f"{api_path(each.path)}@{each.id}" for each in (chosen.old, chosen.new))
    old_name, new_name = names
    lines = diff.unified(chosen.old_text, chosen.new_text, old_name=old_name, new_name=new_name)
    other = None if chosen.old is None else chosen.old.id
    return DiffObject(memory_version_id=version_id, against_memory_version_id=other, unified=diff.as_text(lines))


@route("POST", f"{STORE}/undo", WRITE, conflicts=True)
def undo_change(call: RouteCall, body: UndoRequest) -> ChangeResult:
    """Undo a change, or the changes of an actor."""
    history, origin = call.store.history, origin_of(body.source, body.session)
    version_id, revision, actor, mode, dry_run = (
        body.memory_version_id, body.revision, body.actor, body.mode, body.dry_run
    )  # fmt: skip
    if body.own:
        if dry_run or any(each is not None for each in (version_id, actor, body.since)):
            raise invalid("own: this field can be combined only with the fields revision, path and mode")
        return _changed(history.undo_own(revision, path=body.path, mode=mode, **origin))
    if sum(each is not None for each in (version_id, revision, actor)) != 1:
        raise invalid("memory_version_id: specify exactly one of memory_version_id, revision and actor")
    if body.path is not None and revision is None:
        raise invalid("path: cannot be used without revision")
    if actor is not None:
        return _changed(history.undo_by(actor, since=body.since, mode=mode, dry_run=dry_run, **origin))
    if body.since is not None:
        raise invalid("since: cannot be used without actor")
    if revision is not None:
        return _changed(history.undo(revision, path=body.path, mode=mode, dry_run=dry_run, **origin))
    assert version_id is not None
    check_version_id(version_id)
    with finding(NO_VERSION):
        return _changed(history.undo(version_id, mode=mode, dry_run=dry_run, **origin))


@route("POST", f"{STORE}/restore", WRITE, conflicts=True)
def restore_path(call: RouteCall, body: RestoreRequest) -> ChangeResult:
    """Restore a memory, a directory or the store to an earlier moment."""
    origin, restore = origin_of(body.source, body.session), call.store.history.restore
    return _changed(restore(body.path, body.at, mode=body.mode, dry_run=body.dry_run, **origin))


def _changed(outcome: RestoreOutcome) -> ChangeResult:
    if outcome.conflicts:
        message = "later changes conflict with this one, so nothing was changed"
        conflicts = list(map(ConflictObject.of, outcome.conflicts))
        raise HttpError(409, "conflict_error", message, "conflict", fields={"conflicts": conflicts})
    return ChangeResult.of(outcome)


@route("GET", f"{STORE}/events", READ, "text/event-stream")
def stream_events(call: RouteCall, after: EventCursor = None) -> Events:
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
