"""Route of searches."""

from __future__ import annotations

from retentive.errors import NotFound
from retentive.search.results import Hit
from retentive.server.calls import RouteCall
from retentive.server.errors import invalid
from retentive.server.route import READ, STORE, Routes
from retentive.store import MemoryStore, core_of
from retentive.store.by_id import read_memory
from retentive.values.records import as_actor
from retentive.wire.memories import MemoryObject
from retentive.wire.search import HitObject, SearchAnswer, SearchRequest

route = Routes()


@route("POST", f"{STORE}/search", READ)
def search_memories(call: RouteCall, body: SearchRequest) -> SearchAnswer:
    """Search for memories, best first; docs/search.md has the operators of a query."""
    store = call.store
    if body.at is not None and body.history:
        raise invalid("history: cannot be combined with at")
    found = store.search(
        body.query,
        mode="all" if body.mode == "all" else "ranked",
        regex=body.mode == "regex",
        under=body.path_prefix,
        at=body.at,
        paths=body.paths,
        source=body.source,
        trust=body.trust,
        history=body.history,
        limit=body.limit,
    )
    return SearchAnswer.of(
        found,
        data=[HitObject.of(hit, memory=_present(store, hit), updated_by=as_actor(hit.actor)) for hit in found.hits],
    )


def _present(store: MemoryStore, hit: Hit) -> MemoryObject | None:
    """Return the memory that was found, or None if the hit is an earlier version or a proposal."""
    try:
        found, _ = core_of(store).peek(read_memory(hit.memory_id))
    except NotFound:
        return None
    return (
        MemoryObject.of(found, memory_store_id=store.id, content=None) if found.version_id == hit.version_id else None
    )
