"""Pages for undo and restore. A preview is shown first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard, cast

from retentive.console import differences
from retentive.console.differences import Shown
from retentive.console.pages.history import FILES, is_pattern, time_of
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, not_found
from retentive.engine.operation import Read
from retentive.errors import NotFound, Refused
from retentive.history.apply import RestoreOutcome, Step
from retentive.history.operations import Preview, Undo
from retentive.history.plan import Mode, State
from retentive.server.errors import invalid
from retentive.server.objects import VERSION_ID, moment
from retentive.storage.contract import Memory, Snapshot
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT
from retentive.values.text import decoded

_NAMED = 20
"""Maximum number of versions that the audit entry of a preview lists."""
_MODES = ("refuse", "merge", "force")
STEPS = {"deleted": "is deleted", "moved": "is renamed", "made": "is created again", "changed": "gets an earlier text"}


def undo(visit: Visit) -> PageAnswer:
    """Preview an undo. With POST, undo.

    The request selects either one change, or all changes of an actor, of a session, or of an actor in a session.
    """
    fields = {name: _asked(visit, name) for name in ("change", "actor", "session", "since")}
    change, actor, session = fields["change"], fields["actor"], fields["session"]
    if bool(change) == bool(actor or session):
        raise invalid("specify a change, an actor or a session")
    mode, core = _mode(visit), core_of(visit.store)

    def run(is_preview: bool) -> RestoreOutcome:
        if change:
            return visit.store.history.undo(change, mode=mode, dry_run=is_preview)
        with core.checking("undo.preview" if is_preview else "undo"):
            operation = Undo(None, actor or None, time_of(fields["since"]), mode, session=session or None)
        try:
            return core.result_of(Preview(operation) if is_preview else operation)
        except Refused as refusal:
            raise core.raised(refusal) from None

    by = f" by {actor}" if actor else " by all actors"
    heading = (
        f"Undo the change {change[-12:]}"
        if change
        else f"Undo the session {session}{by}"
        if session
        else f"Undo everything{by}"
    )
    return _answer(visit, run, mode, heading=heading, action="undo", fields=fields)


def restore(visit: Visit) -> PageAnswer:
    """Preview a restore to an earlier state. With POST, restore."""
    path, to = _asked(visit, "path") or ROOT, _asked(visit, "to")
    fields, mode = {"path": path, "to": to}, _mode(visit)
    if not to:
        return HtmlPage("restore.html", {"path": path, "area": "tree"}, title="Restore")

    def run(is_preview: bool) -> RestoreOutcome:
        return visit.store.history.restore(path, moment(to), mode=mode, dry_run=is_preview)

    heading = f"Restore {path} to {to[-26:]}"
    return _answer(visit, run, mode, heading=heading, action="restore", fields=fields)


def _answer(
    visit: Visit,
    run: Callable[[bool], RestoreOutcome],
    mode: Mode,
    *,
    heading: str,
    action: str,
    fields: dict[str, str],
) -> PageAnswer:
    try:
        outcome = run(True)
    except NotFound:
        raise not_found("state") from None
    seen, is_late = _digest(outcome), False
    if visit.method == "POST":
        visit.need("write")
        is_late = visit.given("seen") != seen
        if not is_late and not outcome.conflicts:
            done = run(False)
            if not done.conflicts:
                return _done(visit, done)
            outcome = done
    steps = outcome.steps[:FILES]
    texts = _texts(visit.store, steps) if steps else {}
    values = {
        "heading": heading,
        "action": action,
        "fields": fields,
        "mode": mode,
        "outcome": outcome,
        "steps": [(each, STEPS[each.what], _shown(each, texts)) for each in steps],
        "seen": seen,
        "is_late": is_late,
        "is_pattern": is_pattern(fields.get("actor", "") + fields.get("session", "")),
        "area": "activity",
    }
    return HtmlPage("preview.html", values, 409 if visit.method == "POST" else 200, title=heading)


def _done(visit: Visit, done: RestoreOutcome) -> PageAnswer:
    if done.proposed:
        return Redirect(visit.proposed_url())
    newest = visit.store.history.page(limit=1).items
    is_own = bool(done.steps) and bool(newest)
    return Redirect(visit.url("change", newest[0].version.id) if is_own else visit.url("activity"))


def _texts(store: MemoryStore, steps: Sequence[Step]) -> dict[str, str]:
    """Return the texts of the versions that the shown steps replace or restore, by version id.

    All texts are read in one operation, so there is only one audit entry. The text that an actor under review sees now
    may be that of a proposal, which is not stored as a version.
    """
    sides = (each for step in steps for each in (step.before, step.state if _is_stored(step.state) else None))
    ids = dict.fromkeys(each.version_id for each in sides if each is not None)
    proposed = {each.version_id: each.path for each in (step.before for step in steps) if _is_proposed(each)}
    stored = [each for each in ids if each not in proposed]

    def work(snapshot: Snapshot) -> dict[str, str]:
        texts = {each: snapshot.version(each)[1] for each in stored}
        texts |= {each: snapshot.get(path).data for each, path in proposed.items()}
        return {each: "" if data is None else decoded(data) for each, data in texts.items()}

    return core_of(store).found(Read("show", work, facts_of=lambda _: {"compared": stored[:_NAMED]}))


def _is_proposed(memory: Memory | None) -> TypeGuard[Memory]:
    return memory is not None and not VERSION_ID.fullmatch(memory.version_id)


def _is_stored(state: State | None) -> bool:
    return state is not None and state.text is None


def _shown(step: Step, texts: Mapping[str, str]) -> Shown:
    old = None if step.before is None else texts[step.before.version_id]
    new = None if step.state is None else step.state.text
    if step.state is not None and new is None:
        new = texts[step.state.version_id]
    note = f"renamed from {step.before.path}" if step.what == "moved" and step.before is not None else ""
    return differences.shown(step.path, old, new, note=note)


def _digest(outcome: RestoreOutcome) -> str:
    """Return a digest of a preview. The form contains it, so that nothing is done if the preview has changed since."""
    steps = [
        (each.what, each.memory_id, each.path, each.before and each.before.version_id, each.state and each.state.sha256)
        for each in outcome.steps
    ]
    reasons = [(each.memory_id, each.reason) for each in outcome.conflicts]
    return hashlib.sha256(json.dumps([steps, reasons]).encode()).hexdigest()


def _asked(visit: Visit, name: str) -> str:
    return visit.given(name) or visit.query.get(name, "")


def _mode(visit: Visit) -> Mode:
    mode = _asked(visit, "mode") or "refuse"
    if mode not in _MODES:
        raise invalid("mode: must be refuse, merge or force")
    return cast("Mode", mode)
