"""Routes of memories, and of searches."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeVar

from pydantic import Field

from retentive.engine.handlers import RunCommand
from retentive.engine.lists import Listed, ListedDirectory, ListingCursor, ListMemories, load
from retentive.engine.operation import ReadOperation
from retentive.errors import Conflict, CursorExpired, NotFound, Refused
from retentive.history.past import AsOf
from retentive.search.results import Hit
from retentive.server import cursors
from retentive.server.calls import RouteCall
from retentive.server.errors import HttpError, finding, invalid, missing
from retentive.server.handlers.versions import FULL_LIMIT
from retentive.server.route import READ, STORE, WRITE, Routes
from retentive.storage.contract import Memory
from retentive.store import MemoryStore, by_id, core_of
from retentive.store.by_id import ById
from retentive.values.commands import Create, check_text
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import Written, as_actor
from retentive.wire.base import (
    FROM_TEXT,
    At,
    Basic,
    Cursor,
    FilePath,
    Full,
    Limit,
    Session,
    Sha256,
    Shown,
    Source,
    Under,
)
from retentive.wire.memories import (
    MemoryCreation,
    MemoryDeleted,
    MemoryObject,
    MemoryPage,
    MemoryUpdate,
    PrefixObject,
)
from retentive.wire.search import HitObject, SearchAnswer, SearchRequest

R = TypeVar("R")
NO_MEMORY = "memory"
MEMORY = f"{STORE}/memories/{{memory_id}}"
PathOfMemory = Annotated[FilePath, Field(description="Path, which begins with `/`")]
route = Routes()


@route("POST", f"{STORE}/memories", WRITE, conflicts=True)
def create_memory(call: RouteCall, body: MemoryCreation, view: Basic = "basic") -> MemoryObject:
    """Create a memory.

    Fails with a conflict if there is a memory at the path, above it or below it.
    """
    store = call.store
    core = core_of(store).with_options(exact=True)
    try:
        check_text("content", body.content)
    except Refused as refusal:
        raise core.raised(refusal) from None
    written = core.written(RunCommand(Create(MemoryPath.known(body.path), body.content)), core.invocation())
    made, text = _as_written(store, written)
    note = None
    if made.path.startswith(f"{ROOT}{ROOT}/"):
        note = f"the memory tool sees {made.path}, because paths of this API begin below {ROOT}; leave out {ROOT}"
    return _shown(made, store, text, view, note=note)


def _shown(memory: Memory, store: MemoryStore, text: str | None, view: Shown, **more: object) -> MemoryObject:
    content = text if view == "full" else None
    return MemoryObject.of(memory, memory_store_id=store.id, content=content, **more)


def _as_written(store: MemoryStore, written: Written) -> tuple[Memory, str]:
    """Return a memory and its text as a change left them, even if later changes have followed."""
    try:
        found = store.by_id.get(written.memory_id)
    except NotFound:
        if written.is_proposed:
            raise missing(NO_MEMORY) from None
    else:
        if written.is_proposed or found[0].version_id == written.version_id:
            return found
    return core_of(store).peek(AsOf(by_id.read_memory(written.memory_id), written.version_id))


@route("GET", f"{STORE}/memories", READ)
def list_memories(
    call: RouteCall,
    *,
    limit: Limit = 20,
    page: Cursor = None,
    view: Basic = "basic",
    path_prefix: Under = "/",
    depth: Annotated[int, Field(ge=0, le=1, description="1 lists one level, with its directories"), FROM_TEXT] = 0,
    at: At = None,
) -> MemoryPage:
    """List memories by path.

    With depth 1, directories are listed instead of the memories below them.
    """
    store, is_full = call.store, view == "full"
    of = f"{call.path} {path_prefix} {depth} {at or ''}"
    cursor = None if page is None else ListingCursor(*cursors.decode(page, of, 2))
    count = min(limit, FULL_LIMIT) if is_full else limit
    listing = ListMemories(MemoryPath.known(path_prefix), depth, cursor, count, is_full)
    try:
        found = core_of(store).result_of(_at(at, listing))
    except CursorExpired:
        raise cursors.expired() from None
    following = None if found.next is None else cursors.encode([found.next.pin, found.next.last], of)
    return MemoryPage(data=[_listed(each, store.id) for each in found.items], next_page=following)


def _listed(each: Listed, store_id: str) -> MemoryObject | PrefixObject:
    if isinstance(each, ListedDirectory):
        return PrefixObject(path=each.path)
    return MemoryObject.of(each.memory, memory_store_id=store_id, content=each.text)


@route("GET", f"{STORE}/memory", READ)
def read_memory(call: RouteCall, path: PathOfMemory, *, at: At = None, view: Full = "full") -> MemoryObject:
    """Retrieve the memory at a path."""
    return _read(call, load(MemoryPath.known(path)), at, view)


@route("GET", MEMORY, READ)
def retrieve_memory(call: RouteCall, *, at: At = None, view: Full = "full") -> MemoryObject:
    """Retrieve a memory."""
    return _read(call, by_id.read_memory(call.ids["memory_id"]), at, view)


def _read(call: RouteCall, operation: ReadOperation[tuple[Memory, str]], at: At, view: Shown) -> MemoryObject:
    store = call.store
    with finding(NO_MEMORY):
        found, text = core_of(store).result_of(_at(at, operation))
    if at is None:
        core_of(store).accesses.note(store.id, found)
    return _shown(found, store, text, view)


def _at(at: str | datetime | None, operation: ReadOperation[R]) -> ReadOperation[R]:
    """Return an operation that runs `operation` on the state that `at` names. If `at` is None, return `operation`."""
    return operation if at is None else AsOf(operation, at)


@route("POST", MEMORY, WRITE, conflicts=True)
def update_memory(call: RouteCall, body: MemoryUpdate, view: Basic = "basic") -> MemoryObject:
    """Change a memory.

    If its text and its path are unchanged, no version is recorded.
    """
    content, expected = body.content, None if body.precondition is None else body.precondition.content_sha256
    if content is None and body.path is None:
        raise invalid("content: specify content, path or both")
    store, memory_id = call.store, call.ids["memory_id"]
    try:
        written = ById(core_of(store).with_options(exact=True)).update(
            memory_id, text=content, path=body.path, if_sha256=expected, source=body.source, session=body.session
        )
        assert written.memory is not None
        is_read = view == "full" and content is None
        text = store.version_text(written.version_id) if is_read else content
    except NotFound:
        raise missing(NO_MEMORY) from None
    except Conflict:
        raise _differs() from None
    return _shown(written.memory, store, text, view)


@route("DELETE", MEMORY, WRITE, conflicts=True)
def delete_memory(
    call: RouteCall,
    *,
    expected_content_sha256: Annotated[Sha256 | None, Field(description="Hash that the content must have")] = None,
    source: Source = None,
    session: Session = None,
) -> MemoryDeleted:
    """Delete a memory.

    Its versions are kept.
    """
    memory_id = call.ids["memory_id"]
    try:
        call.store.by_id.delete(memory_id, if_sha256=expected_content_sha256, source=source, session=session)
    except NotFound:
        raise missing(NO_MEMORY) from None
    except Conflict:
        raise _differs() from None
    return MemoryDeleted(id=memory_id)


def _differs() -> HttpError:
    message = "the memory does not have the expected content_sha256, so nothing was changed"
    return HttpError(409, "memory_precondition_failed_error", message, "precondition_failed")


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
        found, _ = core_of(store).peek(by_id.read_memory(hit.memory_id))
    except NotFound:
        return None
    return (
        MemoryObject.of(found, memory_store_id=store.id, content=None) if found.version_id == hit.version_id else None
    )
