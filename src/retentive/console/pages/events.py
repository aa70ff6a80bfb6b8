"""Stream of changes for the live pages of a store."""

from __future__ import annotations

import re

from retentive.console.pages.history import asked_filter, revision_of
from retentive.console.rows import WantedRows
from retentive.console.visits import LiveChanges, PageAnswer, Visit
from retentive.engine.operation import AuditOnly
from retentive.server.errors import invalid
from retentive.store import core_of

_REVISION = re.compile(r"[0-9]{1,18}")


def live_changes(visit: Visit) -> PageAnswer:
    """Stream the changes that pass the filter of a page.

    The stream starts after the revision that the page shows. If the page connects again, the stream starts after the
    last revision that the page received.
    """
    given = visit.last_event_id or visit.query.get("after", "")
    if given and not _REVISION.fullmatch(given):
        raise invalid("after: must be the number of a revision")
    path, only = asked_filter(visit)
    wants_rows = visit.query.get("rows", "") != "no"
    wanted = WantedRows(only, path, rows=wants_rows, waiting=visit.can("review"))
    core_of(visit.store).found(AuditOnly("events"))
    after = int(given) if given else revision_of(visit.store)
    return LiveChanges(visit.store, wanted, after, bool(visit.last_event_id))
