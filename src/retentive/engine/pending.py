"""Changes that are not recorded as versions: the changes of a batch so far, and proposals of actors under review.

An actor under review sees its own proposals applied, as if they were recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from heapq import merge
from itertools import islice
from typing import TypeAlias

from retentive.engine.guard import Guard
from retentive.engine.lists import record_event
from retentive.errors import PermissionDenied, Refused
from retentive.review.proposals import (
    AFTER,
    BEFORE,
    Proposal,
    ProposedChange,
    ProposedOperation,
    pending,
    proposal_record,
    text_key,
    text_of,
)
from retentive.storage.contract import (
    Actor,
    Again,
    Change,
    Created,
    Deleted,
    Entry,
    Imported,
    Memory,
    Moved,
    Recorded,
    Snapshot,
    State,
    Transaction,
    Updated,
    Usage,
    sortable_id,
    to_datetime,
)
from retentive.storage.overlay import Overlay
from retentive.values.paths import ancestors
from retentive.values.patterns import matches_actor
from retentive.values.records import EPOCH
from retentive.values.settings import REVIEW_TIERS, Settings
from retentive.values.text import adds_lines, decoded

NEW = "pending."
"""Prefix of the id of a memory that a change makes, before it is recorded. The number of the change follows."""
Placed: TypeAlias = tuple[Memory | None, Callable[[], bytes]]
"""State of a memory after the changes, and its text. The memory is None if they delete it."""
_GONE: Placed = None, bytes


class Pending(Overlay):
    """Snapshot with changes on top. History, records and settings are those of the inner snapshot.

    The changes take precedence over the inner state: a memory that they place hides the memories at, above and below
    its path. `changes` are those that `add` got. Reads see each change at once. Change number 3 makes the memory
    `pending.3`.
    """

    def __init__(self, inner: Snapshot) -> None:
        super().__init__(inner)
        self.changes: list[Change] = []
        self._own: dict[str, Placed] = {}  # by memory id
        self._paths: dict[str, str] = {}  # path -> memory id
        self._directories: Counter[str] = Counter()
        self._more = Usage(0, 0)  # memories and bytes that the changes add

    def add(self, changes: Iterable[Change]) -> None:
        """Put changes on top, in order."""
        for change in changes:
            version_id = f"{NEW}{len(self.changes)}"
            self.changes.append(change)
            match change:
                case Deleted(before):
                    self.place(before.id, _GONE)
                case Moved(before, path, provenance):
                    moved = replace(before, path=path, version_id=f"{version_id}.{before.version_id}")
                    self.place(before.id, (replace(moved, provenance_text=provenance), self._text(before)))
                case Created(path, text, provenance) | Updated(_, path, text, provenance):
                    again = change.again if isinstance(change, Created) else None
                    of = change.before or again or Again(version_id, EPOCH)
                    facts = len(text), sha256(text).hexdigest(), version_id, of.created_at, of.created_at
                    self.place(of.id, (Memory(of.id, path, *facts, None, provenance), partial(bytes, text)))
                case Imported():
                    raise PermissionDenied("an operation cannot import versions")

    def propose(self, change: ProposedChange, key: str, at: datetime) -> None:
        """Put a proposed change on top. A change that only renames a memory shows its current text."""
        memory_id, path = change.memory_id, change.path
        if path is None:
            self.place(memory_id, _GONE)
        elif change.has_text:
            facts = change.size_bytes or 0, change.sha256 or "", key, change.created_at, at, None
            memory = Memory(memory_id, path, *facts, change.provenance_text)
            self.place(memory_id, (memory, lambda: text_of(self._inner, AFTER, key, change.sha256).encode()))
        else:
            known = self._own[memory_id][0] if memory_id in self._own else self._inner.find(memory_id)
            if known is None:
                self.place(memory_id, _GONE)
                return
            # Callers cache by version id, so the id must change whenever the current text changes.
            inner = known.version_id.rpartition(".")[2]
            version_id = f"{key}.{inner}" if inner.startswith("memver_") else key
            moved = replace(known, path=path, version_id=version_id, updated_at=at, seal=None)
            self.place(memory_id, (moved, self._text(known)))

    def _text(self, memory: Memory) -> Callable[[], bytes]:
        """Return the function that returns the text of a memory, also after it was renamed."""
        if memory.id in self._own:
            return self._own[memory.id][1]
        return lambda: self._inner.get(memory.path).data or b""

    def place(self, memory_id: str, placed: Placed) -> None:
        """Set the state of one memory."""
        is_known = memory_id in self._own or memory_id.startswith(NEW)
        old = self._own.get(memory_id, _GONE)[0] if is_known else self._inner.find(memory_id)
        if old is not None:
            self._count(old, -1)
        if old is not None and self._paths.get(old.path) == memory_id:
            del self._paths[old.path]
            self._directories.subtract(ancestors(old.path))
        self._own[memory_id] = placed
        memory = placed[0]
        if memory is not None:
            self._count(memory, 1)
            self._paths[memory.path] = memory_id
            self._directories.update(ancestors(memory.path))

    @property
    def state(self) -> State:
        state = self._inner.state
        (memories, size), (more, bigger) = state.usage, self._more
        return state._replace(usage=Usage(memories + more, size + bigger))

    def _count(self, memory: Memory, sign: int) -> None:
        self._more = Usage(self._more.memories + sign, self._more.size_bytes + sign * memory.size_bytes)

    def get(self, path: str) -> Entry:
        if path in self._paths:
            memory, data = self._own[self._paths[path]]
            return Entry(memory, data())
        above = next((place for place in ancestors(path) if place in self._paths), None)
        if above is not None or self._directories[path] > 0:
            return Entry(above=above, below=above is None)
        entry = self._inner.get(path)
        if entry.memory is not None:
            return Entry() if entry.memory.id in self._own else entry
        if entry.above is not None:
            return Entry() if self.get(entry.above).memory is None else entry
        return Entry(below=entry.below and any(True for _ in self.list(path, limit=1)))

    def find(self, memory_id: str) -> Memory | None:
        placed = self._own.get(memory_id)
        return super().find(memory_id) if placed is None else placed[0]

    def list(
        self, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        present = super().list(under, start=start, limit=limit, one_level=one_level, texts=texts)
        if one_level:  # read through the list of all levels
            return present
        placed = (
            (memory, data() if texts else None)
            for memory, data in (self._own[self._paths[path]] for path in sorted(self._paths))
            if memory is not None and memory.path.startswith(f"{under}/") and memory.path >= start
        )
        return islice(merge(present, placed, key=lambda pair: pair[0].path), limit)

    def shows(self, memory: Memory) -> bool:
        """Return whether no change concerns `memory`, a memory of the inner snapshot, or its path."""
        if memory.id in self._own or memory.path in self._paths or self._directories[memory.path] > 0:
            return False
        return not any(place in self._paths for place in ancestors(memory.path))


def review_tier(settings: Settings, actor: Actor | None) -> str:
    """Return which changes by an actor become proposals: `all`, `changes` (no additions) or `none`.

    The longest pattern that matches decides; of equally long ones, the strictest. Jobs are never under review.
    """
    if not settings.review or (actor is not None and actor.kind == "job"):
        return "none"
    name = str(actor or "")
    matching = [
        (len(key), -REVIEW_TIERS.index(tier)) for key, tier in settings.review.items() if matches_actor(key, name)
    ]
    return REVIEW_TIERS[-max(matching)[1]] if matching else "none"


def is_under_review(settings: Settings, actor: Actor | None) -> bool:
    """Return whether some changes by the actor become proposals."""
    return review_tier(settings, actor) != "none"


def are_additions(present: Snapshot, view: Snapshot, guard: Guard, changes: Iterable[Change]) -> bool:
    """Return whether changes only add memories and lines, and build on no proposal. `view` shows those of the actor.

    A memory that the same changes create can be changed too. A restore or an undo is no addition, whatever it adds,
    because it can bring back what a person removed.
    """
    after = Pending(present)
    for change in changes:
        match change:
            case Created(path, again=None):
                adds = all(present.get(place) == view.get(place) for place in (path, *ancestors(path)))
            case Updated(before, path, data) if path == before.path:
                is_same = before.id.startswith(NEW) or present.find(before.id) == view.find(before.id)
                adds = is_same and (before.id.startswith(NEW) or adds_lines(after.get(path).data or b"", data))
            case _:
                adds = False
        if guard.cause or not adds:
            return False
        after.add([change])
    return True


def with_own_proposals(snapshot: Snapshot, settings: Settings, actor: Actor | None) -> Snapshot:
    """Return the snapshot as an actor sees it. For an actor under review, the actor's pending proposals are applied."""
    if not is_under_review(settings, actor):
        return snapshot
    own = [proposal for proposal in pending(snapshot) if proposal.actor == actor]
    return with_proposals(snapshot, own) if own else snapshot


