"""`audit`: verifying, exporting and showing the audit log of a memory store."""

from __future__ import annotations

from datetime import datetime

import click

from retentive.audit.reader import AuditEntry, Verified
from retentive.cli import layouts, output
from retentive.cli.exits import status_of
from retentive.cli.location import Location
from retentive.cli.parameters import FORMS, time_option


@click.group("audit")
def audit() -> None:
    """Verify, export and show the audit log: actors, operations, times and outcomes, without texts.

    The log is kept while the setting audit is on: retentive settings set audit=true.
    """


@output.command("verify", group=audit, json="Print a JSON object.")
@click.option(
    "--expect",
    metavar="SEQ:HASH",
    multiple=True,
    help="A head of the log, noted earlier, which must still exist. May be repeated.",
)
def verify(location: Location, *, expect: tuple[str, ...]) -> None:
    """Verify that every entry exists, unmodified and in its order.

    Reports the first modified, missing or reordered entry, and then exits with status 13. Prints the head of the log:
    keep it in another place, and --expect detects a rewritten or truncated log. Versions without an entry, recorded
    while the log was on, are listed; they are not errors.
    """
    with location.existing() as store, output.progress("Verifying"):
        found = store.audit.verify(expect=expect)
    heads = {"head": found.head and str(found.head), "unaudited": [version.id for version in found.unaudited]}
    value = output.attributes(found, "entries", "problem") | heads
    output.emit(value, plain=_lines(found), status=status_of("damaged") if found.problem else 0)


@output.command("export", group=audit, json="Has no effect: the output is always JSON.")
@time_option("--since", f"Only entries since this time: {FORMS}.")
def export(location: Location, *, since: datetime | None) -> None:
    """Print the stored entries, one JSON object per line."""
    with location.existing() as store:
        for line in store.audit.export(since):
            output.write_line(line)


@output.command("show", group=audit, json="Print a JSON list.")
@time_option("--since", f"Only entries since this time: {FORMS}.")
def show(location: Location, *, since: datetime | None) -> None:
    """Show the entries, oldest first.

    In a pipe each line has a time, actor, operation, outcome, paths, and the versions changed or read, separated by
    tabs.
    """
    with location.existing() as store:
        found = list(store.audit.entries(since))
    output.emit(
        map(_object, found),
        plain=map(_row, found),
        shown=[layouts.Aligned(map(_row, found), ("blue", "green"), empty="No entries.")],
    )


def _lines(found: Verified) -> str:
    rows = [
        (f"Sound: {found.entries} entries." if found.problem is None else f"Not sound: {found.problem}.",),
        *([] if found.head is None else [("head", str(found.head))]),
        *(("unaudited", one.id, output.timestamp(one.created_at), str(one.actor or "")) for one in found.unaudited),
    ]
    return "".join("\t".join(row) + "\n" for row in rows)


def _object(entry: AuditEntry) -> dict[str, object]:
    return {
        **output.attributes(entry, "time", "actor", "operation", "integration", "paths", "outcome"),
        "changes": [each._asdict() for each in entry.changes],
        "read": entry.read and entry.read._asdict(),
        **output.attributes(entry, "listed", "repeated", "audit", "proposed", "withheld", "facts", "seq", "hash"),
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
