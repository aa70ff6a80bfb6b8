"""Reads of a store from the point of view of one actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from retentive import MemoryStore
from retentive.review.stage import seen_by
from retentive.storage.contract import Actor, Snapshot

T = TypeVar("T")


def read_as(store: MemoryStore, work: Callable[[Snapshot], T], actor: Actor) -> T:
    """Run `work` on the state that `actor` sees."""
    return store._core.read(lambda snapshot: work(seen_by(actor, snapshot, store._core.settings_of(snapshot))))
