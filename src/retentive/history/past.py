"""A memory store as it was at an earlier moment, to be looked at like the present one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property

from retentive.errors import InvalidInput
from retentive.history.sweep import HISTORY, PRUNED
from retentive.storage.contract import Entry, Memory, Snapshot, Usage, Version
from retentive.values.paths import ROOT, ancestors
from retentive.values.records import to_us

OUR_ID = re.compile(r"memver_[0-9a-f]{32}")
_PAGE = 500
_NOTHING: Mapping[str, datetime] = {}


def moment(found: Snapshot, at: datetime | str) -> str:
    """What ids of versions are to be below for a moment: after a version (by its id), or at a time.

    Raises `NotFound` for a version that is not there, `InvalidInput` for a time without its zone.
    """
    if isinstance(at, str):
        return found.version(at)[0].id + "!"  # sorts right behind the id
    check_zone(at)
    newest = next(found.versions(limit=1), None)
    if newest is None or newest.created_at <= at:
        return "" if newest is None else newest.id + "!"
    if OUR_ID.fullmatch(newest.id):  # made of the time in microseconds
        return f"memver_{max(to_us(at) + 1, 0):014x}"
    return _searched(found, at)


def check_zone(at: datetime | None) -> None:
    """Raise `InvalidInput` for a time without its zone."""
    if at is not None and at.utcoffset() is None:
        raise InvalidInput("a time must say its zone, as in 2026-11-21T10:00:00+00:00")


def _searched(found: Snapshot, at: datetime) -> str:
    before = None
    while page := list(found.versions(before=before, limit=_PAGE)):
        for version in page:
            if version.created_at <= at:
                return version.id + "!"
        before = page[-1].id
    return ""


def check_kept(found: Snapshot, at: datetime | str) -> None:
    """Raise `InvalidInput` if versions that were there at a moment are kept no longer."""
    pruned = found.get_record(HISTORY, PRUNED)
    time = found.version(at)[0].created_at if isinstance(at, str) else at
    if pruned is not None and to_us(time) < int(pruned):
        raise InvalidInput("versions of that time are kept no longer (keep_versions_days), so nobody knows what was")


class PastSnapshot(Snapshot):
    """The store when all versions with an id below `before` were there, and no others."""

    def __init__(self, now: Snapshot, before: str) -> None:
        self._now = now
        self._before = before

    @property
    def revision(self) -> int:
        newest = next(self.versions(limit=1), None)
        return 0 if newest is None else newest.revision

    @property
    def seal(self) -> str | None:
        return self._now.seal

    @property
    def settings(self) -> str | None:
        return self._now.settings

    @cached_property
    def _by_path(self) -> dict[str, Version]:
        heads = sorted(self._now.as_of(self._before), key=lambda version: version.path)
        return {version.path: version for version in heads if version.path}

    def get(self, path: str) -> Entry:
        version = self._same_memory(path) or self._by_path.get(path)
        if version is not None:
            memory, data = self._memory(version), self._now.text(version.id)
            return Entry(memory, data)
        above = next((one for one in ancestors(path) if one in self._by_path), None)
        return Entry(above=above, below=any(True for _ in self._below(path)))

    def _same_memory(self, path: str) -> Version | None:
        """What was at a path, if it is the memory that is there now: found without looking at all others."""
        present = self._now.get(path).memory
        if present is None:
            return None
        was = next(self._now.versions(memory_id=present.id, before=self._before, limit=1), None)
        return was if was is not None and was.path == path and was.operation != "deleted" else None

    def memories(self, under: str) -> Iterator[Memory]:
        return (self._memory(version, self._living) for version in self._below(under))

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return ((version.path, version.size_bytes or 0) for version in self._below(under))

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        return (
            (self._memory(version, self._living), self._now.text(version.id) or b"") for version in self._below(under)
        )

    def _below(self, under: str) -> Iterable[Version]:
        return (version for path, version in self._by_path.items() if path.startswith(under + "/"))

    @cached_property
    def _living(self) -> dict[str, datetime]:
        """When what is there now was made, of all in one reading."""
        return {memory.id: memory.created_at for memory in self._now.memories(ROOT)}

    def _memory(self, version: Version, living: Mapping[str, datetime] = _NOTHING) -> Memory:
        return Memory(
            version.memory_id,
            version.path,
            version.size_bytes or 0,
            version.sha256 or "",
            version.id,
            living.get(version.memory_id) or self._born(version.memory_id),
            version.created_at,
        )

    def _born(self, memory_id: str) -> datetime:
        """When a memory was made: what is there knows it, of others their oldest version."""
        present = self._now.find(memory_id)
        if present is not None:
            return present.created_at
        *_, oldest = self._now.versions(memory_id=memory_id, before=self._before)
        return oldest.created_at

    def find(self, memory_id: str) -> Memory | None:
        version = next(self.versions(memory_id=memory_id, limit=1), None)
        return None if version is None or version.operation == "deleted" else self._memory(version)

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
        bound = self._before if before is None else min(before, self._before)
        return self._now.versions(
            memory_id=memory_id, path=path, revision_of=revision_of, after=after, before=bound, limit=limit
        )

    def as_of(self, before: str) -> Iterator[Version]:
        return self._now.as_of(min(before, self._before))

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        return self._now.version(version_id)

    def usage(self) -> Usage:
        return Usage(len(self._by_path), sum(version.size_bytes or 0 for version in self._by_path.values()))

    def get_record(self, kind: str, key: str) -> str | None:
        return self._now.get_record(kind, key)

    def records(self, kind: str) -> Iterator[tuple[str, str]]:
        return self._now.records(kind)
