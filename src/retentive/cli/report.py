"""`report`: write a memory store, or selected changes, to one HTML file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from retentive.cli import output
from retentive.cli.history import actors_option
from retentive.cli.location import Location, naming
from retentive.cli.parameters import revision_option
from retentive.errors import InvalidInput
from retentive.history.reads import LogFilter
from retentive.history.revisions import Revision
from retentive.store import MemoryStore, core_of
from retentive.transfer.files import new_file
from retentive.values.extras import pip_install

if TYPE_CHECKING:
    from retentive.console.report import Report


@output.command(json="Print a JSON object.")
@click.option("--html", "dest", metavar="FILE", required=True, help="File to create.")
@actors_option("Only changes by actors that match, such as session:*, or by the user with this name.")
@click.option("--session", metavar="PATTERN", help="Only changes in sessions that match.")
@revision_option("--since", text="Only changes since a time, or after a change.")
@revision_option("--until", text="Only changes until a time or a change.")
def report(
    location: Location,
    *,
    dest: str,
    whose: str | None,
    session: str | None,
    since: Revision | None,
    until: Revision | None,
) -> None:
    """Write a memory store to one HTML file that people can read or attach to a message.

    By default, the file has statistics, the newest changes, and the texts of all memories. Texts beyond 8 MB in total
    are left out. With --by, --session, --since or --until, it has the selected changes and their effect on each memory.
    The file has no scripts and loads nothing from the network. Values that look sensitive are masked. Exits with status
    4 if FILE exists.
    """
    try:
        from retentive.console.report import of_changes, of_store  # noqa: PLC0415 - needs an extra
    except ImportError:
        packages = pip_install("server", "console")
        raise InvalidInput(f"`retentive report` needs the extra `console` of retentive: {packages}") from None

    def made(store: MemoryStore) -> Report:
        if whose is None and session is None and since is None and until is None:
            return of_store(store)
        with core_of(store).checking("diff"):
            only = LogFilter(actor=whose, session=session)
        return of_changes(store, only, since=since, until=until)

    with location.existing() as store, output.progress("Reading"), naming("File", dest), new_file(dest) as file:
        found = made(store)
        file.write(found.html.encode("utf-8"))
    what = f"{found.memories} memories and {found.changes} changes"
    notes = [f"{found.left_out} memories are named without their contents."] if found.left_out else []
    output.emit(
        {
            "memories": found.memories,
            "changes": found.changes,
            "left_out": found.left_out,
            "size_bytes": len(found.html.encode("utf-8")),
        },
        plain=f"Wrote a report of {what}.\n",
        notes=notes,
    )
