"""Pages for undo and restore. A preview is shown first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard, cast, get_args

from retentive.console import differences
from retentive.console.differences import Shown
from retentive.console.pages.history import FILES, is_pattern
from retentive.console.pages.news import time_of
from retentive.console.progress import ProgressStep
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, not_found, number
from retentive.engine.operation import DryRun, Read
from retentive.errors import NotFound
from retentive.history.operations import Undo
from retentive.history.plan import Conflict, Mode, RestoreOutcome, State, Step
from retentive.history.revisions import as_revision
from retentive.server.errors import invalid
from retentive.storage.contract import Memory, Snapshot
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT
from retentive.values.text import decoded
from retentive.wire.base import VERSION_ID, moment

CONFLICTS = 500
"""Maximum number of conflicts that a preview lists."""
_NAMED = 20
"""Maximum number of versions that the audit entry of a preview lists."""
STEPS = {"deleted": "is deleted", "moved": "is renamed", "made": "is created again", "changed": "gets an earlier text"}


@dataclass(frozen=True, slots=True)
class ShownPreview:
    """Preview as a page shows it: the outcome, and one page of the list of steps, with the differences of these steps.

    `first` is the number of the first shown step. `seen` is the digest of the whole preview.
    """

    outcome: RestoreOutcome
    steps: Sequence[tuple[Step, str, Shown]]
    first: int
    seen: str

    @property
    def last(self) -> int:
        """Number of the last shown step."""
        return self.first + len(self.steps) - 1

    @property
    def conflicts(self) -> Sequence[Conflict]:
        """The conflicts that the page lists."""
        return self.outcome.conflicts[:CONFLICTS]


@dataclass(frozen=True, slots=True)
class _Intent:
    """An undo or a restore that a person asked for. `run(True)` returns its preview, and `run(False)` performs it."""

    action: str
    heading: str
    fields: Mapping[str, str]
    mode: Mode
    run: Callable[[bool], RestoreOutcome]


def undo(visit: Visit) -> PageAnswer:
    """Preview an undo. With POST, perform the undo.

    The request selects either one change, or all changes of an actor, of a session, or of an actor in a session.
    """
    fields = {name: _asked(visit, name) for name in ("change", "actor", "session", "since")}
    change, actor, session = fields["change"], fields["actor"], fields["session"]
    if bool(change) == bool(actor or session):
        raise invalid("specify a change, an actor or a session")
    mode, core = _mode(visit), core_of(visit.store)
    if change:
        operation = Undo(as_revision(change), mode=mode)
    else:
        operation = Undo(None, actor or None, time_of(fields["since"]), mode, session=session or None)

    def run(is_preview: bool) -> RestoreOutcome:
        if is_preview:
            return replace(core.result_of(DryRun(operation)), dry_run=True)
        return core.result_of(operation)

    return _answer(visit, _Intent("undo", _heading(change, actor, session), fields, mode, run))


def _heading(change: str, actor: str, session: str) -> str:
    if change:
        return f"Undo the change {change[-12:]}"
    by = f" by {actor}" if actor else " by all actors"
    return f"Undo the session {session}{by}" if session else f"Undo everything{by}"


def restore(visit: Visit) -> PageAnswer:
    """Preview a restore to an earlier state. With POST, perform the restore."""
    path, to = _asked(visit, "path") or ROOT, _asked(visit, "to")
    fields, mode = {"path": path, "to": to}, _mode(visit)
    if not to:
        return HtmlPage("restore.html", {"path": path, "area": "tree"}, title="Restore")

    def run(is_preview: bool) -> RestoreOutcome:
        return visit.store.history.restore(path, moment(to), mode=mode, dry_run=is_preview)

    return _answer(visit, _Intent("restore", f"Restore {path} to {to[-26:]}", fields, mode, run))


def _answer(visit: Visit, asked: _Intent) -> PageAnswer:
    """Return the whole preview. With POST, run the operation, unless its preview has changed or has conflicts."""
    try:
        outcome = asked.run(True)
    except NotFound:
        raise not_found("state") from None
    is_late = False
    if visit.method == "POST":
        visit.need("write")
        is_late = visit.given("seen") != _digest(outcome)
        if not is_late and not outcome.conflicts:
            done = asked.run(False)
            if not done.conflicts:
                return _done(visit, done)
            outcome = done
    shown = _shown_preview(visit.store, outcome, _first_step(visit))
    return _page(visit, asked, [ProgressStep(result=shown)], is_late=is_late)


def _page(
    visit: Visit,
    asked: _Intent,
    previews: Iterable[ProgressStep[ShownPreview]],
    *,
    is_late: bool = False,
) -> HtmlPage:

    def url(first: int) -> str:
        given = {**asked.fields, "mode": "" if asked.mode == "refuse" else asked.mode, "from": str(first)}
        return visit.url(asked.action, **given)

    values = {
        "heading": asked.heading,
        "action": asked.action,
        "fields": asked.fields,
        "mode": asked.mode,
        "previews": previews,
        "is_late": is_late,
        "is_pattern": is_pattern(asked.fields.get("actor", "") + asked.fields.get("session", "")),
        "steps_from": url,
        "per_page": FILES,
        "area": "activity",
    }
    status = 409 if visit.method == "POST" else 200
    return HtmlPage("preview.html", values, status, title=asked.heading, is_streamed=True)


def _first_step(visit: Visit) -> int:
    return number(visit.query.get("from", ""), 1, 10_000_000, 1)


def _shown_preview(store: MemoryStore, outcome: RestoreOutcome, first: int) -> ShownPreview:
    """Return a preview with the steps from the number `first` on. A number after the last step means the last page."""
    if first > len(outcome.steps):
        first = max(len(outcome.steps) - 1, 0) // FILES * FILES + 1
    steps = outcome.steps[first - 1 : first - 1 + FILES]
    texts = _texts(store, steps) if steps else {}
    shown = [(each, STEPS[each.what], _shown(each, texts)) for each in steps]
    return ShownPreview(outcome, shown, first, _digest(outcome))


def _done(visit: Visit, done: RestoreOutcome) -> PageAnswer:
    if done.proposed:
        return Redirect(visit.proposed_url())
    newest = visit.store.history.page(limit=1).items
    is_own = bool(done.steps) and bool(newest)
    return Redirect(visit.url("change", newest[0].id) if is_own else visit.url("activity"))


def _texts(store: MemoryStore, steps: Sequence[Step]) -> dict[str, str]:
    """Return the texts of the versions that the shown steps replace or restore, by version id.

    All texts are read in one operation, so there is only one audit entry. For an actor under review, the current text
    of a memory can be the text of a proposal. This text is not stored as a version.
    """
    sides = (each for step in steps for each in (step.before, step.state if _is_stored(step.state) else None))
    ids = dict.fromkeys(each.version_id for each in sides if each is not None)
    proposed = {each.version_id: each.path for each in (step.before for step in steps) if _is_proposed(each)}
    stored = [each for each in ids if each not in proposed]

    def work(snapshot: Snapshot) -> dict[str, str]:
        texts = {each: snapshot.version(each)[1] for each in stored}
        texts |= {each: snapshot.get(path).data for each, path in proposed.items()}
        return {each: "" if data is None else decoded(data) for each, data in texts.items()}

    return core_of(store).result_of(Read("show", work, facts_of=lambda _: {"compared": stored[:_NAMED]}))


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
    reasons = [(each.memory_id, each.reason) for each in (*outcome.conflicts, *outcome.left)]
    return hashlib.sha256(json.dumps([steps, reasons]).encode()).hexdigest()


def _asked(visit: Visit, name: str) -> str:
    return visit.given(name) or visit.query.get(name, "")


def _mode(visit: Visit) -> Mode:
    mode = _asked(visit, "mode") or "refuse"
    if mode not in get_args(Mode):
        raise invalid(f"mode: must be one of {', '.join(get_args(Mode))}")
    return cast("Mode", mode)
