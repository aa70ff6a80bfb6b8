"""Routes of the history: versions, blame, changes, events, differences, undo and restore, proposals and trust."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from retentive.engine.lists import read_version, version_fact
from retentive.engine.operation import Read, audit_only
from retentive.engine.visibility import Level
from retentive.history.log import LogFilter, page_of, previous_paths
from retentive.history.plan import Mode, RestoreOutcome
from retentive.history.revisions import in_scope, memory_at, named_change
from retentive.review.proposals import DecisionOutcome
from retentive.server.calls import (
    ADMIN,
    ERASE,
    NO_STORE,
    READ,
    REVIEW,
    STORE,
    WRITE,
    Events,
    RouteCall,
    Routes,
    lacking,
)
from retentive.server.errors import HttpError, invalid, missing
from retentive.server.handlers.memories import FULL_LIMIT, MEMORY
from retentive.server.requests import next_of
from retentive.storage.contract import Snapshot, Version
from retentive.store import core_of, with_options
from retentive.store.by_id import read_memory
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.provenance import origin_of
from retentive.values.text import decoded
from retentive.wire import base, review
from retentive.wire import history as wire

NO_VERSION = "memory version"
VERSION = f"{STORE}/memory_versions/{{memory_version_id}}"
route = Routes()


@route("GET", f"{STORE}/memory_versions", READ, pages=True)
def list_memory_versions(call: RouteCall, query: wire.VersionsQuery) -> base.AnswerPage[wire.VersionObject]:
    """List the versions of memories, newest first."""
    core, path, memory_id, is_full = core_of(call.store), query.path, query.memory_id, query.view == "full"
    ids = {"session": query.session_id, "api_key": query.api_key_id, "service_account": query.service_account_id}
    actors = [str(base.named_actor(kind, name)) for kind, name in ids.items() if name is not None]
    only = LogFilter(
        query.actor or (actors[0] if actors else None),  # the names themselves may contain * and ?
        query.created_from,
        query.created_to,
        *(query.operation, query.source, query.session, query.integration, query.flag, query.trust),
    )
    target = None if path is None else MemoryPath.known(path)

    def work(snapshot: Snapshot) -> tuple[list[wire.VersionObject], str | None]:
        select: Callable[..., Iterable[Version]] = partial(snapshot.versions, memory_id=memory_id)
        within = "" if query.path_prefix == ROOT else f"{query.path_prefix}/"
        if query.change is not None:
            select = partial(_slice, in_scope(snapshot, named_change(snapshot, query.change, target), target))
        elif target is not None and memory_id is None and not target.is_root:
            found_id = memory_at(snapshot, target)
            select = partial(snapshot.versions, memory_id=found_id)
            within = f"{path}/" if found_id is None else within
        found = page_of(
            select,
            only,
            core.settings_of(snapshot),
            fits=lambda each: each.path.startswith(within) and all(by == str(each.actor or "") for by in actors),
            oldest_first=False,
            after=call.start or None,
            limit=min(call.asked.limit, FULL_LIMIT) if is_full else call.asked.limit,
        )
        earlier = previous_paths(snapshot, found.items) if query.renames else {}
        shown = []
        for each in found.items:
            text, before = _text(snapshot, each) if is_full else None, earlier.get(each.id)
            shown.append(wire.VersionObject.of(each, memory_store_id=core.id, content=text, path_before=before))
        return shown, found.next

    data, following = core.result_of(Read("log", work))
    return base.AnswerPage[wire.VersionObject](data=data, next_page=next_of(following, call.listing))


def _slice(
    versions: Sequence[Version], *, limit: int, before: str | None = None, after: str | None = None
) -> list[Version]:
    """Return the first versions between two ids, as `Snapshot.versions` does."""
    return [each for each in versions if (after or "") < each.id < (before or "~")][:limit]


def _text(snapshot: Snapshot, version: Version) -> str | None:
    if version.operation == "deleted" or version.redacted_at is not None:
        return None
    data = snapshot.version(version.id)[1]
    return None if data is None else decoded(data)


@route("GET", VERSION, READ)
def retrieve_memory_version(call: RouteCall, view: base.Full = "full") -> wire.VersionObject:
    """Retrieve a version."""
    version_id, store = call.ids["memory_version_id"], call.store
    check_version_id(version_id)
    version, text = core_of(store).result_of(read_version(version_id))
    content = text if view == "full" else None
    return wire.VersionObject.of(version, store.trust.contributors(version), memory_store_id=store.id, content=content)


def check_version_id(*ids: str) -> None:
    """Raise `HttpError` 404 if a text is not the id of a version."""
    if not all(map(base.VERSION_ID.fullmatch, ids)):
        raise missing(NO_VERSION)


@route("POST", f"{VERSION}/redact", ERASE)
def redact_memory_version(call: RouteCall) -> wire.VersionObject:
    """Permanently remove the content, path, size and hash of a version.

    If the version is redacted already, nothing changes.
    """
    version_id, store = call.ids["memory_version_id"], call.store
    store.history.redact([version_id])
    found = core_of(store).result_of(Read("show", lambda snapshot: snapshot.version(version_id)[0], facts=version_fact))
    return wire.VersionObject.of(found, memory_store_id=store.id, content=None)


@route("POST", f"{STORE}/redact", ERASE)
def redact_versions(call: RouteCall, body: wire.VersionRedaction) -> wire.RemovedObject:
    """Permanently remove the content, path, size and hash of several versions, all or none."""
    if (body.memory_version_ids is None) == (body.path is None):
        raise invalid("memory_version_ids: specify memory_version_ids or path, but not both")
    ids = body.memory_version_ids or ()
    check_version_id(*ids)
    return wire.RemovedObject.of(call.store.history.redact(ids, all_of=body.path), type="versions_redacted")


PREVIOUS = "previous"
BlamedSource = Annotated[
    base.NamePattern | None, Field(description="Only lines of versions with a source that matches, such as web:*")
]
BlamedLevel = Annotated[Level | None, Field(description="Only versions at this level of trust")]
After = Annotated[
    str, Field(max_length=50, description="The `next` of the answer before; without it, from the first change")
]
FeedLimit = Annotated[int, Field(ge=1, le=500, description="Changes in one answer"), base.FROM_TEXT]
Against = Annotated[str, Field(max_length=200, description="Id of the version to compare with, or `previous`")]
_CURSOR = re.compile(r"0|[0-9a-f]{32}")
EventCursor = Annotated[
    str | None,
    Field(max_length=50, description="Begin after the event with this id; the header `Last-Event-ID` wins"),
]


@route("GET", f"{MEMORY}/blame", READ)
def blame_memory(call: RouteCall, source: BlamedSource = None, trust: BlamedLevel = None) -> wire.BlameObject:
    """Retrieve each line of a memory with the version that added it."""
    store, memory_id = call.store, call.ids["memory_id"]
    found, _ = core_of(store).peek(read_memory(memory_id))
    lines = [
        wire.BlameLineObject.of(each, version=wire.change_object(each.version, store.id))
        for each in store.history.blame(found.path, source=source, trust=trust)
    ]
    return wire.BlameObject(memory_id=memory_id, path=found.path, lines=lines)


@route("GET", f"{STORE}/changes", READ)
def list_changes(call: RouteCall, after: After = "", limit: FeedLimit = 100) -> wire.ChangeFeed:
    """List all changes in their order: versions, and events of changes without one."""
    store = call.store
    found = store.history.feed(after, limit=limit)
    data = [wire.change_object(each, store.id) for each in found.items]
    return wire.ChangeFeed(data=data, next=found.next, newest=store.history.newest(), has_gap=found.has_gap)


@route("GET", f"{VERSION}/diff", READ)
def diff_memory_version(call: RouteCall, against: Against = PREVIOUS) -> wire.DiffObject:
    """Compare a version with another one."""
    version_id, history = call.ids["memory_version_id"], call.store.history
    check_version_id(version_id, version_id if against == PREVIOUS else against)
    if against == PREVIOUS:
        found = history.differences(change=version_id).found
    else:
        found = history.differences(since=against, until=version_id).found
    return wire.DiffObject.of(found[0], memory_version_id=version_id, memory_store_id=call.store.id)


@route("POST", f"{STORE}/undo", WRITE, conflicts=True)
def undo_change(call: RouteCall, body: wire.UndoRequest) -> wire.ChangeResult:
    """Undo a change, or the changes of an actor."""
    history, origin = call.store.history, origin_of(body.source, body.session)
    named = [each for each in (body.memory_version_id, body.revision, body.actor) if each is not None]
    if body.own:
        if body.dry_run or (body.memory_version_id, body.actor, body.since) != (None, None, None):
            raise invalid("own: this field can be combined only with the fields revision, path and mode")
        return _restored(call, history.undo_own(body.revision, path=body.path, mode=body.mode, **origin))
    if len(named) != 1:
        raise invalid("memory_version_id: specify exactly one of memory_version_id, revision and actor")
    if body.path is not None and body.revision is None:
        raise invalid("path: cannot be used without revision")
    if body.since is not None and body.actor is None:
        raise invalid("since: cannot be used without actor")
    options: dict[str, Any] = {"mode": body.mode, "dry_run": body.dry_run, **origin}
    if body.actor is not None:
        return _restored(call, history.undo_by(body.actor, since=body.since, **options))
    if body.memory_version_id is not None:
        check_version_id(body.memory_version_id)
    return _restored(call, history.undo(named[0], path=body.path, **options))


@route("POST", f"{STORE}/restore", WRITE, conflicts=True)
def restore_path(call: RouteCall, body: wire.RestoreRequest) -> wire.ChangeResult:
    """Restore a memory, a directory or the store to an earlier moment."""
    origin, restore = origin_of(body.source, body.session), call.store.history.restore
    return _restored(call, restore(body.path, body.at, mode=body.mode, dry_run=body.dry_run, **origin))


def _restored(call: RouteCall, outcome: RestoreOutcome) -> wire.ChangeResult:
    if outcome.conflicts:
        message = "later changes conflict with this one, so nothing was changed"
        conflicts = list(map(wire.ConflictObject.of, outcome.conflicts))
        raise HttpError(409, "conflict_error", message, "conflict", fields={"conflicts": conflicts})
    undone = [wire.UndoneChange.of(each, call.ids["memory_store_id"]) for each in outcome.undone if outcome.dry_run]
    return wire.ChangeResult.of(outcome, undone=undone)


@route("GET", f"{STORE}/events", READ, "text/event-stream")
def stream_events(call: RouteCall, after: EventCursor = None) -> Events:
    """Send the changes of the memories as they happen, as server-sent events.

    If `after` is `0`, the stream begins with the first change of the memory store. Without `after`, it has only new
    changes.
    """
    store, cursor = call.store, call.last_event_id or after
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise invalid("after: must be the id of an event, or 0")
    core_of(store).result_of(audit_only("events"))
    keys, key = call.location.keys, call.caller.record

    def may_continue() -> bool:
        return keys.is_active(key)

    return Events(store, store.history.newest() if cursor is None else cursor, may_continue)


@route("POST", f"{STORE}/promote", READ, conflicts=True)
def promote_memories(call: RouteCall, body: review.Promotion) -> review.PromotedObject:
    """Propose a memory, or all memories below a directory, to another memory store, with their history.

    The key needs the scope `write` there. The proposal waits there for review, whatever the settings.
    """
    there = call.location.info(body.to)
    if not call.caller.sees(there):
        raise missing(NO_STORE)
    if not call.caller.may("write", there):
        raise lacking(WRITE)
    _, target = call.location.store(there.id, call.caller.within(there))
    if call.request is not None:
        target = with_options(target, request=call.request)
    options = {"source": body.source, "session": body.session}
    return review.PromotedObject.of(call.store.promote(body.path, target, new_path=body.new_path, **options))


Proposer = Annotated[
    str | None, Field(max_length=300, description="List the proposals of this actor, such as session:s1")
]


OfSession = Annotated[str | None, Field(max_length=300, description="List the proposals made in this session")]


@route("GET", f"{STORE}/proposals", REVIEW, pages=True)
def list_proposals(
    call: RouteCall, actor: Proposer = None, session: OfSession = None
) -> base.AnswerPage[review.ProposalObject]:
    """List the pending proposals, oldest first."""
    after, limit = int(call.start or -1), call.asked.limit
    rest = [each for each in call.store.review.pending(actor=actor, session=session) if each.number > after]
    return call.page(review.ProposalObject, rest[:limit], str(rest[limit - 1].number) if len(rest) > limit else None)


@route("POST", f"{STORE}/proposals/accept", REVIEW, conflicts=True)
def accept_proposals(call: RouteCall, body: review.Acceptances) -> review.DecisionObject:
    """Apply proposals, all or none, such as all of one session.

    The actor of the new versions is the actor who made the proposal. With `partial`, the others are applied, and
    `conflicts` lists the rest.
    """
    mode: Mode = "partial" if body.partial else "force" if body.force else "merge" if body.merge else "refuse"
    return _decided(call.store.review.accept(**_chosen(body), mode=mode))


@route("POST", f"{STORE}/proposals/refuse", REVIEW, conflicts=True)
def refuse_proposals(call: RouteCall, body: review.Refusal) -> review.DecisionObject:
    """Remove proposals, such as all of one session, and those that build on them."""
    return _decided(call.store.review.refuse(**_chosen(body)))


def _chosen(body: review.Refusal) -> dict[str, Any]:
    if body.ids is None and body.actor is None and body.session is None:
        raise invalid("name the ids of proposals, an actor or a session")
    return {"ids": body.ids, "proposed_by": body.actor, "session": body.session}


PROPOSAL = f"{STORE}/proposals/{{proposal_id}}"


@route("GET", PROPOSAL, REVIEW)
def retrieve_proposal(call: RouteCall) -> review.ProposalObject:
    """Retrieve a pending proposal with its texts."""
    return review.ProposalObject.of(*call.store.review.show(call.ids["proposal_id"]))


@route("POST", f"{PROPOSAL}/accept", REVIEW, conflicts=True)
def accept_proposal(call: RouteCall, body: review.Acceptance) -> review.DecisionObject:
    """Apply a proposal, as `proposals/accept` does."""
    mode: Mode = "force" if body.force else "merge" if body.merge else "refuse"
    return _decided(call.store.review.accept([call.ids["proposal_id"]], actor=call.caller.actor, mode=mode))


@route("POST", f"{PROPOSAL}/refuse", REVIEW, conflicts=True)
def refuse_proposal(call: RouteCall) -> review.DecisionObject:
    """Remove a proposal, and those that build on it."""
    return _decided(call.store.review.refuse([call.ids["proposal_id"]], actor=call.caller.actor))


@route("GET", f"{STORE}/proposal_decisions", REVIEW, pages=True)
def list_decisions(call: RouteCall) -> base.AnswerPage[review.DecidedObject]:
    """List the newest 1,000 decisions on proposals, newest first."""
    found, start = call.store.review.decisions(), int(call.start or 0)
    end = start + call.asked.limit
    return call.page(review.DecidedObject, found[start:end], str(end) if len(found) > end else None)


def _decided(outcome: DecisionOutcome) -> review.DecisionObject:
    if outcome.obstacles and not (outcome.done or outcome.already):
        message = "the proposal cannot be accepted or refused now, so nothing was changed"
        conflicts = list(map(review.ObstacleObject.of, outcome.obstacles))
        raise HttpError(409, "conflict_error", message, "conflict", fields={"conflicts": conflicts})
    return review.DecisionObject.of(outcome)


AtLevel = Annotated[Level | None, Field(description="Only memories at this level")]


@route("GET", f"{STORE}/doubted_memories", REVIEW, pages=True)
def list_doubted_memories(
    call: RouteCall, path_prefix: base.Under = "/", level: AtLevel = None
) -> base.AnswerPage[review.DoubtedObject]:
    """List the memories that are not trusted, hidden ones included, by path."""
    found = call.store.trust.page(path_prefix, level=level, after=call.start, limit=call.asked.limit)
    return call.page(review.DoubtedObject, found.items, found.next)


@route("POST", f"{STORE}/trust/confirm", REVIEW)
def confirm_memories(call: RouteCall, body: review.Confirmation) -> review.ConfirmationResult:
    """Trust the present text of a memory, or of all memories below a directory."""
    return review.ConfirmationResult(paths=call.store.trust.confirm(body.path))


@route("POST", f"{STORE}/trust/quarantine", ADMIN)
def quarantine_contributors(call: RouteCall, body: review.TrustPattern) -> review.QuarantineResult:
    """Hide all memories to which an actor, a session or a source contributed."""
    return review.QuarantineResult(pattern=body.pattern, changed=call.store.trust.quarantine(body.pattern))


@route("POST", f"{STORE}/trust/release", ADMIN)
def release_contributors(call: RouteCall, body: review.TrustPattern) -> review.QuarantineResult:
    """End the quarantine of contributors."""
    return review.QuarantineResult(pattern=body.pattern, changed=call.store.trust.release(body.pattern))
