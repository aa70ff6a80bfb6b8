"""`evidence`: what a session read, changed and had reviewed, with the proof of the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Location, naming
from retentive.cli.options import command
from retentive.cli.parameters import option
from retentive.evidence import StoreEvidence, gather
from retentive.transfer.files import new_file


@command(json="Print the evidence as a JSON object (docs/security.md).")
@option("--session", "NAME", "The actor session:NAME, and changes that name it.", required=True)
@option("--html", "FILE", "Write the evidence to the new file FILE too, as a page to read or print.")
def evidence(location: Location, *, session: str, html: str | None) -> None:
    """Show what a session read in which version, what it changed, and who reviewed it.

    \b
    retentive evidence --session s1 --html s1.html
    retentive --json evidence --session s1 > s1.json

    It looks in all memory stores of the location, or in that of --store. The sources are the audit log, which must have
    been on, and the history. All entries and versions are verified; if one was altered or removed, it is named, and the
    status is 13. With the URL of a server, the API key needs the scope admin. In a pipe each line has the time, number
    of the entry, operation, outcome, and a version with its state.
    """
    with location.opened() as opened:
        is_one = "store" in location.typed
        stores = [location.chosen(opened)] if is_one else [opened.store(info.id) for info in opened.stores()]
        found = gather(stores, session)
    if html is not None:
        from retentive.evidence_page import page  # noqa: PLC0415 - imports jinja2, an extra

        with naming("File", html), new_file(html) as file:
            file.write(page(found).encode())
    notes = [line for store in found.stores for line in _notes(store)]
    output.emit(
        asdict(found),
        output.table(
            [row for store in found.stores for row in _rows(store)],
            ("time", "entry", "operation", "outcome", "version"),
            header=False,
        ),
        rows="stores",
        notes=[*notes, "No alteration was found." if found.is_sound else "Records were altered or are missing."],
        status=0 if found.is_sound else status_of("damaged"),
    )


def _rows(store: StoreEvidence) -> Iterator[tuple[str, str, str, str, str]]:
    for step in store.steps:
        about = step.time, str(step.entry or "-"), step.operation or "-", step.outcome
        versions = (*step.read, *step.changed)
        found = [f"{each.memory_version_id} {each.state} {each.path or ''}".rstrip() for each in versions]
        for text in found or ["withheld" if step.paths is None else " ".join(step.paths)]:
            yield *about, text
    for each in store.reviews:
        by = f"{each.proposal_id} by {each.by or '-'}"
        yield each.time or "-", str(each.entry or "-"), "review", each.decision, by


def _notes(store: StoreEvidence) -> Iterator[str]:
    name = store.key or store.memory_store_id
    yield from (f"{name}: {finding}" for finding in store.findings)
    if not store.is_audited:
        yield f"The audit log of {name} is off: what was read is not recorded."
    if store.head:
        yield f"head of {name}: {store.head}"
