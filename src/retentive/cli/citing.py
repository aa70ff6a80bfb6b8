"""`cite` and `verify`: say where memories come from, and check whether that has changed."""

from __future__ import annotations

from collections import Counter

import click

from retentive.cli import output
from retentive.cli.exits import PROBLEMS
from retentive.cli.location import Location
from retentive.cli.options import command
from retentive.cli.parameters import flag, named, option, path_argument, path_option
from retentive.engine.citations import STALE, STATES
from retentive.values.paths import ROOT

_root = option("--root", "DIR", "Working copy with the cited files.", default=".")


@command(json='Print a JSON object: {"path", "version_id", "notes"}.')
@path_argument("path")
@click.argument("source")
@option("--line", "N", "Line that comes from SOURCE; default: all.", type=click.IntRange(min=1))
@_root
def cite(location: Location, path: str, source: str, *, line: int | None, root: str) -> None:
    """Write into a memory that it comes from SOURCE: a file below DIR, or a memory, such as src/app.py#L10-L14."""
    with location.existing() as store:
        written = store.cite(named(store, path), source, line=line, root=root)
    said = f"{written.path} cites {source}." if not written.is_proposed else "The citation awaits review."
    output.emit(output.attributes(written, "path", "version_id", "notes"), said, notes=written.notes)


@command(json="Print a JSON list of citations.")
@_root
@path_option("--under", metavar="PATH", default=ROOT, help="Only this memory, or those below this directory.")
@flag("--dry-run", "Record nothing.")
@flag("--recorded", "Check no files; show the outcome of the last verification.")
def verify(location: Location, *, root: str, under: str, dry_run: bool, recorded: bool) -> None:
    """Compare what memories cite with the files below DIR, and with the cited memories.

    Prints the citations that are not fresh (as JSON, all): `drifted` if the cited text has changed, `orphaned` if it is
    gone, `unverified` if it could not be checked. The status is 17 if any is drifted or orphaned. Adds no version.
    """
    with location.existing() as store:
        at = named(store, under)
        found = store.citations(at) if recorded else store.verify(root, under=at, dry_run=dry_run)
    counts = Counter(each.state for each in found)
    columns = {"state": "state", "path": "path", "line": "line", "source": "source", "now at": "moved_to"}
    said = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    table = output.table((each for each in found if each.state != "fresh"), columns, shortens=["source", "path"])
    output.emit(found, table, notes=[said or "No citations."], status=PROBLEMS if counts.keys() & {*STALE} else 0)
