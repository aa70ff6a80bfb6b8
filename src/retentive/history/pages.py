"""Pages of versions, and the feed of changes. The feed lists versions and events together, in order of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from retentive.engine.events import StoreEvent, events_of, has_lost_events, head_of
from retentive.engine.listings import HISTORY, PRUNED
from retentive.engine.operation import Read
from retentive.history.reads import LogFilter
from retentive.storage.contract import Snapshot, Version
from retentive.storage.paging import PAGE_VERSIONS
from retentive.values.pages import ListPage
from retentive.values.paths import MemoryPath
from retentive.values.records import to_us
from retentive.values.settings import Settings
from retentive.values.text import decoded

MAX_SCANNED = 5_000  # versions that one page reads; a page with few matches then ends early
_VERSION = "memver_"
_TIME_DIGITS = 14


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """Version in a page, with its text if texts were requested. A deletion or a redacted version has no text."""

    version: Version
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class VersionQuery:
    """Selection of versions to list. They must match `only`.

    If `memory_id` is set, they must belong to this memory. If `target` is set, their path must be `target` or below it.
    """

    only: LogFilter
    target: MemoryPath | None = None
    memory_id: str | None = None
    oldest_first: bool = False
    texts: bool = False

    def read(self, snapshot: Snapshot, after: str | None, most: int) -> tuple[list[Version], str | None]:
        """Examine the next `most` versions after a cursor. Return them and the next cursor, which is None at the end.

        Version ids begin with the time, so the times in `only` are used as bounds of ids.
        """
        since, until = self.only.since, self.only.until
        low = None if since is None else f"{_VERSION}{max(to_us(since), 0):014x}"
        high = None if until is None else f"{_VERSION}{max(to_us(until) + 1, 0):014x}"
        if after is not None and self.oldest_first:
            low = max(low or "", after)
        elif after is not None:
            high = after if high is None else min(high, after)
        selected = partial(snapshot.versions, memory_id=self.memory_id, oldest_first=self.oldest_first)
        found = list(selected(after=low, before=high, limit=most))
        return found, found[-1].id if found and len(found) == most else None

    def fits_path(self, version: Version) -> bool:
        """Return whether the path of a version is `target` or below it."""
        target = self.target
        return (
            target is None
            or target.is_root
            or version.path == target.text
            or version.path.startswith(target.text + "/")
        )


def version_page(
    query: VersionQuery, after: str | None, limit: int, settings_of: Callable[[Snapshot], Settings]
) -> Read[ListPage[ListedVersion, str]]:
    """Return an operation that reads a page of versions. The cursor of the next page is the id of a version."""

    def work(snapshot: Snapshot) -> ListPage[ListedVersion, str]:
        settings, only = settings_of(snapshot), replace(query.only, since=None)
        found: list[Version] = []
        last, left, size = after, MAX_SCANNED, PAGE_VERSIONS
        is_end = False
        while len(found) <= limit and left > 0 and not is_end:
            page, end = query.read(snapshot, last, min(size, left))
            found += only.chosen(filter(query.fits_path, page), settings)
            is_end, last, left, size = end is None, end or last, left - size, MAX_SCANNED
        items = tuple(ListedVersion(each, _text(snapshot, each) if query.texts else None) for each in found[:limit])
        if len(found) > limit:
            return ListPage(items, found[limit - 1].id)
        return ListPage(items, None if is_end else last)

    return Read("versions", work, query.target)


def _text(snapshot: Snapshot, version: Version) -> str | None:
    if version.operation == "deleted" or version.redacted_at is not None:
        return None
    data = snapshot.version(version.id)[1]
    return None if data is None else decoded(data, path=version.path)


@dataclass(frozen=True, slots=True)
class Feed:
    """Changes in the order in which they happened. `next` is the cursor for later changes.

    If `has_gap` is true, changes after the given cursor may be missing, because versions were pruned or old events were
    removed.
    """

    items: tuple[Version | StoreEvent, ...]
    next: str
    has_gap: bool = False


def feed(after: str, limit: int) -> Read[Feed]:
    """Return an operation that reads the changes after a cursor.

    The cursor is the id of a version or an event without its prefix.
    """

    def work(snapshot: Snapshot) -> Feed:
        versions = snapshot.versions(after=_VERSION + after, oldest_first=True, limit=limit)
        found: list[Version | StoreEvent] = [*versions, *events_of(snapshot, after=f"evt_{after}", limit=limit)]
        found = sorted(found, key=lambda each: position_of(each.id))[:limit]
        return Feed(tuple(found), position_of(found[-1].id) if found else after, _has_gap(snapshot, after))

    return Read("feed", work)


def newest_position(snapshot: Snapshot) -> str:
    """Return the cursor of the newest change. It is empty if there are no changes."""
    versions = (position_of(version.id) for version in snapshot.versions(limit=1))
    return max([*versions, position_of(head_of(snapshot).newest)])


def position_of(change_id: str) -> str:
    """Return the id of a version or an event without its prefix. The result sorts by time."""
    return change_id.partition("_")[2]


def _has_gap(snapshot: Snapshot, after: str) -> bool:
    pruned = snapshot.get_record(HISTORY, PRUNED)
    if pruned is not None and after[:_TIME_DIGITS] < f"{int(pruned):014x}":
        return True
    return has_lost_events(snapshot, f"evt_{after}")
