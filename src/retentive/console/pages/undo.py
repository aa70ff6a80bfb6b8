"""Pages for undo and restore. A preview is shown first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, cast, get_args

from starlette.responses import Response

from retentive.console import differences
from retentive.console.differences import Shown
from retentive.console.figures import texts_of
from retentive.console.pages.history import FILES, time_of
from retentive.console.visits import Visit, page, redirect
from retentive.engine.operation import DryRun
from retentive.history import operations
from retentive.history.log import LogFilter
from retentive.history.plan import Mode, RestoreOutcome, Step
from retentive.history.revisions import as_revision
from retentive.server.errors import finding, invalid
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT
from retentive.wire.base import VERSION_ID, moment

CONFLICTS = 500
"""Maximum number of conflicts that a preview lists."""
STEPS = {"deleted": "is deleted", "moved": "is renamed", "made": "is created again", "changed": "gets an earlier text"}


class _Run(Protocol):
    """Undo or restore: its preview, or the change itself."""

    def __call__(self, *, dry_run: bool) -> RestoreOutcome: ...


@page("GET POST", "undo", "write", "activity")
def undo(visit: Visit) -> Response:
    """Preview an undo. With POST, perform the undo.

    The request selects either one change, or all changes of an actor, of a session, or of an actor in a session.
    """
    fields = {name: visit.asked(name) for name in ("change", "actor", "session", "since")}
    change, actor, session, since = fields.values()
    if bool(change) == bool(actor or session):
        raise invalid("specify a change, an actor or a session")
    core = core_of(visit.store)
    if change:
        choose, heading = operations.change_named(as_revision(change)), f"Undo the change {change[-12:]}"
    else:
        choose = operations.changes_by(LogFilter(actor or None, time_of(since), session=session or None))
        by = f" by {actor}" if actor else " by all actors"
        heading = f"Undo the session {session}{by}" if session else f"Undo everything{by}"
    operation = operations.undo(choose, _mode(visit))

    def run(*, dry_run: bool) -> RestoreOutcome:
        if dry_run:
            return replace(core.result_of(DryRun(operation)), dry_run=True)
        return core.result_of(operation)

    return _answer(visit, "undo", heading, fields, run)


@page("GET POST", "restore", "write", "activity")
def restore(visit: Visit) -> Response:
    """Preview a restore to an earlier state. With POST, perform the restore."""
    path, to = visit.asked("path") or ROOT, visit.asked("to")
    if not to:
        return visit.page("restore.html", "Restore", path=path)
    run = partial(visit.store.history.restore, path, moment(to), mode=_mode(visit))
    return _answer(visit, "restore", f"Restore {path} to {to[-26:]}", {"path": path, "to": to}, run)


def _answer(visit: Visit, action: str, heading: str, fields: Mapping[str, str], run: _Run) -> Response:
    """Return the whole preview. With POST, run the operation, unless its preview has changed or has conflicts."""
    with finding("change" if action == "undo" else "state"):
        outcome = run(dry_run=True)
    is_late = visit.is_post and visit.given("seen") != _digest(outcome)
    if visit.is_post and not is_late and not outcome.conflicts:
        outcome = run(dry_run=False)
        if not outcome.conflicts:
            return _done(visit, outcome)
    first = visit.number("from")
    if first > len(outcome.steps):
        first = max(len(outcome.steps) - 1, 0) // FILES * FILES + 1
    mode, steps = _mode(visit), _with_differences(visit.store, outcome.steps[first - 1 : first - 1 + FILES])
    asked = {**fields, "mode": "" if mode == "refuse" else mode}
    return visit.page(
        "preview.html",
        heading,
        409 if visit.is_post else 200,
        action=action,
        fields=fields,
        mode=mode,
        outcome=outcome,
        steps=steps,
        conflicts=outcome.conflicts[:CONFLICTS],
        seen=_digest(outcome),
        first=first,
        last=first + len(steps) - 1,
        is_late=is_late,
        steps_from=lambda start: visit.url(action, **{**asked, "from": str(start)}),
        per_page=FILES,
    )


def _done(visit: Visit, done: RestoreOutcome) -> Response:
    newest = visit.store.history.page(limit=1).items
    if done.proposed:
        return redirect(visit.proposed_url())
    return redirect(visit.url("change", f"r{newest[0].revision}") if done.steps and newest else visit.url("activity"))


def _with_differences(store: MemoryStore, steps: Sequence[Step]) -> list[tuple[Step, str, Shown]]:
    """Return each step with a sentence and with the difference that it makes.

    For an actor under review, the current text of a memory can be the text of a proposal. This text is not stored as a
    version.
    """
    stored, proposed = dict[str, None](), dict[str, str]()
    for step in steps:
        if step.state is not None and step.state.text is None:
            stored[step.state.version_id] = None
        if step.before is not None and VERSION_ID.fullmatch(step.before.version_id):
            stored[step.before.version_id] = None
        elif step.before is not None:
            proposed[step.before.version_id] = step.before.path
    texts = texts_of(store, [each for each in stored if each not in proposed], proposed) if steps else {}
    found = []
    for step in steps:
        old = None if step.before is None else texts[step.before.version_id]
        new = None if step.state is None else step.state.text
        if step.state is not None and new is None:
            new = texts[step.state.version_id]
        note = f"renamed from {step.before.path}" if step.what == "moved" and step.before is not None else ""
        found.append((step, STEPS[step.what], differences.shown(step.path, old, new, note=note)))
    return found


def _digest(outcome: RestoreOutcome) -> str:
    """Return a digest of a preview. The form contains it, so that nothing is done if the preview has changed since."""
    steps = [
        (each.what, each.memory_id, each.path, each.before and each.before.version_id, each.state and each.state.sha256)
        for each in outcome.steps
    ]
    reasons = [(each.memory_id, each.reason) for each in (*outcome.conflicts, *outcome.left)]
    return hashlib.sha256(json.dumps([steps, reasons]).encode()).hexdigest()


def _mode(visit: Visit) -> Mode:
    mode = visit.asked("mode") or "refuse"
    if mode not in get_args(Mode):
        raise invalid(f"mode: must be one of {', '.join(get_args(Mode))}")
    return cast("Mode", mode)
