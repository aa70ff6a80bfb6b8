"""`stats`: show the size, activity and limits of a memory store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

import click

from retentive.cli import layouts, output
from retentive.cli.location import Location
from retentive.values.listing import human_size

if TYPE_CHECKING:
    from retentive.stats import Stats

Row: TypeAlias = tuple[str, ...]
Section: TypeAlias = tuple[str, Row, Sequence[Row]]
"""Section of the output: its name, the names of its columns, and its rows."""


@output.command(json="Print a JSON object.")
@click.option(
    "--days",
    metavar="N",
    type=click.IntRange(1, 36_600),
    default=30,
    help="Days of activity to count; the last day is today (UTC).",
)
def stats(location: Location, *, days: int) -> None:
    """Show the size and activity of a memory store.

    Shows sizes, the activity of each day, and the number of proposed changes. Lists the biggest, least used and most
    changed memories, and the actors. Prints tables on a terminal. In a pipe each line has the name of a section and one
    of its rows, separated by tabs.
    """
    from retentive import stats  # noqa: PLC0415 - slow to import

    with location.existing() as store, output.progress("Counting"):
        found = stats.stats(store, days=days)
    output.emit(
        _object(found),
        plain=((name, *row) for name, _, rows in _sections(found, plain=True) for row in rows),
        shown=_tables(_sections(found, plain=False)),
    )


def _object(found: Stats) -> dict[str, object]:
    use = found.use
    return {
        **{name: value for name, value in asdict(found).items() if name != "use"},
        "memories": use.memories,
        "size_bytes": use.size_bytes,
        "days": [{**day._asdict(), "day": day.day.isoformat()} for day in found.days],
        "biggest": [{"path": each.path, "size_bytes": each.size_bytes} for each in use.biggest],
        "least_used": [each._asdict() for each in use.least_used],
        "most_changed": [{"path": path, "changes": count} for path, count in found.most_changed],
        "actors": [{"actor": actor, "changes": count} for actor, count in found.actors],
    }


def _sections(found: Stats, *, plain: bool) -> list[Section]:
    """Return the sections. With `plain`, sizes and times are exact, and days without activity are included."""
    size = str if plain else human_size
    time = output.exact_time if plain else "{:%Y-%m-%d}".format
    totals = [
        ("memories", str(found.use.memories)),
        ("bytes", size(found.use.size_bytes)),
        ("versions", str(found.versions)),
        ("bytes of versions", size(found.versions_bytes)),
        ("changes awaiting review", str(found.proposals)),
    ]
    days = [
        (str(day.day), str(day.created), str(day.modified), str(day.deleted))
        for day in found.days
        if plain or any(day[1:])
    ]
    return [
        ("store", ("what", "size"), totals),
        ("activity", ("day", "created", "modified", "deleted"), days),
        ("biggest", ("size", "path"), [(size(one.size_bytes), one.path) for one in found.use.biggest]),
        ("least used", ("used", "path"), [(time(one.at), one.path) for one in found.use.least_used]),
        ("most changed", ("changes", "path"), [(str(count), path) for path, count in found.most_changed]),
        ("who", ("changes", "actor"), [(str(count), actor) for actor, count in found.actors]),
    ]


def _tables(sections: Sequence[Section]) -> Sequence[output.Piece]:
    tables = [layouts.Table(columns, rows, title=name.upper()) for name, columns, rows in sections if rows]
    return [piece for table in tables for piece in ("\n", table)][1:]
