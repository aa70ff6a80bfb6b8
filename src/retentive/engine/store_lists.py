"""Lists of the memory stores of a location, page by page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from retentive.errors import InvalidInput
from retentive.storage.contract import Backend, StoreInfo
from retentive.values.pages import ListPage
from retentive.values.properties import listed
from retentive.values.records import SYSTEM_STORE, to_us

_AT_ONCE = 100
_PREFIX = "memstore_"
_KEPT_US = 86_400_000_000  # a day


@dataclass(frozen=True, slots=True)
class StoreFilter:
    """Conditions that listed stores must meet. None means no condition. The times are inclusive.

    Raises `InvalidInput` for a time without a time zone.
    """

    workspace: str | None = None
    include_archived: bool = False
    created_from: datetime | None = None
    created_to: datetime | None = None

    def __post_init__(self) -> None:
        if any(at is not None and at.tzinfo is None for at in (self.created_from, self.created_to)):
            raise InvalidInput("a time must have a time zone, as in 2026-01-02T03:04:05Z")

    def bounds(self) -> tuple[str | None, str | None]:
        """Return exclusive bounds for the ids of matching stores.

        An id begins with the time when it was made. A request over HTTP keeps its id for a day, and the store may be
        created at any time of it.
        """
        first, last = self.created_from, self.created_to
        low = None if first is None else f"{_PREFIX}{max(to_us(first) - _KEPT_US, 0):014x}"
        return low, None if last is None else f"{_PREFIX}{max(to_us(last) + 1, 0):014x}"

    def fits(self, info: StoreInfo) -> bool:
        """Return whether a store meets all conditions other than the workspace."""
        return (
            info.id != SYSTEM_STORE
            and (self.include_archived or info.archived_at is None)
            and (self.created_from is None or info.created_at >= self.created_from)
            and (self.created_to is None or info.created_at <= self.created_to)
        )


def list_stores(backend: Backend, chosen: StoreFilter, after: str | None, limit: int) -> ListPage[StoreInfo, str]:
    """Return one page of the stores that match `chosen`, newest first.

    `after` is the cursor that the previous page returned: the id of the last store on that page.
    """
    if limit < 1:
        raise InvalidInput(f"the limit must be at least 1, not {limit}")
    low, high = chosen.bounds()
    before = min((each for each in (high, after) if each is not None), default=None)
    found, at_once = list[StoreInfo](), max(limit + 1, _AT_ONCE)
    while len(found) <= limit:
        stores = backend.list_stores(
            after=low, before=before, workspace=chosen.workspace, newest_first=True, limit=at_once
        )
        found += filter(chosen.fits, map(listed, stores))
        if len(stores) < at_once:
            break
        before = stores[-1].id
    return ListPage.of(found, limit, [info.id for info in found])
