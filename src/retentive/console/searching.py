"""Search in one memory store or in several, with one ranking over all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

from retentive.errors import InvalidInput, RetentiveError
from retentive.history.searching import StoreSearch
from retentive.pipeline import StoreCore
from retentive.search.ranking import Statistics, order
from retentive.search.results import Hit, Results
from retentive.storage.contract import StoreInfo
from retentive.store import MemoryStore, core_of

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FoundHit:
    """A memory that was found, and its store."""

    store: StoreInfo
    hit: Hit

    @property
    def name(self) -> str:
        """Name of the store for people."""
        return self.store.key or self.store.name or self.store.id


@dataclass(frozen=True, slots=True)
class SearchFound:
    """Best hits first. `problems` has the stores that could not be searched, each with the code of the error."""

    hits: Sequence[FoundHit]
    total: int
    relaxed: bool = False
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: Sequence[tuple[StoreInfo, str]] = ()


def search_one(
    info: StoreInfo, core: StoreCore, query: StoreSearch, *, progress: Callable[[int], None] | None = None
) -> SearchFound:
    """Search one store. `progress` gets the number of memories that the index has so far. Raises `RetentiveError`."""
    found = replace(query, progress=progress).run(core, None, core.found)
    return SearchFound([FoundHit(info, hit) for hit in found.hits], found.total, found.relaxed, found.unknown)


class Opens(Protocol):
    """Opens a memory store for a person."""

    def opened(self, info: StoreInfo) -> MemoryStore:
        """The open store."""
        ...


class SearchAll:
    """One search of several stores.

    Words count by how rare they are in all of the stores together. For a key that is limited to some paths, they count
    by how rare they are in each store, as in a search of that store.
    """

    def __init__(self, query: StoreSearch, stores: Sequence[tuple[StoreInfo, Opens]]) -> None:
        self._query, self._stores = query, stores
        self._problems: list[tuple[StoreInfo, str]] = []

    def run(self, progress: Callable[[int], None]) -> SearchFound:
        """Search the stores one after the other. `progress` gets the number of stores that are done."""
        query = replace(self._query, progress=lambda _: progress(0))  # stops if the page was closed
        cores = [both for each in self._stores if (both := self._core(*each)) is not None]
        statistics = None
        if query.is_ranked and not any(core.reach for _, core in cores):
            known = (self._tried(info, partial(query.statistics, core, core.peek)) for info, core in cores)
            statistics = sum((each for each in known if each is not None), Statistics())
        found: list[tuple[StoreInfo, Results]] = []
        failed = {info.id for info, _ in self._problems}
        for number, (info, opened) in enumerate(cores, start=1):
            if info.id not in failed:
                result = self._tried(info, partial(query.run, opened, None, opened.found, statistics=statistics))
                found += [] if result is None else [(info, result)]
            progress(number)
        return self._merged(found)

    def _core(self, info: StoreInfo, visit: Opens) -> tuple[StoreInfo, StoreCore] | None:
        core = self._tried(info, lambda: core_of(visit.opened(info)))
        return None if core is None else (info, core)

    def _tried(self, info: StoreInfo, work: Callable[[], R]) -> R | None:
        """The result of a call. Records the problem of a store that fails; a malformed query raises `InvalidInput`."""
        try:
            return work()
        except InvalidInput:
            raise
        except RetentiveError as error:
            self._problems.append((info, error.code))
            return None

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
            _unknown_everywhere([each for _, each in found]),
            self._problems,
        )


def _unknown_everywhere(found: Sequence[Results]) -> dict[str, tuple[str, ...]]:
    """Words that no store has, with similar words of all stores."""
    if not found:
        return {}
    first, *others = (each.unknown for each in found)
    shared = [word for word in first if all(word in each for each in others)]
    return {word: tuple(dict.fromkeys(near for each in (first, *others) for near in each[word]))[:3] for word in shared}
