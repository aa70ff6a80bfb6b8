"""The whole tree as the handlers of commands see it, for commands that no single store can run.

The handlers then refuse them in the order of one store. What passes all their checks would change two stores or move a
mount point, which `TreeGuard` refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NoReturn

from retentive.engine.guard import Rules
from retentive.errors import Refused
from retentive.mounts.mount import Mount
from retentive.storage.contract import Actor, Entry, Memory, Moved, Snapshot
from retentive.values.paths import ROOT, MemoryPath, ancestors


class Places:
    """The mounts of a tree by mount point, and the paths that are always directories."""

    def __init__(self, mounts: Mapping[str, Mount], fixed: frozenset[str]) -> None:
        self.mounts, self.fixed = mounts, fixed

    def owner(self, path: str) -> Mount:
        """Return the mount that a path of the tree belongs to: the one with the longest mount point."""
        places = (place for place in (path, *reversed(ancestors(path))) if place in self.mounts)
        return self.mounts[next(places, ROOT)]

    def parts(self, under: str) -> list[tuple[Mount, str]]:
        """Return the mount that the directory `under` belongs to, and the mounts below this directory.

        Each comes with the path of the directory in its store.
        """
        owner, below = self.owner(under), f"{under}/"
        inner = (owner, ROOT + under[len(owner.point) :])
        return [inner, *((mount, ROOT) for mount in self.mounts.values() if mount.point.startswith(below))]

    def first_point(self, under: str) -> str:
        """Return the first mount point at or below a directory."""
        return next(point for point in self.mounts if f"{point}/".startswith(f"{under}/"))


class TreeView:
    """What handlers read of a tree, as an actor sees it. Each read is a read of one store, at its own moment."""

    def __init__(self, places: Places, actor: Actor | None) -> None:
        self._places, self._actor = places, actor

    def get(self, path: str) -> Entry:
        """Return the entry at a path of the tree."""
        if path in self._places.fixed:
            return Entry(below=True)
        mount = self._places.owner(path)
        entry = mount.read(lambda view, _: view.get(ROOT + path[len(mount.point) :]), self._actor)
        memory = None if entry.memory is None else mount.moved_outward(entry.memory)
        return replace(entry, memory=memory, above=None if entry.above is None else mount.outward(entry.above))

    def list(self, under: str, *, limit: int | None = None) -> Iterator[tuple[Memory, None]]:
        """Return the visible memories below a directory of the tree, in byte order of their paths."""
        found = [memory for mount, inner in self._places.parts(under) for memory in self._listed(mount, inner)]
        return islice(((memory, None) for memory in sorted(found, key=lambda memory: memory.path)), limit)

    def _listed(self, mount: Mount, inner: str) -> Iterator[Memory]:
        listed = mount.read(lambda view, _: [memory for memory, _ in view.list(inner)], self._actor)
        return (mount.moved_outward(memory) for memory in listed if mount.shows(memory.path))


class TreeGuard:
    """Guard of a command that no single store can run. It never lets changes pass.

    `paths` are the paths of the command.
    """

    def __init__(self, places: Places, actor: Actor | None, paths: Sequence[MemoryPath]) -> None:
        self._places, self._actor, self._paths = places, actor, paths

    def check_name(self, path: MemoryPath) -> None:
        """Raise `Refused` if a new path contains a sensitive value."""
        mount = self._places.owner(path.text)
        mount.read(lambda _, rules: rules.check_name(path.within(mount.point)), self._actor)

    def check(self, path: MemoryPath) -> None:
        """Raise `Refused` if the actor may not change the memory at a path. Hidden memories do not matter here.

        Also raises `Refused` for the new path of a mount point or of a directory above one.
        """
        mount = self._places.owner(path.text)

        def work(_: Snapshot, rules: Rules) -> None:
            rules.hidden = None
            rules.check(path.within(mount.point))

        mount.read(work, self._actor)
        old = self._paths[0]
        if path is not old and old.text in self._places.fixed and not old.is_root:
            raise Refused("mount_renamed", mount=self._places.first_point(old.text))

    def check_all(self, path: MemoryPath, entry: Entry, _: object) -> list[Memory]:
        """Return the memories at or below a path. Raises `Refused` unless the actor may change all of them."""
        if entry.below:
            found = (self._changeable(mount, inner, path.written) for mount, inner in self._places.parts(path.text))
            return [memory for memories in found for memory in memories]
        mount = self._places.owner(path.text)
        mount.read(lambda _, rules: rules.check(path.within(mount.point)), self._actor)
        return [] if entry.memory is None else [entry.memory]

    def _changeable(self, mount: Mount, inner: str, shown: str) -> list[Memory]:
        found = mount.read(lambda view, rules: mount.changeable(inner, shown, view, rules), self._actor)
        return [mount.moved_outward(memory) for memory in found]

    def may_change(self, _: str) -> bool:
        """Return True: nothing passes this guard anyway."""
        return True

    def delete(self, _: object, __: Sequence[Memory]) -> NoReturn:
        """Refuse to delete a mount point, or a directory above one."""
        raise Refused("mount_deleted", mount=self._places.first_point(self._paths[0].text))

    def move(self, _: object, __: Sequence[Moved]) -> NoReturn:
        """Refuse to move memories to another store."""
        raise Refused("across_mounts")
