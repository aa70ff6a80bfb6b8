"""`sync`: keep a directory of notes in sync with the memory store."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Location, naming
from retentive.cli.options import command
from retentive.cli.parameters import flag, mount_option, option
from retentive.locations import local_path
from retentive.storage.disk import need_posix
from retentive.sync.session import (
    SyncOptions,
    SyncReport,
    SyncSession,
    check_directory,
    hints,
    opened,
    watch,
)
from retentive.sync.state import last_round

_JSON = (
    'Print one JSON object: {"files", "settled", "dry_run"}; with --watch, one for each round; with --status also'
    ' {"last_round", "running", "in_step", "conflict_copies"}, and with read-only mounts {"read_only"}.'
)


@command(json=_JSON)
@click.argument("directory")
@flag("--watch", "is_watching", "Keep synchronising until Ctrl-C.")
@flag("--dry-run", "Print what would be done, and change nothing.")
@flag("--status", "is_asking", "Print the state of the directory, and what would be done.")
@flag("--confirm-deletes", "confirmed", "Carry out changes that are held.")
@flag("--undo-held", "restoring", "Undo changes that are held.")
@option(
    "--ignore",
    "ignored",
    "PATTERN",
    "Leave out files and directories that match, such as 'drafts' or '*.tmp'.",
    multiple=True,
)
@mount_option
def sync(location: Location, /, directory: str, *, is_watching: bool, is_asking: bool, **given: Any) -> None:
    """Synchronise edits, deletions and renames between DIRECTORY and the memory store, in both directions.

    Edits of both sides are merged. If both changed the same lines, the memory keeps its text, and that of the file is
    saved as NAME.conflict-MACHINE-HASH.md; in MEMORY.md, the lines of both are kept. An edit wins over a deletion. Left
    out are hidden files, links, files that are not text or have sensitive values, and files that match --ignore or a
    pattern in .retentive-ignore.

    With --mount, the directory has the memories of several stores. What is mounted read-only is only pulled: a deleted
    file comes back, the text of an edited one is saved as a conflict copy, and a new file stays in the directory.

    Deletions of more than half of the files or memories within a day are held until you use --confirm-deletes, which
    carries them out, or --undo-held.

    For each path, prints a line with the outcome, the side and the reason. Exits with status 6 if something needs
    attention. --status, also beside a process that synchronises, prints before these lines when a round last ended,
    whether such a process runs, how many paths are in step, which conflict copies nobody has merged yet, and where the
    directory is read-only.
    """
    need_posix("`retentive sync`")
    if is_watching + is_asking + given["dry_run"] > 1 or given["confirmed"] + given["restoring"] > 1:
        raise click.UsageError(
            "--watch, --dry-run and --status exclude one another, and so do --confirm-deletes and --undo-held."
        )
    given["dry_run"] |= is_asking
    dry_run, place = given["dry_run"], local_path(location.url)
    options = SyncOptions(location=place, **given)
    with naming("Directory", directory):
        check_directory(directory, options)
    with (
        location.tree(create=not dry_run, dry_run=dry_run) as store,
        naming("Directory", directory),
        opened(store, directory, options) as session,
    ):
        if is_watching:
            output.note("Synchronising until Ctrl-C.")
            watch(session, hints(session.folder.path), partial(_print, dry_run=False, is_last=False))
            return
        with output.progress("Synchronising") as progress:
            report = session.run(progress or (lambda _: None))
        _print(report, dry_run=dry_run, session=session if is_asking else None)


def _print(report: SyncReport, *, dry_run: bool, is_last: bool = True, session: SyncSession | None = None) -> None:
    """Print the outcomes, and after `--status` first the facts about the `session`."""
    if not is_last and not report.outcomes:
        return
    counts = Counter(outcome.became for outcome in report.outcomes)
    totals = ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing to do"
    unsettled = [] if report.is_settled else ["Other programs keep changing both sides; try again."]
    columns = {name: name for name in ("became", "path", "side", "why")}
    facts: dict[str, object] = {}
    if session is not None:
        ended, is_running = last_round(session.state, session.options.states)
        facts = {"last_round": ended, "running": is_running, "in_step": session.in_step}
        facts["conflict_copies"] = session.copies
        if read_only := sorted(session.places.read_only):
            facts["read_only"] = read_only
    rows = [(name.replace("_", " "), "never" if value is None else value) for name, value in facts.items()]
    output.emit(
        {"files": report.outcomes, "settled": report.is_settled, "dry_run": dry_run, **facts},
        output.table(rows, ("what", "which"), header=False),
        output.table(report.outcomes, columns, header=False),
        rows="files",
        notes=[f"{'Would be: ' if dry_run else ''}{totals}.", *unsettled],
        status=status_of("conflict") if is_last and (report.needs_attention or facts.get("conflict_copies")) else 0,
    )
