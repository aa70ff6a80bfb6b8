"""Pages for directories, in the current or an earlier state of the store."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from retentive.console.figures import chart, limits_of, newest_of, recent_versions
from retentive.console.markdown import MAX_RENDERED_BYTES, rendered
from retentive.console.pages.history import news_url
from retentive.console.rendering import page_path
from retentive.console.visits import Visit, page, redirect
from retentive.errors import NotFound
from retentive.history.log import Fate, SinceMoment, since
from retentive.server.errors import missing
from retentive.server.handlers.memories import list_memories, read_memory
from retentive.storage.contract import Version
from retentive.store import core_of
from retentive.values.paths import ROOT
from retentive.wire.memories import MemoryObject, MemoryPage

ROWS = 50
SINCE = 1_000
"""Maximum number of newer versions that a page of an earlier state reads to mark changes."""
FATES: tuple[Fate, ...] = ("new", "changed", "gone")


def _listing(visit: Visit, directory: str, cursor: str | None = None) -> MemoryPage:
    """Return one level of a directory: the answer of the API, now or in the earlier state that the URL names."""
    call = visit.listing(ROWS, cursor, directory=directory, at=visit.at)
    return list_memories(call, path_prefix=directory, depth=1, at=visit.at)


def levels(visit: Visit, directory: str, last: MemoryPage | None = None) -> list[tuple[str, MemoryPage]]:
    """Return the levels of the tree beside a page, from the root down to a directory. `last` is the page of that."""
    names = directory.split("/")[2:]
    above = ["/".join([ROOT, *names[:depth]]) for depth in range(len(names))]
    return [*((each, _listing(visit, each)) for each in above), (directory, last or _listing(visit, directory))]


@page("GET", "children/{path:path}", "read")
def children(visit: Visit) -> Response:
    """Send the direct entries of a directory, for a page whose tree already shows the levels above them."""
    found = _listing(visit, visit.memory_path)
    if not found.data:
        raise missing("directory")
    values = {"levels": [(visit.memory_path, found)], "path": "", "at": visit.query.get("at", "")}
    return visit.page("_children.html", "", **values)


@page("GET", "tree/{path:path}", "read", "tree")
def show_directory(visit: Visit) -> Response:
    """Show the memories and directories in a directory, and the text of its index.md."""
    path, at, cursor = visit.memory_path, visit.query.get("at", ""), visit.query.get("page")
    again = news_url(visit, path=path)
    found = _listing(visit, path, cursor)
    if not found.data and path != ROOT and not cursor:
        try:
            read_memory(visit.call(), path, at=visit.at)
        except NotFound:
            if at or not visit.store.history.page(path, limit=1).items:
                raise missing("directory") from None
            return redirect(visit.url("activity", path=path))  # its memories are deleted or hidden
        return redirect(visit.url("m", page_path(path), at=at))
    then = None if visit.at is None else core_of(visit.store).peek(since(visit.at, SINCE))
    recent = () if at else recent_versions(visit.store)
    rows = _rows(visit, path, found, recent, then)
    if then is not None and not cursor and found.next_page is None:
        rows += _new_rows(path, {str(row["path"]) for row in rows}, then)
    index, html = f"{path}/index.md", None
    sizes = [each.content_size_bytes for each in found.data if isinstance(each, MemoryObject) and each.path == index]
    if sizes and sizes[0] < MAX_RENDERED_BYTES:
        html = rendered(read_memory(visit.call(), index, at=visit.at).content or "", visit.url("m"))
    return visit.page(
        "tree.html",
        path,
        levels=levels(visit, path, None if cursor else found),
        then=then,
        rows=rows,
        following=found.next_page,
        newest=recent[:6] if path == ROOT else (),
        index=html,
        strip=chart(visit.store) if path == ROOT and not cursor else None,
        again=again,
        limits=limits_of(visit.info, visit.store.settings()) if visit.is_whole else [],
    )


def _rows(
    visit: Visit, directory: str, found: MemoryPage, recent: Sequence[Version], then: SinceMoment | None
) -> list[dict[str, object]]:
    """Return the rows of a listing. For a directory, `below` is the path of its last change, relative to it.

    On a page of an earlier state, `marks` has the numbers of memories that are new, changed and gone since that time.
    """
    ids = [each.id for each in found.data if isinstance(each, MemoryObject)]
    newest, lasts = {} if then else newest_of(visit.store, ids), dict[str, tuple[Version, str]]()
    for version in recent:
        if version.path.startswith(f"{directory}/"):
            name, _, rest = version.path[len(directory) + 1 :].partition("/")
            lasts.setdefault(name, (version, rest))
    rows: list[dict[str, object]] = []
    for each in found.data:
        path, marks = each.path.rstrip("/"), list[tuple[Fate, int]]()
        if isinstance(each, MemoryObject):
            last, below, memory = newest.get(each.id), "", each
            if then is not None and each.id in then.fates:
                marks = [(then.fates[each.id][0], 1)]
        else:
            (last, below), memory = lasts.get(path.rpartition("/")[2], (None, "")), None
            if then is not None:
                marks = [(fate, count) for fate in FATES if (count := then.below(path, fate))]
        row = {"path": path, "is_directory": memory is None, "memory": memory, "last": last, "below": below}
        rows.append({**row, "marks": marks, "is_new": False})
    return rows


def _new_rows(directory: str, there: set[str], then: SinceMoment) -> list[dict[str, object]]:
    """Return rows for the entries that were added to a directory since an earlier state, sorted by name.

    They did not exist then, so they link to the current entries.
    """
    found = dict[str, dict[str, object]]()
    for fate, version in then.fates.values():
        if fate == "new" and version.path.startswith(f"{directory}/"):
            name, slash, _ = version.path[len(directory) + 1 :].partition("/")
            path = f"{directory}/{name}"
            count = then.below(path, "new") if slash else 1
            row = {"path": path, "is_directory": bool(slash), "memory": None, "last": version}
            found[path] = {**row, "marks": [("new", count)], "is_new": True}
    return [found[path] for path in sorted(found.keys() - there)][:ROWS]


@page("GET", "", "read")
@page("GET", "tree", "read")
@page("GET", "go", "read")
def go(visit: Visit) -> Response:
    """Redirect to the path that a person typed, by default to the root directory."""
    wanted = visit.query.get("path", "").strip().removeprefix(ROOT).strip("/")
    return redirect(visit.url("tree", page_path(f"/{wanted}"), at=visit.query.get("at")))
