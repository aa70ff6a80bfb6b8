"""Snapshot and transaction of an encrypted memory store. All data is verified before it is returned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Unpack

from retentive.errors import Damaged, InvalidInput
from retentive.storage.contract import (
    Actor,
    Change,
    Created,
    Deleted,
    Entry,
    Imported,
    Kept,
    Memory,
    Metadata,
    Recorded,
    Sealing,
    Selection,
    Snapshot,
    State,
    Transaction,
    Updated,
    Version,
)
from retentive.storage.sealed.codec import StoreKeys, Unsealed


class SealedSnapshot(Snapshot):
    """Snapshot that uses the keys of a memory store to decrypt a snapshot of the inner backend.

    Its `state` has no seal, because a reader of decrypted data has no use for it.
    """

    def __init__(self, inner: Snapshot, keys: StoreKeys) -> None:
        self._inner = inner
        self._keys = keys

    @property
    def state(self) -> State:
        state, opened = self._inner.state, self._keys.open_value
        settings, properties = opened(state.settings, "settings"), opened(state.properties, "properties")
        return state._replace(settings=settings, seal=None, properties=properties)

    def get(self, path: str) -> Entry:
        entry = self._inner.get(path)
        if entry.memory is None:
            return entry
        if entry.memory.path != path:
            raise Damaged("the storage returned a memory with a path that was not requested")
        memory, unsealed = self.opened(entry.memory)
        return Entry(memory, self._keys.open_text(entry.data, unsealed))

    def find(self, memory_id: str) -> Memory | None:
        memory = self._inner.find(memory_id)
        return None if memory is None else self.opened(memory)[0]

    def list(
        self, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        found = self._inner.list(under, start=start, limit=limit, one_level=one_level, texts=texts)
        for memory, data in found:
            opened, unsealed = self.opened(memory)
            yield opened, self._keys.open_text(data, unsealed) if texts else None

    def list_at(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version]:
        found = self._inner.list_at(before, under, start=start, limit=limit, one_level=one_level)
        return (self.opened_version(version)[0] for version in found)

    def versions(self, **selection: Unpack[Selection]) -> Iterator[Version]:
        return (self.opened_version(version)[0] for version in self._inner.versions(**selection))

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        inner, data = self._inner.version(version_id)
        if inner.id != version_id:
            raise Damaged("the storage returned a version that was not requested")
        version, unsealed = self.opened_version(inner)
        return version, self._keys.open_text(data, unsealed)

    def get_record(self, kind: str, key: str) -> str | None:
        return self._keys.open_value(self._inner.get_record(kind, key), "record", kind, key)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, str]]:
        found = self._inner.records(kind, after=after, limit=limit)
        return ((key, self._keys.open_value(value, "record", kind, key) or "") for key, value in found)

    def opened(self, memory: Memory) -> tuple[Memory, Unsealed]:
        """Decrypt and verify a memory of the inner snapshot. Raises `Damaged`."""
        unsealed = self._keys.open_seal(memory.seal, memory.id, memory.version_id, memory.path)
        if unsealed.text_of is None or unsealed.size_bytes != memory.size_bytes:
            raise Damaged("a memory of an encrypted store differs from its encrypted metadata")
        return replace(memory, sha256=unsealed.sha256 or "", provenance_text=unsealed.provenance), unsealed

    def opened_version(self, version: Version) -> tuple[Version, Unsealed]:
        """Decrypt and verify a version of the inner snapshot. Raises `Damaged`."""
        if version.redacted_at is not None:
            return version, Unsealed()
        unsealed = self._keys.open_seal(version.seal, version.memory_id, version.id, version.path)
        if unsealed.size_bytes != version.size_bytes or (unsealed.text_of is None) != (version.operation == "deleted"):
            raise Damaged("a version of an encrypted store differs from its encrypted metadata")
        return replace(version, sha256=unsealed.sha256, provenance_text=unsealed.provenance), unsealed


class SealedTransaction(SealedSnapshot, Transaction):
    """Transaction that encrypts all texts, records and settings before the inner backend writes them."""

    def __init__(self, inner: Transaction, keys: StoreKeys) -> None:
        super().__init__(inner, keys)
        self._tx = inner

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        return self._tx.record([self._sealed(change) for change in changes], actor)

    def set_metadata(self, **metadata: Unpack[Metadata]) -> None:
        if "seal" in metadata:
            raise InvalidInput(
                "the memory store is already encrypted; only the encryption layer can set the encryption metadata"
            )
        if "settings" in metadata:
            self._tx.set_metadata(settings=self._keys.seal_value(metadata["settings"], "settings"))
        if "properties" in metadata:
            self._tx.set_metadata(properties=self._keys.seal_value(metadata["properties"], "properties"))

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self._tx.put_record(kind, key, self._keys.seal_value(value, "record", kind, key))

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self._tx.redact(version_ids, actor)

    def prune(self, version_ids: Sequence[str]) -> None:
        self._tx.prune(version_ids)

    def pack(self, version_ids: Sequence[str]) -> None:
        self._tx.pack(version_ids)

    def _sealed(self, change: Change) -> Change:
        """Return the change for the inner backend. What it may store is what `sealing` returns."""
        if change.sealing is not None:
            raise InvalidInput("the change is already encrypted; only the encryption layer can encrypt changes")
        if isinstance(change, Imported):
            sealing = None if change.version.redacted_at is not None else self._sealing(change, change.version.path)
            return replace(change, data=None, sealing=sealing)
        sealing = self._sealing(change, change.before.path if isinstance(change, Deleted) else change.path)
        if isinstance(change, (Created, Updated)):
            return replace(change, data=b"", provenance_text=None, sealing=sealing)
        return replace(change, provenance_text=None, sealing=sealing)

    def _sealing(self, change: Change, path: str) -> Sealing:
        """Return the function that encrypts a change. `path` is the path of its version."""
        keys, before, data = self._keys, change.before, change.data
        unsealed = Unsealed(provenance=change.provenance_text)
        if data is None and change.path is not None:  # a rename keeps the stored text
            if before is None:
                raise InvalidInput("a new memory needs a text")
            old = keys.open_seal(before.seal, before.id, before.version_id, before.path)
            unsealed = old._replace(provenance=unsealed.provenance)

        def sealing(memory_id: str, version_id: str) -> Kept:
            if data is None:
                return Kept(None, None, None, keys.seal(unsealed, memory_id, version_id, path))
            of_text = Unsealed(sha256(data).hexdigest(), len(data), version_id, unsealed.provenance)
            seal = keys.seal(of_text, memory_id, version_id, path)
            return Kept(keys.stored(version_id, data), len(data), "", seal)

        return sealing
