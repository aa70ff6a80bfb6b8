"""One memory store as it is seen in a tree of several: paths of the store go in, refusals name those of the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from retentive.engine.writer import GuardedWriter
from retentive.errors import Refused
from retentive.storage.contract import Actor, Entry, Memory, Transaction
from retentive.store import OF_BACKENDS, MemoryStore
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from retentive.search.query import Hit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mount:
    """A store and where it is seen; `covered` are the mount points below, with a `/` at the end."""

    point: str
    store: MemoryStore
    covered: tuple[str, ...]

    def outward(self, text: str) -> str:
        """What callers call a canonical path of the store."""
        return self.point + text[len(ROOT) :]

    @contextmanager
    def named_outward(self) -> Iterator[None]:
        """Let a refusal of the backend, which knows its own paths only, name the path that callers know."""
        try:
            yield
        except Refused as refusal:
            if refusal.key not in OF_BACKENDS:
                raise
            raise Refused(refusal.key, path=self.outward(str(refusal.values["path"]))) from None

    def look(self, text: str) -> Entry:
        """What stands at a path of the store."""
        with self.named_outward():
            return self.store.read(lambda snapshot: snapshot.get(text))

    def walk(self, under: str) -> list[Memory]:
        """All memories below a path of the store."""
        with self.named_outward():
            return self.store.read(lambda snapshot: list(snapshot.memories(under)))

    def look_as(self, text: str, who: Actor | None) -> Entry:
        """What `who` sees at a path: its own changes that await review are there for it."""
        with self.named_outward():
            return self.store.read_as(lambda snapshot: snapshot.get(text), who)

    def sizes_as(self, under: str, who: Actor | None) -> list[tuple[str, int]]:
        """What `who` sees below a path."""
        with self.named_outward():
            return self.store.read_as(lambda snapshot: list(snapshot.sizes(under)), who)

    def search(self, query: str, under: str, *, regex: bool) -> Iterator[tuple[str, Hit]]:
        """Each hit with its path in the store, and as callers know it."""
        with self.named_outward():
            found = self.store.search(query, under=under, regex=regex, limit=None).hits
        longer = len(self.point) - len(ROOT)
        for hit in found:
            spans = tuple((start + longer, end + longer) for start, end in hit.path_spans)
            yield hit.path, replace(hit, path=self.outward(hit.path), path_spans=spans)

    def write(
        self, work: Callable[[Transaction, GuardedWriter], T], who: Actor | None, *, may_use_reserve: bool = False
    ) -> T:
        """Change the store, as `MemoryStore.write`."""
        with self.named_outward():
            return self.store.write(work, who, may_use_reserve=may_use_reserve)
