"""`restore` and `undo`: restore earlier states of memories."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click
from click.core import ParameterSource

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.history import actors_option, change_object, described
from retentive.cli.location import Location
from retentive.cli.options import command
from retentive.cli.parameters import mode_options, named, revision_option, revisions_and_path, time_option
from retentive.history.plan import Mode, RestoreOutcome, Step
from retentive.history.revisions import TIMES, Revision, as_revision, parse
from retentive.store import MemoryStore
from retentive.values.replies import REPLIES

_OUTCOME_JSON = 'Print a JSON object: {"done", "dry_run", "proposed", "steps", "conflicts", "left", "undone"}.'
_DRY_RUN = "Print the changes without making them."


@command(json=_OUTCOME_JSON)
@click.argument("path")
@revision_option(
    "--to", "Restore the state at a time or right after a change: 2h, yesterday, HEAD~2, r1234.", required=True
)
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@mode_options(
    force="Delete the memories that are in the way.", partial="Restore what can be restored, and list the rest."
)
def restore(location: Location, path: str, *, to: Revision, dry_run: bool, mode: Mode) -> None:
    """Restore a memory or a directory to its state at an earlier time. The PATH /memories restores the whole store.

    The memory at PATH gets the text that it had at that time. If PATH does not exist, the memory that was there is
    created again, with its id. In a directory, newer memories are deleted, and renamed memories return to their old
    paths. All this is one change, which `undo` can revert. If other memories are in the way, nothing is done (with
    --partial, the rest is done) and the status is 6.
    """
    with location.existing() as store:
        path = named(store, path)
        outcome = store.history.restore(path, to, mode=mode, dry_run=dry_run)
    _emit_outcome(outcome, _RESTORE_ADVICE, mode)


@command(json=_OUTCOME_JSON)
@click.argument("what", metavar="[REVISION] [PATH]", nargs=-1)
@actors_option("Undo all changes by actors that match, such as session:*, or by the user with this name.")
@click.option("--session", metavar="ID", help="Undo all changes of a session.")
@time_option("--since", f"With --by or --session: only changes since this time: {TIMES}.")
@mode_options(
    merge="Keep later changes to the same memories if they are in other lines.",
    force="Undo later changes to the same memories too.",
    partial="Undo what --merge can undo, and list the rest.",
)
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@click.option("--yes", is_flag=True, help="Undo the last change without asking.")
def undo(
    location: Location,
    what: tuple[str, ...],
    *,
    whose: str | None,
    session: str | None,
    since: datetime | None,
    mode: Mode,
    dry_run: bool,
    yes: bool,
) -> None:
    """Undo one change with all its versions, or all changes of an actor.

    \b
    retentive undo r12
    retentive undo --session s1 --dry-run

    REVISION names the change: r1234, HEAD (the newest change), HEAD~2, or the id of a version in the change. With PATH,
    HEAD is the newest change of this memory or directory. If neither REVISION nor --by nor --session is given, the
    command shows the newest change, and asks before undoing it.

    The undo is recorded as one new change, which can itself be undone. If later changes depend on the undone changes,
    nothing is done (with --partial, the rest is done), the conflicts are printed, and the status is 6.
    """
    revisions, path = revisions_and_path(what, at_most=1)
    by = whose if session is None else f"session:{session}"
    if sum((bool(revisions), whose is not None, session is not None)) > 1 or (by is not None and path is not None):
        raise click.UsageError(
            "Specify a revision, --by or --session, but only one of them. --by and --session do not take a path."
        )
    typed = click.get_current_context().get_parameter_source("global__actor")
    if typed is ParameterSource.COMMANDLINE and not revisions and by is None:
        raise click.UsageError("--actor is the actor of the undo itself. To undo the changes of an actor, use --by.")
    if since is not None and by is None:
        raise click.UsageError("--since needs --by or --session.")
    with location.existing() as store:
        path = path and named(store, path)
        change = revisions[0] if revisions else parse("HEAD", datetime.now(UTC))
        if not (revisions or by is not None or yes or dry_run):
            change, path = _confirmed(store, path, mode), None
        if by is not None:
            outcome = store.undo_by(by, since=since, mode=mode, dry_run=dry_run)
        else:
            outcome = store.undo(change, path=path, mode=mode, dry_run=dry_run)
    _emit_outcome(outcome, _UNDO_ADVICE, mode)


_UNDO_ADVICE = (
    "--merge keeps later changes in other lines, --force discards the later changes of these memories, and --partial"
    " undoes the rest. Add --dry-run to see the changes first."
)
_RESTORE_ADVICE = (
    "--force deletes the memories in the way, and --partial restores the rest. Add --dry-run to see the changes first."
)


def _confirmed(store: MemoryStore, path: str | None, mode: Mode) -> Revision:
    """Show the newest change and the effect of undoing it, and ask for confirmation.

    Returns the id of a version of the change, as a revision. Exits if the user declines.
    """
    why = (
        "Specify a revision (such as HEAD or r1234), --by or --session. To undo the last change, pass only --yes:"
        " without a terminal, retentive cannot ask for confirmation."
    )
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(why)
    outcome = store.undo(parse("HEAD", datetime.now(UTC)), path=path, mode=mode, dry_run=True)
    if outcome.conflicts:
        _emit_outcome(outcome, _UNDO_ADVICE, mode)
    change = outcome.undone[0]
    output.note(f"{change.id} by {change.actor or 'an actor without a name'}, {output.local_time(change.at)}:")
    for version in reversed(change.versions):
        output.note(f"  {' '.join(described(version, change))}")
    output.note("Undoing it:")
    for step in outcome.steps:
        output.note(f"  {' '.join(_step_row(step, is_done=False))}")
    output.confirm("Undo this change?", without_terminal=why, declined="Nothing was undone.")
    return as_revision(change.versions[0].id)


def _emit_outcome(outcome: RestoreOutcome, advice: str, mode: Mode) -> None:
    is_plan = outcome.dry_run or outcome.proposed
    rows = [_step_row(step, is_done=not is_plan) for step in outcome.steps]
    below = REPLIES.awaits_review if outcome.proposed else "" if rows else "Nothing to do."
    is_partial, versions = mode == "partial", sum(len(change.versions) for change in outcome.undone)
    notes = []
    if versions > 1 and not outcome.conflicts:
        part = " a part of" if outcome.left else ""
        count = output.counted(len(outcome.undone), "change")
        span = " to ".join(dict.fromkeys([outcome.undone[-1].id, outcome.undone[0].id]))
        notes = [f"{'This would undo' if is_plan else 'This undid'}{part} {count}, {span}, with {versions:,} versions."]
    why = "was left as it is" if is_partial else "was not fully restored"
    notes += [f"{each.path} {why}: {each.reason}." for each in outcome.left]
    error = ""
    if outcome.conflicts:
        would = "nothing would be done" if outcome.dry_run else "nothing was done"
        error = "\n".join([f"Error: {would}.", *(f"{each.path}: {each.reason}." for each in outcome.conflicts)])
        notes += [] if outcome.dry_run else [advice]
    steps = [
        output.attributes(step, "what", "memory_id")
        | {"path_before": step.before and step.before.path, "path": step.path}
        for step in outcome.steps
    ]
    output.emit(
        output.attributes(outcome, "done", "dry_run", "proposed", "conflicts", "left")
        | {"steps": steps, "undone": list(map(change_object, outcome.undone))},
        *([] if error else [output.table(rows, ("done", "path"), header=False), below]),
        notes=notes,
        error=error,
        status=status_of("conflict") if error or (is_partial and outcome.left) else 0,
    )


_WORDS = {"deleted": "deleted", "moved": "moved", "made": "recreated", "changed": "reverted"}


def _step_row(step: Step, *, is_done: bool) -> tuple[str, str]:
    what = _WORDS[step.what] if is_done else f"would be {_WORDS[step.what]}"
    came = f"{step.before.path} -> " if step.what == "moved" and step.before is not None else ""
    return what, f"{came}{step.path}"
