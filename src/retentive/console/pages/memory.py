"""Pages for one memory: its text (rendered, raw, or with the author of each line), its history and its versions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from retentive.console.markdown import MAX_RENDERED_BYTES, rendered
from retentive.console.pages.history import is_pattern
from retentive.console.pages.tree import Beside, ListLevels, levels, parsed, parts, read
from retentive.console.progress import Later
from retentive.console.reads import reads_of
from retentive.console.visible import boxed
from retentive.console.visits import Download, HtmlPage, PageAnswer, Redirect, Visit, not_found, number, page_path
from retentive.engine.queries import load
from retentive.errors import NotFound
from retentive.history.log import BlameLine
from retentive.storage.contract import Memory, Version
from retentive.store import core_of
from retentive.store.by_id import read_memory
from retentive.values.paths import MemoryPath
from retentive.wire.base import VERSION_ID

LINES = 2_000
VERSIONS = 50
MARKDOWN = re.compile(r".*\.(md|markdown|mdx?)", re.IGNORECASE | re.DOTALL)
VIEWS = ("rendered", "raw", "blame", "history")


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Line of a text. In the blame view, `by` is the version that added the line.

    `is_first` is true if the previous line was added by another version.
    """

    number: int
    html: Markup
    by: Version | None = None
    is_first: bool = False


def show_memory(visit: Visit) -> PageAnswer:
    """Show a memory in one of its views."""
    path, at = parsed(visit.memory_path), visit.query.get("at", "")
    try:
        memory, text = read(visit, load(path))
    except NotFound:
        return _gone(visit, path)
    view = _view(visit, memory)
    newest = visit.store.history.page(memory_id=memory.id, limit=6)
    version = next((each for each in newest.items if each.id == memory.version_id), None)
    reads = reads_of(visit, memory)
    core_of(visit.store).accesses.note(visit.store.id, memory)
    values = {
        "path": path.text,
        "parts": parts(path.text),
        "memory": memory,
        "contributors": visit.store.trust.contributors(memory),
        "version": version,
        "reads": reads,
        "is_pattern": is_pattern,
        "newest": newest.items,
        "older": _neighbour(visit, memory.id, memory.version_id),
        "view": view,
        "at": at,
        "line_count": text.count("\n") + (not text.endswith("\n") and text != ""),
        "delayed": _tree_beside(visit, MemoryPath.known(path.text.rpartition("/")[0])),
        **_content(visit, memory, text, view),
    }
    return HtmlPage("memory.html", {**values, "area": "tree"}, title=path.text, is_streamed=True)


def _tree_beside(visit: Visit, directory: MemoryPath) -> Later[Beside]:
    """Return the tree beside a memory. For an earlier state, the tree is read after the head of the page was sent."""
    if visit.query.get("at"):
        return Later(lambda: Beside(levels(visit, ListLevels(directory))[0]))
    beside = Beside(levels(visit, ListLevels(directory))[0])
    return Later(lambda: beside)


def _view(visit: Visit, memory: Memory) -> str:
    wanted = visit.query.get("view", "")
    if wanted in VIEWS[1:] and not (wanted == "blame" and visit.query.get("at")):
        return wanted
    can_render = MARKDOWN.fullmatch(memory.path) is not None and memory.size_bytes <= MAX_RENDERED_BYTES
    return "rendered" if can_render else "raw"


def _content(visit: Visit, memory: Memory, text: str, view: str) -> dict[str, object]:
    if view == "rendered":
        return {"html": rendered(text, visit.url("m"))}
    if view == "blame":
        log = visit.store.history.log(memory_id=memory.id)
        before = {newer.id: older.id for newer, older in pairwise(log)}
        return {**_lines(visit, _blamed(visit.store.history.blame(memory.path))), "before": before}
    if view == "history":
        after = visit.query.get("after")
        found = visit.store.history.page(memory_id=memory.id, limit=VERSIONS, after=after)
        return {"versions": found.items, "following": found.next}
    return _lines(visit, raw_lines(text))


