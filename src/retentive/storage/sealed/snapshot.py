"""Snapshot and transaction of an encrypted memory store. All data is verified before it is returned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar, Unpack

from retentive.errors import Damaged, InvalidInput, Refused
from retentive.storage.contract import (
    UNCHANGED,
    Actor,
    Change,
    Entry,
    Kept,
    Memory,
    Metadata,
    Recorded,
    Sealing,
    Selection,
    Snapshot,
    Transaction,
    Version,
)
from retentive.storage.overlay import Overlay
from retentive.storage.sealed.codec import StoreKeys, Unsealed
from retentive.values.paths import ROOT

R = TypeVar("R", Memory, Version)


class SealedSnapshot(Overlay):
    """Snapshot that uses the keys of a memory store to decrypt a snapshot of the inner backend."""

    def __init__(self, inner: Snapshot, keys: StoreKeys) -> None:
        super().__init__(inner)
        self._keys = keys

    @property
    def settings(self) -> str | None:
        return self._keys.open_metadata("settings", self._inner.settings)

    @property
    def properties(self) -> str | None:
        return self._keys.open_metadata("properties", self._inner.properties)

    def expect(self, path: str) -> None:
        self._inner.expect(self._keys.hidden(path))

    def get(self, path: str) -> Entry:
        hidden = self._keys.hidden(path)
        try:
            entry = self._inner.get(hidden)
        except Refused as refusal:
            raise _refused(refusal, {hidden: path}) from None
        memory = entry.memory
        if memory is None:
            return entry if entry.above is None else Entry(above=_cut(path, entry.above), below=entry.below)
        if memory.path != hidden:
            raise Damaged("the storage returned a memory with a path that was not requested")
        unsealed = self._unsealed(memory)
        return Entry(_plain(memory, unsealed), self._keys.open_text(entry.data, unsealed))

    def memories(self, under: str) -> Iterator[Memory]:
        found = (_plain(memory, self._unsealed(memory)) for memory in self._inner.memories(self._keys.hidden(under)))
        return iter(sorted(found, key=lambda memory: memory.path)) if self._keys.seal_paths else found

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        # Sizes are stored unencrypted. Every seal is opened anyway, because an unverified path must not reach a model.
        found = self._verified_sizes(self._inner.memories(self._keys.hidden(under)))
        return iter(sorted(found)) if self._keys.seal_paths else found

    def _verified_sizes(self, memories: Iterator[Memory]) -> Iterator[tuple[str, int]]:
        for memory in memories:
            path = self._unsealed(memory).path
            yield memory.path if path is None else path, memory.size_bytes

    def find(self, memory_id: str) -> Memory | None:
        memory = self._inner.find(memory_id)
        return None if memory is None else _plain(memory, self._unsealed(memory))

    def versions(self, **selection: Unpack[Selection]) -> Iterator[Version]:
        path = selection.get("path")
        selection["path"] = None if path is None else self._keys.hidden(path)
        found = self._inner.versions(**selection)
        return (_plain_version(version, self._unsealed_version(version)) for version in found)

    def scan(
        self,
        most: int,
        *,
        path: str | None = None,
        actor: str | None = None,
        after: str | None = None,
        before: str | None = None,
        oldest_first: bool = False,
    ) -> tuple[list[Version], str | None]:
        return Snapshot.scan(self, most, path=path, actor=actor, after=after, before=before, oldest_first=oldest_first)

    def as_of(self, before: str) -> Iterator[Version]:
        return (_plain_version(version, self._unsealed_version(version)) for version in self._inner.as_of(before))

    def earlier(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version] | None:
        if self._keys.seal_paths:
            return None
        found = self._inner.earlier(before, under, start=start, limit=limit, one_level=one_level)
        return None if found is None else (_plain_version(each, self._unsealed_version(each)) for each in found)

    def text(self, version_id: str) -> bytes | None:
        return self.version(version_id)[1]

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        found = self._opened_texts(under)
        return iter(sorted(found, key=lambda one: one[0].path)) if self._keys.seal_paths else found

    def walk(
        self, under: str, *, start: str = "", limit: int | None = None, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        if self._keys.seal_paths:  # the inner backend sorts by encrypted paths
            return Snapshot.walk(self, under, start=start, limit=limit, texts=texts)
        found = self._inner.walk(under, start=start, limit=limit, texts=texts)
        return (self._walked(memory, data, texts=texts) for memory, data in found)

    def walk_naming(
        self, under: str, names: Sequence[str] | None, *, start: str = "", limit: int
    ) -> tuple[list[Memory], str | None]:
        return Snapshot.walk_naming(self, under, names, start=start, limit=limit)  # the provenance is encrypted

    def one_level(self, under: str, *, start: str = "", limit: int | None = None) -> Iterator[Memory]:
        if self._keys.seal_paths:
            return Snapshot.one_level(self, under, start=start, limit=limit)
        found = self._inner.one_level(under, start=start, limit=limit)
        return (_plain(memory, self._unsealed(memory)) for memory in found)

    def _walked(self, memory: Memory, data: bytes | None, *, texts: bool) -> tuple[Memory, bytes | None]:
        unsealed = self._unsealed(memory)
        return _plain(memory, unsealed), self._keys.open_text(data, unsealed) if texts else None

    def _opened_texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        for memory, data in self._inner.texts(self._keys.hidden(under)):
            unsealed = self._unsealed(memory)
            yield _plain(memory, unsealed), self._keys.open_text(data, unsealed) or b""

    def get_record(self, kind: str, key: str) -> str | None:
        value = self._inner.get_record(kind, key)
        return None if value is None else self._keys.open_record(kind, key, value)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, str]]:
        found = self._inner.records(kind, after=after, limit=limit)
        return ((key, self._keys.open_record(kind, key, value)) for key, value in found)

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        version, data = self._inner.version(version_id)
        if version.id != version_id:
            raise Damaged("the storage returned a version that was not requested")
        unsealed = self._unsealed_version(version)
        return _plain_version(version, unsealed), self._keys.open_text(data, unsealed)

    def altered(self) -> Iterator[str]:
        """Yield the ids of memories and versions whose encrypted metadata cannot be decrypted."""
        for memory in self._inner.memories(ROOT):
            if not _opens(self._unsealed, memory):
                yield f"memory {memory.id}"
        for version in self._inner.versions():
            if not _opens(self._unsealed_version, version):
                yield f"version {version.id}"

    def _unsealed(self, memory: Memory) -> Unsealed:
        unsealed = self._keys.open_seal(memory.seal, memory.id, memory.version_id, memory.path)
        if unsealed.text_of is None or unsealed.size_bytes != memory.size_bytes:
            raise Damaged("a memory of an encrypted store differs from its encrypted metadata")
        return unsealed

    def _unsealed_version(self, version: Version) -> Unsealed:
        if version.redacted_at is not None:
            return Unsealed()
        unsealed = self._keys.open_seal(version.seal, version.memory_id, version.id, version.path)
        if unsealed.size_bytes != version.size_bytes or (unsealed.text_of is None) != (version.operation == "deleted"):
            raise Damaged("a version of an encrypted store differs from its encrypted metadata")
        return unsealed


class SealedTransaction(SealedSnapshot, Transaction):
    """Transaction that encrypts all texts, records and settings before the inner backend writes them."""

    def __init__(self, inner: Transaction, keys: StoreKeys) -> None:
        super().__init__(inner, keys)
        self._tx = inner

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        sealed = [self._sealed(change) for change in changes]
        try:
            return self._tx.record(sealed, actor)
        except Refused as refusal:
            paths = {str(inner.path): str(plain.path) for inner, plain in zip(sealed, changes, strict=True)}
            raise _refused(refusal, paths) from None

    def drop(self, memories: Sequence[Memory]) -> None:
        self._tx.drop([_hidden_memory(memory, self._keys) for memory in memories])

    def set_metadata(
        self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED, properties: Metadata = UNCHANGED
    ) -> None:
        if seal is not UNCHANGED:
            raise InvalidInput(
                "the memory store is already encrypted; only the encryption layer can set the encryption metadata"
            )
        self._tx.set_metadata(
            settings=settings if settings is UNCHANGED else self._keys.seal_metadata("settings", settings),
            properties=properties if properties is UNCHANGED else self._keys.seal_metadata("properties", properties),
        )

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self._tx.put_record(kind, key, None if value is None else self._keys.seal_record(kind, key, value))

    def tick(self) -> int:
        return self._tx.tick()

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self._tx.redact(version_ids, actor)

    def prune(self, version_ids: Sequence[str]) -> None:
        self._tx.prune(version_ids)

    def _sealed(self, change: Change) -> Change:
        if change.sealing is not None:
            raise InvalidInput("the change is already encrypted; only the encryption layer can encrypt changes")
        before, path, data, keys = change.before, change.path, change.data, self._keys
        if change.origin is not None and change.origin.redacted_at is not None:
            return change
        inner = _hidden_memory(before, keys) if before is not None and keys.seal_paths else before
        hidden = None if path is None else keys.hidden(path)
        if data is not None and path is not None and hidden is not None:
            named = Unsealed(path=path, provenance=change.kept_provenance)
            keep = partial(keys.keep_text, data, named=named, hidden_path=hidden)
            return replace(change, before=inner, path=hidden, data=None, sealing=Sealing(len(data), keep))
        if path is None and before is None and change.origin is not None:
            return _sealed_end(change, change.origin, keys)
        if inner is None or before is None:
            raise InvalidInput("a new memory needs a text")
        unsealed = Unsealed(path=before.path if keys.seal_paths else None, provenance=change.kept_provenance)
        if path is not None:  # a rename keeps the stored text
            unsealed = keys.open_seal(inner.seal, inner.id, inner.version_id, inner.path)
            unsealed = unsealed._replace(path=path if keys.seal_paths else None, provenance=change.kept_provenance)
        sealing = Sealing(None, _keeper(keys, unsealed, hidden or inner.path))
        return replace(change, before=inner, path=hidden, sealing=sealing)


def _opens(opened: Callable[[R], Unsealed], record: R) -> bool:
    try:
        opened(record)
    except Damaged:
        return False
    return True


def _sealed_end(change: Change, origin: Version, keys: StoreKeys) -> Change:
    """Return an imported deletion with encrypted metadata. The deleted memory is not in the store."""
    hidden = keys.hidden(origin.path)
    unsealed = Unsealed(path=origin.path if keys.seal_paths else None, provenance=origin.provenance_text)
    return replace(change, origin=replace(origin, path=hidden), sealing=Sealing(None, _keeper(keys, unsealed, hidden)))


def _keeper(keys: StoreKeys, unsealed: Unsealed, hidden: str) -> Callable[[str, str], Kept]:
    """Return a function that encrypts the metadata of a version that has no text of its own."""
    return lambda memory, version: Kept(None, None, keys.seal(unsealed, memory, version, hidden))


def _hidden_memory(memory: Memory, keys: StoreKeys) -> Memory:
    """Return the memory with the path that the inner backend uses."""
    return replace(memory, path=keys.hidden(memory.path))


def _plain(memory: Memory, unsealed: Unsealed) -> Memory:
    path = memory.path if unsealed.path is None else unsealed.path
    known = memory.version_id, memory.created_at, memory.updated_at, memory.seal, unsealed.provenance
    return Memory(memory.id, path, memory.size_bytes, unsealed.sha256 or "", *known)


def _plain_version(version: Version, unsealed: Unsealed) -> Version:
    path = version.path if unsealed.path is None else unsealed.path
    return replace(version, sha256=unsealed.sha256, path=path, provenance_text=unsealed.provenance)


def _cut(path: str, hidden_above: str) -> str:
    """Return the directory above `path` that has as many segments as `hidden_above`."""
    return "/".join(path.split("/")[: hidden_above.count("/") + 1])


def _refused(refusal: Refused, real: Mapping[str, str]) -> Refused:
    """Return the refusal with the real path instead of the path that the inner backend uses."""
    path = str(refusal.values.get("path"))
    if real.get(path, path) == path:
        return refusal
    return Refused(refusal.key, **{**refusal.values, "path": real[path]})
