"""One mounted memory store.

Maps paths of the store to paths of the tree, hides memories that other mount points cover, and checks changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from retentive.engine.guarded_writer import GuardedWriter, WriteRules
from retentive.engine.handlers import CommandResult
from retentive.engine.operation import WriteOperation
from retentive.engine.rendering import OF_BACKENDS
from retentive.engine.trust.overlay import HiddenMemories, TrustedSnapshot
from retentive.errors import InvalidInput, Refused
from retentive.review.stage import seen_by
from retentive.storage.contract import Actor, Entry, Memory, Snapshot, Transaction
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.replies import REPLIES

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore
    from retentive.history.searching import StoreSearch
    from retentive.search.ranking import Statistics
    from retentive.search.results import Hit, Results


@dataclass(frozen=True, slots=True)
class VisiblePart:
    """Part of a mounted store that is visible in the tree.

    Two kinds of memories are hidden: a memory at or below another mount point, and a memory whose path is a directory
    above another mount point.
    """

    point: str
    """Mount point of the store."""
    covered: tuple[str, ...]
    """Other mount points below this one, each with a trailing `/`."""
    fixed: frozenset[str]
    """Paths of the tree that are always directories: the root, the mount points and the directories above them."""

    def outward(self, text: str) -> str:
        """Convert `text`, a canonical path within the store, to a path of the tree."""
        return self.point + text[len(ROOT) :]

    def shows(self, text: str) -> bool:
        """Return whether a memory at `text`, a path within the store, is visible in the tree."""
        if not self.covered:
            return True
        outer = self.outward(text)
        return outer not in self.fixed and not f"{outer}/".startswith(self.covered)

    def changeable(self, under: str, shown: str, snapshot: Snapshot, rules: WriteRules) -> list[Memory]:
        """Return the visible memories below `under`, a directory of the store.

        Raises `Refused` if `rules` forbid a change to one of these memories. If no memory is visible, `rules` must
        allow a change to `under` itself. Also raises `Refused` if a memory at or below `under` is hidden from the
        actor. `shown` is the path that the error names.
        """
        found = [memory for memory, _ in snapshot.list(under) if self.shows(memory.path)]
        paths = [memory.path for memory in found] or [under]
        is_hidden = rules.hidden is not None and rules.hidden.blocks(under)
        if is_hidden or not all(rules.may_change(text) for text in paths):
            raise Refused("read_only", path=shown)
        return found


@dataclass(frozen=True, slots=True)
class ClearPart(WriteOperation[CommandResult]):
    """A write operation that deletes all memories in the visible part of a mounted store."""

    name = "clear"
    allowed_when_archived = True
    may_use_reserve = True
    part: VisiblePart

    def paths(self) -> tuple[str, ...]:
        """Return the root of the store."""
        return (ROOT,)

    def apply(self, tx: Transaction, writer: GuardedWriter) -> CommandResult:
        """Delete the memories. Raises `Refused` if the actor may not change one of them."""
        writer.delete(self.part.changeable(ROOT, self.part.point, tx, writer))
        return CommandResult()


@dataclass(frozen=True, slots=True)
class Mount:
    """A memory store at its mount point, and the part of it that is visible in the tree."""

    store: MemoryStore
    part: VisiblePart

    @property
    def core(self) -> StoreCore:
        """Core of the memory store, which runs its operations."""
        return core_of(self.store)

    @property
    def point(self) -> str:
        """Mount point of the store, a path of the tree."""
        return self.part.point

    @contextmanager
    def named_outward(self) -> Iterator[None]:
        """Context manager: in a refusal by the backend, converts the path from a store path to a tree path."""
        try:
            yield
        except Refused as refusal:
            if refusal.key not in OF_BACKENDS:
                raise
            raise Refused(refusal.key, path=self.part.outward(str(refusal.values["path"]))) from None

    def seen(self, snapshot: Snapshot, actor: Actor | None) -> tuple[Snapshot, WriteRules]:
        """Return the snapshot as an actor sees it, and the rules for changes by this actor."""
        core = self.core
        settings = core.settings_of(snapshot)
        who = actor or core.actor
        rules = WriteRules(settings, who, core.examiner)
        seen = snapshot
        if settings.trust or settings.quarantine:
            seen, rules.hidden = TrustedSnapshot(snapshot, settings, who), HiddenMemories(snapshot, settings, who)
        return seen_by(who, seen, settings), rules

    def rules(self, actor: Actor | None) -> WriteRules:
        """Return the rules for changes by an actor, without the rule that protects memories hidden from the actor."""
        rules = self.core.read(lambda snapshot: self.seen(snapshot, actor)[1])
        rules.hidden = None
        return rules

    def entry(self, text: str, actor: Actor | None) -> Entry:
        """Return the entry at a path of the store, as an actor sees it."""
        with self.named_outward():
            return self.core.read(lambda snapshot: self.seen(snapshot, actor)[0].get(text))

    def sizes(self, under: str, actor: Actor | None) -> list[tuple[str, int]]:
        """Return the tree path and the size of each visible memory that an actor sees below a path of the store."""
        with self.named_outward():
            found = self.core.read(lambda snapshot: list(self.seen(snapshot, actor)[0].list(under)))
        shown = (memory for memory, _ in found if self.part.shows(memory.path))
        return [(self.part.outward(memory.path), memory.size_bytes) for memory in shown]

    def check_all(self, under: str, shown: str, actor: Actor | None) -> None:
        """Raise `Refused` if the actor may not change a visible memory below `under`, a path of the store.

        `shown` is the path that the error names.
        """

        def work(snapshot: Snapshot) -> None:
            seen, rules = self.seen(snapshot, actor)
            self.part.changeable(under, shown, seen, rules)

        with self.named_outward():
            self.core.read(work)

    def search(self, search: StoreSearch, statistics: Statistics | None, actor: Actor | str | None) -> Results:
        """Run `search` in the store. The result has only memories visible in the tree. Their paths are tree paths."""
        core = self.core
        if self.part.covered:
            search = replace(search, shows=self.part.shows)
        with self.named_outward():
            found = search.run(core, actor, partial(core.found, actor=actor), statistics=statistics)
        hits = tuple(map(self._outward, found.hits))
        damaged = tuple(self.part.outward(path) for path in found.damaged if self.part.shows(path))
        return replace(found, hits=hits, damaged=damaged)

    def _outward(self, hit: Hit) -> Hit:
        longer = len(self.point) - len(ROOT)
        spans = tuple((start + longer, end + longer) for start, end in hit.path_spans)
        return replace(hit, path=self.part.outward(hit.path), path_spans=spans)


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
