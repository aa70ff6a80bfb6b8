"""Methods of a memory store on a server: reading, searching, settings, export and import."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from retentive.engine.listings import Listed, ListedDirectory, ListedMemory, ListingCursor
from retentive.errors import InvalidInput, NotFound
from retentive.history.revisions import Named, Revision
from retentive.remote import objects
from retentive.remote.comparing import versions_of
from retentive.remote.methods import exchange, get, pages, post
from retentive.remote.requests import HttpExchange, HttpRequest, segment
from retentive.search.results import Results
from retentive.store import MemoryStore
from retentive.values.listing import ListPage
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.properties import StoreInfo
from retentive.values.records import Actor, Memory, Usage, Version, as_actor
from retentive.values.settings import DEFAULTS, Settings
from retentive.wire.administration import SettingsObject, UsageObject
from retentive.wire.base import tool_path
from retentive.wire.memories import MemoryObject, MemoryPage, PrefixObject
from retentive.wire.search import SearchAnswer
from retentive.wire.transfers import ImportResult
from retentive.wire.versions import VersionObject

if TYPE_CHECKING:
    from retentive.engine.trust import Level


class ImportOptions(TypedDict, total=False):
    """Options of an import."""

    overwrite: bool
    dry_run: bool
    source: str | None
    session: str | None


class RemoteReads(MemoryStore):
    """Base class of a memory store on a server."""

    info: StoreInfo
    default_sender: str | None
    _run: Any

    @property
    def base(self) -> str:
        """Path of the memory store in the API."""
        return f"/v1/memory_stores/{segment(self.info.id)}"

    def sender(self, actor: Actor | str | None = None) -> str | None:
        """Return the actor to send with a request, as text. Raises `InvalidInput`."""
        found = as_actor(actor)
        return self.default_sender if found is None else str(found)

    @exchange
    def read(self, path: str) -> HttpExchange[str]:
        """Return the text of the memory at `path`. Raises `NotFound`."""
        return (yield from self.loaded(path))[1]

    @exchange
    def load(self, path: str) -> HttpExchange[tuple[Memory, str]]:
        """Return the memory at `path` and its text. Raises `NotFound`."""
        return (yield from self.loaded(path))

    @exchange
    def load_at(self, path: str, at: Revision) -> HttpExchange[tuple[Memory, str]]:
        """Return the memory at `path` and its text, as they were at the time or revision `at`. Raises `NotFound`."""
        query = {"path": objects.api_path(objects.parsed(path)), "at": objects.moment_text(at)}
        return (yield from self._memory(query))

    def _memory(self, query: Mapping[str, object]) -> HttpExchange[tuple[Memory, str]]:
        found = yield from get(self, MemoryObject, "/memory", query)
        return found.memory(), found.content or ""

    @exchange
    def memories_at(self, under: str, at: Revision) -> HttpExchange[list[Memory]]:
        """Return the memories below a directory, as they were at a time or revision.

        If `under` was the path of a memory at that time, return this memory.
        """
        target, query = objects.parsed(under), {"at": objects.moment_text(at)}
        found = yield from self._below(target, at=query["at"])
        if not found and not target.is_root:
            with suppress(NotFound):
                found = [(yield from self._memory({"path": objects.api_path(target), "view": "basic", **query}))[0]]
        return found

    def _below(self, target: MemoryPath, at: str | None = None) -> HttpExchange[list[Memory]]:
        listed = yield from pages(self, "/memories", MemoryPage, path_prefix=objects.prefix(target), at=at)
        return [each.memory() for each in listed if isinstance(each, MemoryObject)]

    def loaded(self, path: str) -> HttpExchange[tuple[Memory, str]]:
        """Return the memory at a path and its text. Raises `NotFound`."""
        target = objects.parsed(path)
        missing = NotFound(f"there is no memory at {target.written}")
        if target.is_root:
            raise missing
        try:
            return (yield from self._memory({"path": objects.api_path(target)}))
        except NotFound as error:
            raise missing if str(error) == "memory not found" else error from None

    @exchange
    def memories(self, under: str = ROOT) -> HttpExchange[list[Memory]]:
        """Return all memories below a directory, in byte order of their paths."""
        return (yield from self._below(objects.parsed(under)))

    @exchange
    def list_memories(
        self,
        under: str = ROOT,
        *,
        depth: Literal[0, 1] = 0,
        cursor: ListingCursor | None = None,
        limit: int = 100,
        texts: bool = False,
    ) -> HttpExchange[ListPage[Listed, ListingCursor]]:
        """Return one page of the memories below a directory, in byte order of their paths.

        A page has at most 100 memories, or 20 if `texts` is True.
        """
        target = objects.parsed(under)
        if limit < 1 or depth not in {0, 1}:
            raise InvalidInput("`limit` must be at least 1, and `depth` must be 0 or 1")
        query = {
            "path_prefix": objects.prefix(target),
            "depth": depth,
            "view": "full" if texts else "basic",
            "limit": min(limit, 100),
            "page": None if cursor is None else cursor.pin,
        }
        answer = yield from get(self, MemoryPage, "/memories", query)
        following = None if answer.next_page is None else ListingCursor(answer.next_page, "")
        return ListPage(tuple(map(_listed, answer.data)), following)

    @exchange
    def versions(
        self, path: str | None = None, *, memory_id: str | None = None, limit: int | None = None
    ) -> HttpExchange[list[Version]]:
        """Return versions, newest first.

        Without arguments, return the versions of all memories. `path` selects the versions at that path. `memory_id`
        selects the versions of one memory, including versions from before a rename.
        """
        target = None if path is None else objects.parsed(path)
        above = "/" if target is None else objects.api_path(target).rpartition("/")[0] + "/"
        most = limit if target is None else None
        found = yield from versions_of(self, {"memory_id": memory_id, "path_prefix": above}, most)
        return [each for each in found if target is None or each.path == target.text][:limit]

    @exchange
    def version_text(self, version_id: str) -> HttpExchange[str]:
        """Return the text of a version. It is empty for a deletion. Raises `NotFound`."""
        found = yield from get(self, VersionObject, f"/memory_versions/{segment(version_id)}")
        return found.content or ""

    @exchange
    def usage(self) -> HttpExchange[Usage]:
        """Return the number of memories and their total size."""
        found = yield from get(self, UsageObject, "/usage")
        return Usage(found.memories, found.content_size_bytes)

    @exchange
    def settings(self) -> HttpExchange[Settings]:
        """Return the effective settings of the memory store."""
        return (yield from get(self, SettingsObject, "/settings")).value()

    @exchange
    def change_settings(
        self, changes: Mapping[str, object], *, actor: Actor | str | None = None
    ) -> HttpExchange[Settings]:
        """Change the settings for every process that uses the memory store. Return the effective settings."""
        DEFAULTS.changed(changes)
        return (yield from post(self, SettingsObject, "/settings", changes, actor)).value()

    @exchange
    def search(
        self,
        query: str,
        *,
        mode: Literal["ranked", "all"] = "ranked",
        under: str = ROOT,
        paths: Sequence[str] = (),
        regex: bool = False,
        at: Named | None = None,
        history: bool = False,
        source: str | None = None,
        trust: Level | None = None,
        limit: int | None = 20,
        actor: Actor | str | None = None,
    ) -> HttpExchange[Results]:
        """Search memories, and return at most 100 matches, best first. `at` must not be a `Revision` object."""
        body = {
            "query": query,
            "mode": "regex" if regex else mode,
            "path_prefix": objects.prefix(objects.parsed(under)),
            "paths": list(paths),
            "at": objects.time_text(at) if isinstance(at, datetime) else None if at is None else str(at),
            "history": history,
            "source": source or None,
            "trust": trust or None,
            "limit": 100 if limit is None else max(1, min(limit, 100)),
        }
        return (yield from post(self, SearchAnswer, "/search", body, actor)).results(limit)

    @exchange
    def download(self, sink: IO[bytes], *, format: str) -> HttpExchange[None]:  # noqa: A002
        """Write an export to a file. Each attempt overwrites the file from its start."""
        yield HttpRequest("GET", f"{self.base}/export", {"format": format}, actor=self.sender(), sink=sink)

    @exchange
    def upload(
        self, pieces: Callable[[], Iterator[bytes]], under: str, **options: Unpack[ImportOptions]
    ) -> HttpExchange[ImportResult]:
        """Import a tar file, and return the response of the server.

        `pieces` returns the bytes of the file; it is called for each attempt.
        """
        query = {"path_prefix": objects.prefix(objects.parsed(under)), **options}
        return (yield from post(self, ImportResult, "/import", query=query, upload=pieces))


def _listed(given: MemoryObject | PrefixObject) -> Listed:
    if isinstance(given, PrefixObject):
        return ListedDirectory(tool_path(given.path))
    return ListedMemory(given.memory(), given.content)
