"""Searches over HTTP: makes the body of a request, and reads the results in its answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from retentive.remote import objects
from retentive.remote.requests import JsonBody
from retentive.search.results import Hit, Results, Snippet, Span
from retentive.values.paths import ROOT


def body(query: str, mode: str, under: str, *, regex: bool, limit: int | None, **options: object) -> JsonBody:
    """Return the body of a search request. Options that are empty or None are left out."""
    at = options.pop("at", None)
    given = {**options, "at": objects.time_text(at) if isinstance(at, datetime) else None if at is None else str(at)}
    kept = {name: value for name, value in given.items() if value}
    prefix = objects.prefix(objects.parsed(under))
    most = 100 if limit is None else max(1, min(limit, 100))
    return {"query": query, "mode": "regex" if regex else mode, "path_prefix": prefix, "limit": most, **kept}


def results(answer: JsonBody, limit: int | None) -> Results:
    """Return the results in the answer to a search."""
    hits = tuple(_hit(each) for each in answer["data"][:limit])
    unknown = tuple(answer["unknown_words"])
    damaged = tuple(objects.tool_path(path) for path in answer["damaged_paths"])
    return Results(hits, answer["total"], damaged, unknown, answer["relaxed"])


def _hit(given: JsonBody) -> Hit:
    actor = objects.actor(given["updated_by"])
    return Hit(
        objects.tool_path(given["path"]),
        given["memory_id"],
        given["memory_version_id"],
        objects.time(given["updated_at"]),
        given["matching_lines"],
        tuple(
            Snippet(each["line"], each["text"], _spans(each["marks"]), tuple(each["headings"]))
            for each in given["snippets"]
        ),
        tuple((start + len(ROOT), end + len(ROOT)) for start, end in _spans(given["path_marks"])),
        given["trust"],
        given["score"],
        None if actor is None else str(actor),
    )


def _spans(marks: Sequence[Sequence[int]]) -> tuple[Span, ...]:
    return tuple((start, end) for start, end in marks)
