"""Side panel of a memory page: who viewed the memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from retentive.audit.chain import AuditEntry, entries_page
from retentive.console.visits import INTEGRATION, Visit
from retentive.storage.contract import Memory
from retentive.store import core_of

ENTRIES = 500
"""Number of newest entries of the audit log that are searched for views of the memory."""


@dataclass(frozen=True, slots=True)
class KnownReads:
    """Earlier views of a memory.

    `last` is the time of the last recorded view. It can be up to an hour too early. `may_count` is true if the store
    has an audit log and the person may see it. If `may_count` is true and the URL has `reads=1`, `views` lists the
    views of this memory among the newest `ENTRIES` entries of the audit log, newest first. Otherwise `views` is None.
    """

    last: datetime | None
    may_count: bool
    views: tuple[AuditEntry, ...] | None = None


def reads_of(visit: Visit, memory: Memory) -> KnownReads:
    """Return the views of a memory before this request."""
    core = core_of(visit.store)
    at = core.accesses.recorded(core.id, memory.id)
    last = None if at is None else datetime.fromtimestamp(at, UTC)
    may_count = visit.can("admin") and visit.store.settings().audit
    if not may_count or visit.query.get("reads") != "1":
        return KnownReads(last, may_count)
    entries = core.read(lambda snapshot: entries_page(snapshot, "", ENTRIES, newest_first=True)).items
    views = [each for each in entries if each.read is not None and each.read.memory_id == memory.id]
    own = str(visit.caller.actor), INTEGRATION
    if views and (views[0].actor, views[0].integration) == own:  # recorded for this request
        del views[0]
    return KnownReads(last, may_count, tuple(views))
