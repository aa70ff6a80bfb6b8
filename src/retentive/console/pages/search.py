"""Pages for the search in one memory store, and for the search in all stores that the API key may see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from retentive.console.pages.history import time_of
from retentive.console.pages.stores import listed
from retentive.console.visible import marked
from retentive.console.visits import BASE, HtmlPage, PageAnswer, Visit, store_url, typed_path, url_name, with_query
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


@dataclass(frozen=True, slots=True)
class SearchFound:
    """Matches of a search in one or more stores, best first, with the answers of the API for each store.

    `problems` lists the stores that could not be searched, each with the code of its error.
    """

    hits: Sequence[tuple[StoreInfo, HitObject]]
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


def search(visit: Visit) -> PageAnswer:
    """Show the best matches of a query with their best lines. POST keeps the query out of URLs and logs."""
    asked = {**_asked(visit), "in": ""}
    values = {"url": lambda **query: visit.url("search", **query), "is_one": True, "searched": 1, "is_more": False}
    if not asked["q"]:
        return _page(visit, asked, None, **values)
    answer = search_memories(visit.call(), _request(asked))
    return _page(visit, asked, SearchFound([(visit.info, each) for each in answer.data], [answer]), **values)


def search_all(visit: Visit) -> PageAnswer:
    """Search the stores that the API key may see. If there are more than `STORES`, only the newest are searched."""
    asked = _asked(visit)
    infos, is_more = listed(visit, asked["in"], is_archived=False)
    values = {"url": lambda **query: with_query(f"{BASE}/search", **query), "is_one": False,
              "searched": min(len(infos), STORES), "is_more": is_more or len(infos) > STORES}  # fmt: skip
    if not asked["q"]:
        return _page(visit, asked, None, **values)
    request, answers, problems = _request(asked), list[tuple[StoreInfo, SearchAnswer]](), []
    for info in infos[:STORES]:
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
    return _page(visit, asked, SearchFound(hits[: request.limit], [each for _, each in kept], problems), **values)


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


def _page(visit: Visit, asked: Mapping[str, str], found: SearchFound | None, **values: object) -> HtmlPage:
    """Return the page. The matches are filtered by the actor and the time of their last change."""
    filled = asked if visit.method != "POST" else dict.fromkeys(asked, "")  # the form puts its fields into the URL
    title = f"Search: {asked['q']}" if asked["q"] else "Search"
    values |= {"asked": asked, "filled": filled, "found": found, "area": "search", "all_url": f"{BASE}/search"}
    if found is None:
        return HtmlPage("search.html", values, title=title)
    now, since, actor = datetime.now(UTC), time_of(asked["since"]), asked["actor"]
    hits = [
        (info, hit)
        for info, hit in found.hits
        if (not actor or matches_actor(actor, str(hit.updated_by or ""))) and (since is None or hit.updated_at >= since)
    ]
    is_filtered = bool(actor) or since is not None
    values |= {
        "total": len(hits) if is_filtered else found.total,
        "is_cut": is_filtered and found.total > len(found.hits),
        "hits": [_shown(info, hit, now) for info, hit in hits[:HITS]],
        "facets": _facets(hits, now, has_stores=not values["is_one"]),
        "counted": len(hits),
        "relaxed": any(each.relaxed for each in found.answers),
    }
    return HtmlPage("search.html", values, title=title)


def _shown(info: StoreInfo, hit: HitObject, now: datetime) -> dict[str, object]:
    return {
        "hit": hit,
        "info": info,
        "url": store_url(url_name(info), "tree", ""),
        "html": marked(hit.path, [(start, end) for start, end in hit.path_marks]),
        "lines": [(each.line, marked(each.text, [(a, b) for a, b in each.marks])) for each in hit.snippets],
        "age": age(hit.updated_at, now),
    }


def _facets(
    hits: Sequence[tuple[StoreInfo, HitObject]], now: datetime, *, has_stores: bool
) -> dict[str, list[tuple[str, str, int]]]:
    """For each filter field, return the values that occur in the matches, as (value, name, number of memories)."""
    names = {info.id: info.key or info.name or info.id for info, _ in hits}
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
