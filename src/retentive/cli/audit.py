"""`audit`: verifying, exporting and showing the audit log of a memory store."""

from __future__ import annotations

from datetime import datetime

import click

from retentive.audit.reader import AuditEntry, Verified
from retentive.cli import layouts, output
from retentive.cli.exits import status_of
from retentive.cli.location import Location, pass_location
from retentive.cli.parameters import FORMS, time_option


@click.group("audit")
def audit() -> None:
    """Verify, export and show the audit log: actors, operations, times and outcomes, without texts.

    The log is kept while the setting audit is on: retentive settings set audit=true.
    """


@audit.command("verify", cls=output.Command)
@click.option(
    "--expect",
    metavar="SEQ:HASH",
    multiple=True,
    help="A head of the log, noted earlier, which must still exist. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_location
def verify(location: Location, *, expect: tuple[str, ...], as_json: bool) -> None:
    """Verify that every entry exists, unmodified and in its order.

    Reports the first modified, missing or reordered entry, and then exits with status 13. Prints the head of the log:
    keep it in another place, and --expect detects a rewritten or truncated log. Versions without an entry, recorded
    while the log was on, are listed; they are not errors.
    """
    with location.existing() as store, output.progress("Verifying"):
        found = store.audit.verify(expect=expect)
    output.emit(_verified(found), as_json=as_json, plain=_lines(found))
    if found.problem is not None:
        raise click.exceptions.Exit(status_of("damaged"))


@audit.command("export", cls=output.Command)
@time_option("--since", f"Only entries since this time: {FORMS}.")
@click.option("--json", "as_json", is_flag=True, help="Has no effect: the output is always JSON.")
@pass_location
def export(location: Location, *, since: datetime | None, as_json: bool) -> None:
    """Print the stored entries, one JSON object per line."""
    with location.existing() as store:
        for line in store.audit.export(since):
            output.write_line(line)


@audit.command("show", cls=output.Command)
@time_option("--since", f"Only entries since this time: {FORMS}.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@pass_location
def show(location: Location, *, since: datetime | None, as_json: bool) -> None:
    """Show the entries, oldest first.

    In a pipe each line has a time, actor, operation, outcome, paths, and the versions changed or read, separated by
    tabs.
    """
    with location.existing() as store:
        found = list(store.audit.entries(since))
    output.emit(
        map(_object, found),
        as_json=as_json,
        plain=map(_row, found),
        shown=[layouts.Aligned(map(_row, found), ("blue", "green"), empty="No entries.")],
    )


def _lines(found: Verified) -> str:
    sound = f"Sound: {found.entries} entries."
    rows = [
        (sound if found.problem is None else f"Not sound: {found.problem}.",),
        *([] if found.head is None else [("head", str(found.head))]),
        *(("unaudited", one.id, output.timestamp(one.created_at), str(one.actor or "")) for one in found.unaudited),
    ]
    return "".join("\t".join(row) + "\n" for row in rows)


def _verified(found: Verified) -> dict[str, object]:
    problem = found.problem
    return {
        "entries": found.entries,
        "problem": problem and {"what": problem.what, "seq": problem.seq},
        "head": found.head and str(found.head),
        "unaudited": [version.id for version in found.unaudited],
    }


def _object(entry: AuditEntry) -> dict[str, object]:
    return {
        "time": output.timestamp(entry.time),
        "actor": entry.actor,
        "operation": entry.operation,
        "integration": entry.integration,
        "paths": entry.paths,
        "outcome": entry.outcome,
        "changes": [each._asdict() for each in entry.changes],
        "read": entry.read and entry.read._asdict(),
        "listed": entry.listed,
        "repeated": entry.repeated,
        "audit": entry.audit,
        "proposed": entry.proposed,
        "withheld": entry.withheld,
        "facts": entry.facts,
        "seq": entry.seq,
        "hash": entry.hash,
    }


def _row(entry: AuditEntry) -> tuple[str, ...]:
    operation = (entry.operation or "-") + ("" if entry.audit is None else f" audit={'on' if entry.audit else 'off'}")
    marks = [*(["listing"] if entry.listed else []), *(["repeated"] if entry.repeated else [])]
    versions = [each.version_id for each in (*entry.changes, *([entry.read] if entry.read else []))]
    return (
        output.timestamp(entry.time),
        entry.actor or "",
        operation,
        entry.outcome,
        "withheld" if entry.paths is None else " ".join(entry.paths),
        " ".join([*marks, *versions]),
    )
