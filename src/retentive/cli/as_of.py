"""Reads of a memory store as it was at an earlier moment, in the replies of the present."""

from __future__ import annotations

from retentive.cli.times import Moment
from retentive.engine.handlers import RunView
from retentive.engine.operation import Invocation
from retentive.engine.queries import ListMemories, parsed
from retentive.engine.rendering import rendered
from retentive.errors import NotFound, Refused
from retentive.history.operations import AsOf
from retentive.storage.contract import Memory
from retentive.store import MemoryStore
from retentive.values.commands import View, parse
from retentive.values.replies import Reply
from retentive.values.text import LineCounts


def view(store: MemoryStore, given: dict[str, object], at: Moment) -> Reply:
    """The reply to a view of the store as it was. Raises `NotFound`, `InvalidInput` as `History.at`."""
    try:
        command = parse(given)
    except Refused as refusal:
        return store.replies.error(refusal.key, refusal.values)
    assert isinstance(command, View)
    operation = RunView(command, LineCounts())
    outcome = store.run(AsOf(operation, at), Invocation(None, None, store.integration))
    if outcome.error is not None and not isinstance(outcome.error, Refused):
        raise outcome.error
    return rendered(store, operation, outcome)


def memories(store: MemoryStore, path: str, at: Moment) -> list[Memory]:
    """The memories that were below a directory, or the one that was at a path. Raises `NotFound`, `InvalidInput`."""
    target = parsed(path, store.replies)
    found = store.run(AsOf(ListMemories(target, or_at=True), at), Invocation(None, None, store.integration)).value()
    if not found and not target.is_root:
        raise NotFound(f"there was no memory at {path}")
    return found
