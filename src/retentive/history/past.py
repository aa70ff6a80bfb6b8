"""Snapshots of a memory store at an earlier moment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Unpack

from retentive.errors import InvalidInput
from retentive.history.expiry import HISTORY, PRUNED
from retentive.storage.contract import Entry, Memory, Selection, Snapshot, Usage, Version
from retentive.storage.lookup import find_version, locate
from retentive.storage.overlay import Overlay
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT, MemoryPath, ancestors
from retentive.values.records import to_us

OUR_ID = re.compile(r"memver_[0-9a-f]{32}")
_NOTHING: Mapping[str, datetime] = {}


def moment(found: Snapshot, at: datetime | str) -> str:
    """Exclusive upper bound of the version ids at a moment: a time, or the moment right after a version.

    A moment inside a change, such as the rename of a directory, is right after the whole change.

    Raises `NotFound` for an unknown version, `InvalidInput` for a time without a time zone.
    """
    if isinstance(at, str):
        return _after_change(found, find_version(found, at).id)
    check_zone(at)
    newest = next(found.versions(limit=1), None)
    if newest is None or newest.created_at <= at:
        return "" if newest is None else newest.id + "!"
    if OUR_ID.fullmatch(newest.id):  # the id encodes the time in microseconds
        before = f"memver_{max(to_us(at) + 1, 0):014x}"
        last = next((version.id for version in found.versions(before=before, limit=1)), None)
    else:
        last = next((version.id for version in all_versions(found) if version.created_at <= at), None)
    return "" if last is None else _after_change(found, last)


def _after_change(found: Snapshot, version_id: str) -> str:
    """The bound right after all versions of the change that a version belongs to."""
    newest = next((version.id for version in found.versions(revision_of=version_id)), version_id)
    return max(newest, version_id) + "!"  # sorts right after the id


def check_zone(at: datetime | None) -> None:
    """Raise `InvalidInput` for a time without a time zone."""
    if at is not None and at.utcoffset() is None:
        raise InvalidInput("a time needs a zone, as in 2026-11-21T10:00:00+00:00")


def past_of(found: Snapshot, at: datetime | str) -> PastSnapshot:
    """The store at a moment, based on a present snapshot. Raises `InvalidInput` if its versions were pruned."""
    before = moment(found, at)
    check_kept(found, at)
    return PastSnapshot(found, before)


def check_kept(found: Snapshot, at: datetime | str) -> None:
    """Raise `InvalidInput` if versions that a moment needs were pruned."""
    pruned = found.get_record(HISTORY, PRUNED)
    time = find_version(found, at).created_at if isinstance(at, str) else at
    if pruned is not None and to_us(time) < int(pruned):
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

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        return (
            (self._memory(version, self._living), self._inner.text(version.id) or b"") for version in self._below(under)
        )

    def _below(self, under: str) -> Iterable[Version]:
        return (version for path, version in self._by_path.items() if path.startswith(under + "/"))

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


def versions_of(found: Snapshot, target: MemoryPath | None, memory_id: str | None = None) -> Iterator[Version]:
    """The versions that a log of a path or memory id lists, newest first."""
    if memory_id is not None or target is None or target.is_root:
        return all_versions(found, memory_id=memory_id)
    look = locate(found, target.text)
    if look.memory is not None:
        return all_versions(found, memory_id=look.memory.id)
    below = target.text + "/"
    if not look.below:
        last = next(found.versions(path=target.text, limit=1), None)
        if last is not None:
            return all_versions(found, memory_id=last.memory_id)
    return (version for version in all_versions(found) if version.path.startswith(below))
