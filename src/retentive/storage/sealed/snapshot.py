"""What a caller sees of a sealed memory store: plain records, each verified before it is given out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

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
    Snapshot,
    Transaction,
    Usage,
    Version,
)
from retentive.storage.sealed.codec import StoreKeys, Unsealed
from retentive.values.paths import ROOT

R = TypeVar("R", Memory, Version)


class SealedSnapshot(Snapshot):
    """A snapshot of the inner backend, seen through the keys of its store."""

    def __init__(self, inner: Snapshot, keys: StoreKeys) -> None:
        self._inner = inner
        self._keys = keys

    @property
    def revision(self) -> int:
        return self._inner.revision

    @property
    def seal(self) -> str | None:
        return self._inner.seal

    @property
    def settings(self) -> str | None:
        return self._keys.open_settings(self._inner.settings)

    def usage(self) -> Usage:
        return self._inner.usage()

    def get(self, path: str) -> Entry:
        hidden = self._keys.hidden(path)
        try:
            look = self._inner.get(hidden)
        except Refused as refusal:
            raise _refused(refusal, {hidden: path}) from None
        memory = look.memory
        if memory is None:
            return look if look.above is None else Entry(above=_cut(path, look.above), below=look.below)
        if memory.path != hidden:
            raise Damaged("the storage gave another memory than was asked for")
        said = self._said(memory)
        return Entry(_plain(memory, said), self._keys.open_text(look.data, said))

    def memories(self, under: str) -> Iterator[Memory]:
        found = (_plain(memory, self._said(memory)) for memory in self._inner.memories(self._keys.hidden(under)))
        return iter(sorted(found, key=lambda memory: memory.path)) if self._keys.seal_paths else found

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        # By way of the records: a path nobody vouches for must not reach a model.
        found = self._vouched(self._inner.memories(self._keys.hidden(under)))
        return iter(sorted(found)) if self._keys.seal_paths else found

    def _vouched(self, memories: Iterator[Memory]) -> Iterator[tuple[str, int]]:
        for memory in memories:
            path = self._said(memory).path
            yield memory.path if path is None else path, memory.size_bytes

    def find(self, memory_id: str) -> Memory | None:
        memory = self._inner.find(memory_id)
        return None if memory is None else _plain(memory, self._said(memory))

    def versions(
        self,
        *,
        memory_id: str | None = None,
        path: str | None = None,
        revision_of: str | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Version]:
        hidden = None if path is None else self._keys.hidden(path)
        found = self._inner.versions(
            memory_id=memory_id, path=hidden, revision_of=revision_of, after=after, before=before, limit=limit
        )
        return (_plain_version(version, self._said_of(version)) for version in found)

    def as_of(self, before: str) -> Iterator[Version]:
        return (_plain_version(version, self._said_of(version)) for version in self._inner.as_of(before))

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        found = self._opened_texts(under)
        return iter(sorted(found, key=lambda one: one[0].path)) if self._keys.seal_paths else found

    def _opened_texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        for memory, data in self._inner.texts(self._keys.hidden(under)):
            said = self._said(memory)
            yield _plain(memory, said), self._keys.open_text(data, said) or b""

    def get_record(self, kind: str, key: str) -> str | None:
        value = self._inner.get_record(kind, key)
        return None if value is None else self._keys.open_note(kind, key, value)

    def records(self, kind: str) -> Iterator[tuple[str, str]]:
        return ((key, self._keys.open_note(kind, key, value)) for key, value in self._inner.records(kind))

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        version, data = self._inner.version(version_id)
        if version.id != version_id:
            raise Damaged("the storage gave another version than was asked for")
        said = self._said_of(version)
        return _plain_version(version, said), self._keys.open_text(data, said)

    def altered(self) -> Iterator[str]:
        """The memories and versions whose seal does not open, by their ids."""
        for memory in self._inner.memories(ROOT):
            if not _opens(self._said, memory):
                yield f"memory {memory.id}"
        for version in self._inner.versions():
            if not _opens(self._said_of, version):
                yield f"version {version.id}"

    def _said(self, memory: Memory) -> Unsealed:
        said = self._keys.open_seal(memory.seal, memory.id, memory.version_id, memory.path)
        if said.text_of is None or said.size_bytes != memory.size_bytes:
            raise Damaged("a memory in a sealed memory store is not what its seal says")
        return said

    def _said_of(self, version: Version) -> Unsealed:
        if version.redacted_at is not None:
            return Unsealed()
        said = self._keys.open_seal(version.seal, version.memory_id, version.id, version.path)
        if said.size_bytes != version.size_bytes or (said.text_of is None) != (version.operation == "deleted"):
            raise Damaged("a version in a sealed memory store is not what its seal says")
        return said


class SealedTransaction(SealedSnapshot, Transaction):
    """A transaction of the inner backend, in which only sealed texts come to rest."""

    def __init__(self, inner: Transaction, keys: StoreKeys) -> None:
        super().__init__(inner, keys)
        self._writing = inner

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        sealed = [self._sealed(change) for change in changes]
        try:
            return self._writing.record(sealed, actor)
        except Refused as refusal:
            paths = {str(inner.path): str(plain.path) for inner, plain in zip(sealed, changes, strict=True)}
            raise _refused(refusal, paths) from None

    def drop(self, memories: Sequence[Memory]) -> None:
        self._writing.drop([_hidden_memory(memory, self._keys) for memory in memories])

    def set_metadata(self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED) -> None:
        if seal is not UNCHANGED:
            raise InvalidInput("the memory store is encrypted already; only its own layer changes the seal")
        self._writing.set_metadata(settings=settings if settings is UNCHANGED else self._keys.seal_settings(settings))

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self._writing.put_record(kind, key, None if value is None else self._keys.seal_note(kind, key, value))

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self._writing.redact(version_ids, actor)

    def prune(self, version_ids: Sequence[str]) -> None:
        self._writing.prune(version_ids)

    def _sealed(self, change: Change) -> Change:
        if change.sealing is not None:
            raise InvalidInput("the memory store is sealed already")
        before, path, data, keys = change.before, change.path, change.data, self._keys
        if change.origin is not None and change.origin.redacted_at is not None:
            return change
        inner = _hidden_memory(before, keys) if before is not None and keys.seal_paths else before
        hidden = None if path is None else keys.hidden(path)
        if data is not None and path is not None and hidden is not None:
            sealing = Sealing(len(data), _text_keeper(keys, data, path, hidden))
            return replace(change, before=inner, path=hidden, data=None, sealing=sealing)
        if path is None and before is None and change.origin is not None:
            return _sealed_end(change, change.origin, keys)
        if inner is None or before is None:
            raise InvalidInput("a new memory needs a text")
        said = Unsealed(path=before.path if keys.seal_paths else None)
        if path is not None:  # a rename: the text stays where it is
            said = keys.open_seal(inner.seal, inner.id, inner.version_id, inner.path)
            said = said._replace(path=path if keys.seal_paths else None)
        sealing = Sealing(None, _keeper(keys, said, hidden or inner.path))
        return replace(change, before=inner, path=hidden, sealing=sealing)


def _opens(opened: Callable[[R], Unsealed], record: R) -> bool:
    try:
        opened(record)
    except Damaged:
        return False
    return True


def _sealed_end(change: Change, origin: Version, keys: StoreKeys) -> Change:
    """The deletion of a memory that is not there."""
    hidden = keys.hidden(origin.path)
    said = Unsealed(path=origin.path if keys.seal_paths else None)
    return replace(change, origin=replace(origin, path=hidden), sealing=Sealing(None, _keeper(keys, said, hidden)))


def _text_keeper(keys: StoreKeys, data: bytes, path: str, hidden: str) -> Callable[[str, str], Kept]:
    """Seals a text and its version."""
    return lambda memory, version: keys.keep_text(data, memory, version, path, hidden)


def _keeper(keys: StoreKeys, said: Unsealed, hidden: str) -> Callable[[str, str], Kept]:
    """Seals a version that writes no text."""
    return lambda memory, version: Kept(None, None, keys.seal(said, memory, version, hidden))


def _hidden_memory(memory: Memory, keys: StoreKeys) -> Memory:
    """A plain record as the inner backend knows it."""
    return replace(memory, path=keys.hidden(memory.path))


def _plain(memory: Memory, said: Unsealed) -> Memory:
    return Memory(
        memory.id,
        memory.path if said.path is None else said.path,
        memory.size_bytes,
        said.sha256 or "",
        memory.version_id,
        memory.created_at,
        memory.updated_at,
        memory.seal,
    )


def _plain_version(version: Version, said: Unsealed) -> Version:
    return replace(version, sha256=said.sha256, path=version.path if said.path is None else said.path)


def _cut(path: str, hidden_above: str) -> str:
    """The real path of an ancestor: that with as many names."""
    return "/".join(path.split("/")[: hidden_above.count("/") + 1])


def _refused(refusal: Refused, real: Mapping[str, str]) -> Refused:
    """The refusal with the real path in place of a hidden one."""
    path = str(refusal.values.get("path"))
    if real.get(path, path) == path:
        return refusal
    return Refused(refusal.key, **{**refusal.values, "path": real[path]})
