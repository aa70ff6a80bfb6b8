"""One mounted memory store: the part of it that is visible in the tree, and its paths there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar, Unpack

from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.operation import Plan, ReadOperation, Write
from retentive.engine.pending import with_own_proposals
from retentive.engine.read import read
from retentive.engine.rendering import OF_BACKENDS
from retentive.errors import InvalidInput, Refused
from retentive.storage.contract import Actor, Memory, Snapshot
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT, MemoryPath, ancestors
from retentive.values.provenance import Origin
from retentive.values.replies import REPLIES

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mount:
    """A memory store at its mount point, and the part of it that is visible in the tree.

    Two kinds of memories are hidden: a memory at or below another mount point, and a memory whose path is a directory
    above another mount point. `covered` has the other mount points below this one, each with a trailing `/`. `fixed`
    has the paths of the tree that are always directories: the root, the mount points and the directories above them.
    """

    store: MemoryStore
    point: str
    covered: tuple[str, ...]
    fixed: frozenset[str]

    @property
    def core(self) -> StoreCore:
        """Core of the memory store, which runs its operations."""
        return core_of(self.store)

    def outward(self, path: str) -> str:
        """Convert a canonical path within the store to a path of the tree."""
        return self.point + path[len(ROOT) :]

    def inward(self, path: str) -> str:
        """Convert a path of the tree, at or below the mount point, to a path within the store."""
        return ROOT + path[len(self.point) :]

    def shows(self, path: str) -> bool:
        """Return whether a memory at a path within the store is visible in the tree."""
        outer = self.outward(path)
        return not self.covered or (outer not in self.fixed and not f"{outer}/".startswith(self.covered))

    def shown(self, memories: list[Memory]) -> list[Memory]:
        """Return those memories of the store that are visible in the tree, with their paths in the tree."""
        return [replace(each, path=self.outward(each.path)) for each in memories if self.shows(each.path)]

    @contextmanager
    def named_outward(self) -> Iterator[None]:
        """Context manager: in a refusal by the backend, converts the path from a store path to a tree path."""
        try:
            yield
        except Refused as refusal:
            if refusal.key not in OF_BACKENDS:
                raise
            raise Refused(refusal.key, path=self.outward(str(refusal.values["path"]))) from None

    def run(self, operation: ReadOperation[T], actor: Actor | None) -> T:
        """Run a step of a command on the tree, without an audit entry of its own."""
        with self.named_outward():
            return read(self.core, operation, self.core.invocation(actor), is_audited=False).value()

    def ask(self, work: Callable[[Snapshot, Guard], T], actor: Actor | None) -> T:
        """Call `work` with one state of the store as the actor sees it, and the guard of the actor's changes."""
        core, call = self.core, self.core.invocation(actor)

        def asked(snapshot: Snapshot) -> T:
            settings = core.settings_of(snapshot)
            view = with_own_proposals(snapshot, settings, call.actor or core.actor)
            return work(view, Guard(core, view, settings, call))

        with self.named_outward():
            return core.read(asked)

    def changeable(self, under: str, shown: str, view: Snapshot, guard: Guard) -> list[Memory]:
        """Return the visible memories below `under`, a directory of the store.

        Raises `Refused` if `guard` forbids a change to one of these memories. If no memory is visible, it must allow a
        change to `under` itself. Also raises `Refused` if a memory at or below `under` is hidden from the actor.
        `shown` is the path that the error names.
        """
        found = [memory for memory, _ in view.list(under) if self.shows(memory.path)]
        is_hidden = guard.hidden is not None and guard.hidden.blocks(under)
        if is_hidden or not all(map(guard.may_change, [memory.path for memory in found] or [under])):
            raise Refused("read_only", path=shown)
        return found

    def clear(self, actor: Actor | None, **origin: Unpack[Origin]) -> None:
        """Delete all memories in the visible part of the store. Raises `Refused` if the actor may not change one."""

        def work(view: Snapshot, guard: Guard) -> Plan[None]:
            return Plan(None, guard.delete(view, self.changeable(ROOT, self.point, view, guard)))

        clear = Write("clear", work, MemoryPath.known(ROOT), under_review="propose", only_removes=True)
        with self.named_outward():
            self.core.run(clear, self.core.invocation(actor, **origin)).value()


class Places:
    """The mounts of a tree by mount point, in byte order, and the paths that are always directories."""

    def __init__(self, stores: Mapping[str, MemoryStore]) -> None:
        checked = _checked(stores)
        points = sorted(checked)
        above = {place for point in points for place in (point, *ancestors(point), ROOT)}
        self.fixed = frozenset(above) if len(points) > 1 else frozenset[str]()
        self.mounts: dict[str, Mount] = {}
        for point in points:
            covered = tuple(f"{each}/" for each in points if each.startswith(f"{point}/"))
            self.mounts[point] = Mount(checked[point], point, covered, self.fixed)

    def owner(self, path: str) -> Mount:
        """Return the mount that a path of the tree belongs to: the one with the longest mount point."""
        places = (place for place in (path, *reversed(ancestors(path))) if place in self.mounts)
        return self.mounts[next(places, ROOT)]

    def parts(self, under: str) -> list[tuple[Mount, str]]:
        """Return the mount that the directory `under` belongs to, and the mounts below this directory.

        Each comes with the path of the directory in its store.
        """
        owner, below = self.owner(under), f"{under}/"
        inner = (owner, owner.inward(under))
        return [inner, *((mount, ROOT) for mount in self.mounts.values() if mount.point.startswith(below))]


def _checked(stores: Mapping[str, MemoryStore]) -> dict[str, MemoryStore]:
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
