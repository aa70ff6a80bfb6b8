"""What a memory store holds at present, to be compared with what it should hold after it was copied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from retentive.errors import Damaged
from retentive.storage.contract import Backend, Memory, Snapshot, Transaction, Usage
from retentive.transfer.kinds import JOTTING_KINDS, NOTE_KINDS
from retentive.values.paths import ROOT

Notes = Mapping[tuple[str, str], str]
"""Values by kind and key."""


@dataclass(frozen=True, slots=True)
class Present:
    """The present memories of a store by their ids, and what else belongs to it."""

    memories: Mapping[str, Memory]
    settings: str | None
    notes: Notes

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """As a snapshot has it."""
        notes = {(kind, key): value for kind in NOTE_KINDS for key, value in snapshot.records(kind)}
        return cls({memory.id: memory for memory in snapshot.memories(ROOT)}, snapshot.settings, notes)

    def usage(self) -> Usage:
        """How much it is."""
        return Usage(len(self.memories), sum(memory.size_bytes for memory in self.memories.values()))

    def bring_about(self, tx: Transaction) -> None:
        """Make a store what it should be, once it has all versions."""
        gone = [memory for memory in tx.memories(ROOT) if memory.id not in self.memories]
        if gone:  # their deletion is not told
            tx.drop(gone)
        if tx.settings != self.settings:
            tx.set_metadata(settings=self.settings)
        there = {(kind, key): value for kind in NOTE_KINDS for key, value in tx.records(kind)}
        for kind, key in there.keys() | self.notes.keys():
            value = self.notes.get((kind, key))
            if there.get((kind, key)) != value:
                tx.put_record(kind, key, value)

    def check(self, snapshot: Snapshot) -> str:
        """Raise `Damaged` if a store does not hold this; the digest of all paths and hashes."""
        found = {memory.id: memory for memory in snapshot.memories(ROOT)}
        for memory_id, memory in self.memories.items():
            there = found.get(memory_id)
            if there is None or _facts(there) != _facts(memory):
                raise Damaged(f"the copy of {memory.path} is not what it was copied from")
        if len(found) != len(self.memories) or snapshot.usage() != self.usage():
            raise Damaged("the copy holds more than what it was copied from")
        return digest_of(found.values())


def copy_jottings(values: Iterable[tuple[str, str, str]], target: Backend, store_id: str) -> None:
    """Make the jottings of a store these: kinds, keys and values."""
    wanted: dict[str, dict[str, str | None]] = {kind: {} for kind in JOTTING_KINDS}
    for kind, key, value in values:
        wanted.setdefault(kind, {})[key] = value
    for kind, by_key in wanted.items():
        there = dict(target.side_records(store_id, kind))
        changed = {key: value for key, value in by_key.items() if there.get(key) != value}
        changed |= dict.fromkeys(there.keys() - by_key.keys())
        if changed:
            target.put_side_records(store_id, kind, changed)


def digest_of(memories: Iterable[Memory]) -> str:
    """One hash of all paths and the hashes of their texts."""
    digest = hashlib.sha256()
    for memory in sorted(memories, key=lambda memory: memory.path):
        digest.update(f"{memory.sha256} {memory.path}\n".encode())
    return digest.hexdigest()


def _facts(memory: Memory) -> tuple[object, ...]:
    return memory.path, memory.version_id, memory.size_bytes, memory.sha256, memory.created_at, memory.updated_at
