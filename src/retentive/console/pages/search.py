"""Page for the search in a memory store."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from starlette.responses import Response

from retentive.console.rendering import marked
from retentive.console.visits import Visit, page, typed_path
from retentive.search.results import age
from retentive.server.errors import invalid
from retentive.server.handlers.memories import search_memories
from retentive.values.paths import ROOT
from retentive.wire.memories import SearchRequest

HITS = 50
AGES = (("1d", "Last 24 hours", timedelta(days=1)), ("7d", "Last 7 days", timedelta(days=7)),
        ("30d", "Last 30 days", timedelta(days=30)))  # fmt: skip


@page("GET POST", "search", "read", "search")
def search(visit: Visit) -> Response:
    """Show the best matches of a query with their best lines. POST keeps the query out of URLs and logs."""
    asked = {name: visit.asked(name) for name in ("q", "under", "actor", "since", "re")}
    now, found, is_regex = datetime.now(UTC), None, asked["re"] == "1"
    if asked["q"]:
        filters = {"by": asked["actor"], "since": asked["since"].replace(" ", "T")}
        operators = [f"{name}:{value}" for name, value in filters.items() if value]
        if is_regex and operators:
            raise invalid("a regular expression cannot be combined with an actor or a time")
        if any(len(each.split()) != 1 for each in operators):
            raise invalid("actor: must have no spaces")
        under = asked["under"]
        below = typed_path(under if under.startswith(ROOT) else f"{ROOT}/{under.lstrip('/')}")
        body = {
            "query": " ".join([asked["q"], *operators]),
            "mode": "regex" if is_regex else "ranked",
            "path_prefix": below.removeprefix(ROOT) + "/",
            "limit": HITS,
        }
        found = search_memories(visit.call(), SearchRequest.read(body))
    hits = found.data if found else []
    directories = Counter(hit.path.rpartition("/")[0] for hit in hits).most_common(8)
    actors = Counter(str(hit.updated_by) for hit in hits if hit.updated_by).most_common(8)
    ages = [(value, name, sum(now - hit.updated_at <= length for hit in hits)) for value, name, length in AGES]
    return visit.page(
        "search.html",
        f"Search: {asked['q']}" if asked["q"] else "Search",
        asked=asked,
        found=found,
        marked=marked,
        age=lambda at: age(at, now),
        facets={
            "under": [(path, path, count) for path, count in directories],
            "actor": [(actor, actor, count) for actor, count in actors],
            "since": [each for each in ages if each[2]],
        },
    )
