"""`search`: find memories by words or by a pattern."""

from __future__ import annotations

from typing import Any

import click

from retentive.cli import layouts, output
from retentive.cli.location import Location
from retentive.cli.parameters import MEMORY_PATH, source_option, trust_option
from retentive.search.results import Hit, Results
from retentive.values.paths import ROOT


@output.command(json='Print a JSON object: {"total", "hits", "damaged", "unknown", "relaxed"}.')
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
@click.option("--all", "is_all", is_flag=True, help="Find memories that contain all words as written, newest first.")
@click.option("--history", is_flag=True, help="Search all versions; show the first version with each text.")
@click.option("--as-of", "at", metavar="REV", help="Search the memories as of a revision or time, such as 2d.")
@click.option("--regex", is_flag=True, help="QUERY is a regular expression (RE2), matched against each line.")
@click.option("-n", "limit", metavar="N", type=click.IntRange(min=0), default=20, help="Show the first N.")
def search(location: Location, /, query: tuple[str, ...], *, limit: int, is_all: bool, **where: Any) -> None:
    """Find the memories that best match QUERY, which is a question or some words. Other forms of a word match too.

    '"some words"' is a phrase; +word must occur; -word must not occur (put -- before QUERY). path:TEXT, by:ACTOR,
    since:TIME, before:TIME and is:proposed limit the search. In a pipe each line has a path, line number and line,
    separated by tabs. If only the path of a memory matches, the number and the line are empty.
    """
    with location.existing() as store:
        found = store.search(" ".join(query), limit=limit, mode="all" if is_all else "ranked", **where)
    is_cut = len(found.hits) < found.total
    total = f"{output.counted(found.total, 'memory')}."
    output.emit(
        _object(found),
        rows="hits",
        plain=(row for hit in found.hits for row in _rows(hit)),
        shown=[layouts.Hits(found), "" if is_cut else total],
        notes=[
            *([f"{len(found.hits)} of {found.total} memories; -n shows more."] if is_cut else []),
            *(["No memory contains the whole phrase; these contain words of it."] if found.relaxed else []),
            *(f"No memory contains {word}." for word in found.unknown),
            *(f"The memory {path} is damaged and was not searched; run `retentive doctor`." for path in found.damaged),
        ],
    )


def _rows(hit: Hit) -> list[tuple[str, str, str]]:
    return [(hit.path, str(snippet.line), snippet.text) for snippet in hit.snippets] or [(hit.path, "", "")]


def _object(found: Results) -> dict[str, object]:
    names = (
        "path",
        "memory_id",
        "version_id",
        "updated_at",
        "lines",
        "path_spans",
        "snippets",
        "trust",
        "score",
        "actor",
    )
    hits = [output.attributes(hit, *names) for hit in found.hits]
    about = {"damaged": found.damaged, "unknown": found.unknown, "relaxed": found.relaxed}
    return {"total": found.total, "hits": hits, **about}
