"""`evidence`: what a session read, changed and had reviewed, with the proof of the audit log."""

from __future__ import annotations

from dataclasses import asdict

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Location, naming
from retentive.cli.options import command
from retentive.evidence import EvidenceStep, EvidenceVersion, gather
from retentive.transfer.files import new_file


@command(json="Print the evidence as a JSON object (docs/audit.md).")
@click.option("--session", metavar="NAME", help="Session: the actor session:NAME, and changes that name it.")
@click.option("--actor", "by", metavar="PATTERN", help="Actors, such as user:ann or api_key:*.")
@click.option("--run", metavar="NAME", help="Run that the application named.")
@click.option("--all", "of_all", is_flag=True, help="Look in all memory stores of the location.")
@click.option("--texts", is_flag=True, help="Add the texts that were read and written, as far as they still exist.")
@click.option("--html", metavar="FILE", help="Write the evidence to the new file FILE too, as a page to read or print.")
@click.option("--anchor", metavar="FILE", help="Compare the log and all versions with the anchors in FILE.")
@click.option("--key", metavar="FILE", help="With --anchor: the key that signed the anchors.")
def evidence(
    location: Location,
    *,
    session: str | None,
    by: str | None,
    run: str | None,
    of_all: bool,
    texts: bool,
    html: str | None,
    anchor: str | None,
    key: str | None,
) -> None:
    """Show what a session, an actor or a run read in which version, what it changed, and who reviewed it.

    \b
    retentive evidence --session s1 --html s1.html
    retentive --json evidence --session s1 --all > s1.json

    The sources are the audit log, which must have been on, and the history. All entries and versions are verified; if
    one was altered or removed, it is named, and the status is 13. With the URL of a server, the API key needs the scope
    admin. In a pipe each line has the time, number of the entry, operation, outcome, and a version with its state.
    """
    if not (session or by or run):
        raise click.UsageError("Name what the evidence is of: --session, --actor or --run.")
    if (anchor is None) != (key is None):
        raise click.UsageError("Pass --anchor and --key together.")
    with location.opened() as opened, naming("Key file", key or ""), naming("Anchors", anchor or ""):
        stores = [opened.store(info.id) for info in opened.stores()] if of_all else [location.chosen(opened)]
        found = gather(stores, session=session, actor=by, run=run, texts=texts, anchor=anchor, key=key)
    if html is not None:
        from retentive.evidence_page import page  # noqa: PLC0415 - imports jinja2, an extra

        with naming("File", html), new_file(html) as file:
            file.write(page(found).encode())
    rows = [row for store in found.stores for step in store.steps for row in _rows(step)]
    rows += [(str(each.time), "-", "unlogged", "ok", _said(each)) for store in found.stores for each in store.unlogged]
    rows += [
        (each.time or "-", str(each.entry or "-"), "review", each.decision, f"{each.proposal_id} by {each.by or '-'}")
        for store in found.stores
        for each in store.reviews
    ]
    wrong = [
        f"{each.memory_store_id}: {each.what}: {each.memory_version_id or f'entry {each.entry}'}"
        for each in found.findings
    ]
    heads = [f"head of {store.key or store.memory_store_id}: {store.head}" for store in found.stores if store.head]
    without_log = [store.key or store.memory_store_id for store in found.stores if not store.is_audited]
    off = [f"The audit log of {name} is off: what was read is not recorded." for name in without_log]
    output.emit(
        asdict(found),
        output.table(rows, ("time", "entry", "operation", "outcome", "version"), header=False),
        rows="stores",
        notes=[
            *heads,
            *off,
            f"No alteration was found{'' if found.is_anchored else ' (no anchor was compared)'}."
            if found.is_sound
            else "Not sound:",
            *wrong,
        ],
        status=0 if found.is_sound else status_of("damaged"),
    )


def _rows(step: EvidenceStep) -> list[tuple[str, str, str, str, str]]:
    first = step.time, str(step.log["seq"]), str(step.log["operation"] or "-"), str(step.log["outcome"])
    named = "withheld" if step.paths is None else " ".join(step.paths)
    return [(*first, _said(each)) for each in (*step.read, *step.changed)] or [(*first, named)]


def _said(version: EvidenceVersion) -> str:
    return f"{version.memory_version_id} {version.state} {version.path or ''}".rstrip()
