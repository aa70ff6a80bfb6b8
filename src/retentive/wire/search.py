"""Searches."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from retentive.engine.visibility import Level
from retentive.search.results import Hit, Results, Snippet
from retentive.values.paths import ROOT
from retentive.wire.actors import ActorObject
from retentive.wire.base import At, Count, Fields, ObjectOf, PathPattern, ShownPath, Under, UtcTime
from retentive.wire.memories import MemoryObject

Marks = list[Annotated[list[Count], Field(min_length=2, max_length=2)]]
PathMarks = Annotated[
    Marks,
    BeforeValidator(lambda marks, info: _moved(marks, len(ROOT)) if info.mode == "json" else marks),
    PlainSerializer(lambda marks: _moved(marks, -len(ROOT)), return_type=Marks),
]
"""Marks in a path, which is shorter in the API."""


class SearchRequest(Fields):
    """Search. The query is in the body, because URLs appear in logs."""

    path_prefix: Under = "/"
    query: str = Field(min_length=1, max_length=4_000, description="Words, phrases and operators")
    mode: Literal["ranked", "all", "regex"] = Field(
        "ranked", description="`ranked`: any word counts; `all`: all words must occur; `regex`: the query is a pattern"
    )
    at: At = None
    paths: list[PathPattern] = Field(
        [], max_length=100, description="Patterns of paths, such as `/memories/*/notes.md`"
    )
    source: str | None = Field(
        None, description="Only memories with a contributor of a source that matches this pattern"
    )
    trust: Level | None = Field(None, description="Only memories at this level of trust")
    history: bool = Field(False, description="Search all versions, and find the first with each text")
    limit: int = Field(20, ge=1, le=100, description="Objects in one page")


class SnippetObject(ObjectOf[Snippet]):
    """Matching line."""

    line: Count
    text: str
    marks: Marks
    headings: list[str]
    attributes: ClassVar = {"marks": "spans"}


class HitObject(ObjectOf[Hit]):
    """Found memory, version or proposal. `memory` is null if it is not the present state of a memory."""

    type: Literal["search_result"] = "search_result"
    memory_id: str
    memory_version_id: str
    path: ShownPath
    path_marks: PathMarks
    memory: MemoryObject | None
    score: float
    updated_at: UtcTime
    updated_by: ActorObject
    trust: str
    matching_lines: Count
    snippets: list[SnippetObject]

    attributes: ClassVar = {"memory_version_id": "version_id", "path_marks": "path_spans", "matching_lines": "lines"}

    def value(self, **_: object) -> Hit:
        """Return the search result."""
        return super().value(actor=None if self.updated_by is None else str(self.updated_by))


class SearchAnswer(ObjectOf[Results]):
    """Search results, best first."""

    data: list[HitObject]
    next_page: None = None
    total: Count
    unknown_words: list[str]
    damaged_paths: list[ShownPath]
    relaxed: bool

    attributes: ClassVar = {"data": "hits", "unknown_words": "unknown", "damaged_paths": "damaged"}


def _moved(marks: Marks, by: int) -> Marks:
    return [[start + by, end + by] for start, end in marks if start + by >= 0]
