"""What has changed since a page was made. Pages with lists ask for it every few seconds."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import takewhile

from retentive.console.overview import number_waiting
from retentive.console.visits import HtmlPage, PageAnswer, Visit, number
from retentive.engine.events import events_of, newest_event
from retentive.engine.operation import Read
from retentive.errors import InvalidInput
from retentive.history.log import LogFilter
from retentive.history.revisions import parse_time
from retentive.server.errors import invalid
from retentive.storage.contract import Operation, Snapshot
from retentive.store import core_of
from retentive.values.paths import ROOT

MOST = 500
"""Maximum number of newest versions that are counted."""
_REVISIONS = 10**18
_OF_PROPOSALS = frozenset({"proposed", "accepted", "refused"})


def news_url(visit: Visit, **asked: str) -> str:
    """Return the URL at which a page asks for news. Call this before reading the page, so that no change is missed."""
    revision, event = core_of(visit.store).peek(Read("feed", _position))
    return visit.url("news", after=str(revision), event=event, waiting=str(_waiting(visit)), **asked)


def show_news(visit: Visit) -> PageAnswer:
    """Say how many changes a page does not show yet, or that there was a removal. The view is not audited.

    `after`, `event` and `waiting` in the query are what the page shows, `said` is what the answer before said. If
    nothing else is to be said, there is no page.
    """
    path, only = asked_filter(visit)
    after = number(visit.query.get("after", ""), 0, _REVISIONS, 0)

    def work(snapshot: Snapshot) -> tuple[int, bool]:
        events = events_of(snapshot, after=visit.query.get("event", ""))
        has_changed = any(each.type not in _OF_PROPOSALS for each in events)
        if snapshot.state.revision == after:
            return 0, has_changed
        newer = takewhile(lambda version: version.revision > after, snapshot.versions(limit=MOST))
        fitting = (each for each in newer if only.fits(each) and _is_below(each.path, path))
        return sum(1 for _ in fitting), has_changed

    count, has_changed = core_of(visit.store).peek(Read("feed", work))
    said = ""
    waiting = _waiting(visit)
    if str(waiting) != visit.query.get("waiting", "0"):
        said = f"{waiting:,} waiting for review."
    if has_changed:
        said = "The store has changed."
    if count:
        said = f"{count if count < MOST else f'More than {MOST - 1}'} new change{'' if count == 1 else 's'}."
    if said == visit.query.get("said", ""):
        return None
    asked = {name: text for name, text in visit.query.items() if name != "said"}
    return HtmlPage("_news.html", {"said": said, "again": visit.url("news", **asked, said=said)})


def asked_filter(visit: Visit) -> tuple[str, LogFilter]:
    """Read the path and the filter of the activity page from the query. Raises `HttpError` 400."""
    asked = {name: visit.query.get(name, "").strip() for name in ("actor", "path", "operation", "since")}
    if asked["operation"] not in {"", "created", "modified", "deleted"}:
        raise invalid("operation: must be `created`, `modified` or `deleted`")
    operation: Operation | None = asked["operation"] or None  # type: ignore[assignment] # checked above
    only = LogFilter(actor=asked["actor"] or None, operation=operation, since=time_of(asked["since"]))
    path = asked["path"]
    return (path if path.startswith(ROOT) else f"{ROOT}/{path.lstrip('/')}").rstrip("/"), only


def time_of(text: str) -> datetime | None:
    """Parse a time that a person typed, such as `2d`. Raises `HttpError` 400."""
    try:
        return parse_time(text, datetime.now(UTC)) if text else None
    except InvalidInput:
        raise invalid("since: must be a time such as 2026-11-20 14:00, yesterday or 2d") from None


def _waiting(visit: Visit) -> int:
    return number_waiting(visit.store) if visit.can("review") else 0


def _position(snapshot: Snapshot) -> tuple[int, str]:
    return snapshot.state.revision, newest_event(snapshot)


def _is_below(path: str, directory: str) -> bool:
    return directory in {ROOT, path} or path.startswith(f"{directory}/")
