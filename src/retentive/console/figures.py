"""What pages show and the API has no route for: figures of stores, changes of days, last changes, and news.

Only this module of the console reads snapshots. Its reads see what the key may see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import takewhile

from retentive.audit.chain import AuditEntry, entries_page
from retentive.console.rendering import size
from retentive.engine.lists import events_of, newest_event
from retentive.engine.operation import Read
from retentive.errors import Damaged, Locked, NotFound
from retentive.history.log import LogFilter
from retentive.history.operations import Choose
from retentive.review.proposals import PROPOSAL
from retentive.storage.contract import Snapshot, StoreInfo, Version
from retentive.store import MemoryStore, core_of
from retentive.values.listing import ListPage, counted
from retentive.values.paths import ROOT
from retentive.values.records import to_us
from retentive.values.settings import Settings
from retentive.values.text import decoded

RECENT = 500
"""Number of newest versions that are searched for the last change of a directory, and for active actors."""
NEWS = 500
"""Maximum number of new versions that are counted."""
ROW_DAYS, STRIP_DAYS = 14, 60
WIDTH, HEIGHT = 10, 60
"""Width of a bar with its margin, and height of the highest bar, in units of the picture."""
_LABELS = 4
NEAR = 90
"""A store that uses at least this percentage of a limit counts as near the limit."""
_OF_PROPOSALS = frozenset({"proposed", "accepted", "refused"})


@dataclass(frozen=True, slots=True)
class StoreRow:
    """Figures of one store, changed last `at`. `full` is the used percentage of the limit that the store is closest to.

    `waiting` is the number of pending proposals. `days` has the number of changes on each of the last days, today last.
    It is empty if the key may see only some paths. If the figures cannot be read, `problem` is the code of the error.
    """

    info: StoreInfo
    at: datetime
    last: Version | None = None
    full: int = 0
    waiting: int = 0
    days: tuple[int, ...] = ()
    is_audited: bool = False
    problem: str = ""


def store_row(info: StoreInfo, opened: Callable[[StoreInfo], MemoryStore], *, is_reviewer: bool = False) -> StoreRow:
    """Read the figures of a store. If the store was erased meanwhile, or cannot be read, the row has no figures."""

    def work(snapshot: Snapshot) -> StoreRow:
        newest, settings = next(iter(snapshot.versions(limit=1)), None), core.settings_of(snapshot)
        at = info.created_at if newest is None else newest.created_at
        full = max((full for _, full in limits_of(info, settings)), default=0)
        if core.scope:
            return StoreRow(info, at, newest, full, is_audited=settings.audit)
        days = tuple(count for _, count in _days(snapshot, datetime.now(UTC).date(), ROW_DAYS))
        waiting = _proposals(snapshot) if is_reviewer else 0
        return StoreRow(info, at, newest, full, waiting, days, settings.audit)

    try:
        core = core_of(opened(info))
        return core.peek(Read("list", work))
    except (Locked, Damaged, NotFound) as error:
        return StoreRow(info, info.created_at, problem=error.code)


def limits_of(info: StoreInfo, settings: Settings) -> list[tuple[str, int]]:
    """Return for each limit of a store how much of it is used, as text and as percentage."""
    memories, most = counted(settings.max_memories, "memory"), size(settings.max_store_bytes)
    rows = [
        (f"{info.memories:,} of {memories}", info.memories, settings.max_memories),
        (f"{size(info.size_bytes)} of {most}", info.size_bytes, settings.max_store_bytes),
    ]
    return [(text, 100 * used // limit) for text, used, limit in rows if limit]


def number_waiting(store: MemoryStore) -> int:
    """Return the number of pending proposals in a memory store."""
    return core_of(store).peek(Read("review.list", _proposals))


def _proposals(snapshot: Snapshot) -> int:
    return sum(1 for _ in snapshot.records(PROPOSAL))


def _days(snapshot: Snapshot, today: date, count: int) -> list[tuple[date, int]]:
    """Return the last days (UTC), oldest first, each with its number of changes.

    Revisions are numbered without gaps, so only the newest version before each day with changes is read. If all
    versions of a change were removed, the change may be counted on a later day.
    """

    def newest_before(day: date) -> Version | None:
        bound = f"memver_{max(to_us(datetime.combine(day, time(), UTC)), 0):014x}"
        return next(snapshot.versions(before=bound, limit=1), None)

    days = [today - timedelta(days=ago) for ago in reversed(range(count))]
    counts, newest = dict.fromkeys(days, 0), newest_before(today + timedelta(days=1))
    for day in reversed(days):
        if newest is not None and newest.created_at.astimezone(UTC).date() >= day:
            earlier = newest_before(day)  # None before the first version, whose start may have been removed
            first = earlier or next(snapshot.versions(limit=1, oldest_first=True))
            counts[day] = max(newest.revision - first.revision + (earlier is None), 0)
            newest = earlier
    return list(counts.items())


@dataclass(frozen=True, slots=True)
class Chart:
    """Numbers of changes on the last days (UTC), oldest first.

    `bars` has for each day its name, number, position, height, and end (empty for today).
    """

    days: Sequence[tuple[date, int]]
    most: int
    width: int
    labels: Sequence[str]
    bars: Sequence[tuple[str, int, int, int, str]]


def chart(store: MemoryStore, count: int = STRIP_DAYS, *, is_audited: bool = False) -> Chart | None:
    """Return the chart of the last days of a store. None for a key that is limited to some paths."""
    core = core_of(store)
    if core.scope:
        return None
    today = datetime.fromtimestamp(core.clock(), UTC).date()
    operation = Read("usage", lambda snapshot: _days(snapshot, today, count))
    days = core.result_of(operation) if is_audited else core.peek(operation)
    most, step = max(found for _, found in days) or 1, count // _LABELS
    ends = [f"{day + timedelta(days=1)}T00:00:00Z" for day, _ in days[:-1]] + [""]
    bars = [
        (f"{day.day} {day:%B}", found, WIDTH * at, max(HEIGHT * found // most, 2 if found else 0), end)
        for at, ((day, found), end) in enumerate(zip(days, ends, strict=True))
    ]
    labels = [f"{day.day} {day:%b}" for day, _ in days[: step * _LABELS : step]] + ["today"]
    return Chart(days, most, WIDTH * count, labels, bars)


def recent_versions(store: MemoryStore) -> Sequence[Version]:
    """Return the `RECENT` newest versions of a store, newest first."""
    return core_of(store).peek(Read("list", lambda snapshot: list(snapshot.versions(limit=RECENT))))


def newest_of(store: MemoryStore, memory_ids: Sequence[str]) -> Mapping[str, Version]:
    """Return the newest version of each memory, by the id of the memory."""

    def work(snapshot: Snapshot) -> dict[str, Version]:
        versions = (next(snapshot.versions(memory_id=each, limit=1), None) for each in memory_ids)
        return {each.memory_id: each for each in versions if each is not None}

    return core_of(store).peek(Read("versions", work))


def paths_of(store: MemoryStore, memory_ids: Sequence[str]) -> Mapping[str, str]:
    """Return the present paths of memories, by their ids. Deleted memories are left out."""

    def work(snapshot: Snapshot) -> dict[str, str]:
        return {each: memory.path for each in memory_ids if (memory := snapshot.find(each)) is not None}

    return core_of(store).peek(Read("list", work))


def texts_of(store: MemoryStore, versions: Sequence[str], proposed: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of versions by their ids, and of proposed texts by the ids in `proposed`, which has their paths.

    All texts are read in one operation, so there is only one audit entry.
    """

    def work(snapshot: Snapshot) -> dict[str, str]:
        texts = {each: snapshot.version(each)[1] for each in versions}
        texts |= {each: snapshot.get(path).data for each, path in proposed.items()}
        return {each: "" if data is None else decoded(data) for each, data in texts.items()}

    return core_of(store).result_of(Read("show", work, facts=lambda _: {"compared": list(versions[:20])}))


