"""`scan`, `migrate-schema` and `collect`: what an operator runs now and then."""

from __future__ import annotations

from dataclasses import asdict

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Place, pass_place
from retentive.locations import migrate_schema
from retentive.storage import capabilities

DEFAULT_COLLECT_HOURS = 24.0
_RENAME = "in the path: rename it by hand"


@click.command("migrate-schema", cls=output.Command)
@click.option(
    "--partitions",
    metavar="N",
    type=int,
    default=0,
    help="When the tables are made: split memories and versions into N by the hash of their store.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the numbers of the steps taken.")
@pass_place
def migrate(place: Place, *, partitions: int, as_json: bool) -> None:
    """Bring the tables of a database server up to date, or make them.

    Opening a database server makes the tables in an empty database, and refuses older ones until this was run. Run it
    before the new version of an application starts; those that run need not stop. Other places are brought up to date
    when they are opened.
    """
    with output.progress("Migrating"):
        applied = migrate_schema(place.at, partitions=partitions)
    text = f"Applied: {', '.join(map(str, applied))}.\n" if applied else "The schema is up to date.\n"
    output.emit({"applied": applied}, as_json=as_json, plain=text)


@click.command(cls=output.Command)
@click.option(
    "--older-than",
    metavar="HOURS",
    type=float,
    default=DEFAULT_COLLECT_HOURS,
    show_default=True,
    help="Leave what is younger; at least 2 hours, since a writer may still be at work.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object of counts.")
@pass_place
def collect(place: Place, *, older_than: float, as_json: bool) -> None:
    """Delete what crashed writers left in object storage.

    Nobody has to stop for it. At other places nothing is left behind, and nothing is deleted.
    """
    deleted = 0
    with place.opened() as found, output.progress("Collecting", total=len(stores := found.stores())) as advance:
        for done, info in enumerate(stores, 1):
            deleted += capabilities.collect(found.backend, info.id, older_than_s=older_than * 3_600)
            if advance is not None:
                advance(done)
    text = f"Deleted {deleted} objects of {len(stores)} memory stores.\n"
    output.emit({"stores": len(stores), "deleted": deleted}, as_json=as_json, plain=text)


@click.command(cls=output.Command)
@click.option(
    "--redact", is_flag=True, help="Write what was found anew without the values. Older versions still have them."
)
@click.option(
    "--history", is_flag=True, help="Entry through older versions too; with --redact they are redacted whole."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects: path, kinds, in_path.")
@pass_place
def scan(place: Place, *, redact: bool, history: bool, as_json: bool) -> None:
    """Tell which memories hold sensitive values, and of which kinds; never the values.

    They may have come past the guards: by hand, or before these were on. A path that holds one is shown without it, and
    is for you to rename: `mv`, then --history --redact for what it was called before. Ends with status 16 if something
    was found and is still there.
    """
    with place.existing() as store, output.progress("Scanning"):
        found = store.scan(redact=redact, history=history)
    rows = [(one.path, ", ".join(one.kinds), *([_RENAME] if one.in_path else [])) for one in found]
    padded = [(*row, "")[:3] for row in rows]
    output.emit(
        map(asdict, found),
        as_json=as_json,
        plain=rows,
        shown=[output.Aligned(padded, ("cyan", "yellow"), empty="No sensitive values.")],
    )
    if any(one.in_path or not redact for one in found):
        raise click.exceptions.Exit(status_of("sensitive"))
