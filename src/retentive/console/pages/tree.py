"""Pages for directories, in the current or an earlier state of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from markupsafe import Markup

from retentive.console.markdown import MAX_RENDERED_BYTES, rendered
from retentive.console.pages.listing import SINCE, EntryRow, new_rows, recent_changes, rows_of
from retentive.console.pages.news import news_url
from retentive.console.progress import Later
from retentive.console.strips import Strip, strip_of
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, not_found, page_path, tool_path
from retentive.engine.listings import Listed, ListedDirectory, ListedMemory, ListingCursor, ListMemories
from retentive.engine.operation import Read, ReadOperation
from retentive.engine.queries import load
from retentive.errors import CursorExpired, NotFound, Refused, RetentiveError
from retentive.history.log import SinceMoment, since
from retentive.history.past import AsOf, past_of
from retentive.server.errors import HttpError, invalid
from retentive.storage.contract import Snapshot, Version
from retentive.store import core_of
from retentive.values.listing import ListPage
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.replies import REPLIES
from retentive.values.settings import Settings
from retentive.wire.base import moment

R = TypeVar("R")
ROWS = 500
SIDE_ROWS = 100
NEWEST = 6
LOOKED_AT = 20
"""Number of memories whose earlier versions are read to find out whether a directory existed."""


def typed(path: str) -> MemoryPath:
    """Parse and normalise a path that a person typed. Raises `HttpError` 400."""
    try:
        return MemoryPath.parse(path)
    except Refused as refusal:
        raise invalid(REPLIES.error(refusal.key, refusal.values).text.removeprefix("Error: "), "invalid_path") from None


def parsed(path: str) -> MemoryPath:
    """Parse a path in the URL. The path must be normalised. Raises `HttpError` 400."""
    found = typed(path)
    if found.text != path:
        raise invalid("the path must be in Unicode NFC and must not contain empty names", "invalid_path")
    return found


def read(visit: Visit, operation: ReadOperation[R]) -> R:
    """Run a read operation on the current state, or on the earlier state that the URL names."""
    at = visit.query.get("at")
    return core_of(visit.store).result_of(operation if not at else AsOf(operation, moment(at)))


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
        """Return the fields for the audit entry. They are the same as for the listing of one level."""
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
    """Send the direct entries of a directory, for a page whose tree already shows the levels above them."""
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


@dataclass(frozen=True, slots=True)
class Beside:
    """Levels of the tree beside a page. `then` has the changes since the earlier state that the page shows."""

    levels: Sequence[Mapping[str, object]]
    then: SinceMoment | None = None


@dataclass(frozen=True, slots=True)
class ShownDirectory(Beside):
    """Content of a directory page. `following` is the cursor of the next page.

    `oldest` is the oldest version that was read to find the last changes. `newest` and `strip` are shown on the page
    of the root. `index` is the text of the index.md.
    """

    rows: Sequence[EntryRow] = ()
    following: str | None = None
    oldest: Version | None = None
    newest: Sequence[Version] = ()
    index: Markup | None = None
    strip: Strip | None = None


def show_directory(visit: Visit) -> PageAnswer:
    """Show the memories and directories in a directory, and the text of its index.md.

    For an earlier state, the head of the page is sent before the state is read, unless the answer may be an error. In a
    large store, the first read of an early state takes long.
    """
    path, at, after = parsed(visit.memory_path), visit.query.get("at", ""), visit.query.get("after", "")
    again = news_url(visit, path=path.text)
    if at and not after and _was_there(visit, path):
        later = Later(lambda: _shown(visit, path, *_listed(visit, path)))
    else:
        try:
            beside, found = _listed(visit, path)
        except CursorExpired:
            raise invalid("the listing has changed; open the directory again", "cursor_expired") from None
        if not found.items and not path.is_root and not after:
            return _memory_instead(visit, path, at)
        shown = _shown(visit, path, beside, found)
        later = Later(lambda: shown)
    values = {
        "path": path.text,
        "parts": parts(path.text),
        "delayed": later,
        "at": at,
        "after": after,
        "again": again,
        "settings": visit.store.settings(),
    }
    return HtmlPage("tree.html", {**values, "area": "tree"}, title=path.text, is_streamed=True)


def _was_there(visit: Visit, path: MemoryPath) -> bool:
    """Return whether it is certain that a directory existed in the earlier state that the URL names.

    Reads only the earlier versions of some of the memories that the directory contains now.
    """

    def work(snapshot: Snapshot) -> bool:
        past = past_of(snapshot, moment(visit.query["at"]))
        present = snapshot.list(path.text, limit=LOOKED_AT)
        earlier = (past.find(memory.id) for memory, _ in present)
        return path.is_root or any(was is not None and was.path.startswith(f"{path.text}/") for was in earlier)

    try:
        return core_of(visit.store).peek(Read("list", work))
    except (RetentiveError, HttpError):  # the listing raises the error again, and its status is sent
        return False


def _listed(visit: Visit, path: MemoryPath) -> tuple[list[dict[str, object]], ListPage[Listed, ListingCursor]]:
    pin, _, last = visit.query.get("after", "").partition(":")
    return levels(visit, ListLevels(path, ROWS, ListingCursor(pin, last) if pin else None))


def _shown(
    visit: Visit, path: MemoryPath, beside: list[dict[str, object]], found: ListPage[Listed, ListingCursor]
) -> ShownDirectory:
    at, is_first = visit.query.get("at"), not visit.query.get("after")
    recent, then = recent_changes(visit.store, moment(at) if at else None), since_moment(visit)
    fresh = [] if then is None or not is_first or found.next is not None else new_rows(path.text, found.items, then)
    return ShownDirectory(
        beside,
        then,
        rows=[*rows_of(path.text, found.items, recent, then), *fresh],
        following=None if found.next is None else f"{found.next.pin}:{found.next.last}",
        oldest=recent.oldest,
        newest=recent.versions[:NEWEST] if path.is_root and not at else (),
        index=_index(visit, path, found.items),
        strip=_strip(visit, then) if path.is_root and is_first else None,
    )


def _index(visit: Visit, path: MemoryPath, items: Sequence[Listed]) -> Markup | None:
    index = f"{path.text}/index.md"
    sizes = {each.memory.path: each.memory.size_bytes for each in items if isinstance(each, ListedMemory)}
    if sizes.get(index, MAX_RENDERED_BYTES) >= MAX_RENDERED_BYTES:
        return None
    _, raw = read(visit, load(MemoryPath.known(index)))
    return rendered(raw, visit.url("m"))


def _strip(visit: Visit, then: SinceMoment | None) -> Strip | None:
    """Return the bar chart of recent changes. On a page of an earlier state, it has a mark at the time of the state."""
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
