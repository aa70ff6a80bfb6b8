"""Several memory stores as one tree. Each is seen at a path of its own, its mount point; the longest wins.

A command runs in the store that its path belongs to, with the path inside that store. What is decided here is only
what no store can know: directories that are mount points or lie above one, and renames across a border.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NoReturn, Protocol, runtime_checkable

from retentive.engine import views
from retentive.engine.handlers import name_of, paths_of
from retentive.engine.idempotency import Call
from retentive.engine.queries import parsed
from retentive.engine.writer import GuardedWriter
from retentive.errors import InvalidInput, NotFound, Refused
from retentive.mounted import Mount
from retentive.storage.contract import Actor, Entry, Memory, Transaction, as_actor
from retentive.store import MemoryStore, answer
from retentive.values.commands import (
    Command,
    Create,
    Delete,
    Insert,
    Rename,
    StrReplace,
    View,
    check_file_path,
    parse,
)
from retentive.values.paths import ROOT, MemoryPath, ancestors
from retentive.values.patterns import check_path_pattern, covers
from retentive.values.replies import EN, Replies, Reply
from retentive.values.text import decoded

if TYPE_CHECKING:
    from retentive.search.query import Hit, Results


@runtime_checkable
class MemoryTree(Protocol):
    """What answers the commands for one tree of memories: a `MemoryStore`, or several of them as `Mounts`."""

    @property
    def replies(self) -> Replies:
        """The sentences it answers with."""

    def execute(self, command: object, *, actor: Actor | str | None = None, tool_use_id: str | None = None) -> Reply:
        """The reply to a command, given parsed or as the raw input of a tool call."""

    def clear(self, *, actor: Actor | str | None = None) -> Reply:
        """Delete all memories."""

    def directory(self) -> str | None:
        """The directory in which the memories lie as plain files, if they lie in one."""


class Mounts:
    """Several memory stores as one tree, with the commands of one; docs/mounts.md has the rules.

    `stores` maps mount points to stores: `{"/memories": mine, "/memories/team": team.read_only()}`. One is at
    `/memories`. Raises `InvalidInput`. Threads may share it. `execute` never raises for what a model or user sent or
    storage did; the methods for programs raise `RetentiveError`. Paths are those of the tree, everywhere.
    """

    def __init__(self, stores: Mapping[str, MemoryStore]) -> None:
        by_point = _checked(stores)
        points = sorted(by_point)
        self._mounts = {
            point: Mount(point, by_point[point], tuple(f"{each}/" for each in points if each.startswith(f"{point}/")))
            for point in points
        }
        above = {each for point in points for each in (point, *ancestors(point), ROOT)}
        self._fixed = frozenset(above) if len(points) > 1 else frozenset[str]()
        """Directories that are there whatever the stores hold: mount points, and what lies above one."""

    @property
    def replies(self) -> Replies:
        """The sentences of the store at `/memories`; said by the tree. What a store decides it says in its own."""
        return self._mounts[ROOT].store.replies

    def directory(self) -> str | None:
        """None: the memories of several stores lie in no one directory."""
        return None

    # -- commands --------------------------------------------------------------------------------------------

    def execute(self, command: object, *, actor: Actor | str | None = None, tool_use_id: str | None = None) -> Reply:
        """The reply to a command, given parsed or as the raw input of a tool call.

        When it returns without an error, the change is durable. `actor` is recorded with the change; without one,
        the actor the store was opened with. A `tool_use_id` that comes again is as for one store.
        """
        who = as_actor(actor)
        try:
            parsed = command if isinstance(command, Command) else parse(command)
        except Refused:
            return self._mounts[ROOT].store.execute(command, actor=who)  # says the same, and audits it
        inside = self._inside(parsed)
        if inside is not None:
            return inside[0].store.execute(inside[1], actor=who, tool_use_id=tool_use_id)
        reply = answer(self.replies, lambda: self._at_a_border(parsed, who), *paths_of(parsed))
        return self._audited(parsed, who, reply)

    def clear(self, *, actor: Actor | str | None = None) -> Reply:
        """Delete all memories of the tree, each store's at once; nothing at all if one of the stores is read-only.

        What a mount point covers is not in the tree, and stays. If storage fails, the reply names the mount point, and
        the stores before it, in the order of the paths, are cleared.
        """
        who = as_actor(actor)
        for deleting in (False, True):
            for mount in self._mounts.values():
                reply = self._clear(mount, who, deleting=deleting)
                if reply.is_error:
                    return reply
        return Reply(self.replies.cleared)

    def _clear(self, mount: Mount, who: Actor | None, *, deleting: bool) -> Reply:
        def work(tx: Transaction, write: GuardedWriter) -> None:
            found = self._changeable(mount, ROOT, mount.point, tx, write)
            if deleting:
                write.delete(found)
            call.changes = write.recorded

        def run() -> Reply:
            mount.write(work, who, may_use_reserve=deleting)
            return Reply(self.replies.cleared)

        call, point = Call("clear", who), MemoryPath.known(mount.point)
        reply = answer(self.replies, run, point)
        return mount.store.answered(call, partial(_same, reply), point) if deleting or reply.is_error else reply

    # -- for programs ----------------------------------------------------------------------------------------

    def store_of(self, path: str) -> tuple[MemoryStore, str]:
        """The store a path belongs to, and what it is called there. Raises `InvalidPath`."""
        target = self._parsed(path)
        mount = self._mount_of(target)
        return mount.store, target.within(mount.point).text

    def load(self, path: str) -> tuple[Memory, str]:
        """The memory at `path` and its text. Raises `NotFound`."""
        target = self._parsed(path)
        look = Entry()
        if target.text not in self._fixed:
            mount = self._mount_of(target)
            look = mount.look(target.within(mount.point).text)
        if look.memory is None:
            raise NotFound(f"there is no memory at {path}")
        return replace(look.memory, path=target.text), decoded(look.data)

    def text(self, path: str) -> str:
        """The text of the memory at `path`. Raises `NotFound`."""
        return self.load(path)[1]

    def memories(self, under: str = ROOT) -> Iterator[Memory]:
        """All memories below a directory, in the byte order of their paths; each store's as of one moment."""
        found: list[Memory] = []
        for mount, inner in self._parts(self._parsed(under)):
            shown = [memory for memory in mount.walk(inner) if self._shows(mount, memory.path)]
            found += [replace(memory, path=mount.outward(memory.path)) for memory in shown]
        return iter(sorted(found, key=lambda memory: memory.path))

    def search(
        self,
        query: str,
        *,
        under: str = ROOT,
        paths: Sequence[str] = (),
        regex: bool = False,
        limit: int | None = 20,
    ) -> Results:
        """As of one store; words are looked for in texts, and in paths as they are in their stores."""
        from retentive.search.query import Results  # noqa: PLC0415 - most processes never search

        patterns = [check_path_pattern(pattern) for pattern in paths]
        if limit is not None and limit < 0:
            raise InvalidInput("the limit must be a whole number from 0")
        hits: list[Hit] = []
        for mount, inner in self._parts(self._parsed(under)):
            shown = [hit for text, hit in mount.search(query, inner, regex=regex) if self._shows(mount, text)]
            hits += [hit for hit in shown if not patterns or covers(patterns, hit.path)]
        ordered = sorted(sorted(hits, key=attrgetter("path")), key=attrgetter("updated_at"), reverse=True)
        return Results(tuple(ordered[:limit]), len(hits))

    def _parsed(self, path: str) -> MemoryPath:
        return parsed(path, self.replies)

    # -- which store -----------------------------------------------------------------------------------------

    def _mount_of(self, path: MemoryPath) -> Mount:
        for place in (path.text, *reversed(path.ancestors)):
            if place in self._mounts:
                return self._mounts[place]
        return self._mounts[ROOT]

    def _parts(self, under: MemoryPath) -> list[tuple[Mount, str]]:
        """The stores with something below a directory, each with the directory's path in it."""
        below = [mount for mount in self._mounts.values() if mount.point.startswith(under.text + "/")]
        owner = self._mount_of(under)
        return [(owner, under.within(owner.point).text), *((mount, ROOT) for mount in below)]

    def _shows(self, mount: Mount, text: str) -> bool:
        """Whether a memory of a store is in the tree: no mount point, nor a directory above one, covers it."""
        if not mount.covered:
            return True
        outer = mount.outward(text)
        return outer not in self._fixed and not f"{outer}/".startswith(mount.covered)

    # -- commands at a border --------------------------------------------------------------------------------

    def _inside(self, command: Command) -> tuple[Mount, Command] | None:
        """The store that can answer a command by itself, and the command with the paths in it; None at a border."""
        paths = paths_of(command)
        mount = self._mount_of(paths[0])
        if isinstance(command, Rename):
            old, new = paths
            if mount is not self._mount_of(new) or not self._fixed.isdisjoint({old.text, new.text}):
                return None
            return mount, Rename(old.within(mount.point), new.within(mount.point))
        plain = isinstance(command, View) and not mount.covered and paths[0].text == mount.point
        if paths[0].text in self._fixed and not plain:
            return None
        return mount, replace(command, path=paths[0].within(mount.point))

    def _at_a_border(self, command: Command, who: Actor | None) -> Reply:
        if isinstance(command, Rename):
            self._rename(command, who)
        elif isinstance(command, Delete):
            self._refuse_delete(command.path, who)
        elif not isinstance(command, View):
            self._refuse_write(command, who)
        return self._view(command.path, who)

    def _audited(self, command: Command, who: Actor | None, reply: Reply) -> Reply:
        """The reply, once the audit logs of the stores that it is about have their entries."""
        paths = paths_of(command)
        for mount in dict.fromkeys(mount for path in paths for mount, _ in self._parts(path)):
            call = Call(name_of(command), who, listed=isinstance(command, View))
            reply = mount.store.answered(call, partial(_same, reply), *paths)
        return reply

    def _view(self, path: MemoryPath, who: Actor | None) -> Reply:
        """A directory with mount points below: what its own store has in it, and all they hold."""
        sizes = [(f"{point}/", 0) for point in self._mounts if point.startswith(path.text + "/")]
        for mount, inner in self._parts(path):
            shown = [held for held in mount.sizes_as(inner, who) if self._shows(mount, held[0])]
            sizes += [(mount.outward(text), size) for text, size in shown]
        return views.directory(path, sorted(sizes), self._mount_of(path).store.settings(), self.replies)

    def _refuse_write(self, command: Create | StrReplace | Insert, who: Actor | None) -> NoReturn:
        mount = self._mount_of(command.path)
        inner = command.path.within(mount.point)

        def check(_: Transaction, write: GuardedWriter) -> None:
            if isinstance(command, Create):
                write.check_name(inner)
            write.check(inner)

        mount.write(check, who)
        raise Refused(_AT_A_DIRECTORY[type(command)])

    def _refuse_delete(self, path: MemoryPath, who: Actor | None) -> NoReturn:
        self._check_all(path, who)
        if path.is_root:
            raise Refused("root_deleted")
        raise Refused("mount_deleted", mount=self._first_point(path))

    def _rename(self, command: Rename, who: Actor | None) -> NoReturn:
        old, new, target = command.old_path, command.new_path, self._mount_of(command.new_path)
        inner_new = new.within(target.point)
        target.write(lambda _, write: write.check_name(inner_new), who)
        look = self._source(old, who)
        target.write(lambda _, write: write.check(inner_new), who)
        if old.is_root:
            raise Refused("root_renamed")
        if old.text in self._fixed:
            raise Refused("mount_renamed", mount=self._first_point(old))
        if not look.exists:
            raise Refused("missing", path=old.written)
        if look.memory is not None:
            check_file_path(new)
        self._check_destination(target, new, who)
        raise Refused("across_mounts")

    def _source(self, old: MemoryPath, who: Actor | None) -> Entry:
        """What stands at the path to be renamed. Raises `Refused` if some of it may not be changed."""
        if old.text in self._fixed:
            self._check_all(old, who)
            return Entry(below=True)
        mount = self._mount_of(old)
        inner = old.within(mount.point)

        def work(tx: Transaction, write: GuardedWriter) -> Entry:
            look = tx.get(inner.text)
            write.check_all(inner, look)
            return look

        return mount.write(work, who)

    def _check_destination(self, mount: Mount, new: MemoryPath, who: Actor | None) -> None:
        if new.text in self._fixed:
            raise Refused("destination_exists")
        look = mount.look_as(new.within(mount.point).text, who)
        if look.exists:
            raise Refused("destination_exists")
        if look.above is not None:
            raise Refused("not_a_directory", ancestor=mount.outward(look.above))

    def _check_all(self, path: MemoryPath, who: Actor | None) -> None:
        """Raise `Refused` if something below a directory with mount points, or an empty store there, is read-only."""
        for mount, inner in self._parts(path):
            mount.write(partial(self._changeable, mount, inner, path.written), who)

    def _changeable(self, mount: Mount, under: str, shown: str, tx: Transaction, write: GuardedWriter) -> list[Memory]:
        """The memories of a store below a directory, as far as they are in the tree. Raises `Refused`."""
        found = [memory for memory in tx.memories(under) if self._shows(mount, memory.path)]
        if not all(write.may_change(text) for text in [memory.path for memory in found] or [under]):
            raise Refused("read_only", path=shown)
        return found

    def _first_point(self, path: MemoryPath) -> str:
        return next(point for point in self._mounts if f"{point}/".startswith(f"{path.text}/"))


def _same(reply: Reply) -> Reply:
    return reply


_AT_A_DIRECTORY = {Create: "exists", StrReplace: "edit_missing", Insert: "missing"}


def _checked(stores: Mapping[str, MemoryStore]) -> dict[str, MemoryStore]:
    """The stores by canonical mount point."""
    found: dict[str, MemoryStore] = {}
    for written, store in stores.items():
        try:
            point = MemoryPath.parse(written).text
        except Refused as refusal:
            raise InvalidInput(f"not a mount point: {EN.phrase(refusal.key, refusal.values)}") from None
        if point in found:
            raise InvalidInput(f"two memory stores are to be mounted at {point}")
        if not isinstance(store, MemoryStore):
            raise InvalidInput(f"what is mounted at {point} must be a MemoryStore")
        found[point] = store
    if ROOT not in found:
        raise InvalidInput(
            f"a memory store must be mounted at {ROOT}, the root of the tree; to have nothing of its own there, "
            'mount an empty one: retentive.open("sqlite://").store().read_only()'
        )
    return found
