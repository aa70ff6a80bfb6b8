"""Pages for directories, in the current or an earlier state of the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from starlette.responses import Response

from retentive.console.figures import newest_of, recent_versions, strip_of
from retentive.console.markdown import MAX_RENDERED_BYTES, rendered
from retentive.console.pages.history import news_url
from retentive.console.rendering import page_path
from retentive.console.visits import Visit, page, redirect
from retentive.history.log import Fate, SinceMoment, since
from retentive.server.errors import HttpError, missing
from retentive.server.handlers.memories import list_memories, read_memory
from retentive.storage.contract import Version
from retentive.store import core_of
from retentive.values.paths import ROOT
from retentive.wire.memories import MemoryObject, MemoryPage

ROWS = 50
NEWEST = 6
SINCE = 1_000
"""Maximum number of newer versions that a page of an earlier state reads to mark changes."""
FATES: tuple[Fate, ...] = ("new", "changed", "gone")


@dataclass(frozen=True, slots=True)
class EntryRow:
    """Row of a listing. For a directory, `below` is the path of its last change, relative to the directory.

    On a page of an earlier state, `marks` has the numbers of memories that are new, changed and gone since that time.
    If `is_new` is true, the entry did not exist at that time, and the row links to the current entry.
    """

    path: str
    is_directory: bool
    memory: MemoryObject | None = None
    last: Version | None = None
    below: str = ""
    marks: tuple[tuple[Fate, int], ...] = ()
    is_new: bool = False


def _listing(visit: Visit, directory: str, cursor: str | None = None) -> MemoryPage:
    """Return one level of a directory: the answer of the API, now or in the earlier state that the URL names."""
    return list_memories(visit.call(), limit=ROWS, page=cursor, path_prefix=directory, depth=1, at=visit.at)


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
    return visit.page("children.html", "", **values)


@page("GET", "tree/{path:path}", "read", "tree")
def show_directory(visit: Visit) -> Response:
    """Show the memories and directories in a directory, and the text of its index.md."""
    path, at, cursor = visit.memory_path, visit.query.get("at", ""), visit.query.get("page")
    again = news_url(visit, path=path)
    found = _listing(visit, path, cursor)
    if not found.data and path != ROOT and not cursor:
        return _memory_instead(visit)
    then = None if visit.at is None else core_of(visit.store).peek(since(visit.at, SINCE))
    recent = () if at else recent_versions(visit.store)
    rows = _rows(visit, path, found, recent, then)
    if then is not None and not cursor and found.next_page is None:
        rows += _new_rows(path, rows, then)
    moment_of_page = None if then is None or then.last is None else then.last.created_at
    return visit.page(
        "tree.html",
        path,
        path=path,
        levels=levels(visit, path, None if cursor else found),
        then=then,
        rows=rows,
        following=found.next_page,
        newest=recent[:NEWEST] if path == ROOT else (),
        index=_index(visit, path, found),
        strip=strip_of(visit.store, moment_of_page) if path == ROOT and not cursor else None,
        at=at,
        again=again,
        settings=visit.store.settings(),
    )


def _rows(
    visit: Visit, directory: str, found: MemoryPage, recent: Sequence[Version], then: SinceMoment | None
) -> list[EntryRow]:
    ids = [each.id for each in found.data if isinstance(each, MemoryObject)]
    newest, lasts = {} if then else newest_of(visit.store, ids), dict[str, tuple[Version, str]]()
    for version in recent:
        if version.path.startswith(f"{directory}/"):
            name, _, rest = version.path[len(directory) + 1 :].partition("/")
            lasts.setdefault(name, (version, rest))
    rows = []
    for each in found.data:
        path = each.path.rstrip("/")
        if isinstance(each, MemoryObject):
            fate = None if then is None else then.fates.get(each.id)
            marks = () if fate is None else ((fate[0], 1),)
            rows.append(EntryRow(path, False, each, newest.get(each.id), marks=marks))
        else:
            last, below = lasts.get(path.rpartition("/")[2], (None, ""))
            counts = () if then is None else tuple((fate, then.below(path, fate)) for fate in FATES)
            rows.append(EntryRow(path, True, None, last, below, tuple(pair for pair in counts if pair[1])))
    return rows


def _new_rows(directory: str, rows: Sequence[EntryRow], then: SinceMoment) -> list[EntryRow]:
    """Return rows for the entries that were added to a directory since an earlier state, sorted by name."""
    there, found = {row.path for row in rows}, dict[str, EntryRow]()
    for fate, version in then.fates.values():
        if fate == "new" and version.path.startswith(f"{directory}/"):
            name, slash, rest = version.path[len(directory) + 1 :].partition("/")
            path = f"{directory}/{name}"
            count = then.below(path, "new") if slash else 1
            found[path] = EntryRow(path, bool(slash), None, version, rest, (("new", count),), is_new=True)
    return [found[path] for path in sorted(found.keys() - there)][:ROWS]


def _index(visit: Visit, directory: str, found: MemoryPage) -> Markup | None:
    path = f"{directory}/index.md"
    sizes = [each.content_size_bytes for each in found.data if isinstance(each, MemoryObject) and each.path == path]
    if not sizes or sizes[0] >= MAX_RENDERED_BYTES:
        return None
    return rendered(read_memory(visit.call(), path, at=visit.at).content or "", visit.url("m"))


def _memory_instead(visit: Visit) -> Response:
    try:
        read_memory(visit.call(), visit.memory_path, at=visit.at)
    except HttpError as error:
        raise missing("directory") if error.status == 404 else error from None
    return redirect(visit.url("m", page_path(visit.memory_path), at=visit.query.get("at")))


@page("GET", "", "read")
@page("GET", "tree", "read")
@page("GET", "go", "read")
def go(visit: Visit) -> Response:
    """Redirect to the path that a person typed, by default to the root directory."""
    wanted = visit.query.get("path", "").strip().removeprefix(ROOT).strip("/")
    return redirect(visit.url("tree", page_path(f"/{wanted}"), at=visit.query.get("at")))
