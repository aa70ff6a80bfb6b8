"""One memory store in a tree of several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TypeVar, Unpack

from retentive.engine.core import StoreCore
from retentive.engine.guard import setting_against
from retentive.engine.handlers import MAX_BATCH
from retentive.engine.lists import list_memories, load
from retentive.engine.read import read
from retentive.errors import NotFound, Refused
from retentive.history.searching import StoreSearch
from retentive.remote import is_remote
from retentive.search.recall import Passage
from retentive.search.results import Results
from retentive.storage.contract import Actor, Memory, Version
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.provenance import Origin

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
        return [self.out(each) for each in self._all(under, actor, is_audited=is_audited) if self.shows(each.path)]

    def _all(self, under: MemoryPath, actor: Actor | None, *, is_audited: bool) -> list[Memory]:
        if is_remote(self.store):
            return (self.store if actor is None else self.store.acting_as(actor)).memories(under.text)
        call = self.core.invocation(actor)
        return read(self.core, list_memories(under), call, is_audited=is_audited).value()

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
        """Raise `Refused` if a setting forbids the actor to delete a memory that the store shows in the tree."""
        settings, who = self.store.settings(), actor or self.store.actor
        found = self._all(MemoryPath.known(ROOT), actor, is_audited=False)
        paths = [each.path for each in found if self.shows(each.path)] or [ROOT]
        if any(setting_against(settings, who, path) for path in paths):
            raise Refused("read_only", path=self.point)

    def clear(self, actor: Actor | None, **origin: Unpack[Origin]) -> None:
        """Delete all memories in the visible part of the store. The other memories of it, if any, are kept."""
        found = self._all(MemoryPath.known(ROOT), actor, is_audited=False)
        shown = [each.path for each in found if self.shows(each.path)]
        if len(shown) == len(found):
            self.store.clear(actor=actor, **origin).raise_for_error()
            return
        for start in range(0, len(shown), MAX_BATCH):
            part = shown[start : start + MAX_BATCH]
            self.store.batch([{"command": "delete", "path": path} for path in part], actor=actor, **origin)
