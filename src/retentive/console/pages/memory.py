"""Pages for one memory: its text (rendered, raw, or with the author of each line), its history and its versions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from markupsafe import Markup
from starlette.responses import Response

from retentive.console.markdown import MAX_RENDERED_BYTES, rendered
from retentive.console.pages.tree import levels
from retentive.console.rendering import boxed, page_path
from retentive.console.visits import Visit, download, page, redirect
from retentive.server.errors import HttpError, missing
from retentive.server.handlers.history import blame_memory, list_memory_versions, retrieve_memory_version
from retentive.server.handlers.memories import read_memory, retrieve_memory
from retentive.storage.contract import Version
from retentive.store import core_of
from retentive.values.paths import ROOT
from retentive.wire.base import AnswerPage
from retentive.wire.history import VersionObject
from retentive.wire.memories import MemoryObject

LINES = 2_000
VERSIONS = 50
NEWEST = 6
MARKDOWN = re.compile(r".*\.(md|markdown|mdx?)", re.IGNORECASE | re.DOTALL)
VIEWS = ("rendered", "raw", "blame", "history")


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Line of a text. In the blame view, `by` is the version that added the line.

    `is_first` is true if the previous line was added by another version.
    """

    number: int
    html: Markup
    by: VersionObject | None = None
    is_first: bool = False


@page("GET", "m/{path:path}", "read", "tree")
def show_memory(visit: Visit) -> Response:
    """Show a memory in one of its views."""
    path, at, core = visit.memory_path, visit.query.get("at", ""), core_of(visit.store)
    try:
        memory = read_memory(visit.call(), path, at=visit.at)
    except HttpError as error:
        if error.status != 404 or at:
            raise
        return _gone(visit, path, visit.store.history.log(path, limit=20))
    try:
        version = retrieve_memory_version(visit.call(memory_version_id=memory.memory_version_id), "basic")
    except HttpError:  # a proposed text is no version yet
        version = None
    text, view = memory.content or "", _view(visit, memory)
    last = core.accesses.recorded(core.id, memory.id)
    return visit.page(
        "memory.html",
        path,
        path=path,
        levels=levels(visit, path.rpartition("/")[0]),
        memory=memory,
        version=version,
        viewed_at=None if last is None else datetime.fromtimestamp(last, UTC),
        newest=_versions_of(visit, memory.id, NEWEST).data,
        older=_neighbour(visit, memory.id, memory.memory_version_id),
        view=view,
        at=at,
        then=None,
        line_count=text.count("\n") + (not text.endswith("\n") and text != ""),
        **_content(visit, memory, text, view),
    )


def _versions_of(visit: Visit, memory_id: str, limit: int, cursor: str | None = None) -> AnswerPage[VersionObject]:
    return list_memory_versions(visit.call(), limit=limit, page=cursor, path_prefix=ROOT, memory_id=memory_id)


def _view(visit: Visit, memory: MemoryObject) -> str:
    wanted = visit.query.get("view", "")
    if wanted in VIEWS[1:] and not (wanted == "blame" and visit.query.get("at")):
        return wanted
    can_render = MARKDOWN.fullmatch(memory.path) is not None and memory.content_size_bytes <= MAX_RENDERED_BYTES
    return "rendered" if can_render else "raw"


def _content(visit: Visit, memory: MemoryObject, text: str, view: str) -> dict[str, object]:
    if view == "rendered":
        return {"html": rendered(text, visit.url("m"))}
    if view == "history":
        found = _versions_of(visit, memory.id, VERSIONS, visit.query.get("page"))
        return {"versions": found.data, "following": found.next_page}
    if view == "raw":
        return _lines(visit, raw_lines(text))
    lines, before = list[SourceLine](), ""
    for each in blame_memory(visit.call(memory_id=memory.id)).lines:
        version_id = each.version.id
        lines.append(SourceLine(each.line, boxed(each.text.removesuffix("\n")), each.version, version_id != before))
        before = version_id
    known = _versions_of(visit, memory.id, 100).data
    return {**_lines(visit, lines), "before": {newer.id: older.id for newer, older in pairwise(known)}}


def _lines(visit: Visit, lines: Sequence[SourceLine]) -> dict[str, object]:
    first = visit.number("from")
    shown = lines[first - 1 : first - 1 + LINES]
    return {"lines": shown, "first": first, "total": len(lines), "last": first - 1 + len(shown)}


def raw_lines(text: str) -> list[SourceLine]:
    """Return the lines of a text as HTML."""
    rows = text.split("\n")
    if rows[-1] == "":
        rows.pop()
    return [SourceLine(at, boxed(row)) for at, row in enumerate(rows, start=1)]


def _gone(visit: Visit, path: str, versions: Sequence[Version]) -> Response:
    """Show the last versions of a deleted memory. Raises `HttpError` 404 if there are none."""
    if not versions:
        raise missing("memory")
    return visit.page("gone.html", path or "Deleted memory", 404, path=path, versions=versions)


def _neighbour(visit: Visit, memory_id: str, version_id: str, *, is_newer: bool = False) -> str | None:
    found = visit.store.history.page(memory_id=memory_id, after=version_id, oldest_first=is_newer, limit=1).items
    return found[0].id if found else None


@page("GET", "id/{memory_id}", "read", "tree")
def by_id(visit: Visit) -> Response:
    """Redirect from the id of a memory to its current path, so that links survive renames."""
    memory_id = visit.ids["memory_id"]
    try:
        found = retrieve_memory(visit.call(memory_id=memory_id), view="basic")
    except HttpError:
        versions = visit.store.history.page(memory_id=memory_id, limit=20).items
        return _gone(visit, (versions[0].path if versions else None) or "", versions)
    return redirect(visit.url("m", page_path(found.path), view=visit.query.get("view")))


@page("GET", "v/{version_id}", "read", "tree")
def show_version(visit: Visit) -> Response:
    """Show one version with its text."""
    version = retrieve_memory_version(visit.call(memory_version_id=visit.ids["version_id"]))
    return visit.page(
        "version.html",
        f"Version r{version.revision}",
        version=version,
        path=version.path or "",
        older=_neighbour(visit, version.memory_id, version.id),
        newer=_neighbour(visit, version.memory_id, version.id, is_newer=True),
        **_lines(visit, raw_lines(version.content or "")),
    )


@page("GET", "v/{version_id}/download", "read")
def send_version(visit: Visit) -> Response:
    """Send the text of a version as a file to save. The browser does not display it."""
    version = retrieve_memory_version(visit.call(memory_version_id=visit.ids["version_id"]))
    if version.content is None:
        raise missing("text")
    return download((version.path or "").rpartition("/")[2] or "memory.txt", iter([version.content.encode()]))
