"""Trust API: list the memories that are not trusted, confirm them, and put contributors in quarantine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from retentive.engine.context import StoreContext
from retentive.engine.events import record_event
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.operation import Read, WriteOperation
from retentive.engine.trust.levels import TRUSTED, Level, Levels, author_of, check_level, described, is_used
from retentive.engine.trust.overlay import CONFIRMED, Assessment, marks_of
from retentive.errors import InvalidInput, NotFound, ReadOnly
from retentive.storage.contract import Actor, Memory, Snapshot, Transaction, Version
from retentive.values.one_level import path_after
from retentive.values.pages import ListPage
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.patterns import check_trust_pattern
from retentive.values.settings import Settings, from_text

_LOOKED_AT = 50_000
"""A page ends after about this many examined memories, even if it is not full."""
_FIRST_BATCH, _LARGEST_BATCH = 200, 20_000


@dataclass(frozen=True, slots=True)
class DoubtedMemory:
    """Memory that is not trusted.

    `contributors` describes the contributors that are neither trusted nor confirmed. `flags` has an item for each
    flagged line: the line number and the kind of the flag.
    """

    path: str
    memory_id: str
    level: Level
    contributors: tuple[str, ...]
    flags: tuple[tuple[int, str], ...]


class Trust:
    """Trust API of one memory store. Threads may share the object. The methods raise `RetentiveError`."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"<Trust of {self._context.id}>"

    def doubted(self, under: str = ROOT, *, level: Level | None = None) -> list[DoubtedMemory]:
        """Return the memories at or below a path that are not trusted, in byte order of their paths.

        Memories in quarantine are included. With `level`, only memories with this trust level are returned.
        """
        with self._context.checking("trust.list"):
            check_level(level)
            target = self._context.parsed(under)

        def work(snapshot: Snapshot) -> list[DoubtedMemory]:
            search = _Search(snapshot, self._context.settings_of(snapshot), target.text, level)
            return list(search.page("", None)[0])

        return self._context.result_of(Read("trust.list", work, target, needs_external_edits=True, sees_all=True))

    def page(
        self, under: str = ROOT, *, level: Level | None = None, after: str = "", limit: int = 100
    ) -> ListPage[DoubtedMemory, str]:
        """Return one page of the memories that `doubted` returns. `after` is the `next` of the previous page.

        A page ends after about 50,000 examined memories, so a page with few or no items can have a `next`.
        """
        with self._context.checking("trust.list"):
            check_level(level)
            if limit < 1:
                raise InvalidInput(f"the limit must be at least 1, not {limit}")
            target = self._context.parsed(under)

        def work(snapshot: Snapshot) -> ListPage[DoubtedMemory, str]:
            search = _Search(snapshot, self._context.settings_of(snapshot), target.text, level)
            return ListPage(*search.page(after, limit))

        return self._context.result_of(Read("trust.list", work, target, needs_external_edits=True, sees_all=True))

    def levels(self, versions: Iterable[Version]) -> list[Level]:
        """Return the trust level of the author of each version. Authors of earlier versions do not count."""
        levels = Levels(self._context.settings())
        return [levels.of(author_of(version)) for version in versions]

    def confirm(self, path: str, *, actor: Actor | str | None = None) -> list[str]:
        """Confirm that a person trusts the current text of a memory, or of all memories below a directory.

        Returns the paths of the memories. A confirmation does not cover later changes by contributors that are not
        trusted. Raises `NotFound`.
        """
        with self._context.checking("trust.confirm", actor):
            operation = Confirm(self._context.parsed(path), self._context.clock(), self._is_read_only)
        return self._context.result_of(operation, actor)

    def quarantine(self, pattern: str, *, actor: Actor | str | None = None) -> bool:
        """Put contributors in quarantine: hide all memories to which they contributed.

        `pattern` selects the contributors, as in the setting `trust`: `session:s1`, `user:*` or `source:web:*`.
        Returns False if the pattern was already in quarantine.
        """
        with self._context.checking("trust.quarantine", actor):
            operation = ChangeQuarantine(check_trust_pattern(pattern), False, self._is_read_only)
        return self._context.result_of(operation, actor)

    def release(self, pattern: str, *, actor: Actor | str | None = None) -> bool:
        """Remove `pattern` from the quarantine. Returns False if the pattern was not in quarantine."""
        with self._context.checking("trust.release", actor):
            operation = ChangeQuarantine(check_trust_pattern(pattern), True, self._is_read_only)
        return self._context.result_of(operation, actor)

    @property
    def _is_read_only(self) -> bool:
        return bool(self._context.pins.get("read_only"))


def _doubted(assessed: Assessment, memory: Memory) -> DoubtedMemory:
    reasons = tuple(map(described, assessed.open_contributors(memory)))
    return DoubtedMemory(memory.path, memory.id, assessed.level(memory), reasons, memory.provenance.flags)


