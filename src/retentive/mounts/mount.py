"""One mounted memory store.

Maps paths of the store to paths of the tree, hides memories that other mount points cover, and checks changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard, Rules
from retentive.engine.handlers import CommandResult
from retentive.engine.operation import Plan, Write
from retentive.engine.proposing import with_own_proposals
from retentive.engine.rendering import OF_BACKENDS
from retentive.engine.trust import is_used
from retentive.engine.visibility import Assessment, Filtered
from retentive.errors import InvalidInput, Refused
from retentive.storage.contract import Actor, Memory, Snapshot
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.replies import REPLIES

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mount:
    """A memory store at its mount point, and the part of it that is visible in the tree.

    Two kinds of memories are hidden: a memory at or below another mount point, and a memory whose path is a directory
    above another mount point.
    """

    store: MemoryStore
    point: str
    """Mount point of the store, a path of the tree."""
    covered: tuple[str, ...]
    """Other mount points below this one, each with a trailing `/`."""
    fixed: frozenset[str]
    """Paths of the tree that are always directories: the root, the mount points and the directories above them."""

    @property
    def core(self) -> StoreCore:
        """Core of the memory store, which runs its operations."""
        return core_of(self.store)

    def outward(self, text: str) -> str:
        """Convert `text`, a canonical path within the store, to a path of the tree."""
        return self.point + text[len(ROOT) :]

    def shows(self, text: str) -> bool:
        """Return whether a memory at `text`, a path within the store, is visible in the tree."""
        outer = self.outward(text)
        return not self.covered or (outer not in self.fixed and not f"{outer}/".startswith(self.covered))

    def moved_outward(self, memory: Memory) -> Memory:
        """Return a memory with its path in the tree."""
        return replace(memory, path=self.outward(memory.path))

    @contextmanager
    def named_outward(self) -> Iterator[None]:
        """Context manager: in a refusal by the backend, converts the path from a store path to a tree path."""
        try:
            yield
        except Refused as refusal:
            if refusal.key not in OF_BACKENDS:
                raise
            raise Refused(refusal.key, path=self.outward(str(refusal.values["path"]))) from None

    def read(self, work: Callable[[Snapshot, Rules], T], actor: Actor | None) -> T:
        """Call `work` with one state of the store as an actor sees it, and the rules for changes by this actor."""
        core, who = self.core, actor or self.core.actor

        def seen(snapshot: Snapshot) -> T:
            settings = core.settings_of(snapshot)
            view, hidden = snapshot, None
            if is_used(settings):
                hidden = Assessment(snapshot, settings, who)
                view = Filtered(snapshot, hidden.shows, history=False)
            rules = Rules(settings, who, core.examiner, hidden=hidden)
            return work(with_own_proposals(view, settings, who), rules)

        with self.named_outward():
            return core.read(seen)

    def changeable(self, under: str, shown: str, view: Snapshot, rules: Rules) -> list[Memory]:
        """Return the visible memories below `under`, a directory of the store.

        Raises `Refused` if `rules` forbid a change to one of these memories. If no memory is visible, `rules` must
        allow a change to `under` itself. Also raises `Refused` if a memory at or below `under` is hidden from the
        actor. `shown` is the path that the error names.
        """
        found = [memory for memory, _ in view.list(under) if self.shows(memory.path)]
        paths = [memory.path for memory in found] or [under]
        is_hidden = rules.hidden is not None and rules.hidden.blocks(under)
        if is_hidden or not all(rules.may_change(text) for text in paths):
            raise Refused("read_only", path=shown)
        return found


@dataclass(frozen=True, slots=True)
class ClearPart(Write[CommandResult]):
    """Delete all memories in the visible part of a mounted store."""

    name = "clear"
    allowed_when_archived = True
    only_removes = True
    mount: Mount

    def paths(self) -> tuple[str, ...]:
        """Return the root of the store."""
        return (ROOT,)

    def decide(self, view: Snapshot, guard: Guard) -> Plan[CommandResult]:
        """Return the deletions. Raises `Refused` if the actor may not change one of the memories."""
        gone = self.mount.changeable(ROOT, self.mount.point, view, guard)
        return Plan(CommandResult(), guard.delete(view, gone))


def checked_stores(stores: Mapping[str, MemoryStore]) -> dict[str, MemoryStore]:
    """Return a dict from the canonical path of each mount point to its store.

    Raises `InvalidInput` for an invalid or repeated mount point, for a store on a server, and if no store is mounted at
    `/memories`.
    """
    found: dict[str, MemoryStore] = {}
    for written, store in stores.items():
        try:
            point = MemoryPath.parse(written).text
        except Refused as refusal:
            raise InvalidInput(f"invalid mount point: {REPLIES.phrase(refusal.key, refusal.values)}") from None
        if point in found:
            raise InvalidInput(f"two memory stores have the mount point {point}; use a different mount point for each")
        if not isinstance(store, MemoryStore):
            raise InvalidInput(
                f"the value for mount point {point} must be a MemoryStore, for example "
                'retentive.open("sqlite://").store()'
            )
        _ = core_of(store).backend  # raises for a memory store on a server
        found[point] = store
    if ROOT not in found:
        raise InvalidInput(
            f"a memory store must be mounted at {ROOT}, the root of the tree; for a root without memories, "
            'mount an empty store: retentive.open("sqlite://").store().read_only()'
        )
    return found
