"""Pages of long lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T, C]):
    """One page of a list. `next` is the cursor of the next page. It is None on the last page."""

    items: tuple[T, ...]
    next: C | None = None

    @classmethod
    def of(cls, found: list[T], limit: int, cursors: list[C]) -> ListPage[T, C]:
        """Return a page with the first `limit` items of `found`. If `found` has more items, there is a next page.

        `cursors` has one cursor for each item: the cursor of a page that starts after the item.
        """
        return cls(tuple(found[:limit]), cursors[limit - 1] if len(found) > limit else None)
