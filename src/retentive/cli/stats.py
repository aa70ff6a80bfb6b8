"""`stats`: contents, activity and limits of a memory store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

import click

from retentive.cli import layouts, output
from retentive.cli.location import Location, pass_location
from retentive.values.listing import human_size

if TYPE_CHECKING:
    from retentive.stats import Stats

Row: TypeAlias = tuple[str, ...]
Section: TypeAlias = tuple[str, Row, list[Row]]
"""A name, column names and rows."""


@click.command(cls=output.Command)
@click.option(
    "--days",
    metavar="N",
    type=click.IntRange(1, 36_600),
    default=30,
    show_default=True,
    help="Days of activity to count; the last day is today (UTC).",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_location
def stats(location: Location, *, days: int, as_json: bool) -> None:
    """Show the size and activity of a memory store.

    Shows sizes, activity per day, the biggest, least used and most changed memories, the actors, memories near a limit
    or about to expire, and the number of proposed changes. Prints tables on a terminal. In a pipe each line has the
    name of a section and one of its rows, separated by tabs.
    """
    from retentive import stats  # noqa: PLC0415 - slow to import

    with location.existing() as store, output.progress("Counting"):
        found = stats.stats(store, days=days)
    output.emit(
        _object(found),
        as_json=as_json,
        plain=((name, *row) for name, _, rows in _sections(found, plain=True) for row in rows),
        shown=_tables(_sections(found, plain=False)),
    )


def _object(found: Stats) -> dict[str, object]:
    """The JSON form, with the days of the window."""
    days = [{**day._asdict(), "day": day.day.isoformat()} for day in found.window]
    used = [{"path": one.path, "at": output.timestamp(one.at)} for one in found.least_used]
    named = {
        name: [one._asdict() for one in getattr(found, name)]
        for name in ("biggest", "most_changed", "near", "expiring")
    }
    actors = [{"actor": actor, "changes": count} for actor, count in found.actors]
    whole = asdict(found) | named
    return whole | {"at": output.timestamp(found.at), "days": days, "least_used": used, "actors": actors}


def _sections(found: Stats, *, plain: bool) -> list[Section]:
    """The sections; `plain` has exact bytes and times, and days without activity."""

    def size(size_bytes: int) -> str:
        return str(size_bytes) if plain else human_size(size_bytes)

    days = [day for day in found.window if plain or day.changes]
    return [
        ("store", ("what", "size"), _totals(found, plain=plain)),
        (
            "activity",
            ("day", "created", "modified", "deleted", "size"),
            [(str(d.day), str(d.created), str(d.modified), str(d.deleted), size(d.size_bytes)) for d in days],
        ),
        ("biggest", ("size", "path"), [(size(one.size_bytes), one.path) for one in found.biggest]),
        (
            "least used",
            ("used", "path"),
            [(output.timestamp(one.at) if plain else f"{one.at:%Y-%m-%d}", one.path) for one in found.least_used],
        ),
        ("most changed", ("changes", "path"), [(str(one.changes), one.path) for one in found.most_changed]),
        ("who", ("changes", "actor"), [(str(count), actor) for actor, count in found.actors]),
        (
            "near a limit",
            ("present", "limit", "setting", "path"),
            [(str(one.present), str(one.limit), one.limit_name, one.path or "") for one in found.near],
        ),
        ("expiring", ("in days", "path"), [(f"{one.in_days:.1f}", one.path) for one in found.expiring]),
    ]


def _totals(found: Stats, *, plain: bool) -> list[Row]:
    def size(size_bytes: int) -> str:
        return str(size_bytes) if plain else human_size(size_bytes)

    return [
        ("memories", str(found.memories)),
        ("bytes", size(found.size_bytes)),
        ("versions", str(found.versions)),
        ("bytes of versions", size(found.versions_bytes)),
        ("changes awaiting review", str(found.proposals)),
    ]


def _tables(sections: Sequence[Section]) -> list[output.Piece]:
    """A table for each section that has rows, with a blank line between two."""
    pieces: list[output.Piece] = []
    for name, columns, rows in sections:
        if rows:
            pieces += [*(["\n"] if pieces else []), layouts.Table(columns, rows, title=name.upper())]
    return pieces
