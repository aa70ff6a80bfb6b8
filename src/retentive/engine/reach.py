"""Access that is limited to some paths of a memory store, such as the access of a client with a limited API key.

Such access is defined by path patterns. The caller can see and change only memories whose paths match a pattern.
Listings, searches, histories and earlier states leave out all other memories. Operations on the whole store are refused
(`Operation.for_paths`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Unpack

from retentive.errors import NotFound
from retentive.storage.contract import (
    UNCHANGED,
    Actor,
    Change,
    Entry,
    Memory,
    Metadata,
    Recorded,
    Selection,
    Snapshot,
    Transaction,
    Version,
)
from retentive.storage.overlay import Overlay, earlier_shown, one_level_shown, walk_shown
from retentive.values.patterns import covers

_PAGE = 500


class ShownHistory(Overlay):
    """Snapshot of the versions for which the method `_shows` returns True."""

    def _shows(self, found: Memory | Version) -> bool:
        raise NotImplementedError

    def versions(self, **selection: Unpack[Selection]) -> Iterator[Version]:
        return islice(filter(self._shows, self._all_versions(selection)), selection.get("limit"))

    def _all_versions(self, selection: Selection) -> Iterator[Version]:
        """Yield all versions that match `selection`, without applying its limit.

        The caller applies the limit, because it counts only visible versions.
        """
        bound = "after" if selection.get("oldest_first") else "before"
        wanted = Selection(**selection)
        wanted["limit"] = _PAGE
        while page := list(self._inner.versions(**wanted)):
            yield from page
            if len(page) < _PAGE:
                return
            wanted[bound] = page[-1].id  # type: ignore[literal-required]

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        found = self._inner.version(version_id)
        if not self._shows(found[0]):
            raise NotFound(f"there is no version {version_id}")
        return found

    def text(self, version_id: str) -> bytes | None:
        return self.version(version_id)[1]

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


class ReachedSnapshot(ShownHistory):
    """Snapshot of the memories and versions whose paths match the patterns. Records and usage are not filtered."""

    def __init__(self, inner: Snapshot, paths: tuple[str, ...]) -> None:
        super().__init__(inner)
        self._paths = paths

    def _shows(self, found: Memory | Version) -> bool:
        return covers(self._paths, found.path)

    def get(self, path: str) -> Entry:
        entry = self._inner.get(path)
        below = entry.below and any(True for _ in self.memories(path))
        if covers(self._paths, path):
            return replace(entry, below=below)
        return Entry(below=below)

    def memories(self, under: str) -> Iterator[Memory]:
        return filter(self._shows, self._inner.memories(under))

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return ((path, size) for path, size in self._inner.sizes(under) if covers(self._paths, path))

    def walk(
        self, under: str, *, start: str = "", limit: int | None = None, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        return walk_shown(self._inner, self._shows, under, start=start, limit=limit, texts=texts)

    def one_level(self, under: str, *, start: str = "", limit: int | None = None) -> Iterator[Memory]:
        return one_level_shown(self._inner, self._shows, under, start=start, limit=limit)

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        return (found for found in self._inner.texts(under) if self._shows(found[0]))

    def find(self, memory_id: str) -> Memory | None:
        memory = self._inner.find(memory_id)
        return memory if memory is not None and self._shows(memory) else None

    def as_of(self, before: str) -> Iterator[Version]:
        return filter(self._shows, self._inner.as_of(before))

    def earlier(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version] | None:
        return earlier_shown(self._inner, self._shows, before, under, start=start, limit=limit, is_level=one_level)


class ReachedTransaction(ReachedSnapshot, Transaction):
    """Transaction that reads like `ReachedSnapshot`. The guarded writer refuses changes to paths that do not match."""

    def __init__(self, inner: Transaction, paths: tuple[str, ...]) -> None:
        super().__init__(inner, paths)
        self._tx = inner

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        return self._tx.record(changes, actor)

    def set_metadata(
        self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED, properties: Metadata = UNCHANGED
    ) -> None:
        self._tx.set_metadata(settings=settings, seal=seal, properties=properties)

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self._tx.put_record(kind, key, value)

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self._tx.redact(version_ids, actor)

    def prune(self, version_ids: Sequence[str]) -> None:
        self._tx.prune(version_ids)
