"""`restore` and `undo` restore earlier states of memories; `redact` and `erase` remove texts and memories for good."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click
from click.core import ParameterSource

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.history import actors_option, change_object
from retentive.cli.location import Location, no_store
from retentive.cli.options import command
from retentive.cli.parameters import (
    complete_paths,
    flag,
    is_memory_id,
    mode_options,
    named,
    option,
    path_argument,
    path_option,
    revision_option,
    revisions_and_path,
    time_option,
)
from retentive.errors import InvalidInput, NotFound
from retentive.history.plan import Mode, RestoreOutcome
from retentive.history.removal import Removed
from retentive.history.revisions import TIMES, Revision, as_revision, parse
from retentive.locations import find_store, local_path
from retentive.remote import is_remote
from retentive.values.paths import ROOT
from retentive.values.replies import REPLIES

_OUTCOME_JSON = 'Print a JSON object: {"done", "dry_run", "proposed", "steps", "conflicts", "left", "undone"}.'
_DRY_RUN = "Print the changes without making them."


@command(json=_OUTCOME_JSON)
@path_argument("path")
@revision_option("--to", "Restore the state at a time or right after a change: 2h, yesterday, HEAD~2, r1234.")
@flag("--dry-run", _DRY_RUN)
@mode_options(
    force="Delete the memories that are in the way.", partial="Restore what can be restored, and list the rest."
)
def restore(location: Location, path: str, *, to: Revision | None, dry_run: bool, mode: Mode) -> None:
    """Restore a memory or a directory to its state at an earlier time. The PATH /memories restores the whole store.

    If PATH does not exist, the memory that was there is created again, with its id. In a directory, newer memories are
    deleted, and renamed memories return to their old paths. All this is one change, which `undo` can revert. If other
    memories are in the way, nothing is done (with --partial, the rest is done) and the status is 6.

    \b
    retentive restore notes.md --to HEAD~1
    """
    if to is None:
        raise click.UsageError(
            f"Specify an earlier state: --to HEAD~1, r1234, yesterday. `retentive undo HEAD {path}` reverts only the"
            " newest change, for example to bring back a deleted memory."
        )
    with location.existing() as store:
        path = named(store, path)
        outcome = store.history.restore(path, to, mode=mode, dry_run=dry_run)
    _emit_outcome(outcome, _RESTORE_ADVICE, mode)


@command(json=_OUTCOME_JSON)
@click.argument("what", metavar="[REVISION] [PATH]", nargs=-1, shell_complete=complete_paths)
@actors_option("Undo all changes by actors that match, such as session:*, or by the user with this name.")
@option("--session", "ID", "Undo all changes of a session.")
@time_option("--since", f"With --by or --session: only changes since this time: {TIMES}.")
@mode_options(
    merge="Keep later changes to the same memories if they are in other lines.",
    force="Undo later changes to the same memories too.",
    partial="Undo what --merge can undo, and list the rest.",
)
@flag("--dry-run", _DRY_RUN)
@flag("--yes", "Undo the last change without asking.")
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
    has_one = bool(revisions) + (whose is not None) + (session is not None) < 2
    if not has_one or (by is not None and path is not None) or (by is None and since is not None):
        raise click.UsageError(
            "Specify a revision, --by or --session, but only one of them. --by and --session take --since, but no path."
        )
    typed = click.get_current_context().get_parameter_source("global__actor")
    if typed is ParameterSource.COMMANDLINE and not revisions and by is None:
        raise click.UsageError("--actor is the actor of the undo itself. To undo the changes of an actor, use --by.")
    advice = _UNDO_ADVICE if mode == "merge" else _MERGE_ADVICE + _UNDO_ADVICE
    with location.existing() as store:
        path = path and named(store, path)
        change = revisions[0] if revisions else parse("HEAD", datetime.now(UTC))
        if not (revisions or by is not None or yes or dry_run):
            if sys.stdin is None or not sys.stdin.isatty() or output.as_object():
                raise click.UsageError(_NAME_IT)
            planned = store.undo(change, path=path, mode=mode, dry_run=True)
            _emit_outcome(planned, advice, mode)
            output.confirm("Undo this change?", yes=False, done="undone")
            change, path = as_revision(planned.undone[0].versions[0].id), None  # also if there is a newer one now
        if by is not None:
            outcome = store.undo_by(by, since=since, mode=mode, dry_run=dry_run)
        else:
            outcome = store.undo(change, path=path, mode=mode, dry_run=dry_run)
    _emit_outcome(outcome, advice, mode)


_MERGE_ADVICE = "--merge keeps later changes in other lines, "
_UNDO_ADVICE = (
    "--force discards the later changes of these memories, and --partial undoes the rest."
    " Add --dry-run to see the changes first."
)
_RESTORE_ADVICE = (
    "--force deletes the memories in the way, and --partial restores the rest. Add --dry-run to see the changes first."
)
_NAME_IT = (
    "Specify a revision (such as HEAD or r1234), --by or --session. To undo the last change, pass only --yes:"
    " without a terminal, retentive cannot ask for confirmation."
)


def _emit_outcome(outcome: RestoreOutcome, advice: str, mode: Mode) -> None:
    is_plan = outcome.dry_run or outcome.proposed
    rows = []
    for step in outcome.steps:
        came = f"{step.before.path} -> " if step.what == "moved" and step.before is not None else ""
        rows.append((f"{'would be ' if is_plan else ''}{_WORDS[step.what]}", f"{came}{step.path}"))
    below = REPLIES.awaits_review if outcome.proposed else "" if rows else "Nothing to do."
    is_partial, versions = mode == "partial", sum(len(change.versions) for change in outcome.undone)
    notes = []
    if outcome.undone and not outcome.conflicts and (is_plan or versions > 1):
        last, first = outcome.undone[0], outcome.undone[-1]
        what = f"{last.id} by {last.actor or 'an actor without a name'}, {output.local_time(last.at)}"
        if last is not first:
            what = f"{output.counted(len(outcome.undone), 'change')}, {first.id} to {last.id}"
        what += f", with {versions:,} versions" if versions > 1 else ""
        part = " a part of" if outcome.left else ""
        notes = [f"{'This would undo' if is_plan else 'This undid'}{part} {what}."]
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


# -- removing permanently ------------------------------------------------------------------------------------------

_YES = flag("--yes", "Do not ask for confirmation. Required without a terminal.")
_PENDING = (
    "Pending: another process is reading, so the log of the storage still has the removed bytes. After that process has"
    " ended, `retentive admin maintain` or the next removal clears them."
)
_REMNANTS = "The database server or object store may keep the bytes for some time; see docs/history.md."


@command(json='Print a JSON object: {"versions", "pending"}.')
@click.argument("version_ids", metavar="[VERSION]...", nargs=-1)
@path_option("--all-of", metavar="PATH", help="Redact all old versions of a memory, or of those below a directory.")
@_YES
def redact(location: Location, version_ids: tuple[str, ...], *, all_of: str | None, yes: bool) -> None:
    """Permanently remove the text, path, size and hash of versions. Ids, actors and times are kept.

    The newest version of an existing memory cannot be redacted: change or delete the memory first. If nothing is left
    to redact, the status is 3.

    \b
    retentive redact --all-of notes.md --yes
    """
    if bool(version_ids) == (all_of is not None):
        raise click.UsageError("Specify versions or --all-of, but only one of them.")
    many = output.counted(len(version_ids), "version") if all_of is None else f"all old versions of {all_of}"
    with location.existing() as store:
        output.confirm(f"Permanently remove the text and path of {many}?", yes=yes)
        removed = store.history.redact(version_ids, all_of=all_of)
    if not removed.versions:
        what = "the versions are redacted already" if all_of is None else f"{all_of} has no old version with a text"
        raise NotFound(f"nothing was redacted: {what}")
    _emit_removed(location, f"Redacted {output.counted(removed.versions, 'version')}.", removed)


@command(json='Print a JSON object: {"versions", "pending"}.')
@path_argument("path", required=False)
@flag("--whole-store", "Erase the memory store given with --store, with all its memories.")
@option("--reason", "TEXT", "Why, for the audit log, such as the number of a request.")
@_YES
def erase(location: Location, path: str | None, *, whole_store: bool, reason: str | None, yes: bool) -> None:
    """Permanently remove a memory, the memories below a directory, or a whole memory store, with all versions.

    PATH may be the id of a memory, also of a deleted one. With a directory go deleted memories that were below it, and
    the proposals and the paths in the audit log that name something below it. A record with the id of each memory, the
    actor and the time remains. After an interruption, run the command again. --whole-store needs --store.

    \b
    retentive erase customers/ada.md
    retentive erase customers/ --yes
    """
    if (path is None) != whole_store:
        raise click.UsageError("Specify a path or --whole-store, but only one of them.")
    if whole_store and reason is not None:
        raise click.UsageError("--whole-store removes the audit log too, so it keeps no --reason.")
    if path == ROOT:
        store_key = location.store_key
        raise InvalidInput(f"{path} is the whole memory store; erase it with --whole-store --store {store_key}")
    if path is None:
        key = location.named_store()
        with location.opened() as found:
            info = found.get_store(key) if is_remote(found) else find_store(found.backend, key)
            if info is None or info.erased_at is not None:
                raise no_store(key)
            many = output.counted(info.memories, "memory")
            output.confirm(f"Permanently erase the memory store {key} with {many}?", yes=yes)
            removed = found.erase(info.id)
        _emit_removed(location, f"Erased the memory store {key}.", removed)
        return
    with location.existing() as store:
        below = [] if yes or is_memory_id(path) else store.memories(path)
        many = f" with {output.counted(len(below), 'memory')} and their" if below else " and its"
        output.confirm(f"Permanently erase {path}{many} history?", yes=yes)
        chosen = {"memory_id" if is_memory_id(path) else "path": path}
        removed = store.history.erase(**chosen, reason=reason)
    _emit_removed(location, f"Erased {path} with {output.counted(removed.versions, 'version')}.", removed)


def _emit_removed(location: Location, text: str, removed: Removed) -> None:
    notes = [*([_PENDING] if removed.pending else []), *([] if local_path(location.url) else [_REMNANTS])]
    output.emit(removed, f"{text}\n", notes=notes)
