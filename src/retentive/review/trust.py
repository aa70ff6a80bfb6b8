"""Trust API: list the memories that are not trusted, confirm them, and put contributors in quarantine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from retentive.engine.core import StorePart
from retentive.engine.guard import Guard
from retentive.engine.operation import Plan, Read, Write
from retentive.engine.visibility import (
    CONFIRMED,
    TRUSTED,
    Assessment,
    Level,
    check_level,
    contributors_of,
    described,
    is_used,
    marks_of,
)
from retentive.errors import InvalidInput, NotFound
from retentive.review.proposals import RecordChange
from retentive.storage.contract import Actor, Memory, Snapshot, Version
from retentive.values.listing import ListPage
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.patterns import check_trust_pattern
from retentive.values.provenance import Contributor
from retentive.values.records import name_of
from retentive.values.settings import from_text

_LOOKED_AT = 10_000
"""A page ends after this many examined memories, even if it is not full."""


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


class Trust(StorePart):
    """Trust API of one memory store. Threads may share the object. The methods raise `RetentiveError`."""

    def doubted(self, under: str = ROOT, *, level: Level | None = None) -> list[DoubtedMemory]:
        """Return the memories at or below a path that are not trusted, in byte order of their paths.

        Memories in quarantine are included. With `level`, only memories with this trust level are returned.
        """
        return list(self.page(under, level=level, limit=None).items)

    def page(
        self, under: str = ROOT, *, level: Level | None = None, after: str = "", limit: int | None = 100
    ) -> ListPage[DoubtedMemory, str]:
        """Return one page of the memories that `doubted` returns. `after` is the `next` of the previous page.

        A page ends after 10,000 examined memories, so a page with few or no items can have a `next`. If `limit` is
        None, the page has all memories.
        """
        check_level(level)
        if limit is not None and limit < 1:
            raise InvalidInput(f"the limit must be at least 1, not {limit}")
        target = self._context.parsed(under)

        def work(snapshot: Snapshot) -> ListPage[DoubtedMemory, str]:
            settings = self._context.settings_of(snapshot)
            assessed, doubted = Assessment(snapshot, settings, None), list[DoubtedMemory]()
            at_most = None if limit is None else _LOOKED_AT + 1
            memories = _memories(snapshot, target, after, at_most) if is_used(settings) else ()
            for number, memory in enumerate(memories):
                if limit is not None and (len(doubted) == limit or number == _LOOKED_AT):
                    return ListPage(tuple(doubted), memory.path)
                found = assessed.level(memory)
                if found != TRUSTED and level in {None, found}:
                    reasons = tuple(map(described, assessed.open_contributors(memory)))
                    doubted.append(DoubtedMemory(memory.path, memory.id, found, reasons, memory.provenance.flags))
            return ListPage(tuple(doubted))

        return self._context.result_of(Read("trust.list", work, target, needs_external_edits=True, sees_all=True))

    def contributors(self, recorded: Version | Memory) -> Sequence[Contributor]:
        """Return the contributors to the text of a version or memory, the newest last.

        The provenance of a version names only the newest contributors if there are more than 16.
        """
        if not recorded.provenance.older:
            return recorded.provenance.contributors
        return self._context.read(lambda snapshot: contributors_of(snapshot, recorded.provenance))

    def confirm(self, path: str, *, actor: Actor | str | None = None) -> list[str]:
        """Confirm that a person trusts the current text of a memory, or of all memories below a directory.

        Returns the paths of the memories. A confirmation does not cover later changes by contributors that are not
        trusted. Raises `NotFound`.
        """
        return self._context.result_of(confirm(self._context.parsed(path), self._context.clock()), actor)

    def quarantine(self, pattern: str, *, actor: Actor | str | None = None) -> bool:
        """Put contributors in quarantine: hide all memories to which they contributed.

        `pattern` selects the contributors, as in the setting `trust`: `session:s1`, `user:*` or `source:web:*`.
        Returns False if the pattern was already in quarantine.
        """
        return self._context.result_of(change_quarantine(check_trust_pattern(pattern), releases=False), actor)

    def release(self, pattern: str, *, actor: Actor | str | None = None) -> bool:
        """Remove `pattern` from the quarantine. Returns False if the pattern was not in quarantine."""
        return self._context.result_of(change_quarantine(check_trust_pattern(pattern), releases=True), actor)


def _memories(view: Snapshot, path: MemoryPath, start: str = "", limit: int | None = None) -> Iterable[Memory]:
    """Return the memory at a path, or the memories below it from the path `start` on."""
    memory = None if path.is_root else view.get(path.text).memory
    return [memory] if memory is not None else (each for each, _ in view.list(path.text, start=start, limit=limit))


def confirm(path: MemoryPath, now: float) -> Write[list[str]]:
    """Record that a person trusts the current texts at or below a path. A repeated request confirms no later text."""

    def work(view: Snapshot, guard: Guard) -> Plan[list[str]]:
        guard.check_opened("confirmations")
        memories = list(_memories(view, path))
        if not memories and not path.is_root:
            raise NotFound(f"there is no memory at {path.written}")
        by = name_of(guard.actor)
        records: list[RecordChange] = []
        for memory in memories:
            marks = sorted({each.mark for each in contributors_of(view, memory.provenance)})
            if marks and not marks_of(view.get_record(CONFIRMED, memory.id)).issuperset(marks):
                records.append((CONFIRMED, memory.id, json.dumps({"marks": marks, "by": by, "at": now})))
        return Plan([memory.path for memory in memories], records=records)

    return Write(
        "trust.confirm",
        work,
        path,
        facts=lambda paths: {"confirmed": len(paths)},
        facts_kept=lambda _, after: {"versions": [memory.version_id for memory in _memories(after, path)]},
        rebuilt=lambda facts, view: [view.version(each)[0].path for each in facts["versions"]],
        needs_external_edits=True,
    )


def change_quarantine(pattern: str, *, releases: bool) -> Write[bool]:
    """Add a pattern to the setting `quarantine`, or remove it. A repeated request does not reverse a later change."""

    def work(view: Snapshot, guard: Guard) -> Plan[bool]:
        guard.check_opened("quarantine")
        settings = from_text(view.state.settings)
        without = tuple(each for each in settings.quarantine if each != pattern)
        if (without != settings.quarantine) != releases:
            return Plan(False)
        changed = settings.changed({"quarantine": without if releases else (*without, pattern)})
        return Plan(True, metadata={"settings": changed.to_text()}, event=("settings", ["quarantine"]))

    return Write(
        "trust.release" if releases else "trust.quarantine",
        work,
        facts=lambda _: {"settings": ["quarantine"]},  # without the pattern, which can contain an e-mail address
        facts_kept=lambda outcome, _: {"changed": outcome.result},
        rebuilt=lambda facts, _: bool(facts["changed"]),
    )
