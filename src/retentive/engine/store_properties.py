"""Operations that change the properties of a memory store, or archive it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from retentive.engine.guard import Guard
from retentive.engine.operation import Plan, Write
from retentive.errors import ReadOnly
from retentive.storage.contract import Snapshot
from retentive.values.properties import Properties, properties_of
from retentive.values.records import to_datetime


@dataclass(frozen=True, slots=True)
class ChangeProperties(Write[Properties]):
    """Change the name, description or metadata of the store. A field that is None keeps its stored value.

    If a value in `metadata` is None, the stored entry with the same key is removed.
    """

    name = "store.update"
    under_review = "refuse"
    now_us: int
    new_name: str | None = None
    description: str | None = None
    metadata: Mapping[str, str | None] | None = None
    is_read_only: bool = False  # true if this process pinned read_only

    def decide(self, view: Snapshot, guard: Guard) -> Plan[Properties]:
        """Return the new properties, if they differ from the current ones. Raises `InvalidInput` and `ReadOnly`."""
        _check_writable(self.is_read_only)
        before = properties_of(view.state.properties)
        after = before.changed(name=self.new_name, description=self.description, metadata=self.metadata)
        if after == before:
            return Plan(after)
        after = replace(after, updated_at=to_datetime(self.now_us))
        return Plan(after, properties=after.to_text(), event=("store.updated", ()))


@dataclass(frozen=True, slots=True)
class ArchiveStore(Write[Properties]):
    """Archive the store. It can still be read, and its memories can be deleted, redacted and erased."""

    name = "store.archive"
    under_review = "refuse"
    allowed_when_archived = True
    now_us: int
    is_read_only: bool = False

    def decide(self, view: Snapshot, guard: Guard) -> Plan[Properties]:
        """Return the time of archiving. A store that is already archived keeps its earlier time. Raises `ReadOnly`."""
        _check_writable(self.is_read_only)
        before = properties_of(view.state.properties)
        if before.archived_at is not None:
            return Plan(before)
        after = replace(before, archived_at=to_datetime(self.now_us))
        return Plan(after, properties=after.to_text(), event=("store.archived", ()))


def _check_writable(is_read_only: bool) -> None:
    if is_read_only:
        raise ReadOnly("the memory store was opened read-only, so its properties cannot be changed")
