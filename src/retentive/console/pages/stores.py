"""Pages for memory stores: the list with its figures, the usage of a store, and what an administrator does with it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from starlette.responses import Response

import retentive
from retentive.console.figures import NEAR, StoreRow, chart, limits_of, paths_of, recent_versions, store_row
from retentive.console.rendering import BASE, name_of, store_url, with_query
from retentive.console.visits import Visit, download, page, redirect
from retentive.server.errors import forbidden, invalid
from retentive.server.handlers import stores as api
from retentive.stats import TOP, USED_DAYS, memory_use
from retentive.storage.contract import StoreInfo, Version
from retentive.values.listing import counted
from retentive.wire.stores import Scope, StoreCreation, StoreUpdate

ROWS = 50
LISTED = 500
"""Maximum number of stores in the list and in its figures. If there are more, only the newest are listed."""
LOOKED_AT = 10_000
USAGE_DAYS = 30
COUNTED = 5_000
"""Maximum number of memories whose use is counted without being asked: all memories must be read for it."""
SCANNED, VERIFIED = "console.scan", "console.audit"
"""Kinds of location records: the findings of the last scan of a store, and of the last verification of its log."""
CHECKS: Sequence[tuple[str, Scope]] = ((SCANNED, "erase"), (VERIFIED, "admin"))
SORTS: Mapping[str, Callable[[StoreRow], Any]] = {
    "changed": lambda row: row.at,
    "name": lambda row: name_of(row.info).casefold(),
    "memories": lambda row: row.info.memories,
    "size": lambda row: row.info.size_bytes,
    "waiting": lambda row: (row.waiting, row.at),
    "full": lambda row: (row.full, row.at),
    "today": lambda row: (row.days[-1:], row.at),
}
"""Orders of the list. The largest value is first, except for names. `findings` and `audit` are orders too."""
WHOLE_SORTS = frozenset({"memories", "size", "waiting", "full", "today", "findings", "audit"})
"""Orders that need figures of whole stores. A key that is limited to some paths cannot use them."""


@page("GET", "/", "read")
def list_stores(visit: Visit) -> Response:
    """Show the stores that the key may see, and figures of them. The query names the order of the stores."""
    query = visit.query
    wanted, sort, is_archived = query.get("q", "").strip(), query.get("sort", "changed"), query.get("archived") == "1"
    infos, is_cut = listed(visit, wanted, is_archived=is_archived)
    scans, audits = (_checks(visit, infos, kind, scope) for kind, scope in CHECKS)
    orders = {
        **SORTS,
        "findings": lambda row: (scans.get(row.info.id, 0), row.at),
        "audit": lambda row: (audits.get(row.info.id, 0), row.is_audited, row.at),
    }
    if sort not in orders:
        raise invalid("sort: must be the name of a column")
    if sort in WHOLE_SORTS and not visit.is_whole:
        raise invalid("sort: the API key is limited to some paths, so the list cannot be sorted by this column")
    rows = [store_row(info, visit.opened, is_reviewer=visit.caller.may("review", info)) for info in infos]
    rows.sort(key=orders[sort], reverse=sort != "name")
    ids = [row.info.id for row in rows]
    start = ids.index(query["after"]) + 1 if query.get("after") in ids else 0
    asked = {"q": wanted, "sort": sort if sort != "changed" else "", "archived": "1" if is_archived else ""}
    return visit.page(
        "stores.html",
        "Stores",
        rows=rows[start : start + ROWS],
        following=ids[start + ROWS - 1] if start + ROWS < len(ids) else "",
        infos=infos,
        figures=_figures(visit, rows, scans, audits) if visit.is_whole and rows else (),
        scans=scans,
        audits=audits,
        is_cut=is_cut,
        sort=sort,
        asked=asked,
        whole_sorts=WHOLE_SORTS,
        url=lambda **changed: with_query(f"{BASE}/", **{**asked, **changed}),
    )


def _checks(visit: Visit, infos: Sequence[StoreInfo], kind: str, scope: Scope) -> dict[str, int]:
    """Return the number of findings of the last check of a kind, of the stores in which the key has its scope."""
    if not (visit.can(scope) and visit.is_whole):
        return {}
    found = dict(visit.location.opened.records.list(kind))
    ids = [info.id for info in infos if info.id in found and visit.caller.may(scope, info)]
    return {each: int(json.loads(found[each])["findings"]) for each in ids}


def _figures(
    visit: Visit, rows: Sequence[StoreRow], scans: Mapping[str, int], audits: Mapping[str, int]
) -> list[tuple[str, str, str, str]]:
    """Return the figures that may need a person: the order of the list to open, the figure, its text and its tone."""
    waiting, near = sum(row.waiting for row in rows), sum(row.full >= NEAR for row in rows)
    scanned, verified = ([found[row.info.id] for row in rows if row.info.id in found] for found in (scans, audits))
    found = [
        ("today", f"{sum(row.days[-1] for row in rows if row.days):,}", "Changes today", ""),
        ("full", f"{near:,}", "Stores near a limit", "warn" if near else ""),
    ]
    if visit.can("review"):
        found.append(("waiting", f"{waiting:,}", "Proposals waiting", "warn" if waiting else ""))
    if visit.can("erase"):
        text = f"Memories with sensitive findings, {len(scanned)} of {counted(len(rows), 'store')} scanned"
        found.append(("findings", f"{sum(scanned):,}", text, "warn" if any(scanned) else ""))
    if visit.can("admin"):
        on = sum(row.is_audited for row in rows)
        state = "Not sound" if any(verified) else "Sound" if verified else "Not verified" if on else "Off"
        tone = "bad" if any(verified) else "good" if verified else ""
        found.append(("audit", state, f"Audit logs: {on} on, {len(verified)} verified", tone))
    return found


def note_check(visit: Visit, kind: str, findings: int) -> None:
    """For the list of stores, record the result of a scan or verification. The record does not name any memory."""
    visit.location.opened.records.put(kind, visit.info.id, json.dumps({"findings": findings}))


def stores_of(visit: Visit, scope: Scope, *, is_archived: bool) -> Iterator[StoreInfo]:
    """Return the memory stores in which the key has a scope, newest first, with the archived ones if `is_archived`."""
    found = visit.location.stores(visit.caller.workspace_id, include_archived=is_archived)
    return (info for info in found if visit.caller.may(scope, info))


def listed(visit: Visit, wanted: str, *, is_archived: bool) -> tuple[list[StoreInfo], bool]:
    """Return the stores for the page whose key, name or id contains `wanted`, newest first, and whether there are more.

    In each of them, the key has the scope that the page needs.
    """
    looked_at = islice(stores_of(visit, visit.scope, is_archived=is_archived), LOOKED_AT)
    having = (info for info in looked_at if wanted.casefold() in f"{info.key or ''}\n{info.name}\n{info.id}".casefold())
    found = list(islice(having, LISTED + 1))
    return found[:LISTED], len(found) > LISTED


@page("GET POST", "/stores/new", "admin")
def create_store(visit: Visit) -> Response:
    """Show the form for a new memory store. With POST, create it."""
    if not visit.is_post:
        about = "The key is the name in programs and URLs, such as team-notes. It cannot be changed later."
        fields = [("key", "Key", "", 255), ("name", "Name for people", "", 255), ("text", "What it is for", "", 1_024)]
        action, back = f"{BASE}/stores/new", f"{BASE}/"
        return visit.page("ask.html", "Create a store", action=action, back=back, about=about, fields=fields)
    key = visit.given("key").strip() or None
    if key is not None and api.list_memory_stores(visit.call(), key=key, include_archived=True).data:
        raise invalid("key: there is a store with this key")
    body = {"name": visit.given("name").strip() or key or "", "key": key, "description": visit.given("text").strip()}
    made = api.create_memory_store(visit.call(), StoreCreation.read(body))
    return redirect(store_url(visit.location.info(made.id), "tree", ""))


@page("GET POST", "manage", "admin", "manage")
def manage_store(visit: Visit) -> Response:
    """Show the forms to rename, archive and delete a memory store. With POST, do it."""
    sentence, action = visit.info.key or visit.info.id, visit.given("action")
    if not visit.is_post:
        return visit.page("store_manage.html", "Store", sentence=sentence)
    if action == "rename":
        body = {"name": visit.given("name").strip(), "description": visit.given("description").strip()}
        api.update_memory_store(visit.call(), StoreUpdate.read(body))
        return redirect(visit.url("manage"))
    if action not in {"archive", "delete"}:
        raise invalid("action: must be rename, archive or delete")
    visit.check_typed(sentence)
    if action == "delete":
        api.delete_memory_store(visit.call())
        return redirect(f"{BASE}/")
    api.archive_memory_store(visit.call())
    return redirect(visit.url("manage"))


@page("GET", "/health", "admin")
def health(visit: Visit) -> Response:
    """Show the stores of the workspace that need attention, and the version of the server."""
    infos, is_cut = listed(visit, "", is_archived=False)
    rows = [row for row in (store_row(each, visit.opened) for each in infos) if row.problem or row.full >= NEAR]
    values = {"version": retentive.__version__, "count": len(infos), "is_cut": is_cut}
    return visit.page("health.html", "Health", rows=rows[:ROWS], **values)


@page("GET", "stats", "read", "stats")
def stats(visit: Visit) -> Response:
    """Show the limits, the changes on each of the last days (UTC), which are a file with `format=csv`, and the use."""
    store, found = visit.store, chart(visit.store, USAGE_DAYS, is_audited=True)
    if visit.query.get("format") == "csv":
        if found is None:
            raise forbidden("the API key is limited to some paths, and this file counts the changes at all paths")
        lines = ["day,changes\n", *(f"{day},{count}\n" for day, count in found.days)]
        return download(f"{visit.info.id}-changes.csv", map(str.encode, lines), "text/csv")
    recent, settings = recent_versions(store), store.settings()
    is_counted = visit.query.get("use") == "1" or visit.info.memories <= COUNTED
    return visit.page(
        "stats.html",
        "Usage",
        settings=settings,
        chart=found,
        often=_often(visit, recent),
        newest=len(recent),
        limits=limits_of(visit.info, settings) if visit.is_whole else [],
        use=memory_use(store) if is_counted else None,
        used_days=USED_DAYS,
    )


def _often(visit: Visit, versions: Sequence[Version]) -> list[tuple[str, str, int]]:
    """Return the existing memories that occur most often in `versions`, and more than once: id, path and number."""
    counts = [pair for pair in Counter(each.memory_id for each in versions).most_common(2 * TOP) if pair[1] > 1]
    paths = paths_of(visit.store, [each for each, _ in counts])
    return [(each, paths[each], count) for each, count in counts if each in paths][:TOP]
