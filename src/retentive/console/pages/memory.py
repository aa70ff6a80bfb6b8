"""Pages for one memory: its text (rendered, raw, or with the author of each line), its history and its versions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from starlette.responses import Response

from retentive.console.markdown import MAX_RENDERED_BYTES, rendered
from retentive.console.pages.history import neighbour
from retentive.console.pages.tree import levels
from retentive.console.rendering import page_path
from retentive.console.visits import Visit, download, page, redirect
from retentive.errors import NotFound
from retentive.server.errors import missing
from retentive.server.handlers.history import blame_memory, list_memory_versions, retrieve_memory_version
from retentive.server.handlers.memories import list_citations, read_memory, retrieve_memory
from retentive.storage.contract import Version
from retentive.store import core_of
from retentive.wire.base import AnswerPage
from retentive.wire.history import VersionObject, VersionsQuery
from retentive.wire.memories import MemoryObject

LINES = 2_000
VERSIONS = 50
MARKDOWN = (".md", ".markdown", ".mdx")


@page("GET", "m/{path:path}", "read", "tree")
def show_memory(visit: Visit) -> Response:
    """Show a memory in one of its views: `rendered`, `raw`, `blame` or `history`."""
    path, at, core = visit.memory_path, visit.at, core_of(visit.store)
    try:
        memory = read_memory(visit.call(), path, at=at)
    except NotFound:
        if at:
            raise missing("memory") from None
        return _last_version(visit, visit.store.history.log(path, limit=1))
    try:
        version = retrieve_memory_version(visit.call(memory_version_id=memory.memory_version_id), "basic")
    except NotFound:  # a proposed text is no version yet
        version = None
    can_render = path.lower().endswith(MARKDOWN) and memory.content_size_bytes <= MAX_RENDERED_BYTES
    wanted, text = visit.query.get("view", ""), memory.content or ""
    is_view = wanted in {"raw", "history"} or (wanted == "blame" and not at)
    view = wanted if is_view else "rendered" if can_render else "raw"
    last = core.accesses.recorded(core.id, memory.id)
    return visit.page(
        "memory.html",
        path,
        levels=levels(visit, path.rpartition("/")[0]),
        memory=memory,
        version=version,
        viewed_at=None if last is None else datetime.fromtimestamp(last, UTC),
        citations=visit.store.citations(path) if not at else (),
        newest=_versions_of(visit, memory.id, 1).data if at else [],
        older=neighbour(visit, memory.memory_version_id, memory.id),
        view=view,
        then=None,
        line_count=len(lines_of(text)),
        **_content(visit, memory, text, view),
    )


@page("GET", "sources", "read", "sources")
def show_sources(visit: Visit) -> Response:
    """Show the citations whose text has changed or is gone."""
    found = list_citations(visit.listing(VERSIONS, visit.query.get("page")), stale=True)
    return visit.page("sources.html", "Sources", citations=found.data, following=found.next_page)


def _versions_of(visit: Visit, memory_id: str, limit: int, cursor: str | None = None) -> AnswerPage[VersionObject]:
    call = visit.listing(limit, cursor, memory_id=memory_id)
    return list_memory_versions(call, VersionsQuery.read({"memory_id": memory_id}))


def _content(visit: Visit, memory: MemoryObject, text: str, view: str) -> dict[str, object]:
    if view == "rendered":
        return {"html": rendered(text, visit.url("m"))}
    if view == "history":
        found = _versions_of(visit, memory.id, VERSIONS, visit.query.get("page"))
        return {"versions": found.data, "following": found.next_page}
    if view == "raw":
        return _lines(visit, lines_of(text))
    known = _versions_of(visit, memory.id, 100).data
    before = {newer.id: older.id for newer, older in pairwise(known)}
    return {**_lines(visit, blame_memory(visit.call(memory_id=memory.id)).lines), "before": before}


def _lines(visit: Visit, lines: Sequence[object]) -> dict[str, object]:
    """Return the lines of one page, with the numbers of the first and the last one and of all."""
    first = visit.number("from")
    shown = lines[first - 1 : first - 1 + LINES]
    return {"lines": shown, "first": first, "total": len(lines), "last": first - 1 + len(shown)}


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, without their ends."""
    rows = text.split("\n")
    return rows[:-1] if rows[-1] == "" else rows


def _last_version(visit: Visit, versions: Sequence[Version]) -> Response:
    if not versions:
        raise missing("memory")
    return redirect(visit.url("v", versions[0].id))


@page("GET", "id/{memory_id}", "read", "tree")
def by_id(visit: Visit) -> Response:
    """Redirect from the id of a memory to its current path, so that links survive renames."""
    memory_id = visit.ids["memory_id"]
    try:
        found = retrieve_memory(visit.call(memory_id=memory_id), view="basic")
    except NotFound:
        return _last_version(visit, visit.store.history.page(memory_id=memory_id, limit=1).items)
    return redirect(visit.url("m", page_path(found.path), view=visit.query.get("view")))


@page("GET", "v/{version_id}", "read", "tree")
def show_version(visit: Visit) -> Response:
    """Show one version with its text."""
    version = retrieve_memory_version(visit.call(memory_version_id=visit.ids["version_id"]))
    older = neighbour(visit, version.id, version.memory_id)
    newer = neighbour(visit, version.id, version.memory_id, is_newer=True)
    return visit.page(
        "version.html",
        f"Version r{version.revision}",
        version=version,
        path=version.path or "",
        older=older and older.id,
        newer=newer and newer.id,
        **_lines(visit, lines_of(version.content or "")),
    )


@page("GET", "v/{version_id}/download", "read")
def send_version(visit: Visit) -> Response:
    """Send the text of a version as a file to save. The browser does not display it."""
    version = retrieve_memory_version(visit.call(memory_version_id=visit.ids["version_id"]))
    if version.content is None:
        raise missing("text")
    return download((version.path or "").rpartition("/")[2] or "memory.txt", iter([version.content.encode()]))
