"""Pages for the review of proposals, and for the trust in memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from retentive.audit.chain import entries_page
from retentive.console import differences
from retentive.console.differences import Shown
from retentive.console.pages.listing import RECENT, recent_changes
from retentive.console.pages.news import news_url
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, not_found
from retentive.errors import NotFound
from retentive.review.proposals import Decision, DecisionOutcome, Proposal, ProposedChange, foundations
from retentive.server.errors import invalid
from retentive.storage.contract import Actor, Memory, Version
from retentive.store import core_of
from retentive.store.by_id import read_memory
from retentive.values import diff

QUEUE = 100
DOUBTED = 100
ENTRIES = 500


def queue(visit: Visit) -> PageAnswer:
    """Show the queue of proposals, and the newest decisions."""
    return _with_decisions(visit, visit.store.review.decisions())


def _with_decisions(visit: Visit, decisions: Sequence[Decision], decided: Decision | None = None) -> HtmlPage:
    values = {**_queue(visit, visit.store.review.pending()), "decisions": decisions[:20], "decided": decided}
    return HtmlPage("review.html", {**values, "shown": None, "area": "review"}, title="Review")


def _queue(visit: Visit, pending: Sequence[Proposal]) -> dict[str, object]:
    building = {each for each, below in foundations(pending).items() if below}
    return {"pending": pending[:QUEUE], "total": len(pending), "building": building, "again": news_url(visit)}


def proposal(visit: Visit) -> PageAnswer:
    """Show a proposal with its changes and a form for the decision. If it was already decided, show the decision."""
    return _proposal(visit, visit.ids["proposal_id"])


def _decided(visit: Visit, proposal_id: str) -> HtmlPage:
    decisions = visit.store.review.decisions()
    decided = next((each for each in decisions if each.proposal_id == proposal_id), None)
    if decided is None:
        raise not_found("proposal")
    return _with_decisions(visit, decisions, decided)


def _proposal(
    visit: Visit, proposal_id: str, outcome: DecisionOutcome | None = None, *, is_late: bool = False
) -> HtmlPage:
    review = visit.store.review
    try:
        found, texts = review.show(proposal_id)
    except NotFound:
        return _decided(visit, proposal_id)
    pending = review.pending()
    below = foundations(pending).get(proposal_id, set())
    files = [_shown(visit, *each, is_alone=not below) for each in texts]
    merged = [each for each in files if each.state == "merged"]
    values = {
        **_queue(visit, pending),
        "shown": found,
        "following": next((each.id for each in pending if each.number > found.number), None),
        "files": files,
        "proposer": _proposer(visit, found, pending),
        "is_merged": bool(merged) and not any(each.state == "clash" for each in files),
        "seen": " ".join(each.version_id for each in merged),
        "is_late": is_late,
        "below": sorted(below),
        "newest": RECENT,
        "obstacles": () if outcome is None else outcome.obstacles,
        "decisions": (),
        "decided": None,
        "area": "review",
    }
    return HtmlPage("review.html", values, 409 if is_late or outcome is not None else 200, title="Review")


@dataclass(frozen=True, slots=True)
class Proposer:
    """Information about the actor of a proposal, to help with the decision.

    `waiting`, `accepted` and `refused` are numbers of proposals by the actor. `changed` is the number of the actor's
    versions among the newest versions of the store. `read` is the number of memories that the actor read before the
    proposal, according to the newest entries of the audit log. It is None if there is no audit log, or if the person
    may not see the log.
    """

    waiting: int
    accepted: int
    refused: int
    changed: int
    last_changed: Version | None
    read: int | None = None
    last_read: str = ""


def _proposer(visit: Visit, found: Proposal, pending: Sequence[Proposal]) -> Proposer:
    decided = [each for each in visit.store.review.decisions() if each.actor == found.actor]
    own = [each for each in recent_changes(visit.store, None).versions if each.actor == found.actor]
    accepted = sum(each.accepted for each in decided)
    known = Proposer(
        waiting=sum(each.actor == found.actor for each in pending),
        accepted=accepted,
        refused=len(decided) - accepted,
        changed=len(own),
        last_changed=next((each for each in own if each.path), None),
    )
    if not (visit.can("admin") and visit.store.settings().audit):
        return known
    core = core_of(visit.store)
    entries = core.read(lambda snapshot: entries_page(snapshot, "", ENTRIES, newest_first=True)).items
    read = [
        path
        for entry in entries
        if entry.actor == str(found.actor or "") and entry.read is not None and entry.time <= found.at
        for path in entry.paths or ()
    ]
    return replace(known, read=len(set(read)), last_read=next(iter(read), ""))


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
    plain = differences.shown(path, before, None if change.operation == "deleted" else after, note=_note(change))
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
        return core_of(visit.store).result_of(read_memory(memory_id))
    except NotFound:
        return None


def _note(change: ProposedChange) -> str:
    return str(change) if change.operation in {"renamed", "deleted"} else ""


def decide(visit: Visit) -> PageAnswer:
    """Accept or refuse the selected proposals, all or none. Then open the next proposal."""
    ids, decision = list(visit.form.get("id", ())), visit.given("decision")
    if not ids or decision not in {"accept", "merge", "refuse"}:
        raise invalid("select a proposal, and accept or refuse it")
    review, actor = visit.store.review, visit.caller.actor
    try:
        if decision == "merge" and _is_late(visit, ids):
            return _proposal(visit, ids[0], is_late=True)
        if decision == "refuse":
            outcome = review.refuse(ids, actor=actor)
        else:
            outcome = review.accept(ids, actor=actor, mode="merge" if decision == "merge" else "refuse")
    except NotFound:
        raise not_found("proposal") from None
    if outcome.obstacles:
        return _proposal(visit, outcome.obstacles[0].proposal_id, outcome)
    left = review.pending()
    return Redirect(visit.url("review", left[0].id) if left else visit.url("review"))


def _is_late(visit: Visit, ids: list[str]) -> bool:
    """Return whether a memory was changed after the page showed the merged text."""
    seen = visit.given("seen").split()
    found, _ = visit.store.review.show(ids[0])
    present = [_present(visit, each.memory_id) for each in found.changes]
    return bool(seen) and not set(seen) <= {each[0].version_id for each in present if each is not None}


def trust(visit: Visit) -> PageAnswer:
    """Show the memories that are not trusted, and the patterns in quarantine."""
    after = visit.query.get("after", "")
    found = visit.store.trust.page(after=after, limit=DOUBTED)
    settings = visit.store.settings()
    values = {
        "doubted": found.items,
        "following": found.next,
        "after": after,
        "quarantine": settings.quarantine,
        "levels": settings.trust,
    }
    return HtmlPage("trust.html", {**values, "area": "trust"}, title="Trust")


def confirm(visit: Visit) -> PageAnswer:
    """Confirm that the person trusts the current text of a memory."""
    try:
        visit.store.trust.confirm(visit.given("path"))
    except NotFound:
        raise not_found("memory") from None
    return Redirect(visit.url("trust"))


def quarantine(visit: Visit) -> PageAnswer:
    """Put contributors in quarantine, or release them. Quarantine hides the memories to which they contributed."""
    pattern = visit.given("pattern").strip()
    if visit.given("release"):
        visit.check_key()
        visit.store.trust.release(pattern)
    else:
        visit.store.trust.quarantine(pattern)
    return Redirect(visit.url("trust"))
