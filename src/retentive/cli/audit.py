"""`audit`: checking, exporting and reading the audit log of a memory store."""

from __future__ import annotations

from datetime import datetime

import click

from retentive.audit.log import AuditEntry, Verified
from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Place, pass_place
from retentive.cli.times import FORMS, time_option


@click.group("audit")
def audit() -> None:
    """Check, export and read the audit log: who asked for what, when, and what came of it; no contents.

    It is kept while the setting audit is on: retentive settings set audit=true.
    """


@audit.command("verify", cls=output.Command)
@click.option(
    "--expect",
    metavar="SEQ:HASH",
    multiple=True,
    help="A head noted elsewhere: it must be present. May be given more than once.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_place
def verify(place: Place, *, expect: tuple[str, ...], as_json: bool) -> None:
    """Check that every entry is there, as it was written and where it was written.

    Names the first entry that was altered, removed or reordered, and then ends with status 13. Prints the head of the
    chain; noted elsewhere, it shows later whether the log was rewritten or cut (--expect). Versions recorded while the
    log was on that no entry names are listed; they are not a problem.
    """
    with place.existing() as store:
        found = store.audit.verify(expect=expect)
    if as_json:
        output.write_line(output.to_json(_verified(found)))
    else:
        _print(found)
    if found.problem is not None:
        raise click.exceptions.Exit(status_of("damaged"))


@audit.command("export", cls=output.Command)
@time_option("--since", f"Only from then on: {FORMS}.")
@click.option("--json", "as_json", is_flag=True, help="The same: the output is JSON in any case.")
@pass_place
def export(place: Place, *, since: datetime | None, as_json: bool) -> None:
    """Print the entries as they are stored, one JSON object a line."""
    with place.existing() as store:
        for line in store.audit.export(since):
            output.write_line(line)


@audit.command("show", cls=output.Command)
@time_option("--since", f"Only from then on: {FORMS}.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@pass_place
def show(place: Place, *, since: datetime | None, as_json: bool) -> None:
    """List the entries, oldest first.

    A line for each, with tabs between: time, actor, operation, outcome, paths, and versions changed or read.
    """
    with place.existing() as store:
        found = list(store.audit.entries(since))
    if as_json:
        output.write_line(output.to_json([_object(entry) for entry in found]))
    else:
        text = "".join("\t".join(_row(entry)) + "\n" for entry in found)
        output.write((output.harmless(text.replace("\t", "  ")) if output.on_terminal() else text).encode())


def _print(found: Verified) -> None:
    if found.problem is not None:
        output.write_line(f"Not sound: {found.problem}.")
    else:
        output.write_line(f"Sound: {found.entries} entries.")
    if found.head is not None:
        output.write_line(f"head\t{found.head}")
    for version in found.unaudited:
        output.write_line(f"unaudited\t{version.id}\t{output.timestamp(version.created_at)}\t{version.actor or ''}")


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
        "seq": entry.seq,
        "hash": entry.hash,
    }


def _row(entry: AuditEntry) -> tuple[str, ...]:
    named = [each.version_id for each in (*entry.changes, *([entry.read] if entry.read else []))]
    what = (entry.operation or "-") + ("" if entry.audit is None else f" audit={'on' if entry.audit else 'off'}")
    said = [*(["listing"] if entry.listed else []), *(["repeated"] if entry.repeated else []), *named]
    return (
        output.timestamp(entry.time),
        entry.actor or "",
        what,
        entry.outcome,
        " ".join(entry.paths or ()),
        " ".join(said),
    )
