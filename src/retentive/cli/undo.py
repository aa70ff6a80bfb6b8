"""`restore` and `undo`: restoring an earlier state, and reverting changes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from retentive.cli import layouts, output
from retentive.cli.exits import status_of
from retentive.cli.location import Location
from retentive.cli.parameters import FORMS, Moment, moment_option, time_option

if TYPE_CHECKING:
    from retentive.history.apply import RestoreOutcome, Step
    from retentive.history.plan import Mode
    from retentive.values.replies import Replies

_JSON = 'Print a JSON object: {"done", "dry_run", "proposed", "steps", "conflicts", "left"}.'
_DRY_RUN = "Print the changes without making them."


@output.command(json=_JSON)
@click.argument("path")
@moment_option(
    "--to", text=f"Time to restore ({FORMS}), or a version, to restore the state right after it.", required=True
)
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@click.option("--force", is_flag=True, help="Delete the memories that are in the way.")
def restore(location: Location, path: str, *, to: Moment, dry_run: bool, force: bool) -> None:
    """Restore a memory, a directory or, with /memories, the whole store to its state at a moment.

    The memory at PATH gets the text it had at that moment. If PATH does not exist, the memory that was there is created
    anew, with its id. In a directory, newer memories are deleted and moved memories return. It is one change, which
    `undo` can revert. If other memories are in the way, nothing is done and the status is 6.
    """
    with location.existing() as store:
        outcome = store.history.restore(path, to, mode="force" if force else "refuse", dry_run=dry_run)
    _emit(outcome, store.replies)


@output.command(json=_JSON)
@click.argument("version_id", metavar="[VERSION]", required=False)
@click.option(
    "--actor", "whose", metavar="PATTERN", help="Undo all changes of these actors, such as session:* or user:ann."
)
@click.option("--session", metavar="ID", help="Undo all changes of a session.")
@time_option("--since", f"With --actor or --session: only changes since this time: {FORMS}.")
@click.option("--merge", is_flag=True, help="Keep later changes of the same memories, if they are in other lines.")
@click.option("--force", is_flag=True, help="Undo later changes of the same memories too.")
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
def undo(
    location: Location,
    version_id: str | None,
    *,
    whose: str | None,
    session: str | None,
    since: datetime | None,
    merge: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Undo one change with all its versions, or all changes of an actor.

    Changes are reverted in reverse order, in one change that can itself be undone. If later changes depend on them,
    nothing is done, the conflicts are printed, and the status is 6.
    """
    if sum(given is not None for given in (version_id, whose, session)) != 1:
        raise click.UsageError("Specify a version, --actor or --session.")
    if since is not None and version_id is not None:
        raise click.UsageError("--since needs --actor or --session.")
    if merge and force:
        raise click.UsageError("--merge and --force exclude each other.")
    mode: Mode = "merge" if merge else "force" if force else "refuse"
    actors = whose if session is None else _pattern(session)
    with location.existing() as store:
        outcome = store.history.undo(change=version_id, by=actors, since=since, mode=mode, dry_run=dry_run)
    _emit(outcome, store.replies)


def _pattern(session: str) -> str:
    if {"*", "?"} & set(session):
        raise click.UsageError("--session takes an id without * and ?; use --actor for a pattern.")
    return f"session:{session}"


def _emit(outcome: RestoreOutcome, replies: Replies) -> None:
    """Print the steps, or the conflicts with their exit status."""
    would = "nothing would be done" if outcome.dry_run else "nothing was done"
    conflicts = [f"Error: {would}.", *(f"{each.path}: {each.reason}." for each in outcome.conflicts)]
    rows = [_row(step, is_done=outcome.done) for step in outcome.steps]
    below = [replies.awaits_review] if outcome.proposed else []
    if not rows and not below:
        below = ["Nothing to do."]
    has_conflicts = bool(outcome.conflicts)
    steps = [_step_object(step) for step in outcome.steps]
    output.emit(
        output.attributes(outcome, "done", "dry_run", "proposed")
        | {"steps": steps, "conflicts": outcome.conflicts, "left": outcome.left},
        plain=[] if has_conflicts else [*rows, *((line,) for line in below)],
        shown=[] if has_conflicts else [layouts.Aligned(rows, (None, "cyan")), *below],
        notes=[f"{each.path} was not fully restored: {each.reason}." for each in outcome.left],
        error="\n".join(conflicts) if has_conflicts else "",
        status=status_of("conflict") if has_conflicts else 0,
    )


DONE = {"deleted": "deleted", "moved": "moved", "made": "recreated", "changed": "reverted"}
"""Word for each kind of step."""


def _row(step: Step, *, is_done: bool) -> tuple[str, str]:
    what = DONE[step.what] if is_done else f"would be {DONE[step.what]}"
    came = f"{step.before.path} -> " if step.what == "moved" and step.before is not None else ""
    return what, f"{came}{step.path}"


def _step_object(step: Step) -> dict[str, object]:
    before = {"path_before": step.before and step.before.path}
    return output.attributes(step, "what", "memory_id") | before | {"path": step.path}
