"""Reads and review of a memory, for the side of its page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from retentive.audit.chain import AuditEntry, newest_entries
from retentive.console.visits import INTEGRATION, Visit
from retentive.engine.operation import Read
from retentive.review.proposals import Decision, decision_of_change
from retentive.storage.contract import Memory, Version
from retentive.store import core_of

ENTRIES = 500
"""Number of newest entries of the audit log in which views are counted."""


@dataclass(frozen=True, slots=True)
class KnownReads:
    """Who reviewed the shown version, and the views of the memory before this one.

    `last` is exact to the hour. `views` are the entries of the audit log about views of the memory, newest first, among
    the newest `ENTRIES`. They are None unless the person may see the log (`may_count`) and asked with `reads=1`.
    """

    decision: Decision | None
    last: datetime | None
    may_count: bool
    views: tuple[AuditEntry, ...] | None = None


def state_of_reads(visit: Visit) -> str:
    """State of the views of the memory in the URL, on which a page that the browser keeps depends too."""
    core = core_of(visit.store)
    memory = core.peek(Read("load", lambda snapshot: snapshot.get(visit.memory_path).memory))
    return "" if memory is None else str(core.accesses.recorded(core.id, memory.id))


def reads_of(visit: Visit, memory: Memory, version: Version | None) -> KnownReads:
    """Read who reviewed a version of a memory, and who viewed the memory."""
    core, decision = core_of(visit.store), None
    if version is not None:
        revision = version.revision
        decision = core.peek(Read("versions", lambda snapshot: decision_of_change(snapshot, revision)))
    at = core.accesses.recorded(core.id, memory.id)
    last = None if at is None else datetime.fromtimestamp(at, UTC)
    may_count = visit.can("admin") and visit.store.settings().audit
    if not may_count or visit.query.get("reads") != "1":
        return KnownReads(decision, last, may_count)
    entries = core.read(lambda snapshot: newest_entries(snapshot, "", ENTRIES)).items
    views = [each for each in entries if each.read is not None and each.read.memory_id == memory.id]
    own = str(visit.caller.actor), INTEGRATION
    if views and (views[0].actor, views[0].integration) == own:  # the view of this page
        del views[0]
    return KnownReads(decision, last, may_count, tuple(views))
