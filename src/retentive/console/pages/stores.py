"""The list of memory stores."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, not_found, number_waiting, store_url
from retentive.engine.operation import Read
from retentive.errors import Damaged, Locked, NotFound
from retentive.storage.contract import StoreInfo, Version
from retentive.store import core_of
from retentive.values.settings import Settings

ROWS = 50


@dataclass(frozen=True, slots=True)
class StoreRow:
    """One store of the list. `full` is the percentage of the limit that is nearest, `waiting` counts proposals."""

    info: StoreInfo
    last: Version | None = None
    full: int = 0
    waiting: int = 0
    is_audited: bool = False
    problem: str = ""

    @property
    def at(self) -> datetime:
        """Time of the newest change."""
        return self.info.created_at if self.last is None else self.last.created_at


def list_stores(visit: Visit) -> PageAnswer:
    """The stores that the key may see, newest first, or one with a key."""
    wanted, is_archived = visit.query.get("q", "").strip(), visit.query.get("archived") == "1"
    shown: list[StoreInfo] = []
    after: str | None = visit.query.get("after") or None
    following: str | None = ""
    while following is not None and len(shown) < ROWS:
        found = visit.location.opened.list_stores(
            workspace=visit.caller.workspace_id, include_archived=is_archived, after=after, limit=ROWS - len(shown)
        )
        shown += [each for each in found.items if visit.caller.sees(each) and _fits(each, wanted)]
        after = following = found.next
    rows = [_row(visit, each) for each in shown]
    values = {"rows": rows, "following": following, "q": wanted, "is_archived": is_archived}
    return HtmlPage("stores.html", values, title="Stores")


def by_key(visit: Visit) -> PageAnswer:
    """Redirect to the store with a key."""
    try:
        found = visit.location.opened.get_store(visit.ids["key"], workspace=visit.caller.workspace_id)
    except NotFound:
        raise not_found("memory store") from None
    if not visit.caller.sees(found):
        raise not_found("memory store")
    return Redirect(store_url(found.id, "tree", ""))


def _fits(info: StoreInfo, wanted: str) -> bool:
    return wanted.casefold() in f"{info.key or ''}\n{info.name}\n{info.id}".casefold()


def _row(visit: Visit, info: StoreInfo) -> StoreRow:
    try:
        store = visit.opened(info)
        last = core_of(store).peek(Read("list", lambda snapshot: next(iter(snapshot.versions(limit=1)), None)))
        settings, waiting = store.settings(), number_waiting(store) if visit.can("review") else 0
        return StoreRow(info, last, fullness(info, settings), waiting, settings.audit)
    except (Locked, Damaged) as error:
        return StoreRow(info, problem=error.code)


def fullness(info: StoreInfo, settings: Settings) -> int:
    """Percentage of the limit that is nearest."""
    pairs = (info.memories, settings.max_memories), (info.size_bytes, settings.max_store_bytes)
    return max((100 * used // limit for used, limit in pairs if limit), default=0)
