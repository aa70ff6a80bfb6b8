"""`search`: finding memories by words or by a pattern."""

from __future__ import annotations

import click

from retentive.cli import layouts, output
from retentive.cli.location import Location, pass_location
from retentive.search.query import Hit, Results, Span
from retentive.values.paths import ROOT


@click.command(cls=output.Command)
@click.argument("query", nargs=-1, required=True)
@click.option("--under", metavar="DIR", default=ROOT, show_default=True, help="Search only below this directory.")
@click.option(
    "--path",
    "paths",
    metavar="PATTERN",
    multiple=True,
    help="Search only matching paths, such as '/memories/*/notes.md'.",
)
@click.option("--regex", is_flag=True, help="QUERY is a regular expression (RE2), matched against each line.")
@click.option(
    "-n", "limit", metavar="N", type=click.IntRange(min=0), default=20, show_default=True, help="Show the first N."
)
@click.option("--json", "as_json", is_flag=True, help='Print a JSON object: {"total", "hits"}.')
@pass_location
def search(
    location: Location,
    query: tuple[str, ...],
    *,
    under: str,
    paths: tuple[str, ...],
    regex: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Find the memories that contain all words of QUERY in their text or path, most recently changed first.

    Words match anywhere, in any language and case. '"some words"' matches a phrase, -word excludes a word (after --).
    In a pipe each line has a path, line number and line, separated by tabs; number and line are empty if only the path
    matches.
    """
    with location.existing() as store:
        found = store.search(" ".join(query), under=under, paths=paths, regex=regex, limit=limit)
    is_cut = len(found.hits) < found.total
    total = f"{output.counted(found.total, 'memory')}."
    output.emit(
        _object(found),
        as_json=as_json,
        plain=(row for hit in found.hits for row in _rows(hit)),
        shown=[layouts.Hits(found), "" if is_cut else total],
        notes=[f"{len(found.hits)} of {found.total} memories; -n shows more."] if is_cut else [],
    )


def _rows(hit: Hit) -> list[tuple[str, str, str]]:
    return [(hit.path, str(snippet.line), snippet.text) for snippet in hit.snippets] or [(hit.path, "", "")]


def _object(found: Results) -> dict[str, object]:
    return {"total": found.total, "hits": [_hit(hit) for hit in found.hits]}


def _hit(hit: Hit) -> dict[str, object]:
    return {
        "path": hit.path,
        "memory_id": hit.memory_id,
        "version_id": hit.version_id,
        "updated_at": output.timestamp(hit.updated_at),
        "lines": hit.lines,
        "path_spans": _spans(hit.path_spans),
        "snippets": [
            {"line": snippet.line, "text": snippet.text, "spans": _spans(snippet.spans)} for snippet in hit.snippets
        ],
    }


def _spans(spans: tuple[Span, ...]) -> list[list[int]]:
    """Start and end of each match, in characters."""
    return [[start, end] for start, end in spans]
