"""Usage page of a memory store: limits, changes per day, and the largest, most often changed and unused memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date

from retentive.console.figures import Chart, days_of, fullness, paths_of, recent_versions
from retentive.console.visits import Download, HtmlPage, PageAnswer, Visit
from retentive.server.errors import forbidden
from retentive.stats import TOP, USED_DAYS, memory_use
from retentive.storage.contract import Version

DAYS = 30
COUNTED = 5_000
"""Maximum number of memories whose use is counted without being asked: all memories must be read for it."""


def stats(visit: Visit) -> PageAnswer:
    """Show the limits, the changes on each of the last days (UTC), and the use of memories.

    With `format=csv`, the changes per day are sent as a file. A key that is limited to some paths sees no days.
    """
    store, days = visit.store, days_of(visit.store, DAYS, is_audited=True)
    if visit.query.get("format") == "csv":
        return _file(visit, days)
    recent, settings = recent_versions(store), store.settings()
    is_counted = visit.query.get("use") == "1" or visit.info.memories <= COUNTED
    values = {
        "settings": settings,
        "chart": Chart(days) if days else None,
        "actors": Counter(str(each.actor or "") for each in recent).most_common(TOP),
        "often": _often(visit, recent),
        "newest": len(recent),
        "full": fullness(visit.info, settings),
        "use": memory_use(store) if is_counted else None,
        "used_days": USED_DAYS,
        "area": "stats",
    }
    return HtmlPage("stats.html", values, title="Usage")


def _file(visit: Visit, days: Sequence[tuple[date, int]]) -> Download:
    if not days:
        raise forbidden("the API key is limited to some paths, and this file counts the changes at all paths")
    lines = ["day,changes\n", *(f"{day},{count}\n" for day, count in days)]
    return Download(f"{visit.info.id}-changes.csv", map(str.encode, lines), "text/csv")


def _often(visit: Visit, versions: Sequence[Version]) -> list[tuple[str, str, int]]:
    """Return the existing memories that occur most often in `versions`, and more than once: id, path and number."""
    counts = [pair for pair in Counter(each.memory_id for each in versions).most_common(2 * TOP) if pair[1] > 1]
    paths = paths_of(visit.store, [each for each, _ in counts])
    return [(each, paths[each], count) for each, count in counts if each in paths][:TOP]
