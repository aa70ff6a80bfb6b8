"""Reads of a store from the point of view of one actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from retentive import MemoryStore
from retentive.engine.pending import with_own_proposals
from retentive.storage.contract import Actor, Snapshot

T = TypeVar("T")


def read_as(store: MemoryStore, work: Callable[[Snapshot], T], actor: Actor) -> T:
    """Run `work` on the state that `actor` sees."""
    core = store._core
    return core.read(lambda snapshot: work(with_own_proposals(snapshot, core.settings_of(snapshot), actor)))