class _Search:
    """Search for memories that are not trusted."""

    def __init__(self, snapshot: Snapshot, settings: Settings, under: str, level: Level | None) -> None:
        self._snapshot, self._under, self._level = snapshot, under, level
        self._assessed, self._is_used = Assessment(snapshot, settings, None), is_used(settings)

    def page(self, after: str, limit: int | None) -> tuple[tuple[DoubtedMemory, ...], str | None]:
        """Return at most `limit` memories from the path `after` on. Also return the start of the next page, or None."""
        memory = None if self._under == ROOT else self._snapshot.get(self._under).memory
        if memory is not None or not self._is_used:
            return tuple(self._chosen([] if memory is None else [memory])), None
        found: list[DoubtedMemory] = []
        start: str | None = after
        left, size = _LOOKED_AT, _FIRST_BATCH
        while start is not None and (limit is None or (len(found) < limit and left > 0)):
            batch = [memory for memory, _ in self._snapshot.list(self._under, start=start, limit=size)]
            found += self._chosen(batch)
            start = path_after(batch[-1].path) if len(batch) == size else None
            left, size = left - size, min(2 * size, _LARGEST_BATCH)
        if limit is not None and len(found) > limit:
            return tuple(found[:limit]), path_after(found[limit - 1].path)
        return tuple(found), start

    def _chosen(self, memories: Iterable[Memory]) -> Iterator[DoubtedMemory]:
        for memory in memories:
            found = _doubted(self._assessed, memory)
            if found.level != TRUSTED and self._level in {None, found.level}:
                yield found


def _memories(snapshot: Snapshot, path: MemoryPath) -> Iterable[Memory]:
    memory = None if path.is_root else snapshot.get(path.text).memory
    return (found for found, _ in snapshot.list(path.text)) if memory is None else [memory]


@dataclass(frozen=True, slots=True)
class Confirm(WriteOperation[list[str]]):
    """Record that a person trusts the current texts at or below a path."""

    name = "trust.confirm"
    allowed_when_archived = True
    needs_external_edits = True
    under_review = "refuse"
    path: MemoryPath
    now: float
    is_read_only: bool

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the facts for the audit entry: the number of confirmed memories."""
        return {"confirmed": len(result)}

    def kept(self, result: Any, tx: Transaction) -> Mapping[str, object]:
        """Return the ids of the confirmed versions. A repeated request confirms no later text."""
        return {"versions": [memory.version_id for memory in _memories(tx, self.path)]}

    def again(self, kept: Mapping[str, Any], tx: Transaction) -> list[str]:
        """Return the paths of the memories as the first run confirmed them."""
        return [tx.version(each)[0].path for each in kept["versions"]]

    def apply(self, tx: Transaction, writer: GuardedWriter) -> list[str]:
        """Write the confirmations. Raises `NotFound` and `ReadOnly`."""
        if self.is_read_only:
            raise ReadOnly("the memory store was opened read-only, so memories cannot be confirmed")
        memories = list(_memories(tx, self.path))
        if not memories and not self.path.is_root:
            raise NotFound(f"there is no memory at {self.path.written}")
        by = None if writer.actor is None else str(writer.actor)
        for memory in memories:
            marks = sorted({each.mark for each in memory.provenance.contributors})
            if marks and not marks_of(tx.get_record(CONFIRMED, memory.id)).issuperset(marks):
                tx.put_record(CONFIRMED, memory.id, json.dumps({"marks": marks, "by": by, "at": self.now}))
        return [memory.path for memory in memories]


@dataclass(frozen=True, slots=True)
class ChangeQuarantine(WriteOperation[bool]):
    """Add a pattern to the setting `quarantine`, or remove a pattern from it."""

    under_review = "refuse"
    allowed_when_archived = True
    pattern: str
    is_released: bool
    is_read_only: bool

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the operation: `trust.quarantine` or `trust.release`."""
        return "trust.release" if self.is_released else "trust.quarantine"

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the facts for the audit entry: the name of the changed setting.

        The pattern is left out, because it can contain an e-mail address.
        """
        return {"settings": ["quarantine"]}

    def kept(self, result: Any, tx: Transaction) -> Mapping[str, object]:
        """Return whether the setting changed. A repeated request does not reverse a later change."""
        return {"changed": result}

    def again(self, kept: Mapping[str, Any], tx: Transaction) -> bool:
        """Return the result of the first run."""
        return bool(kept["changed"])

    def apply(self, tx: Transaction, writer: GuardedWriter) -> bool:
        """Store the setting. Raises `ReadOnly`, and `InvalidInput` if the settings become too long."""
        if self.is_read_only:
            raise ReadOnly("the memory store was opened read-only, so its quarantine cannot be changed")
        settings = from_text(tx.state.settings)
        without = tuple(each for each in settings.quarantine if each != self.pattern)
        was_there = without != settings.quarantine
        if was_there == self.is_released:
            changed = without if self.is_released else (*without, self.pattern)
            tx.set_metadata(settings=settings.changed({"quarantine": changed}).to_text())
            record_event(tx, "settings", writer.actor, ["quarantine"])
        return was_there == self.is_released