def with_proposals(snapshot: Snapshot, proposals: Iterable[Proposal]) -> Pending:
    """Return the snapshot with proposals applied."""
    view = Pending(snapshot)
    for proposal in proposals:
        for number, change in enumerate(proposal.changes):
            view.propose(change, text_key(proposal.id, number), proposal.at)
    return view


def _check_deletions(view: Snapshot, waiting: Iterable[Proposal], changes: Sequence[Change], guard: Guard) -> None:
    """Raise `Refused` if the proposals of the actor of a guard would delete or empty too many memories."""

    def removes(path: str | None, before: object, text: str | bytes | None) -> bool:
        return path is None or (before is not None and text is not None and not text.strip())

    limit, removed = guard.max_deletions, sum(removes(each.path, each.before, each.data) for each in changes)
    if limit is None or not removed:
        return
    for proposal in (each for each in waiting if each.actor == guard.actor):
        for number, each in enumerate(proposal.changes):
            removed += removes(each.path, each.before, view.get_record(AFTER, text_key(proposal.id, number)))
    if removed > limit:
        raise Refused("too_many_deletions", limit=limit)


def propose(tx: Transaction, view: Snapshot, changes: Sequence[Change], guard: Guard, *, at_us: int) -> list[Recorded]:
    """Record changes as a proposal by the actor of the guard. Return the ids under which its actor sees them.

    `view` is the store with the proposals of the actor. Raises `Refused` if too many wait, and then records nothing.
    """
    waiting, settings, actor = pending(view), guard.settings, guard.actor
    own = sum(each.actor == actor for each in waiting)
    limit, limit_each = settings.max_proposals, settings.max_proposals_each
    if limit_each and own >= limit_each:
        raise Refused("too_many_own_proposals", present=own, limit=limit_each)
    if limit and len(waiting) >= limit:
        raise Refused("too_many_proposals", present=len(waiting), limit=limit)
    _check_deletions(view, waiting, changes, guard)
    proposal_id, at, after = sortable_id("prop_", at_us), to_datetime(at_us), Pending(view)
    proposed: list[ProposedChange] = []
    records: list[tuple[str, str, str]] = []
    for number, change in enumerate(changes):
        key, before, digest, size = text_key(proposal_id, number), change.before, None, None
        operation: ProposedOperation = "modified"
        if change.data is not None:
            digest, size = sha256(change.data).hexdigest(), len(change.data)
            records.append((AFTER, key, change.data.decode()))
            if before is not None:
                records.append((BEFORE, key, decoded(after.get(before.path).data)))
        match change:
            case Created(again=again):
                operation = "created"
                new = again or Again(sortable_id("mem_", at_us), at)
                memory_id, born = new.id, new.created_at
            case Deleted(memory) | Moved(memory) | Updated(memory):
                operation = "deleted" if change.path is None else "renamed" if digest is None else "modified"
                is_new = memory.id.startswith(NEW)
                memory_id = proposed[int(memory.id.removeprefix(NEW))].memory_id if is_new else memory.id
                born = at if is_new else memory.created_at
            case Imported():
                raise PermissionDenied("an actor under review cannot import versions")
        path, base = (None, None) if before is None else (before.path, before.sha256)
        made = change.path, size, digest, base, born, change.provenance_text
        proposed.append(ProposedChange(operation, memory_id, path, *made))
        after.add([change])
    next_number = waiting[-1].number + 1 if waiting else 1
    proposal = Proposal(proposal_id, actor, at, tuple(proposed), next_number, guard.identities)
    for record in (proposal_record(proposal), *records):
        tx.put_record(*record)
    record_event(tx, "proposed", actor, [proposal_id])
    return [Recorded(change.memory_id, text_key(proposal_id, number)) for number, change in enumerate(proposed)]
