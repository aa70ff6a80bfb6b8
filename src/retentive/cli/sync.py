"""`sync`: keep a directory of notes and the memory store equal."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Location, naming

if TYPE_CHECKING:
    from retentive.sync.session import SyncReport, SyncSession


@output.command(json='Print one JSON object: {"files", "settled", "dry_run"}; with --watch, one for each round.')
@click.argument("directory")
@click.option("--watch", "is_watching", is_flag=True, help="Go on until Ctrl-C.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@click.option("--confirm-deletes", "confirmed", is_flag=True, help="Delete memories even if most files are gone.")
@click.option(
    "--ignore",
    "ignored",
    metavar="PATTERN",
    multiple=True,
    help="Leave out files and directories that match, such as 'drafts' or '*.tmp'.",
)
def sync(
    location: Location, directory: str, *, is_watching: bool, dry_run: bool, confirmed: bool, ignored: tuple[str, ...]
) -> None:
    """Synchronise DIRECTORY with the memory store, both ways: edits, deletions and renames.

    Edits of both sides to one memory are merged. If they changed the same lines, the memory keeps its text, and that of
    the file goes to NAME.conflict-MACHINE-HASH.md; in MEMORY.md, the lines of both are kept. An edit wins against a
    deletion. If more than half of the files are gone, nothing is deleted without --confirm-deletes. Hidden files,
    links, files that are not text, files with sensitive values, and those that .retentive-ignore or --ignore name stay
    as they are.

    Prints a line for each path: what became of it, where, and why. Exits with status 6 if something needs attention.
    """
    from retentive.sync.session import SyncOptions, opened  # noqa: PLC0415 - slow to import

    options = SyncOptions(ignored=ignored, confirmed=confirmed, dry_run=dry_run)
    with location.created() as store, naming("Directory", directory), opened(store, directory, options) as session:
        if is_watching:
            _watch(session)
            return
        with output.progress("Synchronising") as progress:
            report = session.run(progress or (lambda _: None))
        _print(report, dry_run=dry_run)


def _watch(session: SyncSession) -> None:
    from retentive.sync.hints import Hints  # noqa: PLC0415
    from retentive.sync.session import watch  # noqa: PLC0415

    output.note("Synchronising until Ctrl-C.")
    with Hints(session.folder.path) as hints:
        watch(session, hints.wait, partial(_print, dry_run=False, is_last=False))


def _print(report: SyncReport, *, dry_run: bool, is_last: bool = True) -> None:
    if not is_last and not report.outcomes:
        return
    counts = Counter(outcome.became for outcome in report.outcomes)
    totals = ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing to do"
    unsettled = [] if report.is_settled else ["Other programs change both sides faster than they are read; try again."]
    rows = [(each.became, each.path, each.side, each.why) for each in report.outcomes]
    output.emit(
        {"files": report.outcomes, "settled": report.is_settled, "dry_run": dry_run},
        rows="files",
        plain=rows,
        notes=[f"{'Would be: ' if dry_run else ''}{totals}.", *unsettled],
        status=status_of("conflict") if is_last and report.needs_attention and not dry_run else 0,
    )
