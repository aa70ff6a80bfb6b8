"""Rows of live pages: the changes of a memory store that a page has not shown yet, and the messages that send them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from retentive.engine.events import events_of
from retentive.history.log import LogFilter, position_of
from retentive.storage.contract import Snapshot, Version
from retentive.values.paths import ROOT

KEPT = 500
"""Maximum number of versions in a `Window`."""
ROWS = 200
"""Maximum number of rows in one message."""
_EVENTS = 100
_LINE_END = re.compile(r"\r\n|\r|\n")
WAITING = frozenset({"proposed", "accepted", "refused"})

Rendered = Callable[[Version], str]
"""Function that returns the HTML of the row for a version."""


@dataclass(frozen=True)
class LiveRow:
    """Version with its row as HTML. The row is rendered once for all pages."""

    version: Version
    rendered: Rendered

    @cached_property
    def html(self) -> str:
        """The row as HTML."""
        return self.rendered(self.version)


@dataclass(frozen=True, slots=True)
class Window:
    """Newest part of the history of a store. `rows` has all versions after the revision `complete_after`, newest first.

    `events` has the positions and types of the newest events (changes that add no version), oldest first.
    """

    revision: int
    rows: tuple[LiveRow, ...]
    complete_after: int
    events: tuple[tuple[str, str], ...]

    @property
    def newest_event(self) -> str:
        """Position of the newest event; empty for a store without events."""
        return self.events[-1][0] if self.events else ""


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Changes that one page shows. `path` is a directory or a memory.

    `rows` is false for a page that needs only the messages about events. `waiting` means that the page also gets a
    message when a proposal is made, accepted or refused.
    """

    only: LogFilter = field(default_factory=LogFilter)
    path: str = ROOT
    rows: bool = True
    waiting: bool = False

    def fits(self, version: Version) -> bool:
        """Return whether the page has a row for a version."""
        if not self.rows or not self.only.fits(version):
            return False
        return self.path in {ROOT, version.path} or version.path.startswith(f"{self.path}/")


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a page in the history: it has received all changes up to `revision` and all events up to `event`."""

    revision: int
    event: str


def window(snapshot: Snapshot, rendered: Rendered, before: Window | None = None) -> Window:
    """Read the newest part of the history. Return `before` if it is still right.

    All versions are read each time, because an erasure removes older versions too. The rows of `before` that are still
    right are kept, so a row is rendered once.
    """
    versions = list(snapshot.versions(limit=KEPT + 1))
    known = {row.version: row for row in before.rows} if before is not None else {}
    events = (*before.events, *_events(snapshot, before.newest_event)) if before is not None else _events(snapshot, "")
    rows = tuple(known.get(each) or LiveRow(each, rendered) for each in versions[:KEPT])
    oldest = versions[KEPT].revision if len(versions) > KEPT else 0
    found = Window(snapshot.state.revision, rows, oldest, events[-_EVENTS:])
    return before if before is not None and found == before else found


def _events(snapshot: Snapshot, after: str) -> tuple[tuple[str, str], ...]:
    found = events_of(snapshot, after=f"evt_{after}")
    return tuple((position_of(each.id), each.type) for each in found[-_EVENTS:])


def position_at(found: Window, revision: int) -> Position:
    """Return the position of a page that has received all changes up to `revision`.

    The events that it has received are not known, so events after the last version may be sent again.
    """
    seen = (position_of(each.version.id) for each in found.rows if each.version.revision <= revision)
    return Position(revision, next(seen, ""))


def messages(found: Window, seen: Position, wanted: WantedRows, note: Callable[[int | None], str]) -> list[bytes]:
    """Return up to three messages for a page: one with rows, one named `changed`, and one named `waiting`.

    `note` returns a row in place of changes that are not shown. Its argument is the number of these changes, or None if
    the number is not known.
    """
    kinds = {kind for position, kind in found.events if position > seen.event}
    rows = [each.html for each in found.rows if each.version.revision > seen.revision and wanted.fits(each.version)]
    sent = list[bytes]()
    is_whole = seen.revision >= found.complete_after or not wanted.rows
    if rows or not is_whole:
        shown = rows[:ROWS]
        if not is_whole:
            shown.append(note(None))
        elif len(rows) > ROWS:
            shown.append(note(len(rows) - ROWS))
        sent.append(message(found.revision, "\n".join(shown)))
    if kinds - WAITING:
        sent.append(message(found.revision, "store", "changed"))
    if wanted.waiting and kinds & WAITING:
        sent.append(message(found.revision, "review", "waiting"))
    return sent


def message(revision: int | None, data: str, name: str = "") -> bytes:
    """Return a message of the stream. Only `data` may contain stored text. Each line of `data` becomes a field."""
    return ("".join(f"{each}\n" for each in _fields(revision, data, name)) + "\n").encode("utf-8", "replace")


def _fields(revision: int | None, data: str, name: str) -> Iterator[str]:
    if revision is not None:
        yield f"id: {revision}"
    if name:
        yield f"event: {name}"
    for line in _LINE_END.split(data):
        yield f"data: {line}"
