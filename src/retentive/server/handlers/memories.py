"""Routes of memories, of searches, and those that run commands.

The route of the memory tool takes a tool_use block and answers a tool_result block. The others return more than the
text of the reply; the client in `retentive.remote` uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import Field

from retentive.engine import citations
from retentive.engine.citations import Citation
from retentive.engine.core import StoreCore
from retentive.engine.handlers import Viewed, run_view
from retentive.engine.handlers import run_command as command_of
from retentive.engine.lists import ListedDirectory, ListingCursor, list_page, load, read_version
from retentive.engine.memories import parse_for_applications
from retentive.engine.operation import CommandResult, Operation, Outcome, Read, audit_only
from retentive.engine.rendering import paths_named, rendered
from retentive.errors import Conflict, CursorExpired, NotFound, Refused, RetentiveError, error_of
from retentive.history.revisions import as_of
from retentive.integrations.messages import render, reply_to
from retentive.search.results import Hit
from retentive.server.calls import READ, STORE, WRITE, RouteCall, Routes
from retentive.server.errors import HttpError, api_error, forbidden, invalid, missing
from retentive.server.requests import cursor_of, place_in
from retentive.storage.contract import Memory, Snapshot
from retentive.store import MemoryStore, by_id, core_of
from retentive.store.by_id import ById
from retentive.values.commands import Clear, Create, View, check_text, command_name, paths_of, within
from retentive.values.paths import ROOT, MemoryPath, is_within
from retentive.values.provenance import origin_of
from retentive.values.records import Invocation, Recorded, Written, as_actor
from retentive.values.replies import Reply
from retentive.wire import base
from retentive.wire import memories as wire
from retentive.wire.stores import Scope

R = TypeVar("R")
NO_MEMORY = "memory"
FULL_LIMIT = 20
MEMORY = f"{STORE}/memories/{{memory_id}}"
PathOfMemory = Annotated[base.FilePath, Field(description="Path, which begins with `/`")]
route = Routes()


@route("POST", f"{STORE}/memories", WRITE, conflicts=True)
def create_memory(call: RouteCall, body: wire.MemoryCreation, view: base.Basic = "basic") -> wire.MemoryObject:
    """Create a memory.

    Fails with a conflict if there is a memory at the path, above it or below it.
    """
    store = call.store
    core = core_of(store).with_options(exact=True)
    try:
        check_text("content", body.content)
    except Refused as refusal:
        raise core.raised(refusal) from None
    written = core.written(command_of(Create(MemoryPath.known(body.path), body.content)), core.invocation())
    made, text = _as_written(store, written)
    note = None
    if made.path.startswith(f"{ROOT}{ROOT}/"):
        note = f"the memory tool sees {made.path}, because paths of this API begin below {ROOT}; leave out {ROOT}"
    return _shown(made, store, text, view, note=note)


def _shown(memory: Memory, store: MemoryStore, text: str | None, view: base.Shown, **more: object) -> wire.MemoryObject:
    content = text if view == "full" else None
    return wire.MemoryObject.of(memory, memory_store_id=store.id, content=content, **more)


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
    return _as_writer(core_of(store)).peek(as_of(by_id.read_memory(written.memory_id), written.version_id))


def _as_writer(core: StoreCore) -> StoreCore:
    """Return a core that sees what the caller has just written, even at paths that it may write and not read."""
    return core.with_options(scope=core.scope_of_writes)


@route("GET", f"{STORE}/memories", READ, pages=True)
def list_memories(
    call: RouteCall,
    *,
    view: base.Basic = "basic",
    path_prefix: base.Under = "/",
    depth: Annotated[int, Field(ge=0, le=1, description="1 lists one level, with its directories"), base.FROM_TEXT] = 0,
    at: base.At = None,
) -> wire.MemoryPage:
    """List memories by path.

    With depth 1, directories are listed instead of the memories below them.
    """
    store, is_full, of, page, limit = call.store, view == "full", call.listing, call.asked.page, call.asked.limit
    cursor = None if page is None else ListingCursor(*place_in(page, of, 2))
    count = min(limit, FULL_LIMIT) if is_full else limit
    listing = list_page(MemoryPath.known(path_prefix), depth, cursor, count, is_full)
    try:
        found = core_of(store).result_of(_at(at, listing))
    except CursorExpired:
        raise invalid("page: the list has changed; start again without page", "cursor_expired") from None
    following = None if found.next is None else cursor_of(of, found.next.pin, found.next.last)
    data = [
        wire.PrefixObject(path=each.path)
        if isinstance(each, ListedDirectory)
        else wire.MemoryObject.of(each.memory, memory_store_id=store.id, content=each.text)
        for each in found.items
    ]
    return wire.MemoryPage(data=data, next_page=following)


@route("GET", f"{STORE}/memory", READ)
def read_memory(
    call: RouteCall, path: PathOfMemory, *, at: base.At = None, view: base.Full = "full"
) -> wire.MemoryObject:
    """Retrieve the memory at a path."""
    return _read(call, load(MemoryPath.known(path)), at, view)


@route("GET", MEMORY, READ)
def retrieve_memory(call: RouteCall, *, at: base.At = None, view: base.Full = "full") -> wire.MemoryObject:
    """Retrieve a memory."""
    return _read(call, by_id.read_memory(call.ids["memory_id"]), at, view)


def _read(call: RouteCall, operation: Read[tuple[Memory, str]], at: base.At, view: base.Shown) -> wire.MemoryObject:
    store = call.store
    found, text = core_of(store).result_of(_at(at, operation))
    if at is None:
        core_of(store).accesses.note(store.id, found)
    return _shown(found, store, text, view)


def _at(at: str | datetime | None, operation: Read[R]) -> Read[R]:
    """Return an operation that runs `operation` on the state that `at` names. If `at` is None, return `operation`."""
    return operation if at is None else as_of(operation, at)


@route("POST", MEMORY, WRITE, conflicts=True)
def update_memory(call: RouteCall, body: wire.MemoryUpdate, view: base.Basic = "basic") -> wire.MemoryObject:
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
        text = _as_writer(core_of(store)).result_of(read_version(written.version_id))[1] if is_read else content
    except Conflict:
        raise _differs() from None
    return _shown(written.memory, store, text, view)


@route("DELETE", MEMORY, WRITE, conflicts=True)
def delete_memory(
    call: RouteCall,
    *,
    expected_content_sha256: Annotated[base.Sha256 | None, Field(description="Hash that the content must have")] = None,
    source: base.Source = None,
    session: base.Session = None,
) -> base.DeletedObject:
    """Delete a memory.

    Its versions are kept.
    """
    memory_id = call.ids["memory_id"]
    try:
        call.store.by_id.delete(memory_id, if_sha256=expected_content_sha256, source=source, session=session)
    except Conflict:
        raise _differs() from None
    return base.DeletedObject(id=memory_id, type="memory_deleted")


def _differs() -> HttpError:
    message = "the memory does not have the expected content_sha256, so nothing was changed"
    return HttpError(409, "memory_precondition_failed_error", message, "precondition_failed")


@route("POST", f"{STORE}/search", READ)
def search_memories(call: RouteCall, body: wire.SearchRequest) -> wire.SearchAnswer:
    """Search for memories, best first; docs/search.md has the operators of a query."""
    store = call.store
    if body.at is not None and body.history:
        raise invalid("history: cannot be combined with at")
    mode: Literal["all", "ranked"] = "all" if body.mode == "all" else "ranked"
    asked = body.model_dump(exclude={"mode", "path_prefix"})
    found = store.search(mode=mode, regex=body.mode == "regex", under=body.path_prefix, **asked)
    return wire.SearchAnswer.of(
        found,
        data=[
            wire.HitObject.of(hit, memory=_present(store, hit), updated_by=as_actor(hit.actor)) for hit in found.hits
        ],
    )


@route("POST", f"{STORE}/recall", READ)
def recall_memories(call: RouteCall, body: wire.RecallRequest) -> wire.RecallAnswer:
    """Return the best lines for a question, as a block for a prompt that fits a budget of tokens."""
    found = call.store.recall(body.question, budget_tokens=body.budget_tokens, under=body.path_prefix)
    return wire.RecallAnswer.of(found)


CitationPage: TypeAlias = base.AnswerPage[wire.CitationObject]


@route("GET", f"{STORE}/citations", READ, pages=True)
def list_citations(
    call: RouteCall, *, path_prefix: base.Under = "/",
    stale: Annotated[base.QueryFlag, Field(description="Only drifted and orphaned ones")] = False,
) -> CitationPage:  # fmt: skip
    """List the citations in memories with their states, by path."""
    states, at, limit = citations.STALE if stale else (), MemoryPath.known(path_prefix), call.asked.limit
    found = core_of(call.store).result_of(citations.list_citations(at, states, after=call.start, limit=limit))
    return call.page(wire.CitationObject, found.items, found.next)


@route("POST", f"{STORE}/citations/verify", WRITE)
def verify_citations(call: RouteCall, body: wire.Verification) -> CitationPage:
    """Record what a client found in the files that memories cite, and verify what they cite of other memories."""
    core, checked = core_of(call.store), [Citation(path="", line=0, **dict(each)) for each in body.citations]
    found = core.result_of(citations.verify(checked, core.clock))
    return CitationPage(data=list(map(wire.CitationObject.of, found)))


def _present(store: MemoryStore, hit: Hit) -> wire.MemoryObject | None:
    """Return the memory that was found, or None if the hit is an earlier version or a proposal."""
    try:
        found, _ = core_of(store).peek(by_id.read_memory(hit.memory_id))
    except NotFound:
        return None
    return (
        wire.MemoryObject.of(found, memory_store_id=store.id, content=None)
        if found.version_id == hit.version_id
        else None
    )


MAX_CHANGES = 1_000
"""Maximum number of versions listed in a response."""


@route("POST", f"{STORE}/tool", ("read", "write"))
def run_tool(call: RouteCall, body: wire.ToolUseBlock) -> wire.ToolResult:
    """Run a tool_use block of the memory tool; `view` needs the scope `read`, the other commands `write`.

    If a change is sent again with the same `id` within 24 hours, the first result is returned and nothing is changed.
    An id that is not one of the Claude API counts only within the run in the header `Retentive-Run`.
    Raises `HttpError` 503 if the storage was unavailable or the outcome is unknown. In this case, the client
    sends the request again, so the model need not see the failure.
    """
    _check_scope(call, body.input)
    reply = reply_to(call.store, {"id": body.id, "name": body.name, "input": body.input}, run=call.run)
    _check_reply(call, reply)
    return wire.ToolResult.model_validate(render(body.id, reply))


def _check_reply(call: RouteCall, reply: Reply) -> None:
    """Raise `HttpError` if a reply says that the memory store was erased, or that the client should try again."""
    if reply.is_error:
        call.check_store()  # if the memory store was erased, the answer is 404, as for one that never existed
        failure = api_error(error_of(reply.text, reply.code))
        if failure.status == 503:
            raise failure


def _check_scope(call: RouteCall, command: object, *, is_refused: bool = False) -> object:
    """Return the name of a command. Raises `HttpError` 403 if the key lacks its scope."""
    name = command.get("command") if isinstance(command, Mapping) else None
    scope: Scope = "read" if name == "view" or is_refused else "write"
    if not call.caller.key.allows(scope):
        raise forbidden(f"the API key needs the scope {scope}")
    return name


@route("POST", f"{STORE}/commands", ("read", "write"), conflicts=True)
def run_command(call: RouteCall, body: wire.CommandRequest) -> wire.CommandAnswer:
    """Run a command of the memory tool, or `write`, `append` or `clear`; `view` needs the scope `read`, others `write`.

    If a change is sent again with the same `id` within 24 hours, the handler returns the first reply and changes
    nothing. An id that is not one of the Claude API counts only within the run in the header `Retentive-Run`. Failures
    of the storage are raised as in `run_tool`.
    """
    name = _check_scope(call, body.command, is_refused=body.read_only)
    core = core_of(call.store.read_only() if body.read_only else call.store)
    origin = origin_of(body.source, body.session)
    invocation = Invocation(None, body.id, core.integration, **origin, request=call.request, run=call.run)
    operation: Operation[Any]
    path = None
    try:
        operation = _operation(core, body, name)
        path = paths_named(operation)[-1].text
    except Refused as refusal:
        operation = audit_only(command_name(body.command), refusal)
    outcome: Outcome[Any] = core.run(operation, invocation)
    reply = rendered(core, operation, outcome)
    _check_reply(call, reply)
    said: dict[str, Any] = {"content": reply.text, "is_error": reply.is_error, "error_code": reply.code, "path": path}
    if isinstance(outcome.result, CommandResult):
        changes = [] if outcome.proposed else _changes(core, outcome.recorded)
        return wire.CommandAnswer.of(core.described(operation, outcome), changes=changes, **said)
    if isinstance(outcome.result, Viewed) and (memory := outcome.result.memory) is not None:
        core.accesses.note(core.id, memory)
        said |= {"memory_id": memory.id, "memory_version_id": memory.version_id}
    if outcome.error is not None and (other := outcome.error.conflicting) is not None:
        said |= {"conflicting_memory_id": other.memory_id, "conflicting_path": other.path}
    return wire.CommandAnswer(**said)


@route("POST", f"{STORE}/batch", WRITE, conflicts=True)
def run_batch(call: RouteCall, body: wire.BatchRequest) -> wire.BatchAnswer:
    """Run up to 100 commands as one change, all or none; an error has the `position` of the refused command."""
    try:
        written = call.store.batch(body.commands, **origin_of(body.source, body.session))
    except RetentiveError as error:
        found = api_error(error)
        found.fields |= {} if error.position is None else {"position": error.position}
        raise found from None
    return wire.BatchAnswer(results=list(map(wire.WrittenObject.of, written)))


def _operation(core: StoreCore, body: wire.CommandRequest, name: object) -> Operation[Any]:
    """Return the operation for a command. Raises `Refused` if the command is invalid, and `HttpError` for the mount."""
    if name == "clear":
        return command_of(Clear())
    command = parse_for_applications(body.command)
    if body.mount != ROOT:
        point = MemoryPath.parse(body.mount).text
        if not all(is_within(path.text, point) for path in paths_of(command)):
            raise invalid("mount: the paths of the command must be at or below it")
        command = within(command, point)
    if isinstance(command, View):
        return run_view(command, core)
    return command_of(command, body.if_version)


def _changes(core: StoreCore, recorded: Sequence[Recorded]) -> list[wire.CommandChange]:
    """Return the recorded versions, at most `MAX_CHANGES`.

    They are read after the transaction. This is safe, because versions never change.
    """

    def work(found: Snapshot) -> list[wire.CommandChange]:
        return [wire.CommandChange.of(found.version(each.version_id)[0]) for each in recorded[:MAX_CHANGES]]

    mine = _as_writer(core).with_options(hides_history=False)
    return mine.peek(Read("versions", work, sees_all=True)) if recorded else []
