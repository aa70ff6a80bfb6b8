"""Usage page of a memory store: limits, changes per day, and the largest, most often changed and unused memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from retentive.console.overview import fullness
from retentive.console.pages.listing import recent_changes
from retentive.console.progress import steps_of
from retentive.console.visits import Download, HtmlPage, PageAnswer, Visit
from retentive.engine.operation import AuditOnly, Read
from retentive.history.days import changes_of_days, last_days
from retentive.stats import TOP
from retentive.stats.memory_use import USED_DAYS, memory_use
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


def stats(visit: Visit) -> PageAnswer:
    """Show the limits, the number of changes on each of the last days (UTC), and the use of memories.

    With `format=csv`, the changes per day are sent as a file. For a key that is limited to some paths, only the newest
    versions that it may see are counted. The file then leaves out the days before these versions.

    All memories must be read to compute their use, so the first part of the page is sent before this.
    """
    days, core, store = last_days(DAYS, datetime.now(UTC).date()), core_of(visit.store), visit.store
    recent = recent_changes(store, None)
    if core.reach:
        by_day = Counter(each.created_at.astimezone(UTC).date() for each in recent.versions)
        counts, oldest = [by_day[day] for day in days], recent.oldest
    else:
        counts, oldest = core.found(Read("usage", lambda snapshot: changes_of_days(snapshot, days))), None
    if visit.query.get("format") == "csv":
        if core.reach:  # the versions were read without an audit entry
            core.result_of(AuditOnly("usage"))
        first = None if oldest is None else oldest.created_at.astimezone(UTC).date()
        pairs = zip(days, counts, strict=True)
        lines = [f"{day},{count}\n" for day, count in pairs if first is None or day > first]
        return Download(f"{visit.info.id}-changes.csv", iter([b"day,changes\n", *map(str.encode, lines)]), "text/csv")
    most, settings = max([*counts, 1]), store.settings()
    values = {
        "settings": settings,
        "days": [
            {"at": day, "count": count, "height": 100 * count // most, "x": place}
            for place, (day, count) in enumerate(zip(days, counts, strict=True))
        ],
        "actors": Counter(str(each.actor or "") for each in recent.versions).most_common(TOP),
        "often": _often(store, recent.versions),
        "newest": len(recent.versions),
        "is_cut": oldest is not None,
        "full": fullness(visit.info, settings),
        "using": steps_of(lambda report: memory_use(store, progress=report)),
        "used_days": USED_DAYS,
    }
    return HtmlPage("stats.html", {**values, "area": "stats"}, title="Usage", is_streamed=True)


def _often(store: MemoryStore, versions: Sequence[Version]) -> list[OftenChanged]:
    """Return the existing memories with the most of these versions, and at least two. `versions` is newest first."""
    newest = {each.memory_id: each for each in reversed(versions)}
    counts = Counter(each.memory_id for each in versions if newest[each.memory_id].operation != "deleted")

    def work(snapshot: Snapshot) -> list[OftenChanged]:
        found = ((snapshot.find(each), count) for each, count in counts.most_common() if count > 1)
        present = (OftenChanged(memory.id, memory.path, count) for memory, count in found if memory is not None)
        return list(islice(present, TOP))

    return core_of(store).peek(Read("list", work))
