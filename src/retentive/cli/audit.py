"""`audit`: checking, exporting and reading the audit log of a memory store."""

from __future__ import annotations

from datetime import datetime

import click

from retentive.audit.log import AuditEntry, Verified
from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Location, pass_location
from retentive.cli.parameters import FORMS, time_option


@click.group("audit")
def audit() -> None:
    """Check, export and read the audit log: who asked for what, when, and what came of it; no contents.

    It is kept while the setting audit is on: retentive settings set audit=true.
    """


@audit.command("verify", cls=output.Command)
@click.option(
    "--expect",
    metavar="CHAIN:SEQ:HASH",
    multiple=True,
    help="An end that was noted elsewhere: it must be there. May be given more than once.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_location
def verify(location: Location, *, expect: tuple[str, ...], as_json: bool) -> None:
    """Check that every entry is there, as it was written and where it was written.

    Names the first that was altered, removed, reordered or doubled, and then ends with status 13. Prints the ends of
    the chains; noted elsewhere, they show later whether the log was rewritten (--expect). Versions that were recorded
    while the log was on and are in no entry are told, and are no fault.
    """
    with location.existing() as store, output.progress("Verifying"):
        found = store.audit.verify(expect=expect)
    output.emit(_verified(found), as_json=as_json, plain=_lines(found))
    if found.problem is not None:
        raise click.exceptions.Exit(status_of("damaged"))


@audit.command("export", cls=output.Command)
@time_option("--since", f"Only from then on: {FORMS}.")
@click.option("--json", "as_json", is_flag=True, help="The same: the output is JSON in any case.")
@pass_location
def export(location: Location, *, since: datetime | None, as_json: bool) -> None:
    """Print the entries as they are kept, one JSON object a line, chain by chain."""
    with location.existing() as store:
        for line in store.audit.export(since):
            output.write_line(line)


@audit.command("show", cls=output.Command)
@time_option("--since", f"Only from then on: {FORMS}.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@pass_location
def show(location: Location, *, since: datetime | None, as_json: bool) -> None:
    """Tell the entries in the order of their times.

    A line for each, with tabs between: time, actor, command, outcome, and versions changed or read.
    """
    with location.existing() as store:
        found = list(store.audit.entries(since))
    output.emit(
        map(_object, found),
        as_json=as_json,
        plain=map(_row, found),
        shown=[output.Aligned(map(_row, found), ("blue", "green"), empty="No entries.")],
    )


def _lines(found: Verified) -> str:
    sound = f"Sound: {found.entries} entries in {found.chains} chains."
    rows = [
        (sound if found.problem is None else f"Not sound: {found.problem}.",),
        *(("end", str(end)) for end in found.ends),
        *(("unaudited", one.id, output.timestamp(one.created_at), str(one.actor or "")) for one in found.unaudited),
    ]
    return "".join("\t".join(row) + "\n" for row in rows)


def _verified(found: Verified) -> dict[str, object]:
    problem = found.problem
    return {
        "entries": found.entries,
        "chains": found.chains,
        "problem": problem and {"what": problem.what, "chain": problem.chain, "seq": problem.seq},
        "ends": [str(end) for end in found.ends],
        "unaudited": [version.id for version in found.unaudited],
    }


def _object(entry: AuditEntry) -> dict[str, object]:
    return {
        "time": output.timestamp(entry.time),
        "actor": entry.actor,
        "command": entry.command,
        "outcome": entry.outcome,
        "changes": [each._asdict() for each in entry.changes],
        "read": entry.read and entry.read._asdict(),
        "listed": entry.listed,
        "repeated": entry.repeated,
        "audit": entry.audit,
        "chain": entry.chain,
        "seq": entry.seq,
    }


def _row(entry: AuditEntry) -> tuple[str, ...]:
    named = [each.version_id for each in (*entry.changes, *([entry.read] if entry.read else []))]
    what = entry.command or ("-" if entry.audit is None else f"audit {'on' if entry.audit else 'off'}")
    said = [*(["listing"] if entry.listed else []), *(["repeated"] if entry.repeated else []), *named]
    return output.timestamp(entry.time), entry.actor or "", what, entry.outcome, " ".join(said)
