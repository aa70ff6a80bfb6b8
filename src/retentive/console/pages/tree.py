"""Pages for directories, in the current or an earlier state of the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from retentive.console.markdown import MAX_RENDERED_BYTES, rendered
from retentive.console.pages.history import revision_of
from retentive.console.pages.listing import SINCE, new_rows, recent_changes, rows_of
from retentive.console.strips import Strip, strip_of
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, not_found, page_path, tool_path
from retentive.engine.listings import Listed, ListedDirectory, ListedMemory, ListingCursor, ListMemories
from retentive.engine.operation import ReadOperation
from retentive.engine.queries import load
from retentive.errors import CursorExpired, NotFound, Refused
from retentive.history.reads import AsOf
from retentive.history.since import SinceMoment, since
from retentive.server.errors import invalid
from retentive.server.objects import moment
from retentive.storage.contract import Snapshot
from retentive.store import core_of
from retentive.values.pages import ListPage
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.replies import REPLIES
from retentive.values.settings import Settings

R = TypeVar("R")
ROWS = 500
SIDE_ROWS = 100
NEWEST = 6


def typed(path: str) -> MemoryPath:
    """Parse and normalise a path that a person typed. Raises `HttpError` 400."""
    try:
        return MemoryPath.parse(path)
    except Refused as refusal:
        raise invalid(REPLIES.error(refusal.key, refusal.values).text.removeprefix("Error: "), "invalid_path") from None


def parsed(path: str) -> MemoryPath:
    """Parse a path in the URL, which must be normalised. Raises `HttpError` 400."""
    found = typed(path)
    if found.text != path:
        raise invalid("the path must be in Unicode NFC and must not contain empty names", "invalid_path")
    return found


def read(visit: Visit, operation: ReadOperation[R]) -> R:
    """Run a read on the current state, or on the earlier state that the URL names."""
    at = visit.query.get("at")
    return core_of(visit.store).found(operation if not at else AsOf(operation, moment(at)))


@dataclass(frozen=True, slots=True)
class ListLevels(ReadOperation[list[ListPage[Listed, ListingCursor]]]):
    """List one level of each directory from the root down to `path`, all in the same state of the store.

    `cursor` and `limit` apply only to the last directory.
    """

    name = "list"
    for_paths = True
    path: MemoryPath
    limit: int = SIDE_ROWS
    cursor: ListingCursor | None = None

    @property
    def directories(self) -> list[str]:
        """The directories to list, the root first."""
        return [ROOT] if self.path.is_root else [ROOT, *self.path.ancestors, self.path.text]

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the same fields for the audit entry as for the listing of one level."""
        return {"listed": True}

    def apply(self, snapshot: Snapshot, settings: Settings) -> list[ListPage[Listed, ListingCursor]]:
        """Read the levels. Raises `CursorExpired`."""
        *above, last = self.directories
        pages = [ListMemories(MemoryPath.known(each), 1, None, SIDE_ROWS) for each in above]
        operations = [*pages, ListMemories(MemoryPath.known(last), 1, self.cursor, self.limit)]
        return [each.apply(snapshot, settings) for each in operations]


def levels(visit: Visit, operation: ListLevels) -> tuple[list[dict[str, object]], ListPage[Listed, ListingCursor]]:
    """Return the levels of the tree for the side bar of a page, and the full result for the last level."""
    found = read(visit, operation)
    shown = [_level(path, page) for path, page in zip(operation.directories, found, strict=True)]
    return shown, found[-1]


def children(visit: Visit) -> PageAnswer:
    """Send the entries directly in a directory, for a page whose tree already shows the levels above."""
    path = parsed(visit.memory_path)
    found = read(visit, ListMemories(path, 1, None, SIDE_ROWS))
    if not found.items:
        raise not_found("directory")
    return HtmlPage("children.html", {"level": _level(path.text, found), "at": visit.query.get("at", "")})