def choose_some(choose: Choose, limit: int, shown: Callable[[int], slice], large: list[str]) -> Choose:
    """Return `choose`, which chooses only the part `shown` of more than `limit` memories, in the order of their paths.

    In this case, `large` gets the number of memories, and what else identifies all versions.
    """

    def chosen(snapshot: Snapshot) -> Sequence[Version]:
        versions = list(choose(snapshot))
        paths = {each.memory_id: each.path for each in versions}
        if len(paths) <= limit:
            return versions
        large[:] = [str(len(paths)), str(len(versions)), versions[0].id]
        some = set(sorted(paths, key=paths.__getitem__)[shown(len(paths))])
        return [each for each in versions if each.memory_id in some]

    return chosen


def audit_page(store: MemoryStore, before: str, limit: int) -> ListPage[AuditEntry, str]:
    """Return a page of the audit log, newest entries first."""
    return core_of(store).read(lambda snapshot: entries_page(snapshot, before, limit))


def position(store: MemoryStore) -> tuple[int, str]:
    """Return the revision of a store, and the id of its newest event."""
    return core_of(store).peek(Read("feed", lambda snapshot: (snapshot.state.revision, newest_event(snapshot))))


def news_since(store: MemoryStore, revision: int, event: str, path: str, only: LogFilter) -> tuple[int, bool]:
    """Return the number of newer versions below a path that fit a filter, and whether there was another change.

    Removals and changes of settings are such changes; proposals and decisions are not.
    """

    def work(snapshot: Snapshot) -> tuple[int, bool]:
        has_changed = any(each.type not in _OF_PROPOSALS for each in events_of(snapshot, after=event))
        if snapshot.state.revision == revision:
            return 0, has_changed
        newer = takewhile(lambda version: version.revision > revision, snapshot.versions(limit=NEWS))
        below = (each for each in newer if path in {ROOT, each.path} or each.path.startswith(f"{path}/"))
        return sum(map(only.fits, below)), has_changed

    return core_of(store).peek(Read("feed", work))
