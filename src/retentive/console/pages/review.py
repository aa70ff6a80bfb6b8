"""Proposals of actors under review, and trust."""

from __future__ import annotations

from retentive.console import differences
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, not_found
from retentive.errors import NotFound
from retentive.review.proposals import DecisionOutcome, ProposedChange
from retentive.server.errors import invalid

QUEUE = 100


def queue(visit: Visit) -> PageAnswer:
    """The queue with its first proposal, and the newest decisions."""
    pending = visit.store.review.pending()
    values = {"pending": pending[:QUEUE], "total": len(pending), "decisions": visit.store.review.decisions()[:20]}
    return HtmlPage("review.html", {**values, "shown": None, "obstacles": (), "area": "review"}, title="Review")


def proposal(visit: Visit) -> PageAnswer:
    """One proposal: what it changes, and the decision."""
    return _proposal(visit, visit.ids["proposal_id"])


def _proposal(visit: Visit, proposal_id: str, outcome: DecisionOutcome | None = None) -> HtmlPage:
    review = visit.store.review
    try:
        found, texts = review.show(proposal_id)
    except NotFound:
        raise not_found("proposal") from None
    pending = review.pending()
    values = {
        "pending": pending[:QUEUE],
        "total": len(pending),
        "shown": found,
        "files": [
            differences.shown(
                each.path or each.before or "", before, None if each.operation == "deleted" else after, note=_note(each)
            )
            for each, before, after in texts
        ],
        "obstacles": () if outcome is None else outcome.obstacles,
        "decisions": (),
        "area": "review",
    }
    return HtmlPage("review.html", values, 200 if outcome is None else 409, title="Review")


def _note(change: ProposedChange) -> str:
    return str(change) if change.operation in {"renamed", "deleted"} else ""


def decide(visit: Visit) -> PageAnswer:
    """Accept or refuse the selected proposals, all or none, and open the next one."""
    ids, decision = list(visit.form.get("id", ())), visit.given("decision")
    if not ids or decision not in {"accept", "merge", "refuse"}:
        raise invalid("select a proposal, and accept or refuse it")
    review, actor = visit.store.review, visit.caller.actor
    try:
        if decision == "refuse":
            outcome = review.refuse(ids, actor=actor)
        else:
            outcome = review.accept(ids, actor=actor, merge=decision == "merge")
    except NotFound:
        raise not_found("proposal") from None
    if outcome.obstacles:
        return _proposal(visit, outcome.obstacles[0].proposal_id, outcome)
    left = review.pending()
    return Redirect(visit.url("review", left[0].id) if left else visit.url("review"))


def trust(visit: Visit) -> PageAnswer:
    """Memories that are not trusted, and the patterns in quarantine."""
    found = visit.store.trust.doubted()
    settings = visit.store.settings()
    values = {"doubted": found[:500], "total": len(found), "quarantine": settings.quarantine, "levels": settings.trust}
    return HtmlPage("trust.html", {**values, "area": "trust"}, title="Trust")


def confirm(visit: Visit) -> PageAnswer:
    """Trust the present text of a memory."""
    try:
        visit.store.trust.confirm(visit.given("path"))
    except NotFound:
        raise not_found("memory") from None
    return Redirect(visit.url("trust"))


def quarantine(visit: Visit) -> PageAnswer:
    """Hide the memories to which a contributor contributed, or show them again."""
    pattern = visit.given("pattern").strip()
    if visit.given("release"):
        visit.check_key()
        visit.store.trust.release(pattern)
    else:
        visit.store.trust.quarantine(pattern)
    return Redirect(visit.url("trust"))