def _level(path: str, page: ListPage[Listed, ListingCursor]) -> dict[str, object]:
    return {"path": path, "entries": list(map(_entry, page.items[:SIDE_ROWS])), "has_more": _has_more(page)}


def _has_more(page: ListPage[Listed, ListingCursor]) -> bool:
    return page.next is not None or len(page.items) > SIDE_ROWS


def _entry(item: Listed) -> dict[str, object]:
    if isinstance(item, ListedDirectory):
        return {"path": item.path.rstrip("/"), "is_directory": True}
    return {"path": item.memory.path, "is_directory": False}


def show_directory(visit: Visit) -> PageAnswer:
    """Show the memories and directories in a directory, and the text of its index.md."""
    path = parsed(visit.memory_path)
    at = visit.query.get("at", "")
    after = visit.query.get("after", "")
    pin, _, last = after.partition(":")
    revision = revision_of(visit.store)
    try:
        beside, found = levels(visit, ListLevels(path, ROWS, ListingCursor(pin, last) if pin else None))
    except CursorExpired:
        raise invalid("the listing has changed; open the directory again", "cursor_expired") from None
    if not found.items and not path.is_root and not pin:
        return _memory_instead(visit, path, at)
    index, text = f"{path.text}/index.md", None
    sizes = {each.memory.path: each.memory.size_bytes for each in found.items if isinstance(each, ListedMemory)}
    if sizes.get(index, MAX_RENDERED_BYTES) < MAX_RENDERED_BYTES:
        _, raw = read(visit, load(MemoryPath.known(index)))
        text = rendered(raw, visit.url("m"))
    recent, then = recent_changes(visit.store, moment(at) if at else None), since_moment(visit)
    fresh = [] if then is None or pin or found.next is not None else new_rows(path.text, found.items, then)
    values = {
        "path": path.text,
        "parts": parts(path.text),
        "newest": recent.versions[:NEWEST] if path.is_root and not at else [],
        "rows": [*rows_of(path.text, found.items, recent, then), *fresh],
        "oldest": recent.oldest,
        "then": then,
        "following": None if found.next is None else f"{found.next.pin}:{found.next.last}",
        "levels": beside,
        "index": text,
        "at": at,
        "after": after,
        "strip": _strip(visit, then) if path.is_root and not pin else None,
        "live": visit.url("events", after=str(revision), path=path.text),
        "settings": visit.store.settings(),
    }
    return HtmlPage("tree.html", {**values, "area": "tree"}, title=path.text, is_streamed=True)


def _strip(visit: Visit, then: SinceMoment | None) -> Strip | None:
    """Return the bar chart of recent changes. If the page shows an earlier state, its time is marked in the chart."""
    return strip_of(visit.store, None if then is None or then.last is None else then.last.created_at)


def since_moment(visit: Visit) -> SinceMoment | None:
    """Return the changes since the earlier state that the URL names, or None for a page of the current state."""
    at = visit.query.get("at")
    return core_of(visit.store).peek(since(moment(at), SINCE)) if at else None


def _memory_instead(visit: Visit, path: MemoryPath, at: str) -> PageAnswer:
    try:
        read(visit, load(path))
    except NotFound:
        raise not_found("directory") from None
    return Redirect(visit.url("m", page_path(path.text), at=at))


def root(visit: Visit) -> PageAnswer:
    """Redirect to the root directory."""
    return Redirect(visit.url("tree", "", at=visit.query.get("at")))


def go(visit: Visit) -> PageAnswer:
    """Redirect to the path that a person typed."""
    wanted = visit.query.get("path", "").strip().removeprefix(ROOT).strip("/")
    return Redirect(visit.url("tree", page_path(tool_path(wanted)), at=visit.query.get("at")))


def parts(path: str) -> list[tuple[str, str]]:
    """Split a path into its names. Return each name with the path that ends with it."""
    names = path.split("/")[2:]
    return [(name, "/".join([ROOT, *names[: at + 1]])) for at, name in enumerate(names)]
