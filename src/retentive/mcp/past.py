"""History tools: list changes, show differences, and undo the caller's own changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from mcp import types as t

from retentive.errors import InvalidInput, NotFound, PermissionDenied, RetentiveError
from retentive.history.differences import MemoryDifference
from retentive.history.history import History
from retentive.history.plan import Conflict
from retentive.history.revisions import as_revision
from retentive.mcp.answers import Arguments, number_field, result_of, text_field, within_limit
from retentive.mounts import StoreOrMounts, log_of, place_of, shown_path, store_at, stores_of
from retentive.remote import is_remote
from retentive.store import core_of
from retentive.values import diff
from retentive.values.paths import ROOT, visible_path
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
    found = log_of(store, path, until=until, limit=limit + 1)
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
    is_hidden = is_hidden or (not version.path and version.redacted_at is None)
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
    if (since is None) != (until is None):
        raise InvalidInput("`since` and `until` must be used together; specify both")
    change = "HEAD" if change is None and until is None else change
    point, at, name = _place(store, path, until if change is None else change)
    with _history_at(store, point) as log:
        found = log.differences(at, change=name if since is None else None, since=since, until=until)
    shown = partial(shown_path, store, point)
    parts = [_unified(each, shown) for each in found.found if not each.path or shown(each.path)]
    if found.hidden:
        parts.append(f"[{found.hidden} memories are hidden.]")
    hint = "[Cut to fit. Name a path, or the ids of two versions.]"
    return result_of(within_limit("".join(parts).rstrip("\n") or "No differences.", hint))


def _place(tree: StoreOrMounts, path: str | None, name: str | None) -> tuple[str, str | None, str | None]:
    """Return the mount point of the store whose change is meant, the path in it, and the name of the change there.

    Each store numbers its own changes, and a repeated call must never undo a change in another store: without a path,
    a number means nothing, and no name is enough only if one store is writable. Raises `InvalidInput` and `NotFound`.
    """
    stores = stores_of(tree)
    if len(stores) == 1:
        return ROOT, path, name
    if path is not None:
        point, inner = place_of(tree, path)
        return point, None if inner == ROOT else inner, name
    writable = [point for point, store in stores.items() if not core_of(store).pins.get("read_only")] or [ROOT]
    if name is None and len(writable) == 1:
        return writable[0], None, None
    if name == "HEAD":
        newest = next((each for each in log_of(tree, limit=LIMIT) if each.path), None)
        return (ROOT, None, name) if newest is None else (place_of(tree, newest.path)[0], None, f"r{newest.revision}")
    if name is None or not as_revision(name).is_version:
        raise InvalidInput(
            "several memory stores are mounted, and each numbers its own changes; a change needs the id of a version"
            " (memver_...), or a path in one store"
        )
    for point, store in stores.items():
        with suppress(NotFound):
            if shown_path(tree, point, store.history.show(name)[0].path):
                return point, None, name
    raise NotFound(f"there is no version {name}")


@contextmanager
def _history_at(tree: StoreOrMounts, point: str) -> Iterator[History]:
    """Yield the history of the store at a mount point. Errors name paths of the tree."""
    try:
        yield stores_of(tree)[point].history
    except RetentiveError as error:
        error.args = (str(error).replace(f"{ROOT}/", f"{point}/"),)
        raise


def _unified(found: MemoryDifference, shown: Callable[[str], str]) -> str:
    if found.reason:
        return f"{visible_path(shown(found.path))}: {found.reason}\n"
    old, new = ("" if each is None else visible_path(shown(each.path)) for each in (found.old, found.new))
    names = [f"{path}@{each.id}" if each else "" for path, each in ((old, found.old), (new, found.new))]
    lines = diff.as_text(diff.unified(found.old_text, found.new_text, old_name=names[0], new_name=names[1]))
    if lines or found.old is None or found.new is None:
        return lines or f"{visible_path(shown(found.path))}: {'deleted, was' if old else 'created'} empty\n"
    return f"renamed {old} to {new}\n"


def undo(store: StoreOrMounts, given: Arguments, call_id: str | None) -> t.CallToolResult:
    """Undo a change that the caller made. Later changes to other lines are kept."""
    change, path = text_field(given, "change", _CHANGE), text_field(given, "path")
    point, at, change = _place(store, path, change)
    with _history_at(store, point) as log:
        outcome = log.undo_own(change, path=at, mode="merge", request_id=call_id)

    def shown(path: str) -> str:
        return visible_path(shown_path(store, point, path))

    def because(found: Conflict) -> str:
        return found.reason.replace(f" {ROOT}/", f" {point}/")

    if outcome.conflicts:
        reasons = [f"{shown(each.path)}: {because(each)}" for each in outcome.conflicts]
        return result_of("\n".join(["Error: Nothing was undone, because of later changes:", *reasons]), is_error=True)
    lines = [f"{_UNDONE[step.what]} {shown(step.path)}" for step in outcome.steps]
    if not lines:
        lines = ["Nothing to undo: the memories already have their state from before the change."]
    lines += [f"{shown(each.path)} was not fully restored: {because(each)}" for each in outcome.left]
    return result_of("\n".join([*lines, *([REPLIES.awaits_review] if outcome.proposed else [])]))
