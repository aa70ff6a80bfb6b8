"""Handler of the search route."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from retentive.engine.trust import Level
from retentive.errors import NotFound
from retentive.search.results import Hit, Span
from retentive.server.calls import Json, RouteCall
from retentive.server.errors import invalid
from retentive.server.objects import actor, api_path, memory, moment, prefix_of, time
from retentive.storage.contract import as_actor
from retentive.store import MemoryStore, core_of
from retentive.store.by_id import read_memory


def search_memories(
    call: RouteCall,
    *,
    query: str,
    path_prefix: str,
    mode: Literal["ranked", "all", "regex"],
    at: str | None,
    paths: Sequence[str],
    source: str | None,
    trust: Level | None,
    history: bool,
    limit: int,
) -> Json:
    """Search memories, and return the matches with their best lines, best match first.

    The query is in the body of the request, because URLs appear in logs.
    """
    store = call.store
    if at is not None and history:
        raise invalid("history: cannot be combined with at")
    found = store.search(
        query,
        mode="all" if mode == "all" else "ranked",
        regex=mode == "regex",
        under=prefix_of(path_prefix)[:-1],
        at=None if at is None else moment(at),
        paths=paths,
        source=source,
        trust=trust,
        history=history,
        limit=limit,
    )
    return {
        "data": [_result(store, hit) for hit in found.hits],
        "next_page": None,
        "total": found.total,
        "unknown_words": list(found.unknown),
        "damaged_paths": [api_path(path) for path in found.damaged],
        "relaxed": found.relaxed,
    }


def _result(store: MemoryStore, hit: Hit) -> Json:
    shift = len(hit.path) - len(api_path(hit.path))
    return {
        "type": "search_result",
        "memory_id": hit.memory_id,
        "memory_version_id": hit.version_id,
        "path": api_path(hit.path),
        "path_marks": _marks([(start - shift, end - shift) for start, end in hit.path_spans if start >= shift]),
        "memory": _present(store, hit),
        "score": hit.score,
        "updated_at": time(hit.updated_at),
        "updated_by": actor(as_actor(hit.actor)),
        "trust": hit.trust,
        "matching_lines": hit.lines,
        "snippets": [
            {"line": each.line, "text": each.text, "marks": _marks(each.spans), "headings": list(each.headings)}
            for each in hit.snippets
        ],
    }


def _marks(spans: Sequence[Span]) -> list[list[int]]:
    return [[start, end] for start, end in spans]


def _present(store: MemoryStore, hit: Hit) -> Json | None:
    """Return the memory that was found, or None if the hit is an earlier version or a proposal."""
    try:
        found, _ = core_of(store).peek(read_memory(hit.memory_id))
    except NotFound:
        return None
    return memory(found, store.id, None) if found.version_id == hit.version_id else None
