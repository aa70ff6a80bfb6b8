"""Trust API: list the memories that are not trusted, confirm them, and put contributors in quarantine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.operation import Outcome, Plan, Read, Write
from retentive.engine.trust import TRUSTED, Level, Levels, author_of, check_level, contributors_of, described, is_used
from retentive.engine.visibility import CONFIRMED, Assessment, marks_of
from retentive.errors import InvalidInput, NotFound
from retentive.review.proposals import RecordChange
from retentive.storage.contract import Actor, Memory, Snapshot, Version
from retentive.values.listing import ListPage
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.patterns import check_trust_pattern
from retentive.values.provenance import Contributor
from retentive.values.records import Recorded
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


class Trust:
    """Trust API of one memory store. Threads may share the object. The methods raise `RetentiveError`."""

    def __init__(self, context: StoreCore) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"<Trust of {self._context.id}>"

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

    def levels(self, versions: Iterable[Version]) -> list[Level]:
        """Return the trust level of the author of each version. Authors of earlier versions do not count."""
        levels = Levels(self._context.settings())
        return [levels.of(author_of(version)) for version in versions]

    def contributors(self, recorded: Version | Memory) -> Sequence[Contributor]:
        """Return the contributors to the text of a version or memory, the newest last.

        The provenance of a version names only the newest contributors if there are more than 16.
        """
        if not recorded.provenance.older:
            return recorded.provenance.contributors
        return self._context.read(lambda snapshot: contributors_of(snapshot, recorded))

    def confirm(self, path: str, *, actor: Actor | str | None = None) -> list[str]:
        """Confirm that a person trusts the current text of a memory, or of all memories below a directory.

        Returns the paths of the memories. A confirmation does not cover later changes by contributors that are not
        trusted. Raises `NotFound`.
        """
        operation = Confirm(self._context.parsed(path), self._context.clock())
        return self._context.result_of(operation, actor)

    def quarantine(self, pattern: str, *, actor: Actor | str | None = None) -> bool:
        """Put contributors in quarantine: hide all memories to which they contributed.

        `pattern` selects the contributors, as in the setting `trust`: `session:s1`, `user:*` or `source:web:*`.
        Returns False if the pattern was already in quarantine.
        """
        return self._change_quarantine("trust.quarantine", pattern, actor)

    def release(self, pattern: str, *, actor: Actor | str | None = None) -> bool:
        """Remove `pattern` from the quarantine. Returns False if the pattern was not in quarantine."""
        return self._change_quarantine("trust.release", pattern, actor)

    def _change_quarantine(self, name: str, pattern: str, actor: Actor | str | None) -> bool:
        operation = ChangeQuarantine(name, check_trust_pattern(pattern))
        return self._context.result_of(operation, actor)


def _memories(view: Snapshot, path: MemoryPath, start: str = "", limit: int | None = None) -> Iterable[Memory]:
    """Return the memory at a path, or the memories below it from the path `start` on."""
    memory = None if path.is_root else view.get(path.text).memory
    return [memory] if memory is not None else (each for each, _ in view.list(path.text, start=start, limit=limit))


@dataclass(frozen=True, slots=True)
class Confirm(Write[list[str]]):
    """Record that a person trusts the current texts at or below a path."""

    name = "trust.confirm"
    allowed_when_archived = True
    needs_external_edits = True
    under_review = "refuse"
    path: MemoryPath
    now: float

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the facts for the audit entry: the number of confirmed memories."""
        return {"confirmed": len(result)}

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object]:
        """Return the ids of the confirmed versions. A repeated request confirms no later text."""
        return {"versions": [memory.version_id for memory in _memories(after, self.path)]}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> list[str]:
        """Return the paths of the memories as the first run confirmed them."""
        return [view.version(each)[0].path for each in facts["versions"]]

    def decide(self, view: Snapshot, guard: Guard) -> Plan[list[str]]:
        """Return the confirmations. Raises `NotFound`, and `ReadOnly` in a store that was opened read-only."""
        guard.check_opened("confirmations")
        memories = list(_memories(view, self.path))
        if not memories and not self.path.is_root:
            raise NotFound(f"there is no memory at {self.path.written}")
        by = None if guard.actor is None else str(guard.actor)
        records: list[RecordChange] = []
        for memory in memories:
            marks = sorted({each.mark for each in contributors_of(view, memory)})
            if marks and not marks_of(view.get_record(CONFIRMED, memory.id)).issuperset(marks):
                records.append((CONFIRMED, memory.id, json.dumps({"marks": marks, "by": by, "at": self.now})))
        return Plan([memory.path for memory in memories], records=records)


@dataclass(frozen=True, slots=True)
class ChangeQuarantine(Write[bool]):
    """Add a pattern to the setting `quarantine` (`trust.quarantine`), or remove it (`trust.release`)."""

    under_review = "refuse"
    allowed_when_archived = True
    name: str
    pattern: str

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the facts for the audit entry: the name of the changed setting.

        The pattern is left out, because it can contain an e-mail address.
        """
        return {"settings": ["quarantine"]}

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object]:
        """Return whether the setting changed. A repeated request does not reverse a later change."""
        return {"changed": outcome.result}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> bool:
        """Return the result of the first run."""
        return bool(facts["changed"])

    def decide(self, view: Snapshot, guard: Guard) -> Plan[bool]:
        """Return the new setting. Raises `InvalidInput` if the settings become too long."""
        guard.check_opened("quarantine")
        settings, is_released = from_text(view.state.settings), self.name == "trust.release"
        without = tuple(each for each in settings.quarantine if each != self.pattern)
        if (without != settings.quarantine) != is_released:
            return Plan(False)
        changed = settings.changed({"quarantine": without if is_released else (*without, self.pattern)})
        text = changed.to_text()
        return Plan(True, metadata={"settings": text}, event=("settings", ["quarantine"]))
