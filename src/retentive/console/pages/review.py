"""Pages for the review of proposals, and for the trust in memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from retentive.console import differences
from retentive.console.differences import Shown
from retentive.console.pages.history import news_url
from retentive.console.pages.memory import raw_lines
from retentive.console.visits import Visit, page, redirect
from retentive.errors import NotFound
from retentive.review.proposals import DecisionOutcome, Proposal, ProposedChange, foundations
from retentive.server.errors import finding, invalid, missing
from retentive.server.handlers import history as api
from retentive.storage.contract import Actor, Memory
from retentive.values import diff
from retentive.values.paths import ROOT
from retentive.wire.history import Confirmation, TrustPattern

ROWS = 50


@page("GET", "review", "review", "review")
def queue(visit: Visit) -> Response:
    """Show the queue with its first proposal. If nothing is pending, show the newest decisions."""
    pending = visit.store.review.pending()
    if pending:
        return _proposal(visit, pending[0].id, pending)
    return _review(visit, pending, decisions=visit.store.review.decisions()[:ROWS])


def _review(visit: Visit, pending: Sequence[Proposal], status: int = 200, **values: object) -> Response:
    """Return the page with the queue. `values` are of the shown proposal, or of a decision."""
    usual = {"shown": None, "decided": None, "decisions": (), "following": None, "files": (), "obstacles": ()}
    building = {each for each, below in foundations(pending).items() if below}
    common = {**usual, "total": len(pending), "building": building, "again": news_url(visit), **values}
    return visit.page("review.html", "Review", status, pending=pending[:ROWS], **common)


@page("GET", "review/{proposal_id}", "review", "review")
def show_proposal(visit: Visit) -> Response:
    """Show a proposal with its changes and a form for the decision. If it was already decided, show the decision."""
    return _proposal(visit, visit.ids["proposal_id"], visit.store.review.pending())


def _proposal(
    visit: Visit,
    proposal_id: str,
    pending: Sequence[Proposal],
    outcome: DecisionOutcome | None = None,
    *,
    is_late: bool = False,
) -> Response:
    review = visit.store.review
    try:
        found, texts = review.show(proposal_id)
    except NotFound:
        decisions = review.decisions()
        decided = next((each for each in decisions if each.proposal_id == proposal_id), None)
        if decided is None:
            raise missing("proposal") from None
        return _review(visit, pending, decisions=decisions[:ROWS], decided=decided)
    below = foundations(pending).get(proposal_id, set())
    files = [_shown(visit, *each, is_alone=not below) for each in texts]
    merged = [each for each in files if each.state == "merged"]
    return _review(
        visit,
        pending,
        409 if is_late or outcome is not None else 200,
        shown=found,
        following=next((each.id for each in pending if each.number > found.number), None),
        files=files,
        is_merged=bool(merged) and not any(each.state == "clash" for each in files),
        seen=" ".join(each.version_id for each in merged),
        is_late=is_late,
        below=sorted(below),
        obstacles=() if outcome is None else outcome.obstacles,
    )


@dataclass(frozen=True, slots=True)
class ProposedFile:
    """Effect of a proposal on one memory.

    `state` is set only if somebody edited the memory after the proposal, and `by` is that actor. If both texts can be
    merged, `state` is `merged` and the difference shows the merged text. Otherwise `state` is `clash`. `version_id` is
    the current version of the memory.
    """

    difference: Shown
    state: Literal["", "merged", "clash"] = ""
    version_id: str = ""
    by: Actor | None = None


def _shown(
    visit: Visit, change: ProposedChange, before: str | None, after: str | None, *, is_alone: bool
) -> ProposedFile:
    path = change.path or change.before or ""
    note = str(change) if change.operation in {"renamed", "deleted"} else ""
    plain = differences.shown(path, before, None if change.operation == "deleted" else after, note=note)
    present = _present(visit, change.memory_id) if is_alone and change.operation == "modified" else None
    if present is None or present[1] == before or before is None or after is None:
        return ProposedFile(plain)
    memory, text = present
    newest = visit.store.history.log(memory_id=memory.id, limit=1)
    by = newest[0].actor if newest else None
    merged = diff.merge(before, text, after)
    if merged is None:
        return ProposedFile(plain, "clash", memory.version_id, by)
    return ProposedFile(differences.shown(path, text, merged), "merged", memory.version_id, by)


def _present(visit: Visit, memory_id: str) -> tuple[Memory, str] | None:
    try:
        return visit.store.by_id.get(memory_id)
    except NotFound:
        return None


@page("POST", "decide", "review", "review")
def decide(visit: Visit) -> Response:
    """Accept or refuse the selected proposals, all or none. Then open the next proposal."""
    ids, decision = list(visit.form.get("id", ())), visit.given("decision")
    if not ids or decision not in {"accept", "merge", "refuse"}:
        raise invalid("select a proposal, and accept or refuse it")
    review, actor = visit.store.review, visit.caller.actor
    with finding("proposal"):
        if decision == "merge" and _is_late(visit, ids[0]):
            return _proposal(visit, ids[0], review.pending(), is_late=True)
        if decision == "refuse":
            outcome = review.refuse(ids, actor=actor)
        else:
            outcome = review.accept(ids, actor=actor, mode="merge" if decision == "merge" else "refuse")
    left = review.pending()
    if outcome.obstacles:
        return _proposal(visit, outcome.obstacles[0].proposal_id, left, outcome)
    return redirect(visit.url("review", left[0].id) if left else visit.url("review"))


def _is_late(visit: Visit, proposal_id: str) -> bool:
    """Return whether a memory was changed after the page showed the merged text."""
    seen = visit.given("seen").split()
    found, _ = visit.store.review.show(proposal_id)
    present = [_present(visit, each.memory_id) for each in found.changes]
    return bool(seen) and not set(seen) <= {each[0].version_id for each in present if each is not None}


@page("GET", "trust", "review", "trust")
def trust(visit: Visit) -> Response:
    """Show the memories that are not trusted, and the patterns in quarantine."""
    cursor = visit.query.get("page")
    found = api.list_doubted_memories(visit.call(), limit=ROWS, page=cursor, path_prefix=ROOT)
    values = {"doubted": found.data, "following": found.next_page, "page": cursor}
    return visit.page("trust.html", "Trust", quarantine=visit.store.settings().quarantine, **values)


@page("GET POST", "trust/confirm", "review", "trust")
def confirm(visit: Visit) -> Response:
    """Show the text of a memory that is not trusted. With POST, confirm that the person trusts the text."""
    path, store = visit.asked("path"), visit.store
    versions = store.history.log(path, limit=1) if path.startswith(f"{ROOT}/") else []
    if not versions or versions[0].path != path or versions[0].operation == "deleted":
        raise missing("memory")
    version = versions[0]
    is_late = visit.is_post and visit.given("seen") != version.id
    if visit.is_post and not is_late:
        api.confirm_memories(visit.call(), Confirmation.read({"path": path.removeprefix(ROOT)}))
        return redirect(visit.url("trust"))
    return visit.page(
        "confirm.html",
        f"Confirm {path}",
        409 if is_late else 200,
        path=path,
        version=version,
        lines=raw_lines(store.history.show(version.id)[1] or ""),
        flags=dict(version.provenance.flags),
        contributors=store.trust.contributors(version),
        is_late=is_late,
    )


@page("POST", "trust/quarantine", "admin", "trust")
def quarantine(visit: Visit) -> Response:
    """Put contributors in quarantine, or release them. Quarantine hides the memories to which they contributed."""
    body = TrustPattern.read({"pattern": visit.given("pattern").strip()})
    if visit.given("release"):
        visit.check_key()
        api.release_contributors(visit.call(), body)
    else:
        api.quarantine_contributors(visit.call(), body)
    return redirect(visit.url("trust"))
