"""Search."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from retentive.console.visible import marked
from retentive.console.visits import HtmlPage, PageAnswer, Visit
from retentive.search.results import age
from retentive.values.paths import ROOT

HITS = 50


def search(visit: Visit) -> PageAnswer:
    """The best memories for a query, with their best lines. POST keeps the query out of the address and of logs."""
    asked = {name: visit.given(name) or visit.query.get(name, "") for name in ("q", "under", "re")}
    query, under = asked["q"].strip(), asked["under"].strip()
    if under and not under.startswith(ROOT):
        under = f"{ROOT}/{under.lstrip('/')}"
    values: dict[str, object] = {"asked": asked, "results": None, "area": "search"}
    if query:
        is_regex, below = asked["re"] == "1", under.rstrip("/") or ROOT
        if is_regex:
            found = visit.store.search(query, under=below, mode="all", regex=True, limit=HITS)
        else:
            found = visit.store.search(query, under=below, limit=HITS)
        now = datetime.now(UTC)
        values["results"] = found
        values["hits"] = [
            {
                "hit": hit,
                "path": marked(hit.path, hit.path_spans),
                "lines": [(each.line, marked(each.text, each.spans)) for each in hit.snippets],
                "age": age(hit.updated_at, now),
            }
            for hit in found.hits
        ]
        values["directories"] = Counter(hit.path.rpartition("/")[0] for hit in found.hits).most_common(8)
    return HtmlPage("search.html", values, title=f"Search: {query}" if query else "Search")
