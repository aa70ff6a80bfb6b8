"""Operations that change the properties of a memory store, or archive it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from retentive.engine.events import record_event
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.operation import WriteOperation
from retentive.errors import ReadOnly
from retentive.storage.contract import Transaction
from retentive.values.properties import Properties, properties_of
from retentive.values.records import to_datetime


@dataclass(frozen=True, slots=True)
class ChangeProperties(WriteOperation[Properties]):
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

    def apply(self, tx: Transaction, writer: GuardedWriter) -> Properties:
        """Store the properties if they differ from the current ones. Raises `InvalidInput` and `ReadOnly`."""
        _check_writable(self.is_read_only)
        before = properties_of(tx.properties)
        after = before.changed(name=self.new_name, description=self.description, metadata=self.metadata)
        if after != before:
            after = replace(after, updated_at=to_datetime(self.now_us))
            tx.set_metadata(properties=after.to_text())
            record_event(tx, "store.updated", writer.actor)
        return after


@dataclass(frozen=True, slots=True)
class ArchiveStore(WriteOperation[Properties]):
    """Archive the store. It can still be read, and its memories can be deleted, redacted and erased."""

    name = "store.archive"
    under_review = "refuse"
    allowed_when_archived = True
    now_us: int
    is_read_only: bool = False

    def apply(self, tx: Transaction, writer: GuardedWriter) -> Properties:
        """Record the time of archiving. A store that is already archived keeps its earlier time. Raises `ReadOnly`."""
        _check_writable(self.is_read_only)
        before = properties_of(tx.properties)
        if before.archived_at is not None:
            return before
        after = replace(before, archived_at=to_datetime(self.now_us))
        tx.set_metadata(properties=after.to_text())
        record_event(tx, "store.archived", writer.actor)
        return after


def _check_writable(is_read_only: bool) -> None:
    if is_read_only:
        raise ReadOnly("the memory store was opened read-only, so its properties cannot be changed")
