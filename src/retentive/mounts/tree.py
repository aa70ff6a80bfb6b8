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
from typing import Literal, NoReturn, Unpack

from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.handlers import RunCommand, Viewed, entry_at, require_free
from retentive.engine.lists import list_memories, load
from retentive.engine.memories import MemoryTree
from retentive.engine.operation import AuditOnly
from retentive.engine.rendering import error_reply, listing_reply
from retentive.errors import InvalidInput, NotFound, Refused, RetentiveError, error_of
from retentive.history.searching import StoreSearch
from retentive.mounts.mount import Mount, Places
from retentive.search.ranking import order
from retentive.search.results import Hit, Results, unknown_everywhere
from retentive.storage.contract import Actor, Entry, Memory, Snapshot, as_actor
from retentive.store import MemoryStore, core_of
from retentive.values.commands import (
    Command,
    Delete,
    Insert,
    Rename,
    StrReplace,
    View,
    check_file_path,
    parse,
    paths_of,
)
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
                mount.clear(who, **named)
            except RetentiveError as error:
                return error_reply(mount.core, error, [MemoryPath.known(mount.point)])
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
        target = self._core.parsed(path)
        if target.text in self._places.fixed:
            raise NotFound(f"there is no memory at {path}")
        mount = self._places.owner(target.text)
        with self._explained(target, mount):
            memory, text = mount.core.run(load(target.within(mount.point)), mount.core.invocation()).value()
        return replace(memory, path=target.text), text

    def memories(self, under: str = ROOT) -> list[Memory]:
        """Return all memories below a directory of the tree, in byte order of their paths.

        The memories of one store are from one consistent state. Two stores may be read at different times.
        """
        found: list[Memory] = []
        target = self._core.parsed(under)
        for mount, inner in self._places.parts(target.text):
            with self._explained(target, mount):
                listed = mount.core.run(list_memories(MemoryPath.known(inner)), mount.core.invocation())
                found += mount.shown(listed.value())
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
        viewed, error = None, None
        try:
            if isinstance(command, View):
                viewed = self._view(command.path, who)
            elif isinstance(command, Rename):
                self._refuse_rename(command.old_path, command.new_path, who)
            else:
                self._refuse(command, paths[0], who)
        except RetentiveError as raised:
            error = raised
        return self._answered(command.name, error, who, mounts, *paths, viewed=viewed)

    def _view(self, path: MemoryPath, who: Actor | None) -> Viewed:
        """List a directory that contains mount points: the memories of its store and of the stores mounted below it."""
        sizes = [(f"{point}/", 0) for point in self._mounts if point.startswith(path.text + "/")]
        for mount, inner in self._places.parts(path.text):
            memories = mount.run(list_memories(MemoryPath.known(inner)), who)
            sizes += [(memory.path, memory.size_bytes) for memory in mount.shown(memories)]
        rows = self._places.owner(path.text).core.settings().list_rows
        return Viewed(listing=listing(path.text, sorted(sizes), max_rows=rows, shown=path.outward(path.text)))

    def _refuse(self, command: Command, path: MemoryPath, who: Actor | None) -> NoReturn:
        """Refuse a change of a path that is always a directory, in the order of the checks of one store."""
        if isinstance(command, Delete):
            self._check_below(path, who)
            raise Refused("root_deleted") if path.is_root else self._protected("mount_deleted", path)
        mount = self._places.owner(path.text)
        mount.ask(lambda _, guard: guard.check(path.within(mount.point)), who)
        missing = {StrReplace: "edit_missing", Insert: "missing"}
        raise Refused(missing.get(type(command), "exists"))

    def _refuse_rename(self, old: MemoryPath, new: MemoryPath, who: Actor | None) -> NoReturn:
        """Refuse to rename a mount point or a directory above one, or to move memories to another store."""
        source, target, fixed = self._places.owner(old.text), self._places.owner(new.text), self._places.fixed
        inner_old, inner_new = old.within(source.point), new.within(target.point)
        target.ask(lambda _, guard: guard.check_name(inner_new), who)

        def entry(view: Snapshot, guard: Guard) -> Entry:
            found = entry_at(view, inner_old)
            guard.check_all(inner_old, found, view)
            return found

        def check_target(_: Snapshot, guard: Guard) -> None:
            guard.hidden = None  # that a hidden memory is there is said later
            guard.check(inner_new)

        if old.text in fixed:
            self._check_below(old, who)
        moved = Entry() if old.text in fixed else source.ask(entry, who)
        target.ask(check_target, who)
        if old.text in fixed:
            raise Refused("root_renamed") if old.is_root else self._protected("mount_renamed", old)
        if not moved.exists:
            raise Refused("missing", path=old.written)
        if moved.memory is not None:
            check_file_path(new)
        if new.text in fixed:
            raise Refused("destination_exists")
        target.ask(lambda view, _: require_free(view, inner_new, view.get(inner_new.text), "destination_exists"), who)
        raise Refused("across_mounts")

    def _check_below(self, path: MemoryPath, who: Actor | None) -> None:
        """Raise `Refused` unless the actor may change all memories below a path that is always a directory."""
        for mount, inner in self._places.parts(path.text):
            mount.ask(partial(mount.changeable, inner, path.written), who)

    def _protected(self, key: str, path: MemoryPath) -> Refused:
        return Refused(key, mount=next(point for point in self._mounts if f"{point}/".startswith(f"{path.text}/")))

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


def _found(mount: Mount, search: StoreSearch, actor: Actor | str | None) -> Results:
    """Search one store. The result has only memories that are visible in the tree, with their paths in the tree."""
    core, longer = mount.core, len(mount.point) - len(ROOT)
    if mount.covered:
        search = replace(search, shows=mount.shows)
    with mount.named_outward():
        found = search.run(core, actor)

    def outward(hit: Hit) -> Hit:
        spans = tuple((start + longer, end + longer) for start, end in hit.path_spans)
        return replace(hit, path=mount.outward(hit.path), path_spans=spans)

    damaged = tuple(mount.outward(path) for path in found.damaged if mount.shows(path))
    return replace(found, hits=tuple(map(outward, found.hits)), damaged=damaged)


def core_of_tree(memory: MemoryStore | Mounts) -> StoreCore:
    """Return the core of a memory store. For a tree of stores, return the core of the store at `/memories`."""
    return core_of(memory) if isinstance(memory, MemoryStore) else memory._core  # noqa: SLF001 - of this module
