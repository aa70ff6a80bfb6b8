"""Contents of a memory store except its versions. Also creates copies of memory stores, and checks them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self, TypeAlias

from retentive.errors import Damaged, InvalidInput
from retentive.storage import capabilities
from retentive.storage.contract import DEFAULT_WORKSPACE, Backend, Memory, Snapshot, StoreInfo, Transaction, Usage
from retentive.transfer.versions import MARK, UNTIL, missing_deletion
from retentive.values.paths import ROOT

RECORD_KINDS: tuple[str, ...] = (
    "audit", "audit.head", "clock", "confirmed", "erasing", "history",
    "idempotency", "place", "proposal", "proposal.after", "proposal.before", "removal", "reviewed",
    "store.event", "store.head", "swept", "tombstone", "transcript", "transcript.part",
)  # fmt: skip
"""Kinds of records that are copied with a memory store. Add every new kind of `Transaction.put_record` here."""
SIDE_RECORD_KINDS: tuple[str, ...] = ("accessed",)
"""Kinds of side records that are copied with a memory store. Add every new kind here."""
Record: TypeAlias = tuple[str, str, str]
"""Kind, key and value of a record."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents to copy from a memory store, except its versions.

    `memories` maps ids to the current memories. `records` maps the kind and key of each record to its value. `seal` is
    set only if an encrypted memory store is copied in encrypted form; otherwise it is None.
    """

    memories: Mapping[str, Memory]
    settings: str | None
    records: Mapping[tuple[str, str], str]
    seal: str | None
    properties: str | None = None

    @classmethod
    def of(cls, snapshot: Snapshot, *, raw: bool) -> Self:
        """Return the contents of a snapshot. With `raw`, they include the seal."""
        seal = snapshot.state.seal if raw else None
        return cls(_memories(snapshot), snapshot.state.settings, _records(snapshot), seal, snapshot.state.properties)

    def usage(self) -> Usage:
        """Return the number and the total size of the memories."""
        return Usage(len(self.memories), sum(memory.size_bytes for memory in self.memories.values()))

    def complete(self, target: Backend, store_id: str, side_records: Iterable[Record]) -> str:
        """Complete a copy that already has all versions: write settings, properties, seal and records.

        Returns a digest of the paths and hashes of the memories in the copy. Raises `Damaged` if these memories differ
        from `self.memories`.
        """
        target.write(store_id, self._apply)
        _replace_side_records(side_records, target, store_id)
        return target.read(store_id, self._check)

    def _apply(self, tx: Transaction) -> None:
        """Write settings, properties, seal and records. Remove memories that the source no longer has.

        The copy can have such a memory if the source pruned all its versions, and with them the one that deleted it.
        """
        extra = [memory for memory, _ in tx.list(ROOT) if memory.id not in self.memories]
        newest = max(newest_version(tx) or "", tx.get_record(MARK, UNTIL) or "")
        for number, memory in enumerate(extra):
            latest = next(tx.versions(limit=1))
            tx.record([missing_deletion(memory, f"{newest}~{number:06d}", latest)], None)
            tx.prune([version.id for version in tx.versions(memory_id=memory.id)])
        if tx.state.settings != self.settings:
            tx.set_metadata(settings=self.settings)
        if tx.state.properties != self.properties:
            tx.set_metadata(properties=self.properties)
        if self.seal is not None and tx.state.seal != self.seal:
            tx.set_metadata(seal=self.seal)
        present = _records(tx)
        for kind, key in present.keys() | self.records.keys():
            value = self.records.get((kind, key))
            if present.get((kind, key)) != value:
                tx.put_record(kind, key, value)

    def _check(self, snapshot: Snapshot) -> str:
        found = _memories(snapshot)
        for memory_id, memory in self.memories.items():
            copied = found.get(memory_id)
            if copied is None or replace(copied, seal=memory.seal, provenance_text=memory.provenance_text) != memory:
                raise Damaged(f"the copy of {memory.path} differs from the original")
        if len(found) != len(self.memories) or snapshot.state.usage != self.usage():
            raise Damaged("the number or total size of memories in the copy differs from the original")
        return digest_of(sorted(found.values(), key=lambda memory: memory.path))


def digest_of(memories: Iterable[Memory]) -> str:
    """Return a digest of the paths and hashes of memories. The memories must be sorted by path."""
    digest = hashlib.sha256()
    for memory in memories:
        digest.update(f"{memory.sha256} {memory.path}\n".encode())
    return digest.hexdigest()


def create_copy(
    target: Backend,
    store_id: str,
    *,
    key: str | None,
    name: str,
    created_at: datetime,
    seal: str | None,
    workspace: str = DEFAULT_WORKSPACE,
) -> None:
    """Create the memory store for a copy, unless it exists already.

    `seal` is given if an encrypted memory store is copied in encrypted form. Raises `InvalidInput` if another memory
    store uses the id or the key.
    """
    created = target.create_store(
        key=key, name=name, seal=seal, store_id=store_id, created_at=created_at, workspace=workspace
    )
    check_same(created, store_id, key)
    if seal is None:
        capabilities.unlock(target, created)


def check_same(info: StoreInfo, store_id: str, key: str | None) -> None:
    """Raise `InvalidInput` if a store of the target cannot be a copy of the store with this id and key."""
    if info.erased_at is not None:
        raise InvalidInput(f"the memory store {store_id} was erased in the target, and its id cannot be used again")
    if info.id != store_id:
        raise InvalidInput(f"a different memory store in the target already uses the key {key!r}")
    if info.key != key:
        raise InvalidInput(f"the memory store {store_id} exists in the target with another key, {info.key!r}")


def newest_version(snapshot: Snapshot) -> str | None:
    """Return the id of the newest version, or None if there are no versions."""
    return next((version.id for version in snapshot.versions(limit=1)), None)


def read_records(snapshot: Snapshot) -> Iterator[Record]:
    """Yield the records that a copy of the memory store includes."""
    return ((kind, key, value) for kind in RECORD_KINDS for key, value in snapshot.records(kind))


def read_side_records(backend: Backend, store_id: str) -> Iterator[Record]:
    """Yield the side records that a copy of the memory store includes."""
    return ((kind, key, value) for kind in SIDE_RECORD_KINDS for key, value in backend.side_records(store_id, kind))


def _replace_side_records(values: Iterable[Record], target: Backend, store_id: str) -> None:
    wanted: dict[str, dict[str, str | None]] = {kind: {} for kind in SIDE_RECORD_KINDS}
    for kind, key, value in values:
        wanted.setdefault(kind, {})[key] = value
    for kind, by_key in wanted.items():
        present = dict(target.side_records(store_id, kind))
        changed = {key: value for key, value in by_key.items() if present.get(key) != value}
        changed |= dict.fromkeys(present.keys() - by_key.keys())
        if changed:
            target.put_side_records(store_id, kind, changed)


def _memories(snapshot: Snapshot) -> dict[str, Memory]:
    return {memory.id: memory for memory, _ in snapshot.list(ROOT)}


def _records(snapshot: Snapshot) -> dict[tuple[str, str], str]:
    return {(kind, key): value for kind, key, value in read_records(snapshot)}
