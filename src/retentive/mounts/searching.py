"""Search over all stores of a tree. The hits of all stores are ranked together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from retentive.history.searching import StoreSearch
from retentive.mounts.mount import Mount
from retentive.search.ranking import Statistics, order
from retentive.search.results import Hit, Results, unknown_everywhere
from retentive.storage.contract import Actor
from retentive.values.paths import ROOT
from retentive.values.patterns import covers


def search_mounts(
    parts: Sequence[tuple[Mount, str]],
    query: str,
    *,
    mode: Literal["ranked", "all"],
    regex: bool,
    paths: Sequence[str],
    limit: int | None,
    actor: Actor | str | None,
) -> Results:
    """Search several mounted stores and return the hits in one ranking. Raises `InvalidInput`.

    `parts` contains each store with the path of the directory to search in this store. The ranking uses the word
    statistics of all stores together, so that the scores of different stores are comparable.
    """
    searches = [(mount, StoreSearch(query, mode, regex, under, limit=None)) for mount, under in parts]
    statistics = None
    if mode == "ranked" and not regex and len(parts) > 1:
        statistics = sum((search.statistics(mount.core, mount.core.peek) for mount, search in searches), Statistics())
    found = [_found(mount, search, statistics, actor) for mount, search in searches]
    hits = [hit for each in found for hit in each.hits if not paths or covers(paths, hit.path)]
    damaged = [path for each in found for path in each.damaged if not paths or covers(paths, path)]
    exact = any(each.hits and not each.relaxed for each in found)
    if exact:  # if one store has hits with all words, drop the hits of other stores that have only some of the words
        relaxed = {hit.path for each in found if each.relaxed for hit in each.hits}
        hits = [hit for hit in hits if hit.path not in relaxed]
    hits.sort(key=lambda hit: order(hit.score, hit.updated_at, hit.path))
    unknown = unknown_everywhere(found)
    return Results(
        tuple(hits[:limit]),
        len(hits),
        tuple(sorted(damaged)),
        unknown,
        not exact and any(each.relaxed for each in found),
    )


def _found(mount: Mount, search: StoreSearch, statistics: Statistics | None, actor: Actor | str | None) -> Results:
    """Search one store. The result has only memories that are visible in the tree, with their paths in the tree."""
    core, longer = mount.core, len(mount.point) - len(ROOT)
    if mount.covered:
        search = replace(search, shows=mount.shows)
    with mount.named_outward():
        found = search.run(core, actor, partial(core.found, actor=actor), statistics=statistics)

    def outward(hit: Hit) -> Hit:
        spans = tuple((start + longer, end + longer) for start, end in hit.path_spans)
        return replace(hit, path=mount.outward(hit.path), path_spans=spans)

    damaged = tuple(mount.outward(path) for path in found.damaged if mount.shows(path))
    return replace(found, hits=tuple(map(outward, found.hits)), damaged=damaged)
