"""`search`: find memories by words or by a pattern."""

from __future__ import annotations

from typing import Any

import click

from retentive.cli import layouts, output
from retentive.cli.location import Location
from retentive.cli.parameters import MEMORY_PATH, source_option, trust_option
from retentive.search.query import Hit, Results
from retentive.values.paths import ROOT


@output.command(json='Print a JSON object: {"total", "hits", "damaged"}.')
@click.argument("query", nargs=-1, required=True)
@click.option("--under", metavar="DIR", default=ROOT, type=MEMORY_PATH, help="Search only below this directory.")
@click.option(
    "--path",
    "paths",
    metavar="PATTERN",
    multiple=True,
    help="Search only matching paths, such as '/memories/*/notes.md'.",
)
@source_option
@trust_option
@click.option("--regex", is_flag=True, help="QUERY is a regular expression (RE2), matched against each line.")
@click.option("-n", "limit", metavar="N", type=click.IntRange(min=0), default=20, help="Show the first N.")
def search(location: Location, /, query: tuple[str, ...], *, limit: int, **where: Any) -> None:
    """Find the memories that contain all words of QUERY in their text or path, most recently changed first.

    Words match anywhere, in any language and case. '"some words"' matches a phrase, -word excludes a word (after --).
    In a pipe each line has a path, line number and line, separated by tabs; number and line are empty if only the path
    matches.
    """
    with location.existing() as store:
        found = store.search(" ".join(query), limit=limit, **where)
    is_cut = len(found.hits) < found.total
    total = f"{output.counted(found.total, 'memory')}."
    output.emit(
        _object(found),
        rows="hits",
        plain=(row for hit in found.hits for row in _rows(hit)),
        shown=[layouts.Hits(found), "" if is_cut else total],
        notes=[
            *([f"{len(found.hits)} of {found.total} memories; -n shows more."] if is_cut else []),
            *(f"The memory {path} is damaged and was not searched; run `retentive doctor`." for path in found.damaged),
        ],
    )


def _rows(hit: Hit) -> list[tuple[str, str, str]]:
    return [(hit.path, str(snippet.line), snippet.text) for snippet in hit.snippets] or [(hit.path, "", "")]


def _object(found: Results) -> dict[str, object]:
    names = ("path", "memory_id", "version_id", "updated_at", "lines", "path_spans", "snippets", "trust")
    hits = [output.attributes(hit, *names) for hit in found.hits]
    return {"total": found.total, "hits": hits, "damaged": found.damaged}
