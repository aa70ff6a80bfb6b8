"""Pages for undo and restore. A preview is shown first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import cast

from retentive.console import differences
from retentive.console.differences import Shown
from retentive.console.pages.history import FILES, time_of
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, not_found
from retentive.errors import NotFound, Refused
from retentive.history.apply import RestoreOutcome, Step
from retentive.history.operations import Preview, Undo
from retentive.history.plan import Mode
from retentive.server.errors import invalid
from retentive.server.objects import moment
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT

_MODES = ("refuse", "merge", "force")
STEPS = {"deleted": "is deleted", "moved": "is renamed", "made": "is created again", "changed": "gets an earlier text"}


def undo(visit: Visit) -> PageAnswer:
    """Preview the undo of a change, or of all changes of an actor, a session or both; with POST, undo."""
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

    by = f" by {actor}" if actor else ""
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
    values = {
        "heading": heading,
        "action": action,
        "fields": fields,
        "mode": mode,
        "outcome": outcome,
        "steps": [(each, STEPS[each.what], _shown(visit.store, each)) for each in outcome.steps[:FILES]],
        "seen": seen,
        "is_late": is_late,
        "is_pattern": any(char in fields.get("actor", "") + fields.get("session", "") for char in "*?"),
        "area": "activity",
    }
    return HtmlPage("preview.html", values, 409 if visit.method == "POST" else 200, title=heading)


def _done(visit: Visit, done: RestoreOutcome) -> PageAnswer:
    if done.proposed:
        return Redirect(visit.proposed_url())
    newest = visit.store.history.page(limit=1).items
    is_own = bool(done.steps) and bool(newest)
    return Redirect(visit.url("change", newest[0].version.id) if is_own else visit.url("activity"))


def _shown(store: MemoryStore, step: Step) -> Shown:
    old = None if step.before is None else store.version_text(step.before.version_id)
    new = None if step.state is None else step.state.text
    if step.state is not None and new is None:
        new = store.version_text(step.state.version_id)
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
