"""Snapshots of earlier states of a memory store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, Unpack

from retentive.engine.lists import HISTORY, PRUNED, memory_then
from retentive.engine.operation import ReadOperation
from retentive.errors import InvalidInput
from retentive.history.revisions import Moment, Named, moment
from retentive.storage.contract import Entry, Memory, Selection, Snapshot, State, Usage, Version
from retentive.storage.overlay import Overlay
from retentive.values.paths import ROOT, MemoryPath, ancestors
from retentive.values.records import to_us
from retentive.values.settings import Settings

R = TypeVar("R")


def past_of(found: Snapshot, at: Named, target: MemoryPath | None = None) -> Past:
    """Return a snapshot of the state right after the revision `at`. `found` is a snapshot of the current state.

    If `target` is given, `HEAD` and `~2` in the revision count only the changes of this path.

    Raises the errors of `moment`, and `InvalidInput` if necessary versions were pruned.
    """
    then = moment(found, at, target)
    check_kept(found, then)
    return Past(found, then.bound)


def check_kept(found: Snapshot, then: Moment) -> None:
    """Raise `InvalidInput` if versions of the state at `then` were pruned."""
    pruned = found.get_record(HISTORY, PRUNED)
    if pruned is not None and to_us(then.at) < int(pruned):
        raise InvalidInput("versions of that time were pruned (setting keep_versions_days); choose a later time")


def version_at(found: Snapshot, before: str, path: str) -> Version | None:
    """Return the version that was current at a path before the version id `before`, or None."""
    version = next(found.list_at(before, path.rpartition("/")[0], start=path, limit=1), None)
    return version if version is not None and version.path == path else None


class Past(Overlay):
    """Snapshot of the store as it was after the last version whose id is lower than `before`."""

    def __init__(self, inner: Snapshot, before: str) -> None:
        super().__init__(inner)
        self._before = before

    @property
    def state(self) -> State:
        newest = next(self.versions(limit=1), None)
        sizes = [memory.size_bytes for memory, _ in self.list(ROOT)]
        usage, revision = Usage(len(sizes), sum(sizes)), 0 if newest is None else newest.revision
        return self._inner.state._replace(revision=revision, usage=usage)

    def get(self, path: str) -> Entry:
        found = version_at(self._inner, self._before, path)
        if found is not None:
            return Entry(memory_then(found), self._inner.version(found.id)[1])
        above = next((one for one in ancestors(path) if version_at(self._inner, self._before, one) is not None), None)
        return Entry(above=above, below=any(True for _ in self.list(path, limit=1)))

    def find(self, memory_id: str) -> Memory | None:
        found = next(self.versions(memory_id=memory_id, limit=1), None)
        return None if found is None or found.operation == "deleted" else memory_then(found)

    def list(
        self, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        found = self._inner.list_at(self._before, under, start=start, limit=limit, one_level=one_level)
        return ((memory_then(each), self._inner.version(each.id)[1] if texts else None) for each in found)

    def list_at(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version]:
        return self._inner.list_at(min(before, self._before), under, start=start, limit=limit, one_level=one_level)

    def versions(self, **selection: Unpack[Selection]) -> Iterator[Version]:
        before = selection.get("before")
        selection["before"] = self._before if before is None else min(before, self._before)
        return self._inner.versions(**selection)


@dataclass(frozen=True, slots=True)
class AsOf(ReadOperation[R]):
    """Run the read operation `inner` on the state of the store at `at`."""

    inner: ReadOperation[R]
    at: Named

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.inner.name}.as_of"

    @property
    def for_paths(self) -> bool:  # type: ignore[override]
        return self.inner.for_paths

    def paths(self) -> tuple[MemoryPath, ...]:
        return self.inner.paths()

    def facts(self, result: Any) -> Mapping[str, object]:
        return self.inner.facts(result)

    def apply(self, snapshot: Snapshot, settings: Settings) -> R:
        """Run `inner` on the earlier state. Raises the errors of `past_of`."""
        target = next(iter(self.inner.paths()), None)
        return self.inner.apply(past_of(snapshot, self.at, target), settings)
