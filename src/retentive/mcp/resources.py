"""Memories as MCP resources: lists them in pages, returns their URI template, and reads them.

The URI of a memory is `memory://STORE/PATH`. PATH is relative to /memories. Both parts are percent-encoded.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from mcp import types as t
from mcp.shared.exceptions import MCPError

from retentive.engine.lists import ListedMemory, ListingCursor
from retentive.errors import InvalidInput, NotFound
from retentive.mounts import StoreOrMounts, shown_path, stores_of
from retentive.values.paths import ROOT, visible_path

if TYPE_CHECKING:
    from retentive.values.records import Memory

SCHEME = "memory://"
PAGE = 100
_MIME = {".md": "text/markdown", ".json": "application/json", ".csv": "text/csv"}


def listed(tree: StoreOrMounts, name: str, cursor: str | None) -> t.ListResourcesResult:
    """Return one page of the list of memories: store by store, sorted by path in each of them."""
    stores, found = stores_of(tree), list[t.Resource]()
    try:
        place: tuple[str, str, str] | None = (ROOT, "", "") if cursor is None else _decoded(cursor, stores)
        while place is not None and not found:  # many clients read only the first page
            point, pin, last = place
            page = stores[point].list_memories(cursor=ListingCursor(pin, last) if pin else None, limit=PAGE)
            memories = [each.memory for each in page.items if isinstance(each, ListedMemory)]
            shown = ((each, shown_path(tree, point, each.path)) for each in memories)
            found = [_resource(each, name, path) for each, path in shown if path]
            following = ((each, "", "") for each in stores if each > point)  # mount points are sorted
            place = next(following, None) if page.next is None else (point, page.next.pin, page.next.last)
    except InvalidInput as error:
        raise MCPError(t.INVALID_PARAMS, f"Invalid cursor: {error}") from None
    return t.ListResourcesResult(resources=found, next_cursor=None if place is None else _encoded(place))


def templates(name: str) -> t.ListResourceTemplatesResult:
    """Return the template of the URIs of all memories in the store `name`."""
    found = t.ResourceTemplate(
        uri_template=f"{SCHEME}{quote(name, safe='')}/{{+path}}",
        name="memory",
        title="Memory file",
        description=f"A memory file by its path below {ROOT}",
    )
    return t.ListResourceTemplatesResult(resource_templates=[found])


def read(store: StoreOrMounts, name: str, uri: str) -> t.ReadResourceResult:
    """Return the text of the memory that `uri` names. `name` is the name of the store in URIs."""
    path = checked_path(uri, name)
    try:
        memory, text = store.load(path)
    except (NotFound, InvalidInput):
        raise not_found(uri) from None
    contents = t.TextResourceContents(uri=uri, mime_type=_mime(memory.path), text=text)
    return t.ReadResourceResult(contents=[contents])


def uri_of(store: str, path: str) -> str:
    """Return the URI of the memory at a path. `store` is the name of its store in URIs."""
    return f"{SCHEME}{quote(store, safe='')}/{quote(path.removeprefix(f'{ROOT}/'))}"


def checked_path(uri: str, name: str) -> str:
    """Return the path in `uri`. Raises `MCPError` if `uri` is not the URI of a memory in the store `name`.

    If the path is outside /memories, the memory store refuses it when the path is used.
    """
    named, slash, path = uri.removeprefix(SCHEME).partition("/")
    if not uri.startswith(SCHEME) or not slash or unquote(named) != name:
        raise not_found(uri)
    try:
        return f"{ROOT}/{unquote(path, errors='strict')}"
    except UnicodeDecodeError:
        raise not_found(uri) from None


def not_found(uri: str) -> MCPError:
    """Return the error for a URI that names no memory."""
    return MCPError(t.INVALID_PARAMS, "Resource not found", {"uri": uri})


def _resource(memory: Memory, name: str, path: str) -> t.Resource:
    return t.Resource(
        uri=uri_of(name, path),
        name=path.removeprefix(f"{ROOT}/"),
        mime_type=_mime(path),
        size=memory.size_bytes,
        annotations=t.Annotations(last_modified=memory.updated_at.isoformat().replace("+00:00", "Z")),
    )


def _mime(path: str) -> str:
    name = path.rpartition("/")[2]
    return _MIME.get(name[name.rfind(".") :].lower() if "." in name else "", "text/plain")


def _encoded(place: tuple[str, str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place, ensure_ascii=False).encode()).decode("ascii")


def _decoded(cursor: str, points: Iterable[str]) -> tuple[str, str, str]:
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor.encode("ascii")))
    except (ValueError, RecursionError):
        found = None
    is_known = isinstance(found, list) and len(found) == 3 and found[0] in list(points)
    if not is_known or not all(isinstance(each, str) and visible_path(each) == each for each in found):
        raise InvalidInput("the cursor must be the `nextCursor` of an earlier page")
    return found[0], found[1], found[2]