def _lines(visit: Visit, lines: Sequence[SourceLine]) -> dict[str, object]:
    first = number(visit.query.get("from", ""), 1, 10_000_000, 1)
    shown = lines[first - 1 : first - 1 + LINES]
    return {"lines": shown, "first": first, "total": len(lines), "last": first - 1 + len(shown)}


def raw_lines(text: str) -> list[SourceLine]:
    """Return the lines of a text as HTML."""
    rows = text.split("\n")
    if rows[-1] == "":
        rows.pop()
    return [SourceLine(at, boxed(row)) for at, row in enumerate(rows, start=1)]


def _blamed(lines: Sequence[BlameLine]) -> list[SourceLine]:
    found, before = list[SourceLine](), ""
    for each in lines:
        html = boxed(each.text.removesuffix("\n"))
        found.append(SourceLine(each.number, html, each.version, each.version.id != before))
        before = each.version.id
    return found


def _gone(visit: Visit, path: MemoryPath) -> PageAnswer:
    """Show the last versions of a deleted memory. Raises `HttpError` 404 if there never was a memory at the path."""
    if visit.query.get("at"):
        raise not_found("memory")
    versions = visit.store.history.log(path.text, limit=20)
    if not versions:
        raise not_found("memory")
    values = {"path": path.text, "parts": parts(path.text), "versions": versions, "area": "tree"}
    return HtmlPage("gone.html", values, 404, title=path.text)


def _neighbour(visit: Visit, memory_id: str, version_id: str, *, is_newer: bool = False) -> str | None:
    page = visit.store.history.page(memory_id=memory_id, after=version_id, oldest_first=is_newer, limit=1)
    return page.items[0].id if page.items else None


def by_id(visit: Visit) -> PageAnswer:
    """Redirect from the id of a memory to its current path, so that links survive renames."""
    try:
        found, _ = core_of(visit.store).peek(read_memory(visit.ids["memory_id"]))
    except NotFound:
        raise not_found("memory") from None
    return Redirect(visit.url("m", page_path(found.path), view=visit.query.get("view")))


def show_version(visit: Visit) -> PageAnswer:
    """Show one version with its text."""
    version, text = _version(visit)
    lines = [] if text is None else raw_lines(text)
    first = number(visit.query.get("from", ""), 1, 10_000_000, 1)
    shown = lines[first - 1 : first - 1 + LINES]
    values = {
        "version": version,
        "path": version.path,
        "parts": parts(version.path),
        "lines": shown,
        "first": first,
        "last": first - 1 + len(shown),
        "total": len(lines),
        "has_text": text is not None,
        "older": _neighbour(visit, version.memory_id, version.id),
        "newer": _neighbour(visit, version.memory_id, version.id, is_newer=True),
        "at": "",
    }
    return HtmlPage("version.html", {**values, "area": "tree"}, title=f"Version {version.id[-8:]}")


def download(visit: Visit) -> PageAnswer:
    """Send the text of a version as a file to save. The browser does not display it."""
    version, text = _version(visit)
    if text is None:
        raise not_found("text")
    return Download(version.path.rpartition("/")[2] or "memory.txt", iter([text.encode()]))


def compare(visit: Visit) -> PageAnswer:
    """Redirect to the difference between two selected versions."""
    old, new = sorted((visit.query.get("old", ""), visit.query.get("new", "")))
    if not (VERSION_ID.fullmatch(old) and VERSION_ID.fullmatch(new)):
        raise not_found("memory version")
    return Redirect(visit.url("diff", f"{old}..{new}"))


def _version(visit: Visit) -> tuple[Version, str | None]:
    if not VERSION_ID.fullmatch(visit.ids["version_id"]):
        raise not_found("memory version")
    try:
        return visit.store.history.show(visit.ids["version_id"])
    except NotFound:
        raise not_found("memory version") from None
