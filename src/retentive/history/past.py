"""Snapshots of a memory store at an earlier moment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Unpack

from retentive.engine.listings import HISTORY, PRUNED
from retentive.errors import InvalidInput
from retentive.history.revisions import Moment, Named, moment
from retentive.storage.contract import Entry, Memory, Selection, Snapshot, Usage, Version
from retentive.storage.lookup import locate
from retentive.storage.overlay import Overlay
from retentive.values.paths import ROOT, MemoryPath, ancestors
from retentive.values.records import to_us

_NOTHING: Mapping[str, datetime] = {}


def past_of(found: Snapshot, at: Named, target: MemoryPath | None = None) -> PastSnapshot:
    """The store at a revision of `target`, based on a present snapshot.

    Raises `InvalidInput` if versions that it needs were pruned, and the errors of `moment`.
    """
    then = moment(found, at, target)
    check_kept(found, then)
    return PastSnapshot(found, then.bound)


def check_kept(found: Snapshot, then: Moment) -> None:
    """Raise `InvalidInput` if versions that a moment needs were pruned."""
    pruned = found.get_record(HISTORY, PRUNED)
    if pruned is not None and to_us(then.at) < int(pruned):
        raise InvalidInput("versions of that time were pruned (setting keep_versions_days); choose a later moment")


class PastSnapshot(Overlay):
    """The store as of the versions whose ids are lower than `before`."""

    def __init__(self, now: Snapshot, before: str) -> None:
        super().__init__(now)
        self._before = before

    @property
    def revision(self) -> int:
        newest = next(self.versions(limit=1), None)
        return 0 if newest is None else newest.revision

    @cached_property
    def _by_path(self) -> dict[str, Version]:
        heads = sorted(self._inner.as_of(self._before), key=lambda version: version.path)
        return {version.path: version for version in heads if version.path}

    def get(self, path: str) -> Entry:
        version = self._same_memory(path) or self._by_path.get(path)
        if version is not None:
            memory, data = self._memory(version), self._inner.text(version.id)
            return Entry(memory, data)
        above = next((one for one in ancestors(path) if one in self._by_path), None)
        return Entry(above=above, below=any(True for _ in self._below(path)))

    def _same_memory(self, path: str) -> Version | None:
        """The version at a path if the same memory is there now. Reads no other memories."""
        present = locate(self._inner, path).memory
        if present is None:
            return None
        was = next(self._inner.versions(memory_id=present.id, before=self._before, limit=1), None)
        return was if was is not None and was.path == path and was.operation != "deleted" else None

    def memories(self, under: str) -> Iterator[Memory]:
        return (self._memory(version, self._living) for version in self._below(under))

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return ((version.path, version.size_bytes or 0) for version in self._below(under))

    def walk(
        self, under: str, *, start: str = "", limit: int | None = None, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        living = self._living if limit is None else _NOTHING  # a few are looked up by themselves
        for version in islice(self._below(under, start), limit):
            yield self._memory(version, living), self._inner.text(version.id) if texts else None

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        return (
            (self._memory(version, self._living), self._inner.text(version.id) or b"") for version in self._below(under)
        )

    def _below(self, under: str, start: str = "") -> Iterator[Version]:
        first = bisect_left(self._paths, max(start, f"{under}/"))
        return (self._by_path[path] for path in self._paths[first : bisect_left(self._paths, f"{under}0")])

    @cached_property
    def _paths(self) -> list[str]:
        """Paths of all memories, in order."""
        return list(self._by_path)

    @cached_property
    def _living(self) -> dict[str, datetime]:
        """Creation times of all present memories, by id; read once."""
        return {memory.id: memory.created_at for memory in self._inner.memories(ROOT)}

    def _memory(self, version: Version, living: Mapping[str, datetime] = _NOTHING) -> Memory:
        return Memory.of(version, living.get(version.memory_id) or self._born(version.memory_id))

    def _born(self, memory_id: str) -> datetime:
        """Creation time of a memory: from the memory if it is present, otherwise from its oldest version."""
        present = self._inner.find(memory_id)
        if present is not None:
            return present.created_at
        *_, oldest = self._inner.versions(memory_id=memory_id, before=self._before)
        return oldest.created_at

    def find(self, memory_id: str) -> Memory | None:
        version = next(self.versions(memory_id=memory_id, limit=1), None)
        return None if version is None or version.operation == "deleted" else self._memory(version)

    def versions(self, **selection: Unpack[Selection]) -> Iterator[Version]:
        before = selection.get("before")
        selection["before"] = self._before if before is None else min(before, self._before)
        return self._inner.versions(**selection)

    def as_of(self, before: str) -> Iterator[Version]:
        return self._inner.as_of(min(before, self._before))

    def usage(self) -> Usage:
        return Usage(len(self._by_path), sum(version.size_bytes or 0 for version in self._by_path.values()))
