"""Pages for the search in one memory store, and for the search in all stores that the API key may see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from urllib.parse import urlencode

from retentive.console.pages.news import time_of
from retentive.console.pages.stores import listed
from retentive.console.pages.tree import typed
from retentive.console.progress import ProgressStep, ReportDone, only_step_of, steps_of
from retentive.console.searching import FoundHit, SearchAll, SearchFound, search_one
from retentive.console.visible import marked
from retentive.console.visits import BASE, HtmlPage, PageAnswer, Visit, store_url
from retentive.history.searching import StoreSearch
from retentive.search.results import age
from retentive.store import core_of
from retentive.values.paths import ROOT
from retentive.values.patterns import check_actor_pattern, matches_actor

HITS = 50
FILTERED = 200
"""Number of best matches to read if the person filters by actor or time. The filter applies only to these matches."""
STORES = 50
"""Maximum number of stores that one search reads."""
_CHOICES = 8
AGES = (("1d", "Last 24 hours", timedelta(days=1)), ("7d", "Last 7 days", timedelta(days=7)),
        ("30d", "Last 30 days", timedelta(days=30)))  # fmt: skip
_FIELDS = ("q", "under", "actor", "since", "re", "in")
"""Fields of the form. Only the search in all stores uses `in`: a part of the key, name or id of the wanted stores."""
SearchSteps: TypeAlias = Iterator[ProgressStep["ShownResults"]]


@dataclass(frozen=True, slots=True)
class ShownResults:
    """Results as a page shows them.

    `counted` is the number of matches that were read and that pass the filters for an actor and a time. `hits` has the
    best `HITS` of these matches. For each field of the form, `facets` has the most frequent values in these matches.
    If `is_cut` is true, there are more matches, which were not read because of the limit `FILTERED`.
    """

    found: SearchFound
    total: int
    is_cut: bool
    hits: Sequence[dict[str, object]]
    facets: Mapping[str, Sequence[tuple[str, str, int]]]
    counted: int


def search(visit: Visit) -> PageAnswer:
    """Show the best matches of a query with their best lines. POST keeps the query out of URLs and logs."""
    asked, core = {**_asked(visit), "in": ""}, core_of(visit.store)
    values = _values(visit, asked, lambda **query: visit.url("search", **query))
    if not asked["q"]:
        return HtmlPage("search.html", values, title="Search")
    query, chosen = _query(asked), _Chosen(asked, has_stores=False)

    def work(_: ReportDone) -> ShownResults:
        return chosen.shown(search_one(visit.info, core, query))

    query.check(core)
    if asked["re"]:  # a pattern that takes too long is an error of the whole page
        values["searching"] = [ProgressStep(result=work(lambda _: None))]
    else:
        values["searching"] = only_step_of(work)
    return HtmlPage("search.html", values, title=_title(asked), is_streamed=True)


def search_all(visit: Visit) -> PageAnswer:
    """Search the stores that the API key may see, and show the progress.

    If there are more than `STORES` of them, only the newest stores are searched.
    """
    asked = _asked(visit)
    infos, is_more = listed(visit, asked["in"], is_archived=False)
    values = _values(visit, asked, _all_url)
    values |= {"stores": min(len(infos), STORES), "is_more": is_more or len(infos) > STORES}
    if not asked["q"]:
        return HtmlPage("search.html", values, title="Search all stores")
    query, chosen = _query(asked), _Chosen(asked, has_stores=True)
    query.check_text()
    every = SearchAll(query, [(info, visit) for info in infos[:STORES]])

    def work(report: ReportDone) -> ShownResults:
        return chosen.shown(every.run(report))

    values["searching"] = steps_of(work, is_search=True)
    return HtmlPage("search.html", values, title=_title(asked), is_streamed=True)


def _asked(visit: Visit) -> dict[str, str]:
    return {name: (visit.given(name) or visit.query.get(name, "")).strip() for name in _FIELDS}


def _title(asked: Mapping[str, str]) -> str:
    return f"Search: {asked['q']}"


def _all_url(**query: str) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"{BASE}/search" + (f"?{urlencode(given)}" if given else "")


def _values(visit: Visit, asked: Mapping[str, str], url: Callable[..., str]) -> dict[str, object]:
    is_one = "store_id" in visit.ids
    filled = asked if visit.method != "POST" else dict.fromkeys(asked, "")  # the form puts its fields into the URL
    return {"asked": asked, "filled": filled, "searching": None, "area": "search", "url": url, "is_one": is_one,
            "waiting": 0, "is_waiting": False, "all_url": _all_url, "store_url": store_url}  # fmt: skip


def _query(asked: Mapping[str, str]) -> StoreSearch:
    """Return the search to run in each store. Raises `HttpError` or `InvalidInput` for an invalid filter."""
    under = asked["under"]
    wanted = under if under.startswith(ROOT) or not under else f"{ROOT}/{under.lstrip('/')}"
    below = typed(wanted).text if wanted else ROOT
    is_filtered = bool(asked["actor"]) or time_of(asked["since"]) is not None
    if asked["actor"]:
        check_actor_pattern(asked["actor"])
    limit = FILTERED if is_filtered else HITS
    if asked["re"] == "1":
        return StoreSearch(asked["q"], "all", regex=True, under=below, limit=limit)
    return StoreSearch(asked["q"], under=below, limit=limit)


class _Chosen:
    """Filter that selects matches by the actor and the time of their last change."""

    def __init__(self, asked: Mapping[str, str], *, has_stores: bool) -> None:
        self._actor, self._since, self._has_stores = asked["actor"], time_of(asked["since"]), has_stores

    def shown(self, found: SearchFound) -> ShownResults:
        """Filter the results of a search, and return them as the page shows them."""
        hits, now = list(filter(self._fits, found.hits)), datetime.now(UTC)
        is_filtered = bool(self._actor) or self._since is not None
        return ShownResults(
            found,
            total=len(hits) if is_filtered else found.total,
            is_cut=is_filtered and found.total > len(found.hits),
            hits=[_shown(each, now) for each in hits[:HITS]],
            facets=_facets(hits, now, has_stores=self._has_stores),
            counted=len(hits),
        )

    def _fits(self, found: FoundHit) -> bool:
        hit = found.hit
        fits_actor = not self._actor or matches_actor(self._actor, hit.actor or "")
        return fits_actor and (self._since is None or hit.updated_at >= self._since)


def _shown(found: FoundHit, now: datetime) -> dict[str, object]:
    hit = found.hit
    return {
        "hit": hit,
        "store": found.store,
        "path": marked(hit.path, hit.path_spans),
        "lines": [(each.line, marked(each.text, each.spans)) for each in hit.snippets],
        "age": age(hit.updated_at, now),
    }


def _facets(hits: Sequence[FoundHit], now: datetime, *, has_stores: bool) -> dict[str, list[tuple[str, str, int]]]:
    """For each filter field, return the values that occur in the matches, as (value, name, number of memories)."""
    stores = Counter((each.store.id, each.name) for each in hits).most_common(_CHOICES) if has_stores else []
    directories = Counter(each.hit.path.rpartition("/")[0] for each in hits).most_common(_CHOICES)
    actors = Counter(each.hit.actor for each in hits if each.hit.actor).most_common(_CHOICES)
    ages = [(value, name, sum(now - each.hit.updated_at <= length for each in hits)) for value, name, length in AGES]
    return {
        "in": [(store_id, name, count) for (store_id, name), count in stores],
        "under": [(path, path, count) for path, count in directories],
        "actor": [(actor, actor, count) for actor, count in actors],
        "since": [each for each in ages if each[2]],
    }
