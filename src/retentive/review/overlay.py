"""Snapshot of a memory store for an actor under review: the current state with the actor's own proposals applied.

Proposals take precedence over the current state. A proposed memory hides memories at, above or below its path. A
proposal also hides later changes by others to the same memory. If a proposal only renames a memory, the memory has its
current text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import NoReturn

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
    UNCHANGED,
    Actor,
    Change,
    Entry,
    Memory,
    Metadata,
    Snapshot,
    Transaction,
    Usage,
)
from retentive.storage.overlay import Overlay, walk_shown
from retentive.storage.paging import memories_by_id
from retentive.values.paths import ancestors
from retentive.values.records import Recorded
from retentive.values.text import decoded

_path = attrgetter("path")


@dataclass(frozen=True, slots=True)
class _Proposed:
    """State of a memory after the proposals are applied. If `path` is None, a proposal deletes the memory.

    `text` is the record key of the proposed text, or None if no proposal changes the text.
    """

    change: ProposedChange
    path: str | None
    version_id: str
    at: datetime
    text: str | None = None
    size_bytes: int = 0
    sha256: str = ""


class ProposedSnapshot(Overlay):
    """Snapshot with proposals applied. History, records and settings are those of the inner snapshot."""

    def __init__(self, inner: Snapshot, proposals: Iterable[Proposal]) -> None:
        super().__init__(inner)
        self._own: dict[str, _Proposed] = {}
        self._presents: dict[str, Memory | None] = {}
        for proposal in proposals:
            self._apply(proposal, 0)
        self._place()

    def get(self, path: str) -> Entry:
        if path in self._placed:
            memory, own = self._placed[path]
            return Entry(memory, self._data(memory, own))
        above = next((place for place in ancestors(path) if place in self._placed), None)
        if above is not None or path in self._above:
            return Entry(above=above, below=above is None)
        entry = self._inner.get(path)
        if entry.memory is not None:
            return Entry() if entry.memory.id in self._own else entry
        if entry.above is not None:
            return Entry() if self.get(entry.above).memory is None else entry
        return Entry(below=entry.below and any(True for _ in self.memories(path)))

    def memories(self, under: str) -> Iterator[Memory]:
        present = (memory for memory in self._inner.memories(under) if self._shows(memory))
        return iter(sorted([*present, *self._placed_below(under)], key=_path))

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return ((memory.path, memory.size_bytes) for memory in self.memories(under))

    def walk(
        self, under: str, *, start: str = "", limit: int | None = None, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        present = walk_shown(self._inner, self._shows, under, start=start, limit=limit, texts=texts)
        placed = sorted(self._placed_below(under), key=_path)
        own = (
            (memory, self._data(*self._placed[memory.path]) if texts else None)
            for memory in placed
            if memory.path >= start
        )
        return islice(merge(present, own, key=lambda found: found[0].path), limit)

    def one_level(self, under: str, *, start: str = "", limit: int | None = None) -> Iterator[Memory]:
        return Snapshot.one_level(self, under, start=start, limit=limit)

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        present = [(memory, data) for memory, data in self._inner.texts(under) if self._shows(memory)]
        own = [(memory, self._data(*self._placed[memory.path])) for memory in self._placed_below(under)]
        return iter(sorted([*present, *own], key=lambda found: found[0].path))

    def find(self, memory_id: str) -> Memory | None:
        if memory_id in self._own:
            own = self._own[memory_id]
            return None if own.path is None else self._memory(own)
        memory = self._inner.find(memory_id)
        return memory if memory is not None and self._shows(memory) else None

    def usage(self) -> Usage:
        """Return the usage with the proposals applied. It includes memories that the proposals hide."""
        present, own = self._inner.usage(), [memory for memory, _ in self._placed.values()]
        replaced = [memory for memory in self._present(self._own) if memory is not None]
        return Usage(
            present.memories + len(own) - len(replaced),
            present.size_bytes + sum(each.size_bytes for each in own) - sum(each.size_bytes for each in replaced),
        )

    def _apply(self, proposal: Proposal, start: int) -> None:
        """Apply the changes of a proposal, starting with change number `start`."""
        for number, change in enumerate(proposal.changes[start:], start):
            key, known = text_key(proposal.id, number), self._own.get(change.memory_id)
            if change.has_text:
                size, digest = change.size_bytes or 0, change.sha256 or ""
                own = _Proposed(change, change.path, key, proposal.at, key, size, digest)
            elif known is not None:
                own = replace(known, path=change.path, version_id=key, at=proposal.at)
            else:
                own = _Proposed(change, change.path, key, proposal.at)
            self._own[change.memory_id] = own
            if change.memory_id == key:  # the inner snapshot does not contain a new memory
                self._presents[key] = None

    def _place(self) -> None:
        """Index the proposed memories and the directories above them by path."""
        moved = [own.change.memory_id for own in self._own.values() if own.path is not None and own.text is None]
        list(self._present(moved))
        placed = [(self._memory(own), own) for own in self._own.values() if own.path is not None]
        self._placed = {memory.path: (memory, own) for memory, own in placed if memory is not None}
        self._above = {place for path in self._placed for place in ancestors(path)}

    def _memory(self, own: _Proposed) -> Memory | None:
        """Return the memory that results from the proposals, or None if they rename a memory that no longer exists."""
        change, path = own.change, own.path or ""
        if own.text is not None:
            version = own.version_id
            return Memory(change.memory_id, path, own.size_bytes, own.sha256, version, change.created_at, own.at, None)
        present = next(iter(self._present([change.memory_id])))
        if present is None:
            return None
        # Callers cache by version id, so the id must change whenever the current text changes.
        version = f"{own.version_id}.{present.version_id}"
        return replace(present, path=path, version_id=version, updated_at=own.at, seal=None)

    def _data(self, memory: Memory, own: _Proposed) -> bytes:
        if own.text is not None:
            return text_of(self._inner, AFTER, own.text, own.sha256).encode()
        present = next(iter(self._present([memory.id])))
        return b"" if present is None else self._inner.get(present.path).data or b""

    def _present(self, memory_ids: Iterable[str]) -> Iterator[Memory | None]:
        """Return, for each id, the memory in the inner snapshot, or None if it does not exist."""
        wanted = list(memory_ids)
        unknown = {each for each in wanted if each not in self._presents}
        self._presents |= {**dict.fromkeys(unknown), **memories_by_id(self._inner, unknown)}
        return (self._presents[each] for each in wanted)

    def _shows(self, memory: Memory) -> bool:
        """Return True if no proposal changes or hides `memory`, a memory of the inner snapshot."""
        if memory.id in self._own or memory.path in self._placed or memory.path in self._above:
            return False
        return not any(place in self._placed for place in ancestors(memory.path))

    def _placed_below(self, under: str) -> list[Memory]:
        start = under + "/"
        return [memory for path, (memory, _) in self._placed.items() if path.startswith(start)]


class ProposedTransaction(ProposedSnapshot, Transaction):
    """Transaction that stores its changes as one proposal instead of applying them.

    `limits` has two maximum numbers of pending proposals: one for all actors together, and one for the actor `who`.
    """

    def __init__(
        self, tx: Transaction, who: Actor | None, *, proposal_id: str, at: datetime, limits: tuple[int, int]
    ) -> None:
        self._tx = tx
        self._all = pending(tx)
        super().__init__(tx, (each for each in self._all if each.actor == who))
        number = self._all[-1].number + 1 if self._all else 1
        self._proposal = Proposal(proposal_id, who, at, (), number)
        self._limits = limits

    @property
    def recorded(self) -> bool:
        """True if this transaction stored a proposal."""
        return bool(self._proposal.changes)

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        if not changes:
            return []
        if not self.recorded:
            self._check_limits()
        start = len(self._proposal.changes)
        proposed = [self._change(change, number) for number, change in enumerate(changes, start)]
        self._proposal = replace(self._proposal, changes=(*self._proposal.changes, *proposed))
        self._tx.put_record(*proposal_record(self._proposal))
        self._apply(self._proposal, start)
        self._place()
        key = partial(text_key, self._proposal.id)
        return [Recorded(change.memory_id, key(number)) for number, change in enumerate(proposed, start)]

    def _check_limits(self) -> None:
        """Raise `Refused` if there are too many pending proposals of this actor, or of all actors."""
        limit, limit_each = self._limits
        own = sum(each.actor == self._proposal.actor for each in self._all)
        if limit_each and own >= limit_each:
            raise Refused("too_many_own_proposals", present=own, limit=limit_each)
        if limit and len(self._all) >= limit:
            raise Refused("too_many_proposals", present=len(self._all), limit=limit)

    def _change(self, change: Change, number: int) -> ProposedChange:
        """Convert a change to a proposed change, and store its texts."""
        if change.origin is not None:
            raise PermissionDenied("an actor under review cannot import versions")
        key, before = text_key(self._proposal.id, number), change.before
        if change.data is not None:
            self._tx.put_record(AFTER, key, change.data.decode())
        digest = None if change.data is None else hashlib.sha256(change.data).hexdigest()
        if before is None:
            memory_id = key if change.again is None else change.again.id
            born = self._proposal.at if change.again is None else change.again.created_at
            new = change.path, change.size_bytes, digest, None, born, change.provenance_text
            return ProposedChange("created", memory_id, None, *new)
        if digest is not None:
            self._tx.put_record(BEFORE, key, decoded(self.get(before.path).data))
        operation: ProposedOperation = "deleted" if change.path is None else "renamed" if digest is None else "modified"
        made = change.path, change.size_bytes, digest, before.sha256, before.created_at, change.provenance_text
        return ProposedChange(operation, before.id, before.path, *made)

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self._tx.put_record(kind, key, value)

    def set_metadata(
        self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED, properties: Metadata = UNCHANGED
    ) -> None:
        self._deny()

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self._deny()

    def prune(self, version_ids: Sequence[str]) -> None:
        self._deny()

    def _deny(self) -> NoReturn:
        raise PermissionDenied("an actor under review cannot change settings or history")
