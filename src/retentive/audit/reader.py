"""Read API of the audit log of a memory store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from retentive.audit.chain import DETAIL, ENTRY, AuditEntry, Head, parsed
from retentive.audit.verify import Problem, Verified, verify
from retentive.engine.context import StoreContext
from retentive.storage.contract import Snapshot

__all__ = ["Audit", "AuditEntry", "Head", "Problem", "Verified"]


class Audit:
    """The audit log of one memory store. Reading it adds no entry. Raises `RetentiveError`."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context

    def entries(self, since: datetime | None = None) -> Iterator[AuditEntry]:
        """Entries since a time, oldest first. Records that cannot be parsed are skipped."""
        return (entry for _, entry in self._found(since))

    def export(self, since: datetime | None = None) -> Iterator[str]:
        """Stored entries since a time, each one line of JSON."""
        return (value for value, _ in self._found(since))

    def verify(self, *, expect: Iterable[Head | str] = ()) -> Verified:
        """Verify that every entry is present, unchanged and in order; see docs/audit.md.

        `expect` gives heads that were recorded elsewhere, as `SEQ:HASH`. Raises `InvalidInput` for a malformed head.
        """
        expected = [Head.parse(each) if isinstance(each, str) else each for each in expect]
        return self._context.read(lambda found: verify(found, self._context.id, expected))

    def _found(self, since: datetime | None) -> Iterator[tuple[str, AuditEntry]]:
        def work(found: Snapshot) -> list[tuple[str, AuditEntry]]:
            details = dict(found.records(DETAIL))
            entries = ((value, parsed(value, details.get(key))) for key, value in found.records(ENTRY))
            return [(value, entry) for value, entry in entries if entry is not None]

        return iter([each for each in self._context.read(work) if since is None or each[1].time >= since])
