"""Page with the list of memory stores and their figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from retentive.console.overview import (
    AT_ONCE,
    SCANNED,
    VERIFIED,
    LastCheck,
    StoreRow,
    last_checks,
    totals,
)
from retentive.console.visits import BASE, HtmlPage, PageAnswer, Redirect, Visit, not_found, store_url
from retentive.errors import NotFound
from retentive.server.errors import invalid
from retentive.storage.contract import StoreInfo

ROWS = 50
LISTED = 2_000
"""Maximum number of stores in the list. If there are more, only the newest are listed."""
LOOKED_AT = 10_000
MORE = 200
"""Maximum number of stores whose figures are read for the totals if the query has `more=1`."""
_AT_ONCE = 500
SORTS: Mapping[str, Callable[[StoreRow], Any]] = {
    "changed": lambda row: row.at,
    "name": lambda row: (row.info.key or row.info.name or row.info.id).casefold(),
    "memories": lambda row: row.info.memories,
    "size": lambda row: row.info.size_bytes,
    "waiting": lambda row: (row.waiting, row.at),
    "full": lambda row: (row.full, row.at),
    "today": lambda row: (row.today, row.at),
}
"""Orders of the list. The largest value is first, except for names. `_order` adds the orders `findings` and `audit`."""


WHOLE_SORTS = frozenset({"memories", "size", "waiting", "full", "today", "findings", "audit"})
"""Orders that need figures of whole stores. A key that is limited to some paths cannot use them."""


@dataclass(frozen=True, slots=True)
class Checks:
    """Last scans and last verifications of the listed stores, by store id."""

    scans: Mapping[str, LastCheck]
    audits: Mapping[str, LastCheck]

    @property
    def findings(self) -> int:
        """Number of findings of all scans together."""
        return sum(each.findings for each in self.scans.values())

    @property
    def is_sound(self) -> bool:
        """True if no verification had a finding."""
        return not any(each.findings for each in self.audits.values())


def list_stores(visit: Visit) -> PageAnswer:
    """Show the stores that the key may see, and their totals. The query names the order of the stores."""
    query = visit.query
    wanted, sort, is_archived = query.get("q", "").strip(), query.get("sort", "changed"), query.get("archived") == "1"
    if sort not in {*SORTS, "findings", "audit"}:
        raise invalid("sort: must be the name of a column")
    if sort in WHOLE_SORTS and not visit.is_whole:
        raise invalid("sort: the API key is limited to some paths, so the list cannot be sorted by this column")
    infos, is_cut = listed(visit, wanted, is_archived=is_archived)
    checks = _checks(visit, infos)
    visit.overview.read_some(infos, visit.caller.key.paths, visit.opened, MORE if query.get("more") == "1" else AT_ONCE)
    shown, following = _page(visit, infos, checks, sort)
    known = {row.info.id: row for row in shown} | {
        info.id: row for info in infos if (row := visit.overview.known(info, visit.caller.key.paths)) is not None
    }
    asked = {"q": wanted, "sort": sort if sort != "changed" else "", "archived": "1" if is_archived else ""}
    values = {
        "rows": shown,
        "totals": totals(infos, known),
        "checks": checks,
        "is_cut": is_cut,
        "following": following,
        "sort": sort,
        "asked": asked,
        "is_archived": is_archived,
        "is_whole": visit.is_whole,
        "whole_sorts": WHOLE_SORTS,
        "url": lambda **changed: _url(**{**asked, **changed}),
    }
    return HtmlPage("stores.html", values, title="Stores")


def _checks(visit: Visit, infos: Sequence[StoreInfo]) -> Checks:
    records, is_whole = visit.location.opened.records, visit.is_whole
    return Checks(
        last_checks(records, SCANNED, infos) if visit.can("erase") and is_whole else {},
        last_checks(records, VERIFIED, infos) if visit.can("admin") and is_whole else {},
    )


def listed(visit: Visit, wanted: str, *, is_archived: bool) -> tuple[list[StoreInfo], bool]:
    """Return the stores whose key, name or id contains `wanted`, newest first, and whether there may be more.

    Only stores that the API key may see are returned.
    """
    found: list[StoreInfo] = []
    after: str | None = None
    for _ in range(0, LOOKED_AT, _AT_ONCE):
        page = visit.location.opened.list_stores(
            workspace=visit.caller.workspace_id, include_archived=is_archived, after=after, limit=_AT_ONCE
        )
        found += [each for each in page.items if visit.caller.sees(each) and _fits(each, wanted)]
        after = page.next
        if after is None or len(found) >= LISTED:
            break
    return found[:LISTED], after is not None or len(found) > LISTED


def _page(visit: Visit, infos: Sequence[StoreInfo], checks: Checks, sort: str) -> tuple[list[StoreRow], str]:
    """Read the figures of the stores on a page. Return its rows, and the id after which the next page begins."""
    reach = visit.caller.key.paths
    rows = [visit.overview.known(info, reach) or StoreRow(info) for info in infos]
    rows.sort(key=_order(sort, checks), reverse=sort != "name")
    ids = [row.info.id for row in rows]
    after = visit.query.get("after", "")
    start = ids.index(after) + 1 if after in ids else 0
    present = {info.id: info for info in infos}
    shown = [visit.overview.read(present[each], reach, visit.opened) for each in ids[start : start + ROWS]]
    following = ids[start + ROWS - 1] if start + ROWS < len(ids) else ""
    return sorted(shown, key=_order(sort, checks), reverse=sort != "name"), following


def _order(sort: str, checks: Checks) -> Callable[[StoreRow], Any]:
    if sort == "findings":
        return lambda row: (_findings(checks.scans, row), row.at)
    if sort == "audit":
        return lambda row: (_findings(checks.audits, row), row.is_audited, row.at)
    return SORTS[sort]


def _findings(found: Mapping[str, LastCheck], row: StoreRow) -> int:
    check = found.get(row.info.id)
    return 0 if check is None else check.findings


def by_key(visit: Visit) -> PageAnswer:
    """Redirect to the store with the key in the URL."""
    try:
        found = visit.location.opened.get_store(visit.ids["key"], workspace=visit.caller.workspace_id)
    except NotFound:
        raise not_found("memory store") from None
    if not visit.caller.sees(found):
        raise not_found("memory store")
    return Redirect(store_url(found.id, "tree", ""))


def _url(**asked: str) -> str:
    given = {name: value for name, value in asked.items() if value}
    return f"{BASE}/" + (f"?{urlencode(given)}" if given else "")


def _fits(info: StoreInfo, wanted: str) -> bool:
    return wanted.casefold() in f"{info.key or ''}\n{info.name}\n{info.id}".casefold()
