"""Pages for the search in one memory store, and for the search in all stores that the API key may see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from starlette.responses import Response

from retentive.console.pages.history import time_of
from retentive.console.pages.stores import listed
from retentive.console.rendering import BASE, marked, name_of, with_query
from retentive.console.visits import Visit, page, typed_path
from retentive.errors import InvalidInput, RetentiveError
from retentive.search.ranking import order
from retentive.search.results import age
from retentive.server.handlers.memories import search_memories
from retentive.storage.contract import StoreInfo
from retentive.values.paths import ROOT
from retentive.values.patterns import check_actor_pattern, matches_actor
from retentive.wire.memories import HitObject, SearchAnswer, SearchRequest

HITS = 50
FILTERED = 100
"""Number of best matches to read if the person filters by actor or time. The filter applies only to these matches."""
STORES = 50
"""Maximum number of stores that one search reads."""
_CHOICES = 8
AGES = (("1d", "Last 24 hours", timedelta(days=1)), ("7d", "Last 7 days", timedelta(days=7)),
        ("30d", "Last 30 days", timedelta(days=30)))  # fmt: skip
_FIELDS = ("q", "under", "actor", "since", "re", "in")
"""Fields of the form. Only the search in all stores uses `in`: a part of the key, name or id of the wanted stores."""
Hits = Sequence[tuple[StoreInfo, HitObject]]


@dataclass(frozen=True, slots=True)
class SearchFound:
    """Matches of a search in one or more stores, best first, with the answers of the API for each store.

    `problems` lists the stores that could not be searched, each with the code of its error.
    """

    hits: Hits
    answers: Sequence[SearchAnswer]
    problems: Sequence[tuple[StoreInfo, str]] = ()

    @property
    def total(self) -> int:
        """Number of matching memories."""
        return sum(each.total for each in self.answers)

    @property
    def unknown(self) -> list[str]:
        """Words of the query that occur in no store."""
        first, *others = [each.unknown_words for each in self.answers] or [[]]
        return [word for word in first if all(word in each for each in others)]


@page("GET POST", "search", "read", "search")
def search(visit: Visit) -> Response:
    """Show the best matches of a query with their best lines. POST keeps the query out of URLs and logs."""
    asked, found = {**_asked(visit), "in": ""}, None
    if asked["q"]:
        answer = search_memories(visit.call(), _request(asked))
        found = SearchFound([(visit.info, each) for each in answer.data], [answer])
    return _page(visit, asked, found, partial(visit.url, "search"), is_one=True, searched=1, is_more=False)


@page("GET POST", "/search", "read")
def search_all(visit: Visit) -> Response:
    """Search the stores that the API key may see. If there are more than `STORES`, only the newest are searched."""
    asked = _asked(visit)
    infos, is_more = listed(visit, asked["in"], is_archived=False)
    found = _found(visit, asked, infos[:STORES]) if asked["q"] else None
    searched, is_more = min(len(infos), STORES), is_more or len(infos) > STORES
    return _page(visit, asked, found, partial(with_query, f"{BASE}/search"), searched=searched, is_more=is_more)


def _found(visit: Visit, asked: Mapping[str, str], infos: Sequence[StoreInfo]) -> SearchFound:
    """Search stores, and rank their matches together. A store without an exact match counts only if none has one."""
    request, answers, problems = _request(asked), list[tuple[StoreInfo, SearchAnswer]](), []
    for info in infos:
        try:
            answers.append((info, search_memories(visit.call(info), request)))
        except InvalidInput:  # the query would fail in every store
            raise
        except RetentiveError as error:
            problems.append((info, error.code))
    is_exact = any(each.data and not each.relaxed for _, each in answers)
    kept = [(info, each) for info, each in answers if not (is_exact and each.relaxed)]
    hits = [(info, hit) for info, each in kept for hit in each.data]
    hits.sort(key=lambda found: order(found[1].score, found[1].updated_at, found[1].path))
    return SearchFound(hits[: request.limit], [each for _, each in kept], problems)


def _asked(visit: Visit) -> dict[str, str]:
    return {name: visit.asked(name) for name in _FIELDS}


def _request(asked: Mapping[str, str]) -> SearchRequest:
    """Return the search to run in each store. Raises `HttpError` or `InvalidInput` for an invalid filter."""
    under = asked["under"]
    below = typed_path(under if under.startswith(ROOT) else f"{ROOT}/{under.lstrip('/')}")
    if asked["actor"]:
        check_actor_pattern(asked["actor"])
    is_filtered = bool(asked["actor"]) or time_of(asked["since"]) is not None
    return SearchRequest.read(
        {
            "query": asked["q"],
            "mode": "regex" if asked["re"] == "1" else "ranked",
            "path_prefix": below.removeprefix(ROOT) + "/",
            "limit": FILTERED if is_filtered else HITS,
        }
    )


def _page(
    visit: Visit,
    asked: Mapping[str, str],
    found: SearchFound | None,
    url: Callable[..., str],
    *,
    is_one: bool = False,
    **values: object,
) -> Response:
    """Return the page. The matches are filtered by the actor and the time of their last change."""
    now, actor, since = datetime.now(UTC), asked["actor"], time_of(asked["since"]) if found else None
    hits = [
        (info, hit)
        for info, hit in (found.hits if found else ())
        if (not actor or matches_actor(actor, str(hit.updated_by or ""))) and (since is None or hit.updated_at >= since)
    ]
    is_filtered = bool(actor) or since is not None
    return visit.page(
        "search.html",
        f"Search: {asked['q']}" if asked["q"] else "Search",
        asked=asked,
        filled=asked if not visit.is_post else dict.fromkeys(asked, ""),  # the form puts its fields into the URL
        found=found,
        url=url,
        is_one=is_one,
        total=len(hits) if is_filtered or found is None else found.total,
        is_cut=is_filtered and found is not None and found.total > len(found.hits),
        hits=hits[:HITS],
        marked=marked,
        age=lambda at: age(at, now),
        facets=_facets(hits, now, has_stores=not is_one),
        counted=len(hits),
        **values,
    )


def _facets(hits: Hits, now: datetime, *, has_stores: bool) -> dict[str, list[tuple[str, str, int]]]:
    """For each filter field, return the values that occur in the matches, as (value, name, number of memories)."""
    names = {info.id: name_of(info) for info, _ in hits}
    stores = Counter(info.id for info, _ in hits).most_common(_CHOICES) if has_stores else []
    directories = Counter(hit.path.rpartition("/")[0] for _, hit in hits).most_common(_CHOICES)
    actors = Counter(str(hit.updated_by) for _, hit in hits if hit.updated_by).most_common(_CHOICES)
    ages = [(value, name, sum(now - hit.updated_at <= length for _, hit in hits)) for value, name, length in AGES]
    return {
        "in": [(store_id, names[store_id], count) for store_id, count in stores],
        "under": [(path, path, count) for path, count in directories],
        "actor": [(actor, actor, count) for actor, count in actors],
        "since": [each for each in ages if each[2]],
    }
