"""Pages for undo and restore. A preview is shown first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast, get_args

from starlette.responses import Response

from retentive.console import differences
from retentive.console.differences import Shown
from retentive.console.figures import choose_some, texts_of
from retentive.console.pages.history import FILES, time_of
from retentive.console.visits import Visit, digest, page, redirect
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
PLANNED, AT_ONCE = 200, 20
"""Number of memories up to which a preview plans the whole undo. Of more, it plans those on the page, which the storage
looks up one by one."""
STEPS = {"deleted": "is deleted", "moved": "is renamed", "made": "is created again", "changed": "gets an earlier text"}


@page("GET POST", "undo", "write", "activity")
def undo(visit: Visit) -> Response:
    """Preview an undo. With POST, perform the undo.

    The request selects either one change, or all changes of an actor, of a session, or of an actor in a session.
    """
    fields = {name: visit.asked(name) for name in ("change", "actor", "session", "since")}
    change, actor, session, since = fields.values()
    if bool(change) == bool(actor or session):
        raise invalid("specify a change, an actor or a session")
    core, mode, large = core_of(visit.store), _mode(visit), list[str]()
    if change:
        choose, heading = operations.change_named(as_revision(change)), f"Undo the change {change[-12:]}"
    else:
        choose = operations.changes_by(LogFilter(actor or None, time_of(since), session=session or None))
        by = f" by {actor}" if actor else " by all actors"
        heading = f"Undo the session {session}{by}" if session else f"Undo everything{by}"

    def shown(total: int) -> slice:
        return slice(first := _first(visit, total, AT_ONCE) - 1, first + AT_ONCE)

    on_page = choose if mode != "refuse" else choose_some(choose, PLANNED, shown, large)
    return _answer(
        visit, "undo", heading, fields,
        preview=lambda: core.result_of(operations.undo(on_page, mode).dry_run()),
        run=lambda: core.result_of(operations.undo(choose, mode)),
        large=large,
    )  # fmt: skip


@page("GET POST", "restore", "write", "activity")
def restore(visit: Visit) -> Response:
    """Preview a restore to an earlier state. With POST, perform the restore."""
    path, to = visit.asked("path") or ROOT, visit.asked("to")
    if not to:
        raise invalid("to: name an earlier state, such as 2026-11-20 14:00, 2h or r120")
    run = partial(visit.store.history.restore, path, moment(to), mode=_mode(visit))
    fields, heading = {"path": path, "to": to}, f"Restore {path} to {to[-26:]}"
    return _answer(visit, "restore", heading, fields, preview=partial(run, dry_run=True), run=run)


def _answer(
    visit: Visit,
    action: str,
    heading: str,
    fields: Mapping[str, str],
    *,
    preview: Callable[[], RestoreOutcome],
    run: Callable[[], RestoreOutcome],
    large: Sequence[str] = (),
) -> Response:
    """Return the preview. With POST, run the operation, unless its preview has changed or has conflicts.

    `large` is filled by the preview of a change to many memories, of which only those on the page are planned: their
    number, and what else must be as it was seen. Conflicts of the others are found before anything is done.
    """
    with finding("change" if action == "undo" else "state"):
        outcome = preview()
    planned = [
        (each.what, each.memory_id, each.path, each.before and each.before.version_id, each.state and each.state.sha256)
        for each in outcome.steps
    ]
    reasons = [(each.memory_id, each.reason) for each in (*outcome.conflicts, *outcome.left)]
    seen = digest([planned, reasons, list(large)])
    is_late = visit.is_post and visit.given("seen") != seen
    if visit.is_post and not is_late and not outcome.conflicts:
        outcome, large = run(), ()
        if not outcome.conflicts:
            if outcome.proposed:
                return redirect(visit.proposed_url())
            newest = visit.store.history.page(limit=1).items if outcome.steps else ()
            return redirect(visit.url("change", f"r{newest[0].revision}") if newest else visit.url("activity"))
    total, length = (int(large[0]), AT_ONCE) if large else (len(outcome.steps), FILES)
    mode = _mode(visit)
    first = _first(visit, total, length)
    steps = outcome.steps if large else outcome.steps[first - 1 : first - 1 + length]
    return visit.page(
        "preview.html",
        heading,
        409 if visit.is_post else 200,
        action=action,
        fields=fields,
        mode=mode,
        outcome=outcome,
        steps=_with_differences(visit.store, steps),
        conflicts=outcome.conflicts[:CONFLICTS],
        seen=seen,
        first=first,
        last=min(first - 1 + length, total),
        total=total,
        is_large=bool(large),
        is_late=is_late,
        asked={**fields, "mode": "" if mode == "refuse" else mode},
        per_page=length,
    )


def _first(visit: Visit, total: int, length: int) -> int:
    """Return the number of the first step on the page. A number after the last step means the last page."""
    first = visit.number("from")
    return first if first <= total else max(total - 1, 0) // length * length + 1


def _with_differences(store: MemoryStore, steps: Sequence[Step]) -> list[tuple[Step, str, Shown]]:
    """Return each step with a sentence and with the difference that it makes.

    For an actor under review, the current text of a memory can be that of a proposal, which is no stored version.
    """
    stored, proposed = set[str](), dict[str, str]()
    for step in steps:
        if step.state is not None and step.state.text is None:
            stored.add(step.state.version_id)
        if step.before is not None and VERSION_ID.fullmatch(step.before.version_id):
            stored.add(step.before.version_id)
        elif step.before is not None:
            proposed[step.before.version_id] = step.before.path
    texts = texts_of(store, sorted(stored - proposed.keys()), proposed) if steps else {}
    found = []
    for step in steps:
        old = None if step.before is None else texts[step.before.version_id]
        new = None if step.state is None else step.state.text
        if step.state is not None and new is None:
            new = texts[step.state.version_id]
        note = f"renamed from {step.before.path}" if step.what == "moved" and step.before is not None else ""
        found.append((step, STEPS[step.what], differences.shown(step.path, old, new, note=note)))
    return found


def _mode(visit: Visit) -> Mode:
    mode = visit.asked("mode") or "refuse"
    if mode not in get_args(Mode):
        raise invalid(f"mode: must be one of {', '.join(get_args(Mode))}")
    return cast("Mode", mode)
