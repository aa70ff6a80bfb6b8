"""Routes of dreams: runs of Claude that tidy a memory store, with the API key of the server."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from retentive.errors import Conflict, NotFound
from retentive.locations import find_store
from retentive.server.calls import READ, WRITE, RouteCall, Routes, lacking
from retentive.server.dreams import ENDED, OPEN, Dream, Dreams
from retentive.server.errors import HttpError, forbidden, invalid
from retentive.tidy_lease import is_tidied
from retentive.wire import base
from retentive.wire import dreams as wire
from retentive.wire.stores import Scope

DREAMS = "/v1/dreams"
DREAM = f"{DREAMS}/{{dream_id}}"
_NO_KEY = "this server cannot dream: RETENTIVE_DREAMS_API_KEY must be set where it runs, with the extra `anthropic`"
route = Routes()


@route("POST", DREAMS, WRITE, conflicts=True)
def create_dream(call: RouteCall, body: wire.DreamCreation) -> wire.DreamObject:
    """Let Claude tidy a memory store: a new one (needs the scope `admin`), or by proposals to the same one."""
    store_id = next(each.memory_store_id for each in body.inputs if isinstance(each, wire.StoreInput))
    info, behavior = call.location.info(store_id), body.output_behavior
    key = call.caller.within(info).key
    if not key.allows("write") or key.paths or key.write_paths:
        raise forbidden("a dream needs the scope write for the whole memory store")
    if info.archived_at is not None:
        raise invalid("the memory store is archived")
    if isinstance(behavior, wire.UpdateExisting):
        if behavior.memory_store_id != store_id:
            raise invalid("output_behavior: memory_store_id must be that of the input")
        updates = [each for each in Dreams(call.location.opened).all() if each.is_update and each.status in OPEN]
        if store_id in [each.store_id for each in updates] or is_tidied(call.location.opened.records, store_id):
            raise Conflict("another dream or run is tidying this memory store")
    elif (there := call.caller.key.within("", None)) is None or not there.allows("admin"):
        raise lacking(("admin",))
    if not call.location.can_dream:
        raise invalid(_NO_KEY)
    workspace, model = call.caller.workspace_id, body.model
    transcripts = find_store(call.location.opened.backend, "transcripts", workspace=workspace)
    return Dreams(call.location.opened).create(
        **body.model_dump(exclude={"model"}),
        model={"id": model} if isinstance(model, str) else model,
        workspace_id=workspace,
        store_id=store_id,
        sessions=[name for each in body.inputs if isinstance(each, wire.SessionsInput) for name in each.session_ids],
        by=str(call.caller.actor),
        transcripts=transcripts is not None and call.caller.may("read", transcripts),
    )


@route("GET", DREAMS, READ, pages=True)
def list_dreams(
    call: RouteCall,
    *,
    created_after: wire.After = None,
    created_before: wire.Before = None,
    include_archived: Annotated[base.QueryFlag, Field(description="List archived dreams too")] = False,
    statuses: wire.Statuses = None,
) -> base.AnswerPage[wire.DreamObject]:
    """List the dreams of the workspace, newest first."""
    start, limit = call.start, call.asked.limit
    found: list[wire.DreamObject] = [
        each
        for each in Dreams(call.location.opened).all()
        if (not start or each.id < start)
        and (include_archived or each.archived_at is None)
        and (not statuses or each.status in statuses)
        and (created_after is None or each.created_at > created_after)
        and (created_before is None or each.created_at < created_before)
        and _may(call, "read", each)
    ]
    return call.page(wire.DreamObject, found[:limit], found[limit - 1].id if len(found) > limit else None)


@route("GET", DREAM, READ)
def retrieve_dream(call: RouteCall) -> wire.DreamObject:
    """Retrieve a dream."""
    return _dream(call, "read")


@route("POST", f"{DREAM}/cancel", WRITE)
def cancel_dream(call: RouteCall) -> wire.DreamObject:
    """Stop a dream that has not ended; what it wrote stays."""
    found = _dream(call, "write")
    if found.status in {"completed", "failed"}:
        raise invalid("the dream has ended")
    with suppress(Conflict):  # it has just ended
        return Dreams(call.location.opened).end(found.id, "canceled")
    return _dream(call, "write")


@route("POST", f"{DREAM}/archive", WRITE)
def archive_dream(call: RouteCall) -> wire.DreamObject:
    """Leave a dream that has ended out of the list, which cannot be reversed."""
    found = _dream(call, "write")
    at = found.archived_at or datetime.now(UTC)
    with suppress(Conflict):
        return Dreams(call.location.opened).change(found.id, *ENDED, archived_at=at)
    raise invalid("the dream has not ended; cancel it first")


def _dream(call: RouteCall, scope: Scope) -> Dream:
    found = Dreams(call.location.opened).get(call.ids["dream_id"])
    if not _may(call, "read", found):
        raise NotFound("no such dream")
    if not _may(call, scope, found):
        raise lacking((scope,))
    return found


def _may(call: RouteCall, scope: Scope, dream: Dream) -> bool:
    """Return whether the caller has a scope in the whole memory store that a dream reads."""
    with suppress(HttpError):
        key = call.caller.within(call.location.info(dream.store_id)).key
        return key.allows(scope) and not key.paths
    return False
