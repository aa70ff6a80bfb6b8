"""`search`: finding memories by words or a pattern."""

from __future__ import annotations

import click

from retentive.cli import output
from retentive.cli.location import Place, pass_place
from retentive.search.query import Hit, Results, Span
from retentive.values.paths import ROOT


@click.command(cls=output.Command)
@click.argument("query", nargs=-1, required=True)
@click.option("--under", metavar="DIR", default=ROOT, show_default=True, help="Only below this directory.")
@click.option("--path", "paths", metavar="PATTERN", multiple=True, help="Only such paths: '/memories/*/notes.md'.")
@click.option("--regex", is_flag=True, help="QUERY is one pattern (RE2), looked for in each line.")
@click.option(
    "-n", "limit", metavar="N", type=click.IntRange(min=0), default=20, show_default=True, help="Show the first N."
)
@click.option("--json", "as_json", is_flag=True, help='Print a JSON object: {"total", "hits"}.')
@pass_place
def search(
    place: Place, query: tuple[str, ...], *, under: str, paths: tuple[str, ...], regex: bool, limit: int, as_json: bool
) -> None:
    """Find the memories that hold all words of QUERY, in their text or path; the newest change first.

    Words are found anywhere, in any language, whatever their case; '"some words"' together, and -word not at all (with
    a -- before it). In a pipe one line for each line shown, with tabs between: path, number of the line, its text; both
    are empty where only the path matches.
    """
    with place.existing() as store:
        found = store.search(" ".join(query), under=under, paths=paths, regex=regex, limit=limit)
    if as_json:
        output.write_line(output.to_json(_object(found)))
        return
    if not output.on_terminal():
        output.write("".join(line for hit in found.hits for line in _lines(hit)).encode())
    elif found.hits:
        from retentive.cli import colours  # noqa: PLC0415 - imports rich

        output.write_line(colours.hits(found))
    if len(found.hits) < found.total:
        click.echo(f"{len(found.hits)} of {found.total} memories; -n shows more.", err=True)
    elif output.on_terminal():
        output.write_line(f"{found.total} memories." if found.total != 1 else "1 memory.")


def _lines(hit: Hit) -> list[str]:
    lines = [f"{hit.path}\t{snippet.line}\t{snippet.text}\n" for snippet in hit.snippets]
    return lines or [f"{hit.path}\t\t\n"]


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
    """Beginning and end of each match, in characters."""
    return [[start, end] for start, end in spans]
