"""Snapshots of earlier states of a memory store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Unpack

from retentive.engine.listings import HISTORY, PRUNED
from retentive.errors import InvalidInput
from retentive.history.revisions import Moment, Named, moment
from retentive.storage.contract import Entry, Memory, Selection, Snapshot, Usage, Version
from retentive.storage.lookup import locate
from retentive.storage.overlay import Overlay, earlier_of
from retentive.values.paths import ROOT, MemoryPath, ancestors
from retentive.values.records import to_us

_path = attrgetter("path")
_NOTHING: Mapping[str, datetime] = {}


def past_of(found: Snapshot, at: Named, target: MemoryPath | None = None) -> PastSnapshot:
    """Return a snapshot of the state right after the revision `at`. `found` is a snapshot of the current state.

    If `target` is given, `HEAD` and `~2` in the revision count only the changes of this path.

    Raises the errors of `moment`, and `InvalidInput` if necessary versions were pruned.
    """
    then = moment(found, at, target)
    check_kept(found, then)
    return PastSnapshot(found, then.bound)


def check_kept(found: Snapshot, then: Moment) -> None:
    """Raise `InvalidInput` if versions of the state at `then` were pruned."""
    pruned = found.get_record(HISTORY, PRUNED)
    if pruned is not None and to_us(then.at) < int(pruned):
        raise InvalidInput("versions of that time were pruned (setting keep_versions_days); choose a later time")


class PastSnapshot(Overlay):
    """Snapshot of the store as it was after the last version whose id is lower than `before`."""

    def __init__(self, now: Snapshot, before: str) -> None:
        super().__init__(now)
        self._before = before
        self._all: list[Version] | None = None
        """Versions of all memories in this state, in path order; None until they are read."""

    @property
    def revision(self) -> int:
        newest = next(self.versions(limit=1), None)
        return 0 if newest is None else newest.revision

    def get(self, path: str) -> Entry:
        version = self._same_memory(path) or self._at(path)
        if version is not None:
            memory, data = self._memory(version), self._inner.text(version.id)
            return Entry(memory, data)
        above = next((one for one in ancestors(path) if self._at(one) is not None), None)
        return Entry(above=above, below=any(True for _ in self._below(path, limit=1)))

    def _same_memory(self, path: str) -> Version | None:
        """Return the version that was at a path, or None if the same memory is not at this path now.

        No other memories are read.
        """
        present = locate(self._inner, path).memory
        if present is None:
            return None
        was = next(self._inner.versions(memory_id=present.id, before=self._before, limit=1), None)
        return was if was is not None and was.path == path and was.operation != "deleted" else None

    def _at(self, path: str) -> Version | None:
        found = next(self._below(path.rpartition("/")[0], path, limit=1), None)
        return found if found is not None and found.path == path else None

    def memories(self, under: str) -> Iterator[Memory]:
        return self._memories(self._below(under), under)

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return ((version.path, version.size_bytes or 0) for version in self._below(under))

    def walk(
        self, under: str, *, start: str = "", limit: int | None = None, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        found = self._below(under, start, limit=limit)
        memories = self._memories(found, under) if limit is None else map(self._memory, found)
        return ((memory, self._inner.text(memory.version_id) if texts else None) for memory in memories)

    def one_level(self, under: str, *, start: str = "", limit: int | None = None) -> Iterator[Memory]:
        return map(self._memory, self._below(under, start, limit=limit, is_level=True))

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        found = self._memories(self._below(under), under)
        return ((memory, self._inner.text(memory.version_id) or b"") for memory in found)

    def _below(
        self, under: str, start: str = "", *, limit: int | None = None, is_level: bool = False
    ) -> Iterator[Version]:
        """Return the versions below a path, in path order.

        If the backend has no query for this, read all versions once.
        """
        if self._all is None:
            found = self._inner.earlier(self._before, under, start=start, limit=limit, one_level=is_level)
            if found is not None:
                return found
            self._all = sorted((each for each in self._inner.as_of(self._before) if each.path), key=_path)
        first, last = (bisect_left(self._all, path, key=_path) for path in (f"{under}/", f"{under}0"))
        return islice(earlier_of(self._all[first:last], under, start, is_level=is_level), limit)

    def _memories(self, found: Iterator[Version], under: str) -> Iterator[Memory]:
        """Convert versions to memories.

        One read gets the creation times of all memories that still exist. Only for deleted memories, which are usually
        few, the times are read one by one.
        """
        living = {memory.id: memory.created_at for memory in self._inner.memories(under)}
        return (self._memory(version, living) for version in found)

    def _memory(self, version: Version, living: Mapping[str, datetime] = _NOTHING) -> Memory:
        return Memory.of(version, living.get(version.memory_id) or self._born(version.memory_id))

    def _born(self, memory_id: str) -> datetime:
        """Return the creation time of a memory. For a deleted memory, this is the time of its oldest version."""
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
        return self._inner.as_of(min(before, self._before))

    def earlier(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version] | None:
        return self._inner.earlier(min(before, self._before), under, start=start, limit=limit, one_level=one_level)

    def usage(self) -> Usage:
        sizes = [size for _, size in self.sizes(ROOT)]
        return Usage(len(sizes), sum(sizes))
