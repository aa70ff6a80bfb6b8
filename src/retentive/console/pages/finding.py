"""Search page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from retentive.console.pages.history import time_of
from retentive.console.visible import marked
from retentive.console.visits import HtmlPage, PageAnswer, Visit
from retentive.search.results import Hit, age
from retentive.values.paths import ROOT
from retentive.values.patterns import check_actor_pattern, matches_actor

HITS = 50
FILTERED = 200
"""Number of best matches to read if the person filters by actor or time. The filter applies to these matches."""
_CHOICES = 8
AGES = (("1d", "Last 24 hours", timedelta(days=1)), ("7d", "Last 7 days", timedelta(days=7)),
        ("30d", "Last 30 days", timedelta(days=30)))  # fmt: skip
_FIELDS = ("q", "under", "actor", "since", "re")


def search(visit: Visit) -> PageAnswer:
    """Show the best matches of a query with their best lines. POST keeps the query out of URLs and logs."""
    asked = {name: (visit.given(name) or visit.query.get(name, "")).strip() for name in _FIELDS}
    values: dict[str, object] = {"asked": asked, "results": None, "area": "search"}
    if asked["q"]:
        values |= _found(visit, asked)
    return HtmlPage("search.html", values, title=f"Search: {asked['q']}" if asked["q"] else "Search")


def _found(visit: Visit, asked: dict[str, str]) -> dict[str, object]:
    query, under, since = asked["q"], asked["under"], time_of(asked["since"])
    below = (under if under.startswith(ROOT) or not under else f"{ROOT}/{under.lstrip('/')}").rstrip("/") or ROOT
    is_filtered = bool(asked["actor"]) or since is not None
    if asked["actor"]:
        check_actor_pattern(asked["actor"])
    limit = FILTERED if is_filtered else HITS
    if asked["re"] == "1":
        found = visit.store.search(query, under=below, mode="all", regex=True, limit=limit)
    else:
        found = visit.store.search(query, under=below, limit=limit)
    chosen = [hit for hit in found.hits if _fits(hit, asked["actor"], since)]
    now = datetime.now(UTC)
    return {
        "results": found,
        "total": len(chosen) if is_filtered else found.total,
        "is_cut": is_filtered and found.total > len(found.hits),
        "hits": [_shown(hit, now) for hit in chosen[:HITS]],
        "facets": _facets(chosen, now),
        "counted": len(chosen),
    }


def _fits(hit: Hit, actor: str, since: datetime | None) -> bool:
    return (not actor or matches_actor(actor, hit.actor or "")) and (since is None or hit.updated_at >= since)


def _shown(hit: Hit, now: datetime) -> dict[str, object]:
    return {
        "hit": hit,
        "path": marked(hit.path, hit.path_spans),
        "lines": [(each.line, marked(each.text, each.spans)) for each in hit.snippets],
        "age": age(hit.updated_at, now),
    }


def _facets(hits: Sequence[Hit], now: datetime) -> dict[str, list[tuple[str, str, int]]]:
    """Return, for each filter field, the values that occur in the matches, as (value, name, number of memories)."""
    directories = Counter(hit.path.rpartition("/")[0] for hit in hits).most_common(_CHOICES)
    actors = Counter(hit.actor for hit in hits if hit.actor).most_common(_CHOICES)
    ages = [(value, name, sum(now - hit.updated_at <= length for hit in hits)) for value, name, length in AGES]
    return {
        "under": [(path, path, count) for path, count in directories],
        "actor": [(actor, actor, count) for actor, count in actors],
        "since": [each for each in ages if each[2]],
    }
