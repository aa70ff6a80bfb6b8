"""The usage of one memory store: limits, changes a day, and the memories that are large, changed often or unused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from retentive.console.overview import fullness
from retentive.console.pages.listing import recent_changes
from retentive.console.progress import steps_of
from retentive.console.visits import Download, HtmlPage, PageAnswer, Visit
from retentive.engine.operation import Read
from retentive.history.days import changes_of_days, last_days
from retentive.stats import TOP
from retentive.stats.memory_use import USED_DAYS, memory_use
from retentive.storage.contract import Version
from retentive.store import core_of

DAYS = 30


@dataclass(frozen=True, slots=True)
class OftenChanged:
    """A memory, its newest path, and the number of its versions among those that were read."""

    memory_id: str
    path: str
    count: int


def stats(visit: Visit) -> PageAnswer:
    """Show limits, changes a day (UTC) and the use of memories; with `format=csv`, the changes a day as a file.

    For a key limited to paths, only the newest versions that it sees are counted. The file leaves out earlier days.
    The use of memories needs a pass over all of them, so the page is sent in the meantime.
    """
    days, core, store = last_days(DAYS, datetime.now(UTC).date()), core_of(visit.store), visit.store
    recent = recent_changes(store, None)
    if core.reach:
        by_day = Counter(each.created_at.astimezone(UTC).date() for each in recent.versions)
        counts, oldest = [by_day[day] for day in days], recent.oldest
    else:
        counts, oldest = core.found(Read("usage", lambda snapshot: changes_of_days(snapshot, days))), None
    if visit.query.get("format") == "csv":
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
        "often": _often(recent.versions),
        "newest": len(recent.versions),
        "is_cut": oldest is not None,
        "full": fullness(visit.info, settings),
        "using": steps_of(lambda _: memory_use(store)),
        "used_days": USED_DAYS,
    }
    return HtmlPage("stats.html", {**values, "area": "stats"}, title="Usage", is_streamed=True)


def _often(versions: Sequence[Version]) -> list[OftenChanged]:
    """The memories with the most of these versions, given newest first. One change of a memory is not often."""
    paths = {each.memory_id: each.path for each in reversed(versions)}
    found = Counter(each.memory_id for each in versions).most_common(TOP)
    return [OftenChanged(memory_id, paths[memory_id], count) for memory_id, count in found if count > 1]
