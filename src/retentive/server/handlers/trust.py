"""Routes for trust: memories that are not trusted, confirmations and quarantine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from retentive.server.calls import RouteCall
from retentive.server.cursors import next_of, start_of
from retentive.server.errors import finding
from retentive.server.handlers.memories import NO_MEMORY
from retentive.server.route import ADMIN, REVIEW, STORE, Routes
from retentive.wire.base import AnswerPage, Cursor, Limit, Under
from retentive.wire.trust import (
    Confirmation,
    ConfirmationResult,
    DoubtedLevel,
    DoubtedObject,
    QuarantineResult,
    TrustPattern,
)

AtLevel = Annotated[DoubtedLevel | None, Field(description="Only memories at this level")]
route = Routes()


@route("GET", f"{STORE}/doubted_memories", REVIEW)
def list_doubted_memories(
    call: RouteCall, *, limit: Limit = 20, page: Cursor = None, path_prefix: Under = "/", level: AtLevel = None
) -> AnswerPage[DoubtedObject]:
    """List the memories that are not trusted, hidden ones included, by path."""
    of = f"{call.path} {path_prefix} {level}"
    found = call.store.trust.page(path_prefix, level=level, after=start_of(page, of), limit=limit)
    return AnswerPage[DoubtedObject](data=list(map(DoubtedObject.of, found.items)), next_page=next_of(found.next, of))


@route("POST", f"{STORE}/trust/confirm", REVIEW)
def confirm_memories(call: RouteCall, body: Confirmation) -> ConfirmationResult:
    """Trust the present text of a memory, or of all memories below a directory."""
    with finding(NO_MEMORY):
        return ConfirmationResult(paths=call.store.trust.confirm(body.path))


@route("POST", f"{STORE}/trust/quarantine", ADMIN)
def quarantine_contributors(call: RouteCall, body: TrustPattern) -> QuarantineResult:
    """Hide all memories to which an actor, a session or a source contributed."""
    return QuarantineResult(pattern=body.pattern, changed=call.store.trust.quarantine(body.pattern))


@route("POST", f"{STORE}/trust/release", ADMIN)
def release_contributors(call: RouteCall, body: TrustPattern) -> QuarantineResult:
    """End the quarantine of contributors."""
    return QuarantineResult(pattern=body.pattern, changed=call.store.trust.release(body.pattern))
