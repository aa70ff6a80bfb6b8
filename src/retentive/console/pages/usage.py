"""Usage page of a memory store: limits, changes per day, and the largest, most often changed and unused memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice

from retentive.console.overview import fullness
from retentive.console.pages.listing import RecentChanges, recent_changes
from retentive.console.progress import steps_of
from retentive.console.strips import changes_of_days, last_days
from retentive.console.visits import Download, HtmlPage, PageAnswer, Visit
from retentive.engine.operation import AuditOnly, Read
from retentive.stats import TOP, USED_DAYS, memory_use
from retentive.storage.contract import Snapshot, Version
from retentive.store import MemoryStore, core_of

DAYS = 30


@dataclass(frozen=True, slots=True)
class OftenChanged:
    """Memory that was changed more than once, with its current path.

    `count` is the number of its versions among the versions that were read.
    """

    memory_id: str
    path: str
    count: int


@dataclass(frozen=True, slots=True)
class DayRow:
    """Number of changes on one day (UTC)."""

    day: date
    changes: int


def stats(visit: Visit) -> PageAnswer:
    """Show the limits, the use of memories, and the changes on each of the last days (UTC).

    With `format=csv`, the changes per day are sent as a file. For a key that is limited to some paths, only the newest
    versions that it may see are counted. The file then leaves out the days before these versions.

    All memories must be read to compute their use, so the first part of the page is sent before they are read.
    """
    core, store = core_of(visit.store), visit.store
    recent = recent_changes(store, None)
    rows, oldest = _days(visit, recent)
    if visit.query.get("format") == "csv":
        if core.scope:  # the versions were read without an audit entry
            core.result_of(AuditOnly("usage"))
        return _file(visit, rows, oldest)
    settings = store.settings()
    values = {
        "settings": settings,
        "days": rows,
        "most": max([*(row.changes for row in rows), 1]),
        "actors": Counter(str(each.actor or "") for each in recent.versions).most_common(TOP),
        "often": _often(store, recent.versions),
        "newest": len(recent.versions),
        "is_cut": oldest is not None,
        "full": fullness(visit.info, settings),
        "using": steps_of(lambda report: memory_use(store, progress=report)),
        "used_days": USED_DAYS,
    }
    return HtmlPage("stats.html", {**values, "area": "stats"}, title="Usage", is_streamed=True)


def _days(visit: Visit, recent: RecentChanges) -> tuple[list[DayRow], Version | None]:
    """Return the rows of the last days, oldest first. The second result is the oldest of the counted versions.

    The second result is None if all changes of these days are counted.
    """
    core = core_of(visit.store)
    days = last_days(DAYS, datetime.fromtimestamp(core.clock(), UTC).date())
    if core.scope:
        by_day = Counter(each.created_at.astimezone(UTC).date() for each in recent.versions)
        return [DayRow(day, by_day[day]) for day in days], recent.oldest
    counts = core.result_of(Read("usage", lambda snapshot: changes_of_days(snapshot, days)))
    return [DayRow(day, count) for day, count in zip(days, counts, strict=True)], None


def _file(visit: Visit, rows: Sequence[DayRow], oldest: Version | None) -> Download:
    """Return the changes of the days as a CSV file. Days that are not known in full are left out."""
    first = None if oldest is None else oldest.created_at.astimezone(UTC).date()
    lines = [f"{row.day},{row.changes}\n" for row in rows if first is None or row.day > first]
    return Download(f"{visit.info.id}-changes.csv", map(str.encode, ["day,changes\n", *lines]), "text/csv")


def _often(store: MemoryStore, versions: Sequence[Version]) -> list[OftenChanged]:
    """Return the existing memories that occur most often in `versions`, and more than once.

    `versions` is sorted, newest first.
    """
    newest = {each.memory_id: each for each in reversed(versions)}
    counts = Counter(each.memory_id for each in versions if newest[each.memory_id].operation != "deleted")

    def work(snapshot: Snapshot) -> list[OftenChanged]:
        found = ((snapshot.find(each), count) for each, count in counts.most_common() if count > 1)
        present = (OftenChanged(memory.id, memory.path, count) for memory, count in found if memory is not None)
        return list(islice(present, TOP))

    return core_of(store).peek(Read("list", work))
