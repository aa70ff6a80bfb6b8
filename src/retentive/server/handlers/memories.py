"""Handlers of the routes for memories."""

from __future__ import annotations

from typing import TypeVar

from retentive.engine.handlers import RunCommand
from retentive.engine.listings import ListedDirectory, ListingCursor, ListMemories
from retentive.engine.operation import ReadOperation
from retentive.engine.queries import load
from retentive.errors import Conflict, CursorExpired, NotFound, Refused
from retentive.history.past import AsOf
from retentive.server import cursors
from retentive.server.calls import Json, RouteCall
from retentive.server.errors import HttpError, invalid, missing
from retentive.server.handlers.versions import FULL_LIMIT
from retentive.server.objects import NO_MEMORY, api_path, memory, moment, prefix_of, tool_path
from retentive.storage.contract import Memory
from retentive.store import MemoryStore, by_id, core_of
from retentive.store.by_id import ById
from retentive.values.commands import Create, check_text
from retentive.values.paths import MemoryPath
from retentive.values.records import Written

R = TypeVar("R")


def create_memory(call: RouteCall, *, path: str, content: str, view: str) -> Json:
    """Create a memory. Fails with a conflict if there is a memory at the path, above it or below it."""
    store = call.store
    core, target = core_of(store).with_options(exact=True), MemoryPath.known(tool_path(path, may_be_root=False))
    try:
        check_text("content", content)
    except Refused as refusal:
        raise core.raised(refusal) from None
    written = core.written(RunCommand(Create(target, content)), core.invocation())
    made, text = _as_written(store, written)
    return memory(made, store.id, text if view == "full" else None)


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


def list_memories(
    call: RouteCall, *, path_prefix: str, depth: int, view: str, at: str | None, limit: int, page: str | None
) -> Json:
    """List memories in byte order of their paths.

    With depth 1, directories are listed instead of the memories below them.
    """
    store, is_full = call.store, view == "full"
    under, of = prefix_of(path_prefix)[:-1], f"{call.path} {path_prefix} {depth} {at or ''}"
    cursor = None if page is None else ListingCursor(*cursors.decode(page, of, 2))
    count = min(limit, FULL_LIMIT) if is_full else limit
    try:
        listing = ListMemories(MemoryPath.known(under), depth, cursor, count, is_full)
        found = core_of(store).found(_at(at, listing))
    except CursorExpired:
        raise cursors.expired() from None
    data: list[Json] = [
        {"type": "memory_prefix", "path": api_path(each.path)}
        if isinstance(each, ListedDirectory)
        else memory(each.memory, store.id, each.text)
        for each in found.items
    ]
    following = None if found.next is None else cursors.encode([found.next.pin, found.next.last], of)
    return {"data": data, "next_page": following}


def retrieve_memory(call: RouteCall, *, view: str, at: str | None) -> Json:
    """Return the memory with an id, in its current state or in an earlier one."""
    store = call.store
    try:
        found, text = core_of(store).found(_at(at, by_id.read_memory(call.ids["memory_id"])))
    except NotFound:
        raise missing(NO_MEMORY) from None
    if at is None:
        core_of(store).accesses.note(store.id, found)
    return memory(found, store.id, text if view == "full" else None)


def read_memory(call: RouteCall, *, path: str, view: str, at: str | None) -> Json:
    """Return the memory at a path, in the current state of the store or in an earlier one."""
    store, target = call.store, tool_path(path, may_be_root=False)
    try:
        found, text = core_of(store).found(_at(at, load(MemoryPath.known(target))))
    except NotFound:
        raise missing(NO_MEMORY) from None
    if at is None:
        core_of(store).accesses.note(store.id, found)
    return memory(found, store.id, text if view == "full" else None)


def _at(at: str | None, operation: ReadOperation[R]) -> ReadOperation[R]:
    """Return an operation that runs `operation` on the state that `at` names. If `at` is None, return `operation`."""
    return operation if at is None else AsOf(operation, moment(at))


def update_memory(
    call: RouteCall,
    *,
    content: str | None,
    path: str | None,
    precondition: str | None,
    view: str,
    source: str | None,
    session: str | None,
) -> Json:
    """Change the text of a memory, its path, or both. If both are unchanged, no version is recorded."""
    if content is None and path is None:
        raise invalid("content: specify content, path or both")
    target = None if path is None else tool_path(path, may_be_root=False)
    store, memory_id = call.store, call.ids["memory_id"]
    try:
        written = ById(core_of(store).with_options(exact=True)).update(
            memory_id, text=content, path=target, if_sha256=precondition, source=source, session=session
        )
        assert written.memory is not None
        text = None if view == "basic" else content if content is not None else store.version_text(written.version_id)
    except NotFound:
        raise missing(NO_MEMORY) from None
    except Conflict:
        raise _differs() from None
    return memory(written.memory, store.id, text)


def delete_memory(
    call: RouteCall, *, expected_content_sha256: str | None, source: str | None, session: str | None
) -> Json:
    """Delete a memory. Its versions are kept."""
    memory_id = call.ids["memory_id"]
    try:
        call.store.by_id.delete(memory_id, if_sha256=expected_content_sha256, source=source, session=session)
    except NotFound:
        raise missing(NO_MEMORY) from None
    except Conflict:
        raise _differs() from None
    return {"id": memory_id, "type": "memory_deleted"}


def _differs() -> HttpError:
    message = "the memory does not have the expected content_sha256, so nothing was changed"
    return HttpError(409, "memory_precondition_failed_error", message, "precondition_failed")
