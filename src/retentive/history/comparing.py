"""Operations that compare versions, for diffs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from retentive.engine.operation import ReadOperation
from retentive.errors import InvalidInput, NotFound
from retentive.history.operations import past_of
from retentive.storage.contract import Snapshot, Version
from retentive.values.paths import MemoryPath
from retentive.values.settings import Settings
from retentive.values.text import decoded

Side: TypeAlias = tuple[Version, str] | tuple[None, None]
"""A version and its text, or that there was no memory."""
Sides: TypeAlias = tuple[Side, Side]
"""The old and the new side."""


@dataclass(frozen=True, slots=True)
class ReadTwo(ReadOperation[list[tuple[Version, str | None]]]):
    """Read two versions and their texts for a diff. Raises `NotFound`, `InvalidInput` for a redacted version."""

    name = "diff"
    old: str
    new: str

    def facts(self, result: Any) -> Mapping[str, object]:
        """Ids of the compared versions."""
        return _compared(result)

    def apply(self, snapshot: Snapshot, settings: Settings) -> list[tuple[Version, str | None]]:
        """Read both versions."""
        found = [snapshot.version(each) for each in (self.old, self.new)]
        for version, _ in found:
            if version.redacted_at is not None and version.operation != "deleted":
                raise InvalidInput(f"{version.id} was redacted: its text is gone")
        return [(version, None if data is None else decoded(data)) for version, data in found]


@dataclass(frozen=True, slots=True)
class ReadChange(ReadOperation[Sides]):
    """Read a version and the one it replaced, or the one given. Raises `NotFound`, `InvalidInput`."""

    name = "diff"
    version_id: str
    old: str | None = None

    def facts(self, result: Any) -> Mapping[str, object]:
        """Ids of the compared versions."""
        return _compared(result)

    def apply(self, snapshot: Snapshot, settings: Settings) -> Sides:
        """Read both versions."""
        old = _replaced(snapshot, self.version_id) if self.old is None else self.old
        return _side(snapshot, old), _side(snapshot, self.version_id)


@dataclass(frozen=True, slots=True)
class ReadChangesSince(ReadOperation[Sides]):
    """Read a memory and its version at a moment, by default the previous version. Raises as `ReadChange`."""

    name = "diff"
    path: MemoryPath
    since: datetime | str | None = None

    def paths(self) -> tuple[str, ...]:
        """Path of the memory."""
        return (self.path.text,)

    def facts(self, result: Any) -> Mapping[str, object]:
        """Ids of the compared versions."""
        return _compared(result)

    def apply(self, snapshot: Snapshot, settings: Settings) -> Sides:
        """Read both versions. A memory that no longer exists is shown as deleted."""
        memory = None if self.path.is_root else snapshot.get(self.path.text).memory
        past = None if self.since is None else past_of(snapshot, self.since)
        if memory is None:
            was = None if past is None or self.path.is_root else past.get(self.path.text).memory
            if was is None:
                raise NotFound(f"there is no memory at {self.path.written}")
            return _side(snapshot, was.version_id), (None, None)
        if past is None:
            return _side(snapshot, _replaced(snapshot, memory.version_id)), _side(snapshot, memory.version_id)
        then = past.find(memory.id)
        return _side(snapshot, None if then is None else then.version_id), _side(snapshot, memory.version_id)


def _compared(sides: Iterable[tuple[Version | None, str | None]]) -> Mapping[str, object]:
    return {"compared": [None if version is None else version.id for version, _ in sides]}


def _replaced(found: Snapshot, version_id: str) -> str | None:
    """Id of the previous version of the same memory; None if the version created the memory."""
    version, _ = found.version(version_id)
    before = next(found.versions(memory_id=version.memory_id, before=version.id, limit=1), None)
    if before is None and version.operation != "created":
        raise InvalidInput(f"the version that {version_id} replaced was removed by retention")
    return None if before is None else before.id


def _side(found: Snapshot, version_id: str | None) -> Side:
    if version_id is None:
        return None, None
    version, data = found.version(version_id)
    if version.operation == "deleted":
        return None, None
    if data is None or version.redacted_at is not None:
        raise InvalidInput(f"{version_id} was redacted; its text no longer exists")
    return version, decoded(data)
