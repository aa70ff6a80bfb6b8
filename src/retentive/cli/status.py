"""`status`: show a short overview of a memory store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from retentive.cli import layouts, output
from retentive.cli.history import change_object, described
from retentive.cli.location import Location
from retentive.locations import is_foreign
from retentive.values.listing import human_size

if TYPE_CHECKING:
    from retentive.history.changes import LoggedChange
    from retentive.stats.status import Status


@output.command(json="Print a JSON object.")
@click.option("--scan", is_flag=True, help="Also look for sensitive values in all texts, which takes longer.")
def status(location: Location, *, scan: bool) -> None:
    """Show a short overview of the memory store.

    Shows its size and limits, the last change and its actor, changes that await review, memories that are not trusted,
    files with edits that are not recorded yet, and lines that may contain sensitive values. In a pipe each line has a
    name and a value, separated by a tab.
    """
    from retentive.stats import status  # noqa: PLC0415 - slow to import

    with location.existing() as store:
        found, is_plain = status.status(store, scan=scan), is_foreign(location.url)
    rows = [("location", location.shown), ("store", store.key or store.id), *_rows(found)]
    if is_plain:
        rows.insert(1, ("plain files", "not taken over yet; `retentive init` or the first change does it"))
    output.emit(_object(found) | {"taken_over": not is_plain}, plain=rows, shown=[layouts.Aligned(rows, ("yellow",))])


def _rows(found: Status) -> Iterator[tuple[str, str]]:
    usage = found.usage
    yield "memories", _of(f"{usage.memories:,}", found.max_memories and f"{found.max_memories:,}")
    yield "size", _of(human_size(usage.size_bytes), found.max_store_bytes and human_size(found.max_store_bytes))
    if found.read_only:
        yield "read-only", "the whole store, by the setting read_only"
    elif found.read_only_paths:
        yield "read-only", f"{', '.join(found.read_only_paths)}, by the setting read_only_paths"
    for near in found.near:
        what = f"{near.path} uses" if near.path else "uses"
        yield "near a limit", f"{what} {100 * near.present // near.limit} % of {near.limit_name}"
    yield from _last(found.last)
    if found.proposals:
        yield "review", f"{output.counted(found.proposals, 'proposal')} pending; see `retentive review list`"
    if found.doubted:
        yield "trust", f"{_memories(found.doubted)} not trusted; see `retentive trust list`"
    if found.edits:
        more = f" and {len(found.edits) - 1} more" if len(found.edits) > 1 else ""
        yield "edited files", f"{found.edits[0]}{more}, not recorded yet; `retentive ls` records them"
    if found.flagged:
        memories = _memories(len({each.path for each in found.flagged}))
        yield "flagged", f"{output.counted(len(found.flagged), 'line')} in {memories}; see `retentive stats`"
    if not found.has_all_flags and found.findings is None:
        yield "not checked", "flags of older versions; `retentive status --scan` reads all texts"
    if found.findings is not None:
        kinds = sorted({kind for each in found.findings for kind in (*each.kinds, *each.likely)})
        seen = f": {', '.join(kinds)}" if kinds else ""
        yield "scan", f"findings in {_memories(len(found.findings))}{seen}; see `retentive scan`"


def _memories(number: int) -> str:
    return output.counted(number, "memory")


def _of(present: str, limit: str | int) -> str:
    return f"{present} of {limit}" if limit else present


def _last(change: LoggedChange | None) -> Iterator[tuple[str, str]]:
    if change is None:
        yield "last change", "none"
        return
    yield "last change", f"{change.id} by {change.actor or 'an actor without a name'}, {output.local_time(change.at)}"
    more = f" and {len(change.versions) - 1} more" if len(change.versions) > 1 else ""
    cause = f"{change.cause}: " if change.cause else ""
    yield "changed", f"{cause}{' '.join(described(change.versions[-1], change))}{more}"


def _object(found: Status) -> dict[str, object]:
    named = {name: [each._asdict() for each in getattr(found, name)] for name in ("near", "flagged")}
    last: dict[str, object] = {"last": found.last and change_object(found.last)}
    names = (
        "usage",
        "max_memories",
        "max_store_bytes",
        "read_only",
        "read_only_paths",
        "proposals",
        "doubted",
        "edits",
    )
    last |= output.attributes(found, "has_all_flags", "findings")
    return output.attributes(found, *names) | named | last
