"""Looking at a memory store as it was at an earlier moment, in the replies of the present."""

from __future__ import annotations

from retentive.cli.times import Moment
from retentive.engine import views
from retentive.engine.queries import parsed
from retentive.errors import NotFound, Refused
from retentive.storage.contract import Entry, Memory, Snapshot
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

    def look(now: Snapshot) -> Entry | views.Sizes:
        return views.found(store.history.at(at, now), command.path)

    try:
        settings, found = store.settings(), store.read(look)
        if isinstance(found, Entry):
            return views.memory(command, found, settings, store.replies, LineCounts())
        return views.directory(command.path, found, settings, store.replies)
    except Refused as refusal:
        return store.replies.error(refusal.key, {"path": command.path.written, **refusal.values})


def memories(store: MemoryStore, path: str, at: Moment) -> list[Memory]:
    """The memories that were below a directory, or the one that was at a path. Raises `NotFound`, `InvalidInput`."""
    target = parsed(path, store.replies)

    def work(now: Snapshot) -> list[Memory]:
        past = store.history.at(at, now)
        below = list(past.memories(target.text))
        if below or target.is_root:
            return below
        memory = past.get(target.text).memory
        return [] if memory is None else [memory]

    found = store.read(work)
    if not found and not target.is_root:
        raise NotFound(f"there was no memory at {path}")
    return found
