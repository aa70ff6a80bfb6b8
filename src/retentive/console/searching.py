"""Search in one memory store, or in several stores with one common ranking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from retentive.engine.core import StoreCore
from retentive.errors import InvalidInput, RetentiveError
from retentive.history.searching import StoreSearch
from retentive.search.ranking import order
from retentive.search.results import Hit, Results, unknown_everywhere
from retentive.storage.contract import StoreInfo
from retentive.store import MemoryStore, core_of

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FoundHit:
    """Match of a search: a memory and its store."""

    store: StoreInfo
    hit: Hit

    @property
    def name(self) -> str:
        """Display name of the store: its key, or else its name, or else its id."""
        return self.store.key or self.store.name or self.store.id


@dataclass(frozen=True, slots=True)
class SearchFound:
    """Results of a search, best matches first. `total`, `relaxed` and `unknown` are as in `Results`.

    `problems` lists the stores that could not be searched, each with the code of its error.
    """

    hits: Sequence[FoundHit]
    total: int
    relaxed: bool = False
    unknown: Sequence[str] = ()
    problems: Sequence[tuple[StoreInfo, str]] = ()


def search_one(info: StoreInfo, core: StoreCore, query: StoreSearch) -> SearchFound:
    """Search one store. Raises `RetentiveError`."""
    found = query.run(core)
    return SearchFound([FoundHit(info, hit) for hit in found.hits], found.total, found.relaxed, found.unknown)


class Opens(Protocol):
    """Object that opens memory stores for a person, such as a `Visit`."""

    def opened(self, info: StoreInfo) -> MemoryStore:
        """Return the open store."""
        ...


class SearchAll:
    """One search of several stores. A rare word counts more than a frequent word of the same store."""

    def __init__(self, query: StoreSearch, stores: Sequence[tuple[StoreInfo, Opens]]) -> None:
        self._query, self._stores = query, stores
        self._problems: list[tuple[StoreInfo, str]] = []

    def run(self, progress: Callable[[int], None]) -> SearchFound:
        """Search the stores one after the other. `progress` is called with the number of stores searched so far."""
        found: list[tuple[StoreInfo, Results]] = []
        for number, (info, visit) in enumerate(self._stores, start=1):
            try:
                core = core_of(visit.opened(info))
                found.append((info, self._query.run(core)))
            except InvalidInput:  # the query would fail in every store
                raise
            except RetentiveError as error:
                self._problems.append((info, error.code))
            progress(number)
        return self._merged(found)

    def _merged(self, found: Sequence[tuple[StoreInfo, Results]]) -> SearchFound:
        is_exact = any(each.hits and not each.relaxed for _, each in found)
        kept = [(info, each) for info, each in found if not (is_exact and each.relaxed)]
        hits = [FoundHit(info, hit) for info, each in kept for hit in each.hits]
        hits.sort(key=lambda each: order(each.hit.score, each.hit.updated_at, each.hit.path))
        relaxed = not is_exact and any(each.relaxed for _, each in found)
        return SearchFound(
            hits[: self._query.limit],
            sum(each.total for _, each in kept),
            relaxed,
            unknown_everywhere([each for _, each in found]),
            self._problems,
        )
