"""Combines several memory stores into one tree. Each store appears at its mount point.

If a path is below several mount points, it belongs to the store at the longest of these mount points. The path of a
command is translated to a path in this store, and the store runs the command. Commands that no single store can run are
handled here: commands on mount points or on directories above them, and renames from one store to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from heapq import merge
from itertools import chain
from typing import Literal, TypeAlias, Unpack

from retentive.engine.handlers import Viewed
from retentive.engine.memories import CallOptions, MemoryTree
from retentive.engine.operation import audit_only
from retentive.engine.rendering import error_reply, view_reply
from retentive.errors import InvalidInput, NotFound, Refused, RetentiveError, error_of
from retentive.history.log import position_of
from retentive.history.searching import StoreSearch
from retentive.mounted import Mount
from retentive.remote import is_remote
from retentive.search.ranking import order
from retentive.search.recall import Recall, fitting, recalled
from retentive.search.results import Results, unknown_everywhere
from retentive.storage.contract import Actor, Memory, Version, as_actor
from retentive.store import MemoryStore
from retentive.values.commands import Command, Delete, Insert, Rename, StrReplace, View, parse, paths_of, within
from retentive.values.listing import listing
from retentive.values.paths import ROOT, MemoryPath, ancestors
from retentive.values.patterns import check_path_pattern, covers
from retentive.values.provenance import origin_of
from retentive.values.records import By, Written
from retentive.values.replies import REPLIES, Reply

__all__ = ["MemoryTree", "Mounts"]

StoreOrMounts: TypeAlias = "MemoryStore | Mounts"


class Mounts(MemoryTree):
    """Several memory stores combined into one tree. The tree runs the same commands as one store (docs/library.md).

    `stores` maps mount points to memory stores: `{"/memories": mine, "/memories/team": team.read_only()}`. One store
    must be mounted at `/memories`. Raises `InvalidInput` for invalid mount points.

    All paths are paths of the tree. `execute` returns errors of input or storage as replies, because its caller is a
    model. The other methods return values and raise `RetentiveError`, like the methods of a `MemoryStore`. Threads may
    share the tree.
    """

    def __init__(self, stores: Mapping[str, MemoryStore]) -> None:
        checked = _checked(stores)
        points = sorted(checked)
        above = {place for point in points for place in (point, *ancestors(point), ROOT)}
        self._fixed = frozenset(above) if len(points) > 1 else frozenset[str]()
        """Paths of the tree that are always directories: the root, the mount points and the directories above them."""
        self._mounts: dict[str, Mount] = {}
        for point in points:
            covered = tuple(f"{each}/" for each in points if each.startswith(f"{point}/"))
            self._mounts[point] = Mount(checked[point], point, covered, self._fixed)
        self._core = self._mounts[ROOT].core

    def __repr__(self) -> str:
        return f"<Mounts {', '.join(self._mounts)}>"

    def directory(self) -> str | None:
        """Return None, because the memories of several stores have no common directory."""
        return None

    def through(self, integration: str) -> Mounts:
        """Return a tree of the same stores. Its operations name `integration` in their audit entries."""
        return Mounts({point: mount.store.through(integration) for point, mount in self._mounts.items()})

    def execute(self, command: object, **options: Unpack[CallOptions]) -> Reply:
        """Run a command and return the reply. `command` is a parsed command or the raw input of a tool call.

        If the reply is not an error, the change is durable when this method returns. `actor` is recorded with the
        change; by default it is the actor of the store that the path belongs to. The other options are those of
        `MemoryStore.execute`.
        """
        who = as_actor(options.get("actor"))  # raises, even if no store runs the command, as the next line does
        origin_of(options.get("source"), options.get("session"))
        try:
            known = command if isinstance(command, Command) else parse(command)
        except Refused:
            return self._mounts[ROOT].store.execute(command, actor=who)  # returns the error reply, with an audit entry
        inside = self._inside(known)
        if inside is None:
            return self._at_a_border(known, who)
        return inside[0].store.execute(inside[1], **options)

    def clear(self, **options: Unpack[By]) -> Reply:
        """Delete all memories of the tree. If the actor may not delete one of them, nothing is deleted.

        The stores are cleared in the order of their mount points, each in one transaction; one that has memories which
        a mount point hides, in batches of 100, because these are not in the tree and are kept. If one store fails, the
        reply names its mount point, and the stores before it remain cleared.
        """
        who, named = as_actor(options.get("actor")), origin_of(options.get("source"), options.get("session"))
        for mount in self._mounts.values():
            try:
                mount.check_clear(who)
            except RetentiveError as error:
                root = MemoryPath.known(ROOT)
                return self._answered("clear", error, who, {mount: [root]}, [MemoryPath.known(mount.point)])
        for mount in self._mounts.values():
            try:
                mount.clear(who, **named)
            except RetentiveError as error:
                return error_reply(mount.core, error, [MemoryPath.known(mount.point).within(mount.point)])
        return Reply(REPLIES.cleared)

    def _written(self, command: Command, if_version: str | None, by: By) -> Written:
        inside = self._inside(command)
        if inside is None:
            reply = self._at_a_border(command, as_actor(by.get("actor")))
            raise error_of(reply.text, reply.code)  # a change that no single store can run is always refused
        written = inside[0].store._written(inside[1], if_version, by)  # noqa: SLF001 - the same base class
        return replace(written, path=paths_of(command)[-1].text)

    def store_of(self, path: str) -> tuple[MemoryStore, str]:
        """Return the store that contains a path of the tree, and the path within that store. Raises `InvalidPath`."""
        return store_at(self, path)

    def load(self, path: str) -> tuple[Memory, str]:
        """Return the memory at `path` and its text. Raises `NotFound`."""
        target = self._core.parsed(path)
        if target.text in self._fixed:
            raise NotFound(f"there is no memory at {path}")
        mount = self._owner(target.text)
        memory, text = mount.load(target.within(mount.point))
        return replace(memory, path=target.text), text

    def memories(self, under: str = ROOT) -> list[Memory]:
        """Return all memories below a directory of the tree, in byte order of their paths.

        The memories of one store are from one consistent state. Two stores may be read at different times.
        """
        parts = self._parts(self._core.parsed(under))
        found = chain.from_iterable(mount.memories(inner, None) for mount, inner in parts)
        return sorted(found, key=lambda memory: memory.path)

    def search(
        self,
        query: str,
        *,
        mode: Literal["ranked", "all"] = "ranked",
        under: str = ROOT,
        paths: Sequence[str] = (),
        regex: bool = False,
        limit: int | None = 20,
        actor: Actor | str | None = None,
    ) -> Results:
        """Search all stores and return the hits in one ranking. The arguments are those of `MemoryStore.search`.

        The search looks for the words of the query in texts and in paths. A mount point is not part of the searched
        path, so a word that occurs only in a mount point has no hits. A rare word counts more than a frequent word of
        the same store.
        """
        patterns = tuple(check_path_pattern(pattern) for pattern in paths)
        if limit is not None and limit < 0:
            raise InvalidInput("`limit` must be an integer of at least 0")
        parts = self._parts(self._core.parsed(under))
        found = [mount.search(StoreSearch(query, mode, regex, inner.text, limit=None), actor) for mount, inner in parts]
        exact = any(each.hits and not each.relaxed for each in found)
        # If one store has hits with all words, the hits of other stores that have only some of the words are left out.
        hits = [hit for each in found if not (exact and each.relaxed) for hit in each.hits]
        hits = [hit for hit in hits if not patterns or covers(patterns, hit.path)]
        hits.sort(key=lambda hit: order(hit.score, hit.updated_at, hit.path))
        damaged = (path for each in found for path in each.damaged if not patterns or covers(patterns, path))
        is_relaxed = not exact and any(each.relaxed for each in found)
        return Results(tuple(hits[:limit]), len(hits), tuple(sorted(damaged)), unknown_everywhere(found), is_relaxed)

    def recall(
        self, question: str, *, budget_tokens: int = 400, under: str = ROOT, actor: Actor | str | None = None
    ) -> Recall:
        """Return the best lines of all stores for a question, as `MemoryStore.recall` does."""
        parts = self._parts(self._core.parsed(under))
        found = [mount.recall(question, budget_tokens, inner, actor) for mount, inner in parts]
        return recalled(fitting(merge(*found, key=lambda each: -each.level), budget_tokens))

    def _owner(self, path: str) -> Mount:
        """Return the mount that a path of the tree belongs to: the one with the longest mount point."""
        places = (place for place in (path, *reversed(ancestors(path))) if place in self._mounts)
        return self._mounts[next(places, ROOT)]

    def _parts(self, under: MemoryPath) -> list[tuple[Mount, MemoryPath]]:
        """Return the mount that a directory belongs to, with the path of the directory in its store.

        The mounts below the directory follow, with the roots of their stores.
        """
        owner, below = self._owner(under.text), f"{under.text}/"
        inner = [(mount, MemoryPath.known(ROOT)) for mount in self._mounts.values() if mount.point.startswith(below)]
        return [(owner, under.within(owner.point)), *inner]

    def _inside(self, command: Command) -> tuple[Mount, Command] | None:
        """Return the store that can run a command, and the command with its paths translated to that store.

        Returns None if no single store can run the command.
        """
        paths = paths_of(command)
        mount = self._owner(paths[0].text)
        is_plain = isinstance(command, View) and not mount.covered and paths[0].text == mount.point
        is_fixed = any(path.text in self._fixed for path in paths) and not is_plain
        return None if is_fixed or self._owner(paths[-1].text) is not mount else (mount, within(command, mount.point))

    def _at_a_border(self, command: Command, who: Actor | None) -> Reply:
        """Return the reply to a command that no single store can run. Changes are refused; only `view` has a result.

        Each affected store gets an audit entry.
        """
        affected: dict[Mount, dict[MemoryPath, None]] = {}
        for mount, inner in chain.from_iterable(map(self._parts, paths_of(command))):
            affected.setdefault(mount, {})[inner] = None
        found: Viewed | RetentiveError
        try:
            found = self._view(command.path, who) if isinstance(command, View) else self._refusal(command)
        except RetentiveError as raised:
            found = raised
        return self._answered(command.name, found, who, affected, paths_of(command))

    def _view(self, path: MemoryPath, who: Actor | None) -> Viewed:
        """List a directory that contains mount points: the memories of its store and of the stores mounted below it."""
        sizes = [(f"{point}/", 0) for point in self._mounts if point.startswith(path.text + "/")]
        for mount, inner in self._parts(path):
            found = mount.memories(inner, who, is_audited=False)
            sizes += [(memory.path, memory.size_bytes) for memory in found]
        rows = self._owner(path.text).store.settings().list_rows
        return Viewed(listing=listing(path.text, sorted(sizes), max_rows=rows, shown=path.outward(path.text)))

    def _refusal(self, command: Command) -> Refused:
        """Return the error for a change that no single store can run: of a fixed directory, or to another store."""
        old, new = paths_of(command)[0], paths_of(command)[-1]
        is_fixed = old.text in self._fixed
        if is_fixed and isinstance(command, Delete | Rename):
            done = "deleted" if isinstance(command, Delete) else "renamed"
            if old.is_root:
                return Refused(f"root_{done}")
            below = next(point for point in self._mounts if f"{point}/".startswith(f"{old.text}/"))
            return Refused(f"mount_{done}", mount=below)
        if isinstance(command, Rename):
            return Refused("destination_exists" if new.text in self._fixed else "across_mounts")
        missing = {StrReplace: "edit_missing", Insert: "missing"}
        return Refused(missing.get(type(command), "exists"))

    def _answered(
        self,
        name: str,
        found: Viewed | RetentiveError,
        who: Actor | None,
        affected: Mapping[Mount, Iterable[MemoryPath]],
        paths: Sequence[MemoryPath],
    ) -> Reply:
        """Write an audit entry in each affected store, with the paths there. Return the reply for `found`.

        A server writes entries of what it was asked.
        """
        error, facts = (found, {}) if isinstance(found, RetentiveError) else (None, {"listed": True})
        try:
            for mount, inner in affected.items():
                if not is_remote(mount.store):
                    mount.core.run(audit_only(name, error, tuple(inner), **facts), mount.core.invocation(who))
        except RetentiveError as failure:
            found = failure
        return view_reply(paths[0], found) if isinstance(found, Viewed) else error_reply(self._core, found, paths)


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
        found[point] = store
    if ROOT not in found:
        raise InvalidInput(
            f"a memory store must be mounted at {ROOT}, the root of the tree; for a root without memories, "
            'mount an empty store: retentive.open("sqlite://").store().read_only()'
        )
    return found


def stores_of(memory: StoreOrMounts) -> Mapping[str, MemoryStore]:
    """Return memory stores by their mount points; a single store is at `/memories`."""
    if not isinstance(memory, Mounts):
        return {ROOT: memory}
    return {point: mount.store for point, mount in memory._mounts.items()}  # noqa: SLF001 - the same module


def tree_of(stores: Mapping[str, MemoryStore]) -> StoreOrMounts:
    """Return the tree of memory stores by their mount points: the store itself if there is only one."""
    return Mounts(stores) if len(stores) > 1 else stores[ROOT]


def place_of(memory: StoreOrMounts, path: str) -> tuple[str, str]:
    """Return the mount point that a path belongs to, and the path in the store there. Raises `InvalidPath`."""
    if not isinstance(memory, Mounts):
        return ROOT, path
    target = memory._core.parsed(path)  # noqa: SLF001 - the same module
    mount = memory._owner(target.text)  # noqa: SLF001 - as above
    return mount.point, target.within(mount.point).text


def store_at(memory: StoreOrMounts, path: str) -> tuple[MemoryStore, str]:
    """Return the memory store that a path belongs to, and the path in it."""
    point, inner = place_of(memory, path)
    return stores_of(memory)[point], inner


def shown_path(memory: StoreOrMounts, point: str, path: str) -> str:
    """Return the path in the tree of a path in the store at a mount point. Empty if the tree does not show it."""
    if not isinstance(memory, Mounts):
        return path
    mount = memory._mounts[point]  # noqa: SLF001 - the same module
    return mount.outward(path) if mount.shows(path) else ""


def log_of(
    memory: StoreOrMounts, path: str | None = None, *, limit: int, until: datetime | None = None
) -> list[Version]:
    """Return the newest versions of all stores, or of those at or below a path, newest first.

    Their paths are paths of the tree. The path of a version that the tree does not show is empty.
    """
    if not isinstance(memory, Mounts):
        return memory.history.log(path, until=until, limit=limit)
    parts = memory._parts(memory._core.parsed(path or ROOT))  # noqa: SLF001 - the same module
    found = (
        mount.out(each) if mount.shows(each.path) else replace(each, path="")
        for mount, at in parts
        for each in mount.store.history.log(None if at.is_root else at.text, until=until, limit=limit)
    )
    return sorted(found, key=lambda version: position_of(version.id), reverse=True)[:limit]
