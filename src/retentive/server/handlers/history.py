"""Handlers of the routes for the history: differences, undo, restore, changes and blame."""

from __future__ import annotations

from datetime import datetime

from retentive.engine.trust import Level
from retentive.errors import InvalidInput, NotFound
from retentive.history.plan import Mode, RestoreOutcome
from retentive.server.calls import Json, RouteCall
from retentive.server.errors import HttpError, invalid, missing
from retentive.server.objects import (
    NO_MEMORY,
    NO_VERSION,
    VERSION_ID,
    api_path,
    memory_version,
    moment,
    store_event,
    time,
    tool_path,
)
from retentive.server.objects import actor as actor_of
from retentive.storage.contract import Version
from retentive.store import core_of
from retentive.store.by_id import read_memory
from retentive.values import diff
from retentive.values.provenance import origin_of

PREVIOUS = "previous"
_STEPS = {"deleted": "deleted", "moved": "renamed", "made": "created", "changed": "modified"}


def diff_memory_version(call: RouteCall, *, against: str) -> Json:
    """Compare the texts of two versions. `against` is the id of the second version, or `previous`."""
    version_id, history = call.ids["memory_version_id"], call.store.history
    if not VERSION_ID.fullmatch(version_id) or not (against == PREVIOUS or VERSION_ID.fullmatch(against)):
        raise missing(NO_VERSION)
    try:
        if against == PREVIOUS:
            found = history.differences(change=version_id).found
        else:
            found = history.differences(since=against, until=version_id).found
    except NotFound:
        raise missing(NO_VERSION) from None
    chosen = found[0]
    if chosen.reason:
        raise InvalidInput(chosen.reason)
    names = ("" if each is None else f"{api_path(each.path)}@{each.id}" for each in (chosen.old, chosen.new))
    old_name, new_name = names
    lines = diff.unified(chosen.old_text, chosen.new_text, old_name=old_name, new_name=new_name)
    return {
        "type": "memory_diff",
        "memory_version_id": version_id,
        "against_memory_version_id": None if chosen.old is None else chosen.old.id,
        "unified": diff.as_text(lines),
    }


def undo_change(
    call: RouteCall,
    *,
    memory_version_id: str | None,
    revision: str | None,
    path: str | None,
    actor: str | None,
    since: datetime | None,
    own: bool,
    mode: Mode,
    dry_run: bool,
    source: str | None,
    session: str | None,
) -> Json:
    """Undo one change, all changes of an actor, or one of the caller's own changes.

    `memory_version_id` or `revision` names a single change. `actor` selects all changes of an actor. With `own`, one of
    the caller's own changes is undone.
    """
    history, origin = call.store.history, origin_of(source, session)
    if own:
        if dry_run or any(each is not None for each in (memory_version_id, actor, since)):
            raise invalid("own: this field can be combined only with the fields revision, path and mode")
        return _changed(history.undo_own(revision, path=None if path is None else tool_path(path), mode=mode, **origin))
    if sum(each is not None for each in (memory_version_id, revision, actor)) != 1:
        raise invalid("memory_version_id: specify exactly one of memory_version_id, revision and actor")
    if path is not None and revision is None:
        raise invalid("path: cannot be used without revision")
    if actor is not None:
        return _changed(history.undo_by(actor, since=since, mode=mode, dry_run=dry_run, **origin))
    if since is not None:
        raise invalid("since: cannot be used without actor")
    if revision is not None:
        target = None if path is None else tool_path(path)
        return _changed(history.undo(revision, path=target, mode=mode, dry_run=dry_run, **origin))
    if memory_version_id is None or not VERSION_ID.fullmatch(memory_version_id):
        raise missing(NO_VERSION)
    try:
        return _changed(history.undo(memory_version_id, mode=mode, dry_run=dry_run, **origin))
    except NotFound:
        raise missing(NO_VERSION) from None


def restore_path(
    call: RouteCall, *, path: str, at: str, mode: Mode, dry_run: bool, source: str | None, session: str | None
) -> Json:
    """Restore a memory or a directory to its state at a version or a time.

    The path `/` restores the whole memory store.
    """
    origin, history = origin_of(source, session), call.store.history
    return _changed(history.restore(tool_path(path), moment(at), mode=mode, dry_run=dry_run, **origin))


def list_changes(call: RouteCall, *, after: str, limit: int) -> Json:
    """List the changes that follow a cursor, oldest first."""
    store = call.store
    found = store.history.feed(after, limit=limit)
    data = [
        memory_version(each, store.id, None) if isinstance(each, Version) else store_event(each, store.id)
        for each in found.items
    ]
    return {"data": data, "next": found.next, "newest": store.history.newest(), "has_gap": found.has_gap}


def blame_memory(call: RouteCall, *, source: str | None, trust: Level | None) -> Json:
    """Return each line of a memory with the version that added it."""
    store, memory_id = call.store, call.ids["memory_id"]
    try:
        found, _ = core_of(store).peek(read_memory(memory_id))
        lines = store.history.blame(found.path, source=source, trust=trust)
    except NotFound:
        raise missing(NO_MEMORY) from None
    data = [
        {
            "line": each.number,
            "text": each.text,
            "memory_version_id": each.version.id,
            "created_at": time(each.version.created_at),
            "created_by": actor_of(each.version.actor),
            "source": each.version.provenance.source or None,
            "session": each.version.provenance.session or None,
        }
        for each in lines
    ]
    return {"type": "memory_blame", "memory_id": memory_id, "path": api_path(found.path), "lines": data}


def _changed(outcome: RestoreOutcome) -> Json:
    if outcome.conflicts:
        raise HttpError(
            409,
            "conflict_error",
            "later changes conflict with this one, so nothing was changed",
            "conflict",
            fields={"conflicts": [_conflict(each.path, each.memory_id, each.reason) for each in outcome.conflicts]},
        )
    return {
        "type": "change_result",
        "steps": [
            {"operation": _STEPS[step.what], "memory_id": step.memory_id, "path": api_path(step.path)}
            for step in outcome.steps
        ],
        "left": [_conflict(each.path, each.memory_id, each.reason) for each in outcome.left],
        "proposed": outcome.proposed,
        "dry_run": outcome.dry_run,
    }


def _conflict(path: str, memory_id: str, reason: str) -> Json:
    return {"path": api_path(path), "memory_id": memory_id, "reason": reason}
