"""Searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field

from retentive.engine.trust import Level
from retentive.search.results import Hit, Results, Snippet, Span
from retentive.values.paths import ROOT
from retentive.values.records import as_actor
from retentive.wire.actors import ActorObject
from retentive.wire.base import Answer, At, Count, Fields, PathPattern, Under, UtcTime, api_path, tool_path
from retentive.wire.memories import MemoryObject

Marks = list[Annotated[list[Count], Field(min_length=2, max_length=2)]]


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


class SnippetObject(Answer):
    """Matching line."""

    line: Count
    text: str
    marks: Marks
    headings: list[str]


class HitObject(Answer):
    """Found memory, version or proposal. `memory` is null if it is not the present state of a memory."""

    type: Literal["search_result"] = "search_result"
    memory_id: str
    memory_version_id: str
    path: str
    path_marks: Marks
    memory: MemoryObject | None
    score: float
    updated_at: UtcTime
    updated_by: ActorObject
    trust: str
    matching_lines: Count
    snippets: list[SnippetObject]

    @classmethod
    def of(cls, hit: Hit, memory: MemoryObject | None) -> Self:
        """Return the object of a search result."""
        path = api_path(hit.path)
        shift = len(hit.path) - len(path)
        snippets = [
            SnippetObject(line=each.line, text=each.text, marks=_marks(each.spans), headings=list(each.headings))
            for each in hit.snippets
        ]
        return cls(
            memory_id=hit.memory_id,
            memory_version_id=hit.version_id,
            path=path,
            path_marks=_marks([(start - shift, end - shift) for start, end in hit.path_spans if start >= shift]),
            memory=memory,
            score=hit.score,
            updated_at=hit.updated_at,
            updated_by=as_actor(hit.actor),
            trust=hit.trust,
            matching_lines=hit.lines,
            snippets=snippets,
        )

    def hit(self) -> Hit:
        """Return the search result."""
        snippets = (Snippet(e.line, e.text, _spans(e.marks), tuple(e.headings)) for e in self.snippets)
        return Hit(
            tool_path(self.path),
            self.memory_id,
            self.memory_version_id,
            self.updated_at,
            self.matching_lines,
            tuple(snippets),
            tuple((start + len(ROOT), end + len(ROOT)) for start, end in _spans(self.path_marks)),
            self.trust,
            self.score,
            None if self.updated_by is None else str(self.updated_by),
        )


class SearchAnswer(Answer):
    """Search results, best first."""

    data: list[HitObject]
    next_page: None = None
    total: Count
    unknown_words: list[str]
    damaged_paths: list[str]
    relaxed: bool

    def results(self, limit: int | None) -> Results:
        """Return the results, at most `limit`."""
        hits = tuple(each.hit() for each in self.data[:limit])
        damaged = tuple(map(tool_path, self.damaged_paths))
        return Results(hits, self.total, damaged, tuple(self.unknown_words), self.relaxed)


def _marks(spans: Sequence[Span]) -> Marks:
    return [[start, end] for start, end in spans]


def _spans(marks: Marks) -> tuple[Span, ...]:
    return tuple((start, end) for start, end in marks)
