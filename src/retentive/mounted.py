"""One memory store in a tree of several, and the history of the stores of a tree as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, Unpack

from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard, setting_against
from retentive.engine.lists import list_memories, load
from retentive.engine.operation import DryRun, Plan, Write
from retentive.engine.read import read
from retentive.errors import InvalidInput, NotFound, Refused
from retentive.history.differences import Differences, MemoryDifference
from retentive.history.log import position_of
from retentive.history.plan import Conflict, Mode, RestoreOutcome
from retentive.history.revisions import Named, as_revision
from retentive.history.searching import StoreSearch
from retentive.remote import is_remote
from retentive.search.recall import Passage
from retentive.search.results import Results
from retentive.storage.contract import Actor, Memory, Snapshot, Version
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.provenance import Origin

T = TypeVar("T")
HasPath = TypeVar("HasPath", Memory, Version, Passage)


@dataclass(frozen=True, slots=True, eq=False)
class Mount:
    """A memory store at its mount point, and the part of it that is visible in the tree.

    Two kinds of memories are hidden: a memory at or below another mount point, and a memory whose path is a directory
    above another mount point. `covered` has the other mount points below this one, each with a trailing `/`. `fixed`
    has the paths of the tree that are always directories.

    A store on a server checks the actor and writes audit entries itself.
    """

    store: MemoryStore
    point: str
    covered: tuple[str, ...]
    fixed: frozenset[str]

    @property
    def core(self) -> StoreCore:
        """Core of the store. That of a store on a server only checks arguments."""
        return core_of(self.store)

    @property
    def is_read_only(self) -> bool:
        """True if the store was mounted read-only."""
        return bool(self.core.pins.get("read_only"))

    def outward(self, path: str) -> str:
        """Convert a canonical path within the store to a path of the tree."""
        return self.point + path[len(ROOT) :]

    def out(self, found: HasPath) -> HasPath:
        """Return a memory, version or passage with its path in the tree. A redacted version has no path."""
        return replace(found, path=self.outward(found.path)) if found.path else found

    def shows(self, path: str) -> bool:
        """Return whether a memory at a path within the store is visible in the tree. True for a redacted path."""
        outer = self.outward(path)
        return not (path and self.covered) or (outer not in self.fixed and not f"{outer}/".startswith(self.covered))

    def load(self, path: MemoryPath) -> tuple[Memory, str]:
        """Return the memory at a path within the store, and its text. Errors name the path of the tree."""
        if not is_remote(self.store):
            return self.core.result_of(load(path))
        try:
            return self.store.load(path.text)
        except NotFound:
            raise NotFound(f"there is no memory at {path.written}") from None

    def memories(self, under: MemoryPath, actor: Actor | None, *, is_audited: bool = True) -> list[Memory]:
        """Return the memories below a directory that are visible in the tree, with their paths in the tree."""
        if is_remote(self.store):
            found = (self.store if actor is None else self.store.acting_as(actor)).memories(under.text)
        else:
            found = read(
                self.core, list_memories(under), self.core.invocation(actor), is_audited=is_audited
            ).value()  # not by `result_of`: errors have the paths of the command
        return [self.out(each) for each in found if self.shows(each.path)]

    def recall(self, question: str, budget: int, under: MemoryPath, actor: Actor | str | None) -> list[Passage]:
        """Return the best lines of the visible memories, best first, with their paths in the tree."""
        if is_remote(self.store):
            found = self.store.recall(question, budget_tokens=budget, under=under.text, actor=actor)
        else:
            shows = self.shows if self.covered else None
            search = StoreSearch(question, under=under.text, is_question=True, shows=shows)
            found = search.recall(self.core, budget, actor)
        best_first = sorted(found.passages, key=attrgetter("level"), reverse=True)
        return [self.out(each) for each in best_first if self.shows(each.path)]

    def search(self, search: StoreSearch, actor: Actor | str | None) -> Results:
        """Search the store. The result has only memories that are visible in the tree, with their paths in the tree."""
        if is_remote(self.store):
            found = self.store.search(
                search.query, mode=search.mode, regex=search.regex, under=search.under, limit=None, actor=actor
            )
        else:
            found = (replace(search, shows=self.shows) if self.covered else search).run(self.core, actor)
        longer, hits = len(self.point) - len(ROOT), []
        for hit in found.hits:
            spans = tuple((start + longer, end + longer) for start, end in hit.path_spans)
            if self.shows(hit.path):
                hits.append(replace(hit, path=self.outward(hit.path), path_spans=spans))
        damaged = tuple(self.outward(path) for path in found.damaged if self.shows(path))
        total = found.total - (len(found.hits) - len(hits))
        return replace(found, hits=tuple(hits), damaged=damaged, total=total)

    def check_clear(self, actor: Actor | None) -> None:
        """Raise `Refused` if the actor may not delete all memories that the store shows in the tree."""
        if is_remote(self.store):
            settings, who = self.store.settings(), actor or self.store.actor
            paths = [each.path for each in self.store.memories() if self.shows(each.path)] or [ROOT]
            if any(setting_against(settings, who, path) for path in paths):
                raise Refused("read_only", path=self.point)
            return
        read(self.core, DryRun(self._clearing()), self.core.invocation(actor), is_audited=False).value()

    def clear(self, actor: Actor | None, **origin: Unpack[Origin]) -> None:
        """Delete all memories in the visible part of the store. Raises `Refused` if the actor may not change one.

        On a server, a store that is not visible as a whole is cleared memory by memory.
        """
        if is_remote(self.store):
            if not self.covered:
                self.store.clear(actor=actor, **origin).raise_for_error()
                return
            for each in self.store.memories():
                if self.shows(each.path):
                    self.store.delete(each.path, actor=actor, **origin)
            return

        self.core.run(self._clearing(), self.core.invocation(actor, **origin)).value()

    def _clearing(self) -> Write[None]:
        def work(view: Snapshot, guard: Guard) -> Plan[None]:
            found = [memory for memory, _ in view.list(ROOT) if self.shows(memory.path)]
            is_hidden = guard.hidden is not None and guard.hidden.blocks(ROOT)  # something in it, from the actor
            if is_hidden or not all(map(guard.may_change, [memory.path for memory in found] or [ROOT])):
                raise Refused("read_only", path=self.point)
            return Plan(None, guard.delete(view, found))

        return Write("clear", work, MemoryPath.known(ROOT), under_review="propose", only_removes=True)


Part: TypeAlias = tuple[Mount, "str | None"]
"""A mounted store, and the path in it that is meant; None for all of the store."""


class MountsHistory:
    """History of the stores of a tree as one. All paths are paths of the tree. Raises `RetentiveError`.

    Each store numbers its own changes, so `r12` and `HEAD~2` need a path in one store. The ids of versions and `HEAD`
    do not.
    """

    def __init__(self, parts: Callable[[str | None], Sequence[Part]]) -> None:
        self._parts = parts

    def log(self, path: str | None = None, *, limit: int | None = None, **only: Any) -> list[Version]:
        """Return versions of all stores, or of a path of the tree, newest first. See `History.log`."""
        return self.merged(path, limit, lambda store, at, most: store.history.log(at, limit=most, **only))

    def merged(
        self, path: str | None, limit: int | None, read: Callable[[MemoryStore, str | None, int | None], list[Version]]
    ) -> list[Version]:
        """Return the newest of the versions that `read` returns for each store, a path in it, and a limit."""
        parts = self._parts(path)
        found = list(chain.from_iterable(self._shown(mount, at, limit, read) for mount, at in parts))
        if len(parts) > 1:
            found.sort(key=lambda version: position_of(version.id), reverse=True)
        return found[:limit]

    @staticmethod
    def _shown(
        mount: Mount, at: str | None, limit: int | None, read: Callable[[MemoryStore, str | None, int | None], Any]
    ) -> list[Version]:
        """Return the versions of a store that the tree shows. It reads more of them than `limit` if some are hidden."""
        most = limit
        while True:
            versions = read(mount.store, at, most)
            shown = [mount.out(each) for each in versions if mount.shows(each.path)]
            if limit is None or most is None or len(versions) < most or len(shown) >= limit:
                return shown
            most *= 2

    def differences(
        self, path: str | None = None, *, change: Named | None = None, since: Named | None = None,
        until: Named | None = None,
    ) -> Differences:  # fmt: skip
        """Return the differences that a change made, or those between two versions. See `History.differences`."""
        (mount, at), named = self._named(path, change if until is None else until)
        names = {"change": named} if until is None else {"since": since, "until": named}
        found = mount.store.history.differences(at, **names)
        return replace(found, found=tuple(_out(mount, each) for each in found.found if mount.shows(each.path)))

    def undo_own(
        self, change: Named | None = None, *, path: str | None = None, mode: Mode = "refuse", **options: Any
    ) -> RestoreOutcome:
        """Reverse one of the actor's own changes. See `History.undo_own`.

        Without a change, `path` must be in one store, or all stores but one must be mounted read-only: a repeated call
        must never undo another change in another store.
        """
        if change is not None:
            (mount, at), change = self._named(path, change)
        else:
            parts = self._parts(path)
            parts = [part for part in parts if not part[0].is_read_only] or parts[:1]
            if len(parts) > 1:
                raise _ambiguous("without `change`")
            mount, at = parts[0]
        found = mount.store.history.undo_own(change, path=at, mode=mode, **options)
        outward, point = mount.outward, f" {mount.point}/"

        def told(conflicts: Sequence[Conflict]) -> tuple[Conflict, ...]:
            reasons = [each.reason.replace(f" {ROOT}/", point) for each in conflicts]
            pairs = zip(conflicts, reasons, strict=True)
            return tuple(replace(each, path=outward(each.path), reason=reason) for each, reason in pairs)

        steps = tuple(replace(step, path=outward(step.path)) for step in found.steps)
        return replace(found, steps=steps, conflicts=told(found.conflicts), left=told(found.left))

    def _named(self, path: str | None, name: Named | None) -> tuple[Part, Named]:
        """Return the store in which a revision names a change, the path there, and the name of the change there."""
        parts, named = self._parts(path), as_revision("HEAD" if name is None else name)
        if len(parts) == 1:
            return parts[0], named
        if named.is_version:
            for mount, at in parts:
                with suppress(NotFound):
                    if mount.shows(mount.store.history.show(named.text)[0].path):
                        return (mount, at), named
            raise NotFound(f"there is no version {named.text}")
        if named.text != "HEAD":
            raise _ambiguous(f"named {named.text}")
        newest = [(part, each) for part in parts for each in self._shown(*part, 1, _logged)[:1]]
        part, version = max(newest, key=lambda pair: position_of(pair[1].id), default=(parts[0], None))
        return part, named if version is None else as_revision(f"r{version.revision}")


def _logged(store: MemoryStore, at: str | None, most: int | None) -> list[Version]:
    return store.history.log(at, limit=most)


def _ambiguous(what: str) -> InvalidInput:
    return InvalidInput(
        f"several memory stores are mounted, and each numbers its own changes; a change {what} needs the id of a"
        " version (memver_...), or a path in one store"
    )


def _out(mount: Mount, found: MemoryDifference) -> MemoryDifference:
    old, new, gone = (None if each is None else mount.out(each) for each in (found.old, found.new, found.gone))
    return replace(found, old=old, new=new, gone=gone)


class MountsById:
    """Memories of the stores of a tree by their ids."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self._mounts = mounts

    def get(self, memory_id: str) -> tuple[Memory, str]:
        """Return a memory, with its path in the tree, and its text by its id. Raises `NotFound`."""
        for mount in self._mounts:
            with suppress(NotFound):
                memory, text = mount.store.by_id.get(memory_id)
                if mount.shows(memory.path):
                    return mount.out(memory), text
        raise NotFound(f"there is no memory {memory_id}")
