"""Pages for the activity of a store, its news, and the differences that versions, changes and actors made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby

from starlette.responses import Response

from retentive.console.differences import Shown, of_memory
from retentive.console.figures import NEWS, newest_of, news_since, position
from retentive.console.rendering import PRIVATE, with_query
from retentive.console.visits import Visit, page
from retentive.errors import InvalidInput
from retentive.history.differences import Compare, Differences
from retentive.history.log import LogFilter
from retentive.history.revisions import as_revision, parse_time
from retentive.server.errors import finding, invalid
from retentive.server.handlers.history import NO_VERSION, check_version_id
from retentive.storage.contract import Operation, Version
from retentive.store import core_of
from retentive.values.listing import counted
from retentive.values.paths import ROOT
from retentive.wire.base import VERSION_ID, moment

VERSIONS = 50
FILES = 50
"""Maximum number of memories whose differences one page shows."""
SINCE = 1_000
"""Maximum number of versions that a page reads to find changes below a directory."""
LOOKED_AT = 4_000
"""Maximum number of versions that a page reads to find changes of an actor, or changes since an earlier time."""


@page("GET", "diff", "read", "activity")
@page("GET", "diff/{pair}", "read", "activity")
def show_versions(visit: Visit) -> Response:
    """Show the difference between two versions, or between the two that a person selected."""
    selected = sorted((visit.query.get("old", ""), visit.query.get("new", "")))
    old, _, new = visit.ids.get("pair", "..".join(selected)).partition("..")
    check_version_id(old, new)
    with finding(NO_VERSION):
        found = visit.store.history.differences(since=old, until=new)
    return _page(visit, found, "Compare two versions")


@page("GET", "change/{revision}", "read", "activity")
def show_change(visit: Visit) -> Response:
    """Show the difference that one change made. The URL names the change by a revision or by the id of a version."""
    core, named = core_of(visit.store), visit.ids["revision"]
    with finding("change"):
        found = Compare(change=as_revision(named), limit=FILES).run(core)
    revisions = {change.number for change in found.changes}
    name = f"r{min(revisions)}" if len(revisions) == 1 else named[-12:]
    ids = [version.id for change in found.changes for version in change.versions] or [""]
    older, newer = neighbour(visit, min(ids)), neighbour(visit, max(ids), is_newer=True)
    return _page(
        visit, found, f"Change {name}", change=named,
        older=f"r{older.revision}" if older else "", newer=f"r{newer.revision}" if newer else "",
    )  # fmt: skip


def neighbour(visit: Visit, version_id: str, memory_id: str | None = None, *, is_newer: bool = False) -> Version | None:
    """Return the version before or after a version: of the store, or of one memory."""
    found = visit.store.history.page(memory_id=memory_id, after=version_id, oldest_first=is_newer, limit=1).items
    return found[0] if found and version_id else None


@page("GET", "since/{path:path}", "read", "activity")
def show_since(visit: Visit) -> Response:
    """Show the differences between an earlier state and now; for a directory, in the newest `SINCE` versions only."""
    at, core, path = visit.query.get("at", ""), core_of(visit.store), visit.memory_path
    limit, most_read = (FILES, LOOKED_AT) if path == ROOT else (None, SINCE)
    start = as_revision(moment(at))
    with finding("state"):
        found = Compare(since=start, only=LogFilter(), limit=limit, most_read=most_read).run(core)
    if path != ROOT:
        chosen = tuple(each for each in found.found if _is_below(each.path, path))
        changes = tuple(each for each in found.changes if any(_is_below(one.path, path) for one in each.versions))
        found = replace(found, found=chosen, changes=changes)
    return _page(visit, found, f"Now, compared with {at[-40:]}")


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


@page("GET", "by/{actor:path}", "read", "activity")
def show_actor(visit: Visit) -> Response:
    """Show the differences that an actor made in the newest `LOOKED_AT` versions."""
    actor, until = visit.ids["actor"], visit.query.get("until", "")
    if until:
        check_version_id(until)
    only = LogFilter(actor=actor, since=time_of(visit.query.get("since", "")))
    core, end = core_of(visit.store), as_revision(until) if until else None
    found = Compare(only=only, until=end, limit=FILES, most_read=LOOKED_AT).run(core)
    return _page(visit, found, "Changes by this actor", actor=actor)


def _page(visit: Visit, found: Differences, heading: str, **named: str) -> Response:
    """Return the page of differences. `named` has the shown change or actor, and the changes beside it."""
    files = [of_memory(each) for each in found.found[:FILES]]
    kept = {name: visit.query[name] for name in ("at", "since", "until", "view", "old", "new") if visit.query.get(name)}
    return visit.page(
        "diff.html",
        heading,
        found=found,
        files=files,
        total=len(found.found) + found.more,
        later=_changed_later(visit, found, files),
        is_split=visit.query.get("view") != "unified",
        query=lambda **changed: with_query("", **{**kept, **changed}) or "?",
        **{"change": "", "actor": "", "older": "", "newer": "", **named},
    )


def _changed_later(visit: Visit, found: Differences, files: Sequence[Shown]) -> dict[str, Version]:
    """Return the newest versions of those shown memories that were changed again later, by the ids of the memories."""
    last: dict[str, str] = {}
    for change in found.changes:
        for each in change.versions:
            last[each.memory_id] = max(each.id, last.get(each.memory_id, ""))
    seen = {each.memory_id: each.new_id or last.get(each.memory_id, "") for each in files if each.memory_id}
    newest = newest_of(visit.store, list(seen))
    return {name: each for name, each in newest.items() if seen[name] and each.id > seen[name]}


@page("GET", "activity", "read", "activity")
def show_activity(visit: Visit) -> Response:
    """Show the changes of a store, newest first. Consecutive changes of one actor are grouped."""
    asked, path, only = _asked_filter(visit)
    before = visit.query.get("before")
    again = "" if before else news_url(visit, **asked)
    if before and not VERSION_ID.fullmatch(before):
        raise invalid("before: must be the id of a version")
    found = visit.store.history.page(None if path == ROOT else path, only=only, after=before, limit=VERSIONS)
    runs = groupby(found.items, key=lambda each: (each.actor, each.provenance.session, each.provenance.integration))
    values = {"runs": [list(group) for _, group in runs], "following": found.next, "asked": asked, "again": again}
    return visit.page("activity.html", "Activity", **values)


def _asked_filter(visit: Visit) -> tuple[dict[str, str], str, LogFilter]:
    """Return the fields of the activity page, and the path and the filter that they mean. Raises `HttpError` 400."""
    asked = {name: visit.query.get(name, "").strip() for name in ("actor", "path", "operation", "since")}
    actor, path, operation, since = asked.values()
    if operation not in {"", "created", "modified", "deleted"}:
        raise invalid("operation: must be `created`, `modified` or `deleted`")
    wanted: Operation | None = operation or None  # type: ignore[assignment] # checked above
    only = LogFilter(actor=actor or None, operation=wanted, since=time_of(since))
    return asked, (path if path.startswith(ROOT) else f"{ROOT}/{path.lstrip('/')}").rstrip("/"), only


def time_of(text: str) -> datetime | None:
    """Parse a time that a person typed, such as `2d`. Raises `HttpError` 400."""
    try:
        return parse_time(text, datetime.now(UTC)) if text else None
    except InvalidInput:
        raise invalid("since: must be a time such as 2026-11-20 14:00, yesterday or 2d") from None


def news_url(visit: Visit, **asked: str) -> str:
    """Return the URL at which a page asks for news. Call this before reading the page, so that no change is missed."""
    revision, event = position(visit.store)
    return visit.url("news", after=str(revision), event=event, waiting=str(visit.waiting), **asked)


@page("GET", "news", "read", is_poll=True)
def show_news(visit: Visit) -> Response:
    """Say how many changes a page does not show yet, or that there was a removal. The view is not audited.

    The query has what the page shows, and what the answer before `said`. If nothing is new, the answer is empty.
    """
    _, path, only = _asked_filter(visit)
    after = visit.number("after", 0, 10**18)
    count, has_changed = news_since(visit.store, after, visit.query.get("event", ""), path, only)
    said = ""
    if str(visit.waiting) != visit.query.get("waiting", "0"):
        said = f"{visit.waiting:,} waiting for review."
    if has_changed:
        said = "The store has changed."
    if count:
        said = counted(count, "new change.", "new changes.") if count < NEWS else f"More than {NEWS - 1} new changes."
    if said == visit.query.get("said", ""):
        return Response(None, 204, PRIVATE)
    asked = {name: text for name, text in visit.query.items() if name != "said"}
    return visit.page("_news.html", "", said=said, again=visit.url("news", **asked, said=said))
