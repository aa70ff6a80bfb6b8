"""Combines several memory stores into one tree. Each store appears at its mount point.

If a path is below several mount points, it belongs to the store at the longest of these mount points. The path of a
command is translated to a path in this store, and the store runs the command. Commands that no single store can run are
handled here: commands on mount points or on directories above them, and renames from one store to another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Literal, NoReturn, Unpack

from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.handlers import HANDLERS, RunCommand, Viewed
from retentive.engine.memories import MemoryTree
from retentive.engine.operation import AuditOnly, Read
from retentive.engine.queries import list_memories, load
from retentive.engine.rendering import error_reply, listing_reply
from retentive.errors import InvalidInput, NotFound, Refused, RetentiveError, error_of
from retentive.history.searching import StoreSearch
from retentive.mounts.mount import ClearPart, Mount, Places
from retentive.search.ranking import order
from retentive.search.results import Hit, Results, unknown_everywhere
from retentive.storage.contract import Actor, Entry, Memory, Moved, Snapshot, as_actor
from retentive.store import MemoryStore, core_of
from retentive.values.commands import Command, Rename, View, parse, paths_of
from retentive.values.listing import listing
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.patterns import check_path_pattern, covers
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Written
from retentive.values.replies import Replies, Reply


class Mounts(MemoryTree):
    """Several memory stores combined into one tree. The tree runs the same commands as one store (docs/mounts.md).

    `stores` maps mount points to memory stores: `{"/memories": mine, "/memories/team": team.read_only()}`. One store
    must be mounted at `/memories`. Raises `InvalidInput` for invalid mount points.

    All paths are paths of the tree. `execute` returns errors of input or storage as replies, because its caller is a
    model. The other methods return values and raise `RetentiveError`, like the methods of a `MemoryStore`. Threads may
    share the tree.
    """

    def __init__(self, stores: Mapping[str, MemoryStore]) -> None:
        self._places = Places(stores)
        self._mounts = self._places.mounts
        self._core = self._mounts[ROOT].core

    def __repr__(self) -> str:
        return f"<Mounts {', '.join(self._mounts)}>"

    @property
    def replies(self) -> Replies:
        """Wording of replies to commands that no single store can run. The store at `/memories` provides this wording.

        If a single store runs a command, the reply has the wording of that store.
        """
        return self._core.replies

    def directory(self) -> str | None:
        """Return None, because the memories of several stores have no common directory."""
        return None

    def through(self, integration: str) -> Mounts:
        """Return a tree of the same stores. Its operations name `integration` in their audit entries."""
        return Mounts({point: mount.store.through(integration) for point, mount in self._mounts.items()})

    def execute(
        self,
        command: object,
        *,
        actor: Actor | str | None = None,
        tool_use_id: str | None = None,
        run: str | None = None,
        source: str | None = None,
        session: str | None = None,
    ) -> Reply:
        """Run a command and return the reply. `command` is a parsed command or the raw input of a tool call.

        If the reply is not an error, the change is durable when this method returns. `actor` is recorded with the
        change; by default it is the actor of the store that the path belongs to. `tool_use_id`, `run`, `source` and
        `session` have the same meaning as in `MemoryStore.execute`.
        """
        who, origin = as_actor(actor), origin_of(source, session)  # raises, even if no store runs the command
        try:
            known = command if isinstance(command, Command) else parse(command)
        except Refused:
            return self._mounts[ROOT].store.execute(command, actor=who)  # returns the error reply, with an audit entry
        inside = self._inside(known)
        if inside is None:
            return self._at_a_border(known, who)
        return inside[0].store.execute(inside[1], actor=who, tool_use_id=tool_use_id, run=run, **origin)

    def clear(self, *, actor: Actor | str | None = None, **origin: Unpack[Origin]) -> Reply:
        """Delete all memories of the tree. If the actor may not delete one of them, nothing is deleted.

        The stores are cleared in the order of their mount points, each in one transaction. If the storage of one store
        fails, the reply names the mount point of this store, and the stores before it remain cleared. Memories that a
        mount point hides are not in the tree, so they are kept.
        """
        who, named = as_actor(actor), origin_of(**origin)
        for mount in self._mounts.values():
            try:
                mount.ask(partial(mount.changeable, ROOT, mount.point), who)
            except RetentiveError as error:
                return self._answered("clear", error, who, [mount], MemoryPath.known(mount.point))
        for mount in self._mounts.values():
            try:
                with mount.named_outward():
                    mount.core.result_of(ClearPart(mount), who, **named)
            except RetentiveError as error:
                point = MemoryPath.known(mount.point)
                return error_reply(mount.core, error, [point])
        return Reply(self.replies.cleared)

    def _written(self, command: Command, if_version: str | None, actor: Actor | str | None, origin: Origin) -> Written:
        inside = self._inside(command)
        if inside is None:
            reply = self._at_a_border(command, as_actor(actor))
            raise error_of(reply.text, reply.code)  # a change that no single store can run is always refused
        core, inner = inside[0].core, inside[1]
        assert not isinstance(inner, View)
        written = core.written(RunCommand(inner, if_version), core.invocation(actor, **origin))
        return replace(written, path=paths_of(command)[-1].text)

    @contextmanager
    def _explained(self, path: MemoryPath, mount: Mount) -> Iterator[None]:
        """Context manager that converts a `Refused` of the storage to the `RetentiveError` that callers expect."""
        try:
            with mount.named_outward():
                yield
        except Refused as refusal:
            error_reply(self._core, refusal, (path,)).raise_for_error()

    def store_of(self, path: str) -> tuple[MemoryStore, str]:
        """Return the store that contains a path of the tree, and the path within that store. Raises `InvalidPath`."""
        target = self._core.parsed(path).text
        mount = self._places.owner(target)
        return mount.store, mount.inward(target)

    def load(self, path: str) -> tuple[Memory, str]:
        """Return the memory at `path` and its text. Raises `NotFound`."""
        with self._core.checking("load"):
            target = self._core.parsed(path)
            if target.text in self._places.fixed:
                raise NotFound(f"there is no memory at {path}")
        mount = self._places.owner(target.text)
        with self._explained(target, mount):
            memory, text = mount.core.result_of(load(target.within(mount.point)))
        return replace(memory, path=target.text), text

    def memories(self, under: str = ROOT) -> list[Memory]:
        """Return all memories below a directory of the tree, in byte order of their paths.

        The memories of one store are from one consistent state. Two stores may be read at different times.
        """
        found: list[Memory] = []
        with self._core.checking("list"):
            target = self._core.parsed(under)
        for mount, inner in self._places.parts(target.text):
            with self._explained(target, mount):
                found += mount.shown(mount.core.result_of(list_memories(MemoryPath.known(inner))))
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
        with self._core.checking("search", actor):
            patterns = tuple(check_path_pattern(pattern) for pattern in paths)
            if limit is not None and limit < 0:
                raise InvalidInput("`limit` must be an integer of at least 0")
            target = self._core.parsed(under)
        searches = [
            (mount, StoreSearch(query, mode, regex, inner, limit=None))
            for mount, inner in self._places.parts(target.text)
        ]
        found = [_found(mount, search, actor) for mount, search in searches]
        exact = any(each.hits and not each.relaxed for each in found)
        # If one store has hits with all words, the hits of other stores that have only some of the words are left out.
        hits = [hit for each in found if not (exact and each.relaxed) for hit in each.hits]
        hits = [hit for hit in hits if not patterns or covers(patterns, hit.path)]
        hits.sort(key=lambda hit: order(hit.score, hit.updated_at, hit.path))
        damaged = (path for each in found for path in each.damaged if not patterns or covers(patterns, path))
        is_relaxed = not exact and any(each.relaxed for each in found)
        return Results(tuple(hits[:limit]), len(hits), tuple(sorted(damaged)), unknown_everywhere(found), is_relaxed)

    def _inside(self, command: Command) -> tuple[Mount, Command] | None:
        """Return the store that can run a command, and the command with its paths translated to that store.

        Returns None if no single store can run the command.
        """
        paths = paths_of(command)
        mount = self._places.owner(paths[0].text)
        if isinstance(command, Rename):
            old, new = paths
            if mount is not self._places.owner(new.text) or not self._places.fixed.isdisjoint({old.text, new.text}):
                return None
            return mount, Rename(old.within(mount.point), new.within(mount.point))
        is_plain = isinstance(command, View) and not mount.covered and paths[0].text == mount.point
        if paths[0].text in self._places.fixed and not is_plain:
            return None
        return mount, replace(command, path=paths[0].within(mount.point))

    def _at_a_border(self, command: Command, who: Actor | None) -> Reply:
        """Return the reply to a command that no single store can run. Changes are refused; only `view` has a result.

        Each affected store gets an audit entry.
        """
        paths = paths_of(command)
        mounts = list(dict.fromkeys(mount for path in paths for mount, _ in self._places.parts(path.text)))
        viewed, error, tree = None, None, _TreeView(self._places, who, paths)
        try:
            if isinstance(command, View):
                viewed = self._view(command.path, tree)
            else:
                handler: Any = HANDLERS[type(command)]
                handler(tree, tree, command)
        except RetentiveError as raised:
            error = raised
        return self._answered(command.name, error, who, mounts, *paths, viewed=viewed)

    def _view(self, path: MemoryPath, tree: _TreeView) -> Viewed:
        """List a directory that contains mount points: the memories of its store and of the stores mounted below it."""
        sizes = [(f"{point}/", 0) for point in self._mounts if point.startswith(path.text + "/")]
        sizes += [(memory.path, memory.size_bytes) for memory, _ in tree.list(path.text)]
        rows = self._places.owner(path.text).core.settings().list_rows
        return Viewed(listing=listing(path.text, sorted(sizes), max_rows=rows, shown=path.outward(path.text)))

    def _answered(
        self,
        name: str,
        error: RetentiveError | None,
        who: Actor | None,
        mounts: Sequence[Mount],
        *paths: MemoryPath,
        viewed: Viewed | None = None,
    ) -> Reply:
        """Write an audit entry in each store of `mounts`. Return the reply for `error`, or the listing in `viewed`."""
        try:
            for mount in mounts:
                inner = tuple(dict.fromkeys(path for each in paths for path in self._within(mount, each)))
                entry = AuditOnly(name, error, inner, {} if viewed is None else {"listed": True})
                mount.core.run(entry, mount.core.invocation(who))
        except RetentiveError as failure:
            error = failure
        if error is not None or viewed is None:
            assert error is not None
            return error_reply(self._core, error, paths)
        return listing_reply(self.replies, paths[0], viewed)

    def _within(self, mount: Mount, path: MemoryPath) -> Iterator[MemoryPath]:
        """Yield the path in a store of a path of the tree. A directory above its mount point becomes its root."""
        if self._places.owner(path.text) == mount:
            yield path.within(mount.point)
        elif mount.point.startswith(f"{path.text}/"):
            yield MemoryPath.known(ROOT)


class _TreeView:
    """The whole tree as the handlers of commands see it, for commands that no single store can run.

    It is their snapshot and their guard. So the handlers refuse such a command in the order of one store. A command
    that passes all their checks would change two stores or move a mount point, and is refused here. Each read is a read
    of one store, at its own moment. `paths` are the paths of the command.
    """

    def __init__(self, places: Places, actor: Actor | None, paths: Sequence[MemoryPath]) -> None:
        self._places, self._actor, self._paths = places, actor, paths

    def get(self, path: str) -> Entry:
        """Return the entry at a path of the tree."""
        if path in self._places.fixed:
            return Entry(below=True)
        mount = self._places.owner(path)
        entry = mount.run(Read("load", lambda view: view.get(mount.inward(path))), self._actor)
        memory = None if entry.memory is None else replace(entry.memory, path=path)
        return replace(entry, memory=memory, above=None if entry.above is None else mount.outward(entry.above))

    def list(self, under: str, *, limit: int | None = None) -> Iterator[tuple[Memory, None]]:
        """Return the visible memories below a directory of the tree, in byte order of their paths."""
        found: list[Memory] = []
        for mount, inner in self._places.parts(under):
            found += mount.shown(mount.run(list_memories(MemoryPath.known(inner)), self._actor))
        return islice(((memory, None) for memory in sorted(found, key=lambda memory: memory.path)), limit)

    def check_name(self, path: MemoryPath) -> None:
        """Raise `Refused` if a new path contains a sensitive value."""
        mount = self._places.owner(path.text)
        mount.ask(lambda _, guard: guard.check_name(path.within(mount.point)), self._actor)

    def check(self, path: MemoryPath) -> None:
        """Raise `Refused` if the actor may not change the memory at a path. Hidden memories do not matter here.

        Also raises `Refused` for the new path of a mount point or of a directory above one.
        """
        mount = self._places.owner(path.text)

        def work(_: Snapshot, guard: Guard) -> None:
            guard.hidden = None
            guard.check(path.within(mount.point))

        mount.ask(work, self._actor)
        old = self._paths[0]
        if path is not old and old.text in self._places.fixed and not old.is_root:
            raise Refused("mount_renamed", mount=self._places.first_point(old.text))

    def check_all(self, path: MemoryPath, entry: Entry, _: object) -> Sequence[Memory]:
        """Return the memories at or below a path. Raises `Refused` unless the actor may change all of them."""
        if not entry.below:
            mount = self._places.owner(path.text)
            mount.ask(lambda _, guard: guard.check(path.within(mount.point)), self._actor)
            return [] if entry.memory is None else [entry.memory]
        found: list[Memory] = []
        for mount, inner in self._places.parts(path.text):
            found += mount.shown(mount.ask(partial(mount.changeable, inner, path.written), self._actor))
        return found

    def may_change(self, _: str) -> bool:
        """Return True: nothing passes here anyway."""
        return True

    def delete(self, _: object, __: Sequence[Memory]) -> NoReturn:
        """Refuse to delete a mount point, or a directory above one."""
        raise Refused("mount_deleted", mount=self._places.first_point(self._paths[0].text))

    def move(self, _: object, __: Sequence[Moved]) -> NoReturn:
        """Refuse to move memories to another store."""
        raise Refused("across_mounts")


def _found(mount: Mount, search: StoreSearch, actor: Actor | str | None) -> Results:
    """Search one store. The result has only memories that are visible in the tree, with their paths in the tree."""
    core, longer = mount.core, len(mount.point) - len(ROOT)
    if mount.covered:
        search = replace(search, shows=mount.shows)
    with mount.named_outward():
        found = search.run(core, actor, partial(core.found, actor=actor))

    def outward(hit: Hit) -> Hit:
        spans = tuple((start + longer, end + longer) for start, end in hit.path_spans)
        return replace(hit, path=mount.outward(hit.path), path_spans=spans)

    damaged = tuple(mount.outward(path) for path in found.damaged if mount.shows(path))
    return replace(found, hits=tuple(map(outward, found.hits)), damaged=damaged)


def core_of_tree(memory: MemoryStore | Mounts) -> StoreCore:
    """Return the core of a memory store. For a tree of stores, return the core of the store at `/memories`."""
    return core_of(memory) if isinstance(memory, MemoryStore) else memory._core  # noqa: SLF001 - of this module
