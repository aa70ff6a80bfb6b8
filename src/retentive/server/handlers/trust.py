"""Handlers of the routes for trust: memories that are not trusted, confirmations and quarantine."""

from __future__ import annotations

from retentive.engine.trust import Level
from retentive.errors import NotFound
from retentive.review.trust import DoubtedMemory
from retentive.server.calls import Json, RouteCall
from retentive.server.cursors import decode, encode
from retentive.server.errors import missing
from retentive.server.objects import NO_MEMORY, api_path, prefix_of, tool_path


def list_doubted_memories(
    call: RouteCall, *, path_prefix: str, level: Level | None, limit: int, page: str | None
) -> Json:
    """List the memories that are not trusted, in byte order of their paths."""
    of = f"{call.path} {path_prefix} {level}"
    after = "" if page is None else decode(page, of, 1)[0]
    found = call.store.trust.page(prefix_of(path_prefix)[:-1], level=level, after=after, limit=limit)
    following = None if found.next is None else encode([found.next], of)
    return {"data": list(map(_doubted, found.items)), "next_page": following}


def _doubted(given: DoubtedMemory) -> Json:
    return {
        "type": "doubted_memory",
        "memory_id": given.memory_id,
        "path": api_path(given.path),
        "level": given.level,
        "contributors": list(given.contributors),
        "flags": [{"line": line, "kind": kind} for line, kind in given.flags],
    }


def confirm_memories(call: RouteCall, *, path: str) -> Json:
    """Record that a person trusts the current text of a memory, or of all memories below a directory."""
    try:
        found = call.store.trust.confirm(tool_path(path))
    except NotFound:
        raise missing(NO_MEMORY) from None
    return {"type": "trust_confirmation", "paths": [api_path(each) for each in found]}


def quarantine_contributors(call: RouteCall, *, pattern: str) -> Json:
    """Hide all memories with a contributor that matches a pattern. A contributor is an actor, a session or a source."""
    return _changed(pattern, is_changed=call.store.trust.quarantine(pattern))


def release_contributors(call: RouteCall, *, pattern: str) -> Json:
    """End the quarantine of a pattern, so that its memories are visible again."""
    return _changed(pattern, is_changed=call.store.trust.release(pattern))


def _changed(pattern: str, *, is_changed: bool) -> Json:
    return {"type": "quarantine_change", "pattern": pattern, "changed": is_changed}
