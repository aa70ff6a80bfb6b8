"""What history, sweeping and the like need of a memory store: reading it, and the one way to write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from retentive.engine.access_times import Accesses
from retentive.engine.writer import GuardedWriter
from retentive.storage.contract import Actor, Backend, Clock, Snapshot, StoreInfo, Transaction
from retentive.values.replies import Replies
from retentive.values.settings import Settings

T = TypeVar("T")


class Engine(Protocol):
    """A memory store, as `MemoryStore` is one."""

    backend: Backend
    info: StoreInfo
    replies: Replies
    accesses: Accesses
    clock: Clock
    actor: Actor | None

    @property
    def id(self) -> str:
        """`memstore_...`"""

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on one consistent state."""

    def write(
        self, work: Callable[[Transaction, GuardedWriter], T], who: Actor | None, *, may_use_reserve: bool = False
    ) -> T:
        """Run `work` with the one way to change the store."""

    def record_hand_edits(self, found: Snapshot) -> None:
        """Have what people edited by hand in plain files recorded, so that it is in what is seen from here on."""

    def settings(self) -> Settings:
        """The settings that hold."""
