"""Pages for the review of proposals, and for the trust in memories."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from starlette.responses import Response

from retentive.console import differences
from retentive.console.pages.history import news_url
from retentive.console.pages.memory import lines_of
from retentive.console.visits import Visit, page, redirect
from retentive.errors import NotFound
from retentive.review.proposals import DecisionOutcome, Proposal, ProposedChange, foundations
from retentive.review.session import Texts
from retentive.server.errors import finding, invalid, missing
from retentive.server.handlers import history as api
from retentive.storage.contract import Memory
from retentive.values import diff
from retentive.values.paths import ROOT
from retentive.wire.review import Confirmation

ROWS, GROUP = 50, 100
"""Proposals in the queue, and on the page of a session."""


@page("GET", "review", "review", "review")
@page("GET", "review/{proposal_id}", "review", "review")
def show_queue(visit: Visit) -> Response:
    """Show the queue with the proposal that the URL names, or else with the oldest one, and a form for the decision.

    With `?session=`, show all proposals of a session, to decide about them at once. If nothing is pending, or the
    proposal was decided, show the newest decisions.
    """
    return _queue(visit, visit.ids.get("proposal_id", ""))


def _queue(visit: Visit, wanted: str, outcome: DecisionOutcome | None = None, *, is_late: bool = False) -> Response:
    again, review = news_url(visit), visit.store.review
    pending, session = review.pending(), visit.query.get("session", "")
    group = [each for each in pending if session and each.session == session][:GROUP]
    wanted = "" if group else wanted or next((each.id for each in pending), "")
    found: list[tuple[Proposal, Texts]] = []
    with suppress(NotFound):  # decided
        found = [review.show(each) for each in ([one.id for one in group] or [wanted])]
    shown = found[0][0] if found and not group else None
    decisions = [] if found else review.decisions()
    decided = next((each for each in decisions if each.proposal_id == wanted), None)
    if wanted and not (shown or decided):
        raise missing("proposal")
    built_on = foundations(pending)
    below = built_on.get(wanted, set())
    is_alone = not (group or below)
    files = [_file(visit, *each, is_alone=is_alone) for _, texts in found for each in texts]
    states = {each["state"] for each in files}
    return visit.page(
        "review.html",
        "Review",
        409 if is_late or outcome is not None else 200,
        pending=pending[:ROWS],
        total=len(pending),
        sessions=Counter(each.session for each in pending if each.session).most_common(ROWS),
        group=group,
        session=session,
        building={each for each, others in built_on.items() if others},
        again=again,
        shown=shown,
        following=next((each.id for each in pending if shown and each.number > shown.number), None),
        decided=decided,
        decisions=decisions[:ROWS],
        files=files,
        is_merged="merged" in states and "clash" not in states,
        seen=" ".join(str(each["version_id"]) for each in files if each["state"] == "merged"),
        is_late=is_late,
        below=sorted(below),
        obstacles=() if outcome is None else outcome.obstacles,
    )


def _file(
    visit: Visit, change: ProposedChange, before: str | None, after: str | None, *, is_alone: bool
) -> dict[str, object]:
    """Return the effect of a proposal on one memory.

    If somebody edited the memory after the proposal, `by` is that actor. `state` is then `merged` if both texts can be
    merged: the difference shows the result, for the version `version_id` of the memory. Otherwise it is `clash`.
    """
    path = change.path or change.before or ""
    note = str(change) if change.operation in {"renamed", "deleted"} else ""
    plain = differences.shown(path, before, None if change.operation == "deleted" else after, note=note)
    present = _present(visit, change.memory_id) if is_alone and change.operation == "modified" else None
    if present is None or present[1] == before or before is None or after is None:
        return {"difference": plain, "state": ""}
    memory, text = present
    newest, merged = visit.store.history.log(memory_id=memory.id, limit=1), diff.merge(before, text, after)
    found = {"version_id": memory.version_id, "by": newest[0].actor if newest else None}
    if merged is None:
        return {"difference": plain, "state": "clash", **found}
    return {"difference": differences.shown(path, text, merged), "state": "merged", **found}


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
        if decision == "merge":  # a memory may have changed after the page showed the merged text
            present = [_present(visit, each.memory_id) for each in review.show(ids[0])[0].changes]
            if not set(visit.given("seen").split()) <= {each[0].version_id for each in present if each is not None}:
                return _queue(visit, ids[0], is_late=True)
        if decision == "refuse":
            outcome = review.refuse(ids, actor=actor)
        else:
            outcome = review.accept(ids, actor=actor, mode="merge" if decision == "merge" else "refuse")
    if outcome.obstacles:
        return _queue(visit, outcome.obstacles[0].proposal_id, outcome)
    return redirect(visit.url("review", *(each.id for each in review.pending()[:1])))


@page("GET", "trust", "review", "trust")
def trust(visit: Visit) -> Response:
    """Show the memories that are not trusted, and the patterns in quarantine."""
    cursor = visit.query.get("page")
    found = api.list_doubted_memories(visit.listing(ROWS, cursor), path_prefix=ROOT)
    values = {"doubted": found.data, "following": found.next_page, "is_first": not cursor}
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
        lines=lines_of(store.history.show(version.id)[1] or ""),
        flags=dict(version.provenance.flags),
        contributors=store.trust.contributors(version),
        is_late=is_late,
    )
