"""Pages for the activity of a store, its news, and the differences that versions, changes and actors made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby

from retentive.console.differences import Shown, of_memory
from retentive.console.figures import NEWS, newest_of, news_since, number_waiting, position, strip_of
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, number, with_query
from retentive.errors import InvalidInput
from retentive.history.differences import Compare, Differences
from retentive.history.log import LogFilter, LoggedChange
from retentive.history.revisions import as_revision, parse_time
from retentive.server.errors import finding, invalid
from retentive.server.handlers.history import NO_VERSION, check_version_id
from retentive.storage.contract import Operation, Version
from retentive.store import core_of
from retentive.values.paths import ROOT
from retentive.wire.base import VERSION_ID, moment

VERSIONS = 50
FILES = 50
"""Maximum number of memories whose differences one page shows."""
SINCE = 1_000
"""Maximum number of versions that a page reads to find changes below a directory."""
LOOKED_AT = 4_000
"""Maximum number of versions that a page reads to find changes of an actor, or changes since an earlier time."""
_REVISIONS = 10**18
_ASKED = ("actor", "path", "operation", "since")


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


def is_pattern(name: str) -> bool:
    """Return whether an undo or a filter reads the name of an actor or a session as a pattern."""
    return any(char in name for char in "*?")


def compare(visit: Visit) -> PageAnswer:
    """Redirect to the difference between two selected versions."""
    old, new = sorted((visit.query.get("old", ""), visit.query.get("new", "")))
    check_version_id(old, new)
    return Redirect(visit.url("diff", f"{old}..{new}"))


def show_versions(visit: Visit) -> PageAnswer:
    """Show the difference between two versions."""
    old, _, new = visit.ids["pair"].partition("..")
    check_version_id(old, new)
    with finding(NO_VERSION):
        found = visit.store.history.differences(since=old, until=new)
    return _page(visit, found, heading="Compare two versions")


def show_change(visit: Visit) -> PageAnswer:
    """Show the difference that one change made. The URL names the change by a revision or by the id of a version."""
    core, named = core_of(visit.store), visit.ids["revision"]
    with finding("change"):
        found = core.result_of(Compare(change=as_revision(named), actor=core.actor, limit=FILES))
    revisions = {version.revision for change in found.changes for version in change.versions}
    name = f"r{min(revisions)}" if len(revisions) == 1 else named[-12:]
    older, newer = _neighbours(visit, found.changes)
    return _page(visit, found, heading=f"Change {name}", change=named, older=older, newer=newer)


def show_since(visit: Visit) -> PageAnswer:
    """Show the differences between an earlier state and the current one.

    For a directory, only the newest versions of the store are read, because versions have no index by directory.
    """
    at, core, path = visit.query.get("at", ""), core_of(visit.store), visit.memory_path
    limit, most_read = (FILES, LOOKED_AT) if path == ROOT else (None, SINCE)
    start = as_revision(moment(at))
    with finding("state"):
        compared = Compare(since=start, only=LogFilter(), actor=core.actor, limit=limit, most_read=most_read)
        found = core.result_of(compared)
    if path != ROOT:
        chosen = tuple(each for each in found.found if is_below(each.path, path))
        changes = tuple(each for each in found.changes if any(is_below(one.path, path) for one in each.versions))
        found = replace(found, found=chosen, changes=changes)
    return _page(visit, found, heading=f"Now, compared with {at[-40:]}")


def show_actor(visit: Visit) -> PageAnswer:
    """Show the differences that an actor made in the newest `LOOKED_AT` versions."""
    actor, until = visit.ids["actor"], visit.query.get("until", "")
    if until:
        check_version_id(until)
    only = LogFilter(actor=actor, since=time_of(visit.query.get("since", "")))
    core, end = core_of(visit.store), as_revision(until) if until else None
    found = core.result_of(Compare(only=only, until=end, actor=core.actor, limit=FILES, most_read=LOOKED_AT))
    return _page(visit, found, heading="Changes by this actor", actor=actor)


def _page(
    visit: Visit, found: Differences, *, heading: str, change: str = "", actor: str = "", **more: object
) -> HtmlPage:
    files = [of_memory(each) for each in found.found[:FILES]]
    kept = {name: visit.query[name] for name in ("at", "since", "until", "view") if visit.query.get(name)}
    values = {
        "heading": heading,
        "found": found,
        "files": files,
        "total": len(found.found) + found.more,
        "later": _changed_later(visit, found, files),
        "older": None,
        "newer": None,
        "change": change,
        "actor": actor,
        "is_pattern": is_pattern(actor),
        "is_split": visit.query.get("view") != "unified",
        "query": lambda **changed: with_query("", **{**kept, **changed}) or "?",
        "area": "activity",
        **more,
    }
    return HtmlPage("diff.html", values, title=heading)


def _changed_later(visit: Visit, found: Differences, files: Sequence[Shown]) -> dict[str, Version]:
    """Return the newest versions of those shown memories that were changed again after the shown difference.

    The keys of the result are the ids of the new versions in the difference. If the difference has no new version of a
    memory, the key is the id of the memory.
    """
    last: dict[str, str] = {}
    for change in found.changes:
        for each in change.versions:
            last[each.memory_id] = max(each.id, last.get(each.memory_id, ""))
    newest = newest_of(visit.store, list(dict.fromkeys(each.memory_id for each in files if each.memory_id)))
    later: dict[str, Version] = {}
    for file in files:
        seen = file.new_id or last.get(file.memory_id, "")
        if seen and file.memory_id in newest and newest[file.memory_id].id > seen:
            later[file.new_id or file.memory_id] = newest[file.memory_id]
    return later


def _neighbours(visit: Visit, changes: Sequence[LoggedChange]) -> tuple[str | None, str | None]:
    """Return the revisions of the changes before and after the shown change."""
    ids, page = [each.id for change in changes for each in change.versions], visit.store.history.page
    if not ids:
        return None, None
    older = page(after=min(ids), limit=1).items
    newer = page(after=max(ids), oldest_first=True, limit=1).items
    return f"r{older[0].revision}" if older else None, f"r{newer[0].revision}" if newer else None


def show_activity(visit: Visit) -> PageAnswer:
    """Show the changes of a store, newest first. Consecutive changes of one actor are grouped."""
    path, only = asked_filter(visit)
    asked = {name: visit.query.get(name, "").strip() for name in _ASKED}
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


def asked_filter(visit: Visit) -> tuple[str, LogFilter]:
    """Read the path and the filter of the activity page from the query. Raises `HttpError` 400."""
    actor, path, operation, since = (visit.query.get(name, "").strip() for name in _ASKED)
    if operation not in {"", "created", "modified", "deleted"}:
        raise invalid("operation: must be `created`, `modified` or `deleted`")
    wanted: Operation | None = operation or None  # type: ignore[assignment] # checked above
    only = LogFilter(actor=actor or None, operation=wanted, since=time_of(since))
    return (path if path.startswith(ROOT) else f"{ROOT}/{path.lstrip('/')}").rstrip("/"), only


def time_of(text: str) -> datetime | None:
    """Parse a time that a person typed, such as `2d`. Raises `HttpError` 400."""
    try:
        return parse_time(text, datetime.now(UTC)) if text else None
    except InvalidInput:
        raise invalid("since: must be a time such as 2026-11-20 14:00, yesterday or 2d") from None


def is_below(path: str, directory: str) -> bool:
    """Return whether a path is a directory, or below it."""
    return path == directory or path.startswith(f"{directory}/")


def news_url(visit: Visit, **asked: str) -> str:
    """Return the URL at which a page asks for news. Call this before reading the page, so that no change is missed."""
    revision, event = position(visit.store)
    waiting = number_waiting(visit.store) if visit.can("review") else 0
    return visit.url("news", after=str(revision), event=event, waiting=str(waiting), **asked)


def show_news(visit: Visit) -> PageAnswer:
    """Say how many changes a page does not show yet, or that there was a removal. The view is not audited.

    `after`, `event` and `waiting` in the query are what the page shows, `said` is what the answer before said. If
    nothing else is to be said, there is no page.
    """
    path, only = asked_filter(visit)
    after = number(visit.query.get("after", ""), 0, _REVISIONS, 0)
    count, has_changed = news_since(visit.store, after, visit.query.get("event", ""), path, only)
    said = ""
    waiting = number_waiting(visit.store) if visit.can("review") else 0
    if str(waiting) != visit.query.get("waiting", "0"):
        said = f"{waiting:,} waiting for review."
    if has_changed:
        said = "The store has changed."
    if count:
        said = f"{count if count < NEWS else f'More than {NEWS - 1}'} new change{'' if count == 1 else 's'}."
    if said == visit.query.get("said", ""):
        return None
    asked: Mapping[str, str] = {name: text for name, text in visit.query.items() if name != "said"}
    return HtmlPage("_news.html", {"said": said, "again": visit.url("news", **asked, said=said)})
