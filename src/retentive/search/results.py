"""Results of searches: memories with their best lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import SupportsIndex, TypeAlias, overload

from retentive.values.paths import ROOT
from retentive.values.provenance import Provenance, parse_provenance

Span: TypeAlias = tuple[int, int]
SNIPPETS = 3
SNIPPET_CHARS = 200


@dataclass(frozen=True, slots=True)
class Document:
    """A text to search: a memory, an earlier version or a proposal. `data` is the text in UTF-8."""

    path: str
    data: bytes = field(repr=False)
    updated_at: datetime
    memory_id: str = ""
    version_id: str = ""
    provenance_text: str | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """Text of the memory."""
        return self.data.decode()

    @property
    def provenance(self) -> Provenance:
        """Provenance of the version with this text."""
        return parse_provenance(self.provenance_text)

    @property
    def actor(self) -> str | None:
        """Actor of the newest change, or None if no actor was recorded."""
        return next((each.actor for each in reversed(self.provenance.contributors) if each.actor), None)

    def hit(self, lines: int, snippets: Iterable[Snippet], in_path: Iterable[Span], score: float = 0.0) -> Hit:
        """Return the hit for this text. `in_path` are the positions of the matches in the path below `/memories`."""
        spans = tuple((start + len(ROOT), end + len(ROOT)) for start, end in in_path)
        found = self.path, self.memory_id, self.version_id, self.updated_at
        freshness = "unverified" if b"[source: " in self.data else ""
        return Hit(*found, lines, tuple(snippets), spans, score=score, actor=self.actor, freshness=freshness)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A matching line: its number (counted from 1), its text, and the positions of the matches in this text.

    A long line is cut around the first match. `headings` are the Markdown headings above the line, outermost first.
    """

    line: int
    text: str = field(repr=False)
    spans: tuple[Span, ...]
    headings: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, repr=False)
class Hit:
    """A search result: a memory and its matching lines.

    `lines` is the number of all matching lines; 0 means that only the path matches. `path_spans` are the positions of
    the matches in the path. `trust` is the trust level of the memory. `score` orders the results of a ranked search and
    is 0 otherwise. `actor` made the newest change. `freshness` is the worst state of the citations, if any; those of
    earlier versions and proposals are `unverified`.
    """

    path: str
    memory_id: str
    version_id: str
    updated_at: datetime
    lines: int
    snippets: tuple[Snippet, ...]
    path_spans: tuple[Span, ...]
    trust: str = "trusted"
    score: float = 0.0
    actor: str | None = None
    freshness: str = ""

    def __repr__(self) -> str:
        return f"<Hit {self.path!r}, {self.lines} lines>"


@dataclass(frozen=True, slots=True, repr=False)
class Results:
    """Results of a search: the first hits, best first, and the number of all matching memories.

    The hits can be iterated, counted (`len`) and indexed, also with a slice. `total` may be larger than their number.
    `damaged` has the paths of memories that could not be searched, because their texts are damaged. `unknown` has the
    words of a ranked query that occur in no memory. `relaxed` is True if no memory contains all phrases of the query;
    then the words of the phrases were searched instead.
    """

    hits: tuple[Hit, ...]
    total: int
    damaged: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    relaxed: bool = False

    def __repr__(self) -> str:
        return f"<Results {len(self.hits)} of {self.total} memories>"

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, at: SupportsIndex) -> Hit: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[at]


def unknown_everywhere(found: Sequence[Results]) -> tuple[str, ...]:
    """Return the query words that occur in no store."""
    first, *others = found or [Results((), 0)]
    return tuple(word for word in first.unknown if all(word in each.unknown for each in others))


_UNITS = (("year", 365 * 86_400), ("month", 30 * 86_400), ("day", 86_400), ("hour", 3_600), ("minute", 60))


def age(at: datetime, now: datetime) -> str:
    """Return the age of a change, such as `3 days ago`, in the largest unit that fits."""
    seconds = (now - at).total_seconds()
    for name, length in _UNITS:
        count = int(seconds // length)
        if count > 0:
            return f"{count} {name}{'s' * (count > 1)} ago"
    return "just now"


def snippet(line: int, row: str, spans: Sequence[Span], headings: tuple[str, ...] = ()) -> Snippet:
    """Make a snippet of a line.

    A line that is longer than 200 characters is cut. A quarter of the snippet shows the text before the first match.
    """
    first = spans[0][0] if spans else 0
    start = max(min(first - SNIPPET_CHARS // 4, len(row) - SNIPPET_CHARS), 0)
    end = min(start + SNIPPET_CHARS, len(row))
    before, after = "…" if start else "", "…" if end < len(row) else ""
    shift = len(before) - start
    shown = ((max(left, start) + shift, min(right, end) + shift) for left, right in spans if left < end)
    return Snippet(line, before + row[start:end] + after, tuple(shown), headings)


def united(spans: Iterable[Span]) -> list[Span]:
    """Merge sorted spans that overlap or touch."""
    merged: list[Span] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
