"""History tools: list changes, show differences, and undo the caller's own changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from mcp import types as t

from retentive.errors import InvalidInput, PermissionDenied
from retentive.history.differences import MemoryDifference
from retentive.mcp.answers import Arguments, number_field, result_of, text_field, within_limit
from retentive.mounts import StoreOrMounts, store_at, stores_of
from retentive.remote import is_remote
from retentive.values import diff
from retentive.values.paths import visible_path
from retentive.values.records import Version, time_in_id, to_datetime
from retentive.values.replies import REPLIES

LIMIT, MAX_LIMIT = 20, 100
_VERSION = "the id of a version, such as memver_..."
_CHANGE = "a change such as r12 or HEAD, or the id of a version"
_UNDONE = {"deleted": "deleted", "moved": "renamed", "made": "recreated", "changed": "reverted"}


def history(store: StoreOrMounts, given: Arguments) -> t.CallToolResult:
    """List the changes of the whole memory store, or of the path in the arguments `given`, newest first."""
    path, before = text_field(given, "path"), text_field(given, "before", _VERSION)
    limit = number_field(given, "limit", default=LIMIT, most=MAX_LIMIT)
    at = None if before is None else time_in_id(before)
    if before is not None and at is None:
        raise InvalidInput(f"`before` must be {_VERSION}")
    until = None if at is None else to_datetime(at - 1)  # no two versions have the same time
    found = store.history.log(path, until=until, limit=limit + 1)
    if not found:
        return result_of("No changes." if before is None else "No earlier changes.")
    hidden = _hidden(store, found)
    # A number names a change of one store, so it is left out if there are several.
    numbers = len(stores_of(store)) == 1
    lines = [_line(each, is_hidden=each.memory_id in hidden, numbers=numbers) for each in found[:limit]]
    if len(found) > limit:
        lines.append(f'[Next: memory_history with before "{found[limit - 1].id}".]')
    return result_of(within_limit("\n".join(lines), "[Cut to fit. Use a smaller limit.]"))


def _hidden(tree: StoreOrMounts, versions: Sequence[Version]) -> set[str]:
    """Return the ids of those memories in `versions` that a server hides: their paths must not be shown to a model.

    They include deleted memories, which a server does not show. A local store is opened so that it leaves them out.
    """
    hidden: set[str] = set()
    for store in filter(is_remote, stores_of(tree).values()):
        with suppress(PermissionDenied):
            settings = store.settings()
            if not (settings.trust or settings.quarantine):
                continue
        own = {each.memory_id for each in versions if not each.path or store_at(tree, each.path)[0] is store}
        hidden |= own - {memory.id for memory in store.memories()}
    return hidden


def _line(version: Version, *, is_hidden: bool, numbers: bool) -> str:
    at = version.created_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    what = "a hidden path" if is_hidden else visible_path(version.path) if version.path else "a redacted path"
    cause, number = version.provenance.cause, f"r{version.revision} " if numbers else ""
    return (
        f"{number}{at} {version.operation} {what} by {version.actor or 'nobody'} ({version.id})"
        f"{f': {cause}' if cause else ''}"
    )


def difference(store: StoreOrMounts, given: Arguments) -> t.CallToolResult:
    """Show the differences that a change made, or the differences between two versions."""
    path, change = text_field(given, "path"), text_field(given, "change", _CHANGE)
    since, until = text_field(given, "since", _VERSION), text_field(given, "until", _VERSION)
    if change is not None and (since is not None or until is not None):
        raise InvalidInput("specify `change` alone, or `since` together with `until`")
    if since is None and until is None:
        found = store.history.differences(path, change="HEAD" if change is None else change)
    elif since is None or until is None:
        raise InvalidInput("`since` and `until` must be used together; specify both")
    else:
        found = store.history.differences(path, since=since, until=until)
    parts = [_unified(each) for each in found.found]
    if found.hidden:
        parts.append(f"[{found.hidden} memories are hidden.]")
    hint = "[Cut to fit. Name a path, or the ids of two versions.]"
    return result_of(within_limit("".join(parts).rstrip("\n") or "No differences.", hint))


def _unified(found: MemoryDifference) -> str:
    if found.reason:
        return f"{visible_path(found.path)}: {found.reason}\n"
    old, new = ("" if each is None else f"{visible_path(each.path)}@{each.id}" for each in (found.old, found.new))
    lines = diff.as_text(diff.unified(found.old_text, found.new_text, old_name=old, new_name=new))
    if lines or found.old is None or found.new is None:
        return (
            lines or f"{visible_path(found.path)}: {'created empty' if found.old is None else 'deleted, was empty'}\n"
        )
    return f"renamed {visible_path(found.old.path)} to {visible_path(found.new.path)}\n"


def undo(store: StoreOrMounts, given: Arguments, call_id: str | None) -> t.CallToolResult:
    """Undo a change that the caller made. Later changes to other lines are kept."""
    change, path = text_field(given, "change", _CHANGE), text_field(given, "path")
    outcome = store.history.undo_own(change, path=path, mode="merge", request_id=call_id)
    if outcome.conflicts:
        reasons = [f"{visible_path(each.path)}: {each.reason}" for each in outcome.conflicts]
        return result_of("\n".join(["Error: Nothing was undone, because of later changes:", *reasons]), is_error=True)
    lines = [f"{_UNDONE[step.what]} {visible_path(step.path)}" for step in outcome.steps]
    if not lines:
        lines = ["Nothing to undo: the memories already have their state from before the change."]
    lines += [f"{visible_path(each.path)} was not fully restored: {each.reason}" for each in outcome.left]
    return result_of("\n".join([*lines, *([REPLIES.awaits_review] if outcome.proposed else [])]))
