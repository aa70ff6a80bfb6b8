"""Pages for the activity of a store, and for the differences that versions, changes and actors made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from urllib.parse import urlencode

from retentive.console.differences import Shown, of_memory
from retentive.console.pages.news import asked_filter, news_url, time_of
from retentive.console.progress import Later
from retentive.console.strips import strip_of
from retentive.console.visits import HtmlPage, PageAnswer, Visit, not_found, tool_path
from retentive.engine.operation import Read
from retentive.errors import NotFound, RetentiveError
from retentive.history.differences import Compare, Differences
from retentive.history.log import LogFilter
from retentive.history.revisions import Revision, as_revision
from retentive.history.revisions import moment as moment_of
from retentive.history.versions import LoggedChange
from retentive.server.errors import invalid
from retentive.storage.contract import Snapshot, Version
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT
from retentive.wire.base import VERSION_ID, moment

VERSIONS = 100
FILES = 50
"""Maximum number of memories whose differences one page shows."""
SINCE = 1_000
"""Maximum number of versions that a page reads to find changes below a directory."""
LOOKED_AT = 4_000
"""Maximum number of versions that a page reads to find changes of an actor, or changes since an earlier time."""


@dataclass(frozen=True, slots=True)
class ChangeRun:
    """Consecutive changes of one actor in one session, through one integration. The newest change is first."""

    actor: str
    integration: str
    session: str
    versions: tuple[Version, ...]

    @property
    def undo(self) -> dict[str, str]:
        """Query fields for the undo page: the actor and the session, if known. All their changes are undone.

        There are no fields if the undo would read a name as a pattern, because it would then undo the changes of others
        too.
        """
        if is_pattern(self.actor) or is_pattern(self.session):
            return {}
        return {name: value for name, value in (("actor", self.actor), ("session", self.session)) if value}

    @property
    def is_session(self) -> bool:
        """True if the changes belong to a session: they were recorded with one, or their actor is a session."""
        return bool(self.session) or self.actor.startswith("session:")


@dataclass(frozen=True, slots=True)
class ShownDifferences:
    """Differences as a page shows them.

    `found` is the comparison. `files` has the differences of the memories that the page shows, and `total` is the
    number of all memories that differ. `later` has the newest versions of those memories that were changed again (see
    `_changed_later`). `older` and `newer` are the revisions of the changes before and after the shown change.
    """

    found: Differences
    files: Sequence[Shown]
    total: int
    later: Mapping[str, Version]
    older: str | None = None
    newer: str | None = None


def is_pattern(name: str) -> bool:
    """Return whether an undo or a filter reads the name of an actor or a session as a pattern."""
    return any(char in name for char in "*?")


def show_versions(visit: Visit) -> PageAnswer:
    """Show the difference between two versions."""
    old, _, new = visit.ids["pair"].partition("..")
    if not (VERSION_ID.fullmatch(old) and VERSION_ID.fullmatch(new)):
        raise not_found("memory version")
    try:
        found = visit.store.history.differences(since=old, until=new)
    except NotFound:
        raise not_found("memory version") from None
    return _page(visit, _read_before(visit, found), heading="Compare two versions")


def show_change(visit: Visit) -> PageAnswer:
    """Show the difference that one change made. The URL names the change by a revision or by the id of a version.

    The head of the page is sent before the versions of the change are read, because a change can have thousands.
    """
    core, named = core_of(visit.store), visit.ids["revision"]
    change = as_revision(named)
    operation = Compare(change=change, actor=core.actor, limit=FILES)

    def shown() -> ShownDifferences:
        return _shown(visit, core.result_of(operation), has_neighbours=True)

    if _is_known(visit.store, change):
        later = Later(shown)
    else:
        try:
            whole = shown()
        except NotFound:
            raise not_found("change") from None
        later = Later(lambda: whole)
    return _page(visit, later, heading=f"Change {named[-12:]}", change=named)


def _is_known(store: MemoryStore, change: Revision) -> bool:
    """Return whether the history has the change.

    If it does not, the comparison raises an error. The page is then not streamed, so that the answer has the status of
    the error.
    """
    try:
        return core_of(store).peek(Read("log", lambda found: moment_of(found, change, None).version is not None))
    except RetentiveError:
        return False


def show_since(visit: Visit) -> PageAnswer:
    """Show the differences between an earlier state and the current one.

    For a directory, only the newest versions of the store are read, because versions have no index by directory.
    """
    at, core = visit.query.get("at", ""), core_of(visit.store)
    path, start = core.parsed(tool_path(visit.ids.get("path", ""))).text, as_revision(moment(at))
    limit, most_read = (FILES, LOOKED_AT) if path == ROOT else (None, SINCE)
    try:
        compared = Compare(since=start, only=LogFilter(), actor=core.actor, limit=limit, most_read=most_read)
        found = core.result_of(compared)
    except NotFound:
        raise not_found("state") from None
    if path != ROOT:
        found = _below(found, path)
    return _page(visit, _read_before(visit, found), heading=f"Now, compared with {at[-40:]}")


def _below(found: Differences, path: str) -> Differences:

    def fits(other: str) -> bool:
        return other == path or other.startswith(f"{path}/")

    chosen = tuple(each for each in found.found if fits(each.path))
    changes = tuple(change for change in found.changes if any(fits(each.path) for each in change.versions))
    return replace(found, found=chosen, changes=changes)


def show_actor(visit: Visit) -> PageAnswer:
    """Show the differences that an actor made in the newest `LOOKED_AT` versions.

    The head of the first page is sent before these versions are read.
    """
    actor, until = visit.ids["actor"], visit.query.get("until", "")
    if until and not VERSION_ID.fullmatch(until):
        raise not_found("memory version")
    only = LogFilter(actor=actor, since=time_of(visit.query.get("since", "")))
    core, end = core_of(visit.store), as_revision(until) if until else None
    operation = Compare(only=only, until=end, actor=core.actor, limit=FILES, most_read=LOOKED_AT)
    if until:
        later = _read_before(visit, core.result_of(operation))
    else:
        later = Later(lambda: _shown(visit, core.result_of(operation)))
    return _page(visit, later, heading="Changes by this actor", actor=actor)


def _read_before(visit: Visit, found: Differences) -> Later[ShownDifferences]:
    shown = _shown(visit, found)
    return Later(lambda: shown)


def _shown(visit: Visit, found: Differences, *, has_neighbours: bool = False) -> ShownDifferences:
    files = [of_memory(each) for each in found.found[:FILES]]
    older, newer = _neighbours(visit, found.changes) if has_neighbours else (None, None)
    total, later = len(found.found) + found.more, _changed_later(visit, found, files)
    return ShownDifferences(found, files, total, later, older, newer)


def _page(
    visit: Visit, delayed: Later[ShownDifferences], *, heading: str, change: str = "", actor: str = ""
) -> HtmlPage:
    values = {
        "heading": heading,
        "delayed": delayed,
        "change": change,
        "actor": actor,
        "is_pattern": is_pattern(actor),
        "is_split": visit.query.get("view") != "unified",
        "query": partial(_same_page, visit),
        "area": "activity",
    }
    return HtmlPage("diff.html", values, title=heading, is_streamed=True)


def _same_page(visit: Visit, **changed: str) -> str:
    """Return the URL of the same page with other values in the query. Empty fields are left out."""
    kept = {name: visit.query[name] for name in ("at", "since", "until", "view") if visit.query.get(name)}
    given = {name: value for name, value in {**kept, **changed}.items() if value}
    return f"?{urlencode(given)}"


def _changed_later(visit: Visit, found: Differences, files: Sequence[Shown]) -> dict[str, Version]:
    """Return the newest versions of those shown memories that were changed again after the shown difference.

    The keys of the result are the ids of the new versions in the difference. If the difference has no new version of a
    memory, the key is the id of the memory.
    """
    ids = list(dict.fromkeys(each.memory_id for each in files if each.memory_id))
    last: dict[str, str] = {}
    for change in found.changes:
        for each in change.versions:
            last[each.memory_id] = max(each.id, last.get(each.memory_id, ""))

    def work(snapshot: Snapshot) -> dict[str, Version]:
        versions = (next(snapshot.versions(memory_id=each, limit=1), None) for each in ids)
        return {each.memory_id: each for each in versions if each is not None}

    newest = core_of(visit.store).peek(Read("versions", work))
    later: dict[str, Version] = {}
    for file in files:
        seen = file.new_id or last.get(file.memory_id, "")
        if seen and file.memory_id in newest and newest[file.memory_id].id > seen:
            later[file.new_id or file.memory_id] = newest[file.memory_id]
    return later


def _neighbours(visit: Visit, changes: Sequence[LoggedChange]) -> tuple[str | None, str | None]:
    """Return the revisions of the changes before and after the shown change."""
    ids = [each.id for change in changes for each in change.versions]
    if not ids:
        return None, None
    older = visit.store.history.page(after=min(ids), limit=1).items
    newer = visit.store.history.page(after=max(ids), oldest_first=True, limit=1).items
    return (
        f"r{older[0].revision}" if older else None,
        f"r{newer[0].revision}" if newer else None,
    )


def show_activity(visit: Visit) -> PageAnswer:
    """Show the changes of a store, newest first. Consecutive changes of one actor are grouped."""
    asked = {name: visit.query.get(name, "").strip() for name in ("actor", "path", "operation", "since")}
    path, only = asked_filter(visit)
    before = visit.query.get("before")
    again = "" if before else news_url(visit, **asked)
    if before and not VERSION_ID.fullmatch(before):
        raise invalid("before: must be the id of a version")
    found = visit.store.history.page(None if path == ROOT else path, only=only, after=before, limit=VERSIONS)
    runs = [ChangeRun(*names, tuple(group)) for names, group in groupby(found.items, key=_origin)]
    values = {
        "runs": runs,
        "following": found.next,
        "asked": asked,
        "area": "activity",
        "strip": None if before else strip_of(visit.store),
        "again": again,
    }
    return HtmlPage("activity.html", values, title="Activity")


def _origin(version: Version) -> tuple[str, str, str]:
    made = version.provenance
    return str(version.actor or ""), made.integration, made.session
