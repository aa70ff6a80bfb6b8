"""Present contents of a memory store: what a copy must hold once all versions are imported."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from retentive.errors import Damaged
from retentive.storage.contract import Memory, Snapshot, Transaction, Usage
from retentive.transfer.kinds import RECORD_KINDS
from retentive.values.paths import ROOT

Records = Mapping[tuple[str, str], str]
"""Values by kind and key."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The present memories of a store by id, its settings and its records."""

    memories: Mapping[str, Memory]
    settings: str | None
    records: Records

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """The contents of a snapshot."""
        memories = {memory.id: memory for memory in snapshot.memories(ROOT)}
        return cls(memories, snapshot.settings, _records(snapshot))

    def usage(self) -> Usage:
        """The number and size of the memories."""
        return Usage(len(self.memories), sum(memory.size_bytes for memory in self.memories.values()))

    def apply(self, tx: Transaction) -> None:
        """Complete a copy that has all versions: drop memories whose deletion is missing, set settings and records."""
        extra = [memory for memory in tx.memories(ROOT) if memory.id not in self.memories]
        if extra:
            tx.drop(extra)
        if tx.settings != self.settings:
            tx.set_metadata(settings=self.settings)
        present = _records(tx)
        for kind, key in present.keys() | self.records.keys():
            value = self.records.get((kind, key))
            if present.get((kind, key)) != value:
                tx.put_record(kind, key, value)

    def check(self, snapshot: Snapshot) -> str:
        """The digest of all paths and hashes. Raises `Damaged` if the memories of a copy differ from these."""
        found = {memory.id: memory for memory in snapshot.memories(ROOT)}
        for memory_id, memory in self.memories.items():
            copied = found.get(memory_id)
            if copied is None or _facts(copied) != _facts(memory):
                raise Damaged(f"the copy of {memory.path} differs from the original")
        if len(found) != len(self.memories) or snapshot.usage() != self.usage():
            raise Damaged("the copy holds memories that the original does not")
        return digest_of(found.values())


def digest_of(memories: Iterable[Memory]) -> str:
    """One hash over all paths and the hashes of their texts."""
    digest = hashlib.sha256()
    for memory in sorted(memories, key=lambda memory: memory.path):
        digest.update(f"{memory.sha256} {memory.path}\n".encode())
    return digest.hexdigest()


def _records(snapshot: Snapshot) -> Records:
    return {(kind, key): value for kind in RECORD_KINDS for key, value in snapshot.records(kind)}


def _facts(memory: Memory) -> tuple[object, ...]:
    return memory.path, memory.version_id, memory.size_bytes, memory.sha256, memory.created_at, memory.updated_at
