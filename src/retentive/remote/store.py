"""A memory store on a server, with the methods and types of a local one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from retentive.by_id import ById
from retentive.engine.listings import Listed, ListedDirectory, ListedMemory, ListingCursor
from retentive.engine.rendering import error_reply
from retentive.errors import InvalidInput, NotFound, Refused, RetentiveError, error_of
from retentive.history.apply import RestoreOutcome
from retentive.history.plan import Mode
from retentive.history.revisions import Named
from retentive.remote import objects, searching
from retentive.remote.client import Client
from retentive.remote.core import SAY, RemoteCore
from retentive.remote.history import RemoteHistory
from retentive.remote.identified import RemoteById
from retentive.remote.methods import exchange, pages, unsupported
from retentive.remote.requests import HttpExchange, HttpRequest, JsonBody, T, conflicting_in, segment
from retentive.remote.review import RemoteReview
from retentive.remote.trust import RemoteTrust
from retentive.search.results import Results
from retentive.store import MemoryStore
from retentive.values.commands import Clear, Command, parse, paths_of
from retentive.values.pages import ListPage
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Actor, Memory, StoreInfo, Usage, Version, Written, as_actor
from retentive.values.replies import REPLIES, Replies, Reply
from retentive.values.settings import DEFAULTS, Settings

if TYPE_CHECKING:
    from retentive.engine.trust.levels import Level
    from retentive.history.history import History
    from retentive.pipeline import StoreCore
    from retentive.review.session import Review
    from retentive.review.trust import Trust


class RemoteStore(MemoryStore):
    """A memory store on a server. Threads may share it.

    `described` is the same store, whose methods return exchanges for an event loop to send.
    """

    def __init__(self, client: Client, info: StoreInfo, actor: Actor | None) -> None:
        self.client = client
        self.info = info
        self._actor = actor
        self.default_sender = None if actor is None else str(actor)
        self._run: Any = client.run
        self._core = cast("StoreCore", RemoteCore())

    def __repr__(self) -> str:
        return f"<RemoteStore {self.id} key={self.key!r}>"

    @property
    def described(self) -> RemoteStore:
        """The same store, whose methods return exchanges."""
        store = copy(self)
        store._run = _unchanged  # noqa: SLF001 - the same class
        return store

    @property
    def base(self) -> str:
        """Path of the store in the API."""
        return f"/v1/memory_stores/{segment(self.info.id)}"

    @property
    def id(self) -> str:
        """Id of the store, such as `memstore_...`."""
        return self.info.id

    @property
    def key(self) -> str | None:
        """Key that the application gave the store."""
        return self.info.key

    @property
    def name(self) -> str:
        """Display name."""
        return self.info.name

    @property
    def actor(self) -> Actor | None:
        """Actor recorded with changes that name no other. None means the actor of the API key."""
        return self._actor

    @property
    def replies(self) -> Replies:
        """Sentences of errors in arguments. The server has those of replies."""
        return REPLIES

    def acting_as(self, actor: Actor | str) -> RemoteStore:
        """The same memory store, whose requests name this actor. The API key must allow it."""
        store = copy(self)
        store._actor = as_actor(actor)  # noqa: SLF001 - the same class
        store.default_sender = str(store._actor)  # noqa: SLF001
        return store

    def through(self, integration: str) -> RemoteStore:
        """The same object: the server records its own integration."""
        return self

    def directory(self) -> str | None:
        """None: the memories are on the server."""
        return None

    def sender(self, actor: Actor | str | None = None) -> str | None:
        """Text of the actor that a request names. Raises `InvalidInput`."""
        found = as_actor(actor)
        return self.default_sender if found is None else str(found)

    @exchange
    def execute(
        self,
        command: object,
        *,
        actor: Actor | str | None = None,
        tool_use_id: str | None = None,
        source: str | None = None,
        session: str | None = None,
    ) -> HttpExchange[Reply]:
        """Run a command, given parsed or as the raw input of a tool call, and return the reply of the server."""
        if tool_use_id is not None and not isinstance(tool_use_id, str):
            raise InvalidInput(f"a tool_use id must be a string, not {type(tool_use_id).__name__}")
        origin, sender = origin_of(source, session), self.sender(actor)
        try:
            answer = yield from self.performed(command, sender, tool_use_id, origin)
        except Refused as refusal:
            return error_reply(SAY, refusal, (MemoryPath.known(ROOT),))
        except RetentiveError as error:
            return error_reply(SAY, error, _named(command))
        return Reply(answer["content"], answer["is_error"], answer["error_code"])

    def clear(
        self, *, actor: Actor | str | None = None, tool_use_id: str | None = None, **origin: Unpack[Origin]
    ) -> Reply:
        """Delete all memories in one transaction. The arguments are those of `execute`."""
        return self.execute(Clear(), actor=actor, tool_use_id=tool_use_id, **origin)

    def performed(
        self,
        command: object,
        actor: str | None = None,
        tool_use_id: str | None = None,
        origin: Origin | None = None,
        if_version: str | None = None,
    ) -> HttpExchange[JsonBody]:
        """Send a command; return the answer of its route. Raises `Refused` for one that cannot be sent."""
        given = objects.sendable(command)
        is_view = isinstance(given, Mapping) and given.get("command") == "view"
        path = f"{self.base}/commands"
        body: JsonBody = {"command": given, "if_version": if_version, **(origin or {})}
        request = HttpRequest("POST", path, actor=actor, repeats=True)
        key = None if is_view else tool_use_id or request.key
        try:
            answer = yield HttpRequest("POST", path, {}, {**body, "id": key}, actor, repeats=True, key=request.key)
        except InvalidInput:
            parse(given)  # raises for a value that the body of a request cannot hold
            raise
        return answer

    @exchange
    def answer(self, command: object, if_version: str | None = None) -> HttpExchange[JsonBody]:
        """Run a command, and return the whole answer of the server."""
        return (yield from self.performed(command, self.sender(), None, None, if_version))

    def _checking(self, name: str, actor: Actor | str | None) -> AbstractContextManager[None]:
        return nullcontext()

    @exchange
    def _written(
        self, command: Command, if_version: str | None, actor: Actor | str | None, origin: Origin
    ) -> HttpExchange[Written]:
        done = yield from self.performed(command, self.sender(actor), None, origin_of(**origin), if_version)
        if done["is_error"]:
            raise _error(done)
        return objects.written(done)

    @exchange
    def batch(
        self, commands: Sequence[object], *, actor: Actor | str | None = None, **origin: Unpack[Origin]
    ) -> HttpExchange[list[Written]]:
        """Run up to 100 commands as one change, all or none; return what each has written."""
        body: JsonBody = {"commands": [objects.sendable(each) for each in commands], **origin_of(**origin)}
        done = yield HttpRequest("POST", f"{self.base}/batch", {}, body, self.sender(actor), repeats=True)
        return list(map(objects.written, done["results"]))

    @exchange
    def view(self, path: str = ROOT, *, view_range: tuple[int, int] | None = None) -> HttpExchange[str]:
        """The view that a model gets of a directory, or of a memory or a range of its lines. Raises `NotFound`."""
        done = yield from self.performed({"command": "view", "path": path, "view_range": view_range}, self.sender())
        return Reply(done["content"], done["is_error"], done["error_code"]).raise_for_error().text

    @exchange
    def read(self, path: str) -> HttpExchange[str]:
        """The text of the memory at `path`. Raises `NotFound`."""
        return (yield from self.loaded(path))[1]

    @exchange
    def load(self, path: str) -> HttpExchange[tuple[Memory, str]]:
        """Return the memory at `path` and its text. Raises `NotFound`."""
        return (yield from self.loaded(path))

    def loaded(self, path: str) -> HttpExchange[tuple[Memory, str]]:
        """The memory at a path and its text."""
        target = objects.parsed(path)
        missing = NotFound(f"there is no memory at {target.written}")
        if target.is_root:
            raise missing
        try:
            found = yield HttpRequest(
                "GET", f"{self.base}/memory", {"path": objects.api_path(target)}, actor=self.sender()
            )
        except NotFound as error:
            raise missing if str(error) == "memory not found" else error from None
        return objects.memory(found), found["content"]

    @exchange
    def memories(self, under: str = ROOT) -> HttpExchange[list[Memory]]:
        """All memories below a directory, in byte order of their paths."""
        found = yield from pages(f"{self.base}/memories", path_prefix=objects.prefix(objects.parsed(under)))
        return [objects.memory(each) for each in found]

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
        """One page of the memories below a directory, in byte order, with at most 100 of them, or 20 with texts."""
        target = objects.parsed(under)
        if limit < 1 or depth not in {0, 1}:
            raise InvalidInput("the limit must be at least 1, and the depth 0 or 1")
        query = {
            "path_prefix": objects.prefix(target),
            "depth": depth,
            "view": "full" if texts else "basic",
            "limit": min(limit, 100),
            "page": None if cursor is None else cursor.pin,
        }
        answer = yield HttpRequest("GET", f"{self.base}/memories", query, actor=self.sender())
        following = answer["next_page"]
        return ListPage(
            tuple(map(_listed, answer["data"])), None if following is None else ListingCursor(following, "")
        )

    @exchange
    def versions(
        self, path: str | None = None, *, memory_id: str | None = None, limit: int | None = None
    ) -> HttpExchange[list[Version]]:
        """Versions, newest first: all, those at one path, or those of one memory across renames."""
        target = None if path is None else objects.parsed(path)
        above = "/" if target is None else objects.api_path(target).rpartition("/")[0] + "/"
        most = limit if target is None else None
        listed = yield from pages(f"{self.base}/memory_versions", most=most, memory_id=memory_id, path_prefix=above)
        found = (objects.version(each) for each in listed)
        return [each for each in found if target is None or each.path == target.text][:limit]

    @exchange
    def version_text(self, version_id: str) -> HttpExchange[str]:
        """Text after the change that a version records; empty for a deletion. Raises `NotFound`."""
        found = yield HttpRequest("GET", f"{self.base}/memory_versions/{segment(version_id)}")
        return found["content"] or ""

    @exchange
    def usage(self) -> HttpExchange[Usage]:
        """Number and total size of the memories."""
        found = yield HttpRequest("GET", f"{self.base}/usage")
        return Usage(found["memories"], found["content_size_bytes"])

    @exchange
    def settings(self) -> HttpExchange[Settings]:
        """Effective settings on the server."""
        found = yield HttpRequest("GET", f"{self.base}/settings")
        return DEFAULTS.changed(found["settings"])

    @exchange
    def change_settings(
        self, changes: Mapping[str, object], *, actor: Actor | str | None = None
    ) -> HttpExchange[Settings]:
        """Change settings for every process that uses the store; return the effective settings."""
        DEFAULTS.changed(changes)
        found = yield HttpRequest("POST", f"{self.base}/settings", {}, changes, self.sender(actor), repeats=True)
        return DEFAULTS.changed(found["settings"])

    @property
    def by_id(self) -> ById:
        """The memories by their ids: read, update and delete."""
        return RemoteById(self)

    @property
    def history(self) -> History:
        """History of the store, as far as the server offers it."""
        return RemoteHistory(self)

    @property
    def review(self) -> Review:
        """Proposals of actors whose changes need review."""
        return RemoteReview(self)

    @property
    def trust(self) -> Trust:
        """Trust in the memories: list, confirm, quarantine and release."""
        return RemoteTrust(self)

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
        """Search for memories, best first; at most the first 100. `at` must not be a parsed revision."""
        options = {"paths": list(paths), "source": source, "trust": trust, "at": at, "history": history}
        sent = searching.body(query, mode, under, regex=regex, limit=limit, **options)
        request = HttpRequest("POST", f"{self.base}/search", {}, sent, self.sender(actor), repeats=True)
        return searching.results((yield request), limit)

    def undo(
        self,
        change: Named,
        *,
        path: str | None = None,
        mode: Mode = "refuse",
        dry_run: bool = False,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> RestoreOutcome:
        """Reverse one whole change, given by a revision such as `HEAD` or the id of a version."""
        return self.history.undo(change, path=path, mode=mode, dry_run=dry_run, actor=actor, **origin)

    def undo_by(
        self,
        by: str,
        *,
        since: datetime | None = None,
        mode: Mode = "refuse",
        dry_run: bool = False,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> RestoreOutcome:
        """Reverse all changes of an actor, given as a pattern such as `session:s1`."""
        return self.history.undo_by(by, since=since, mode=mode, dry_run=dry_run, actor=actor, **origin)

    read_only = unsupported("read_only")
    sweep = unsupported("sweep")
    scan = unsupported("scan")
    audit = property(unsupported("audit"))


def _unchanged(found: HttpExchange[T]) -> HttpExchange[T]:
    return found


def _named(command: object) -> tuple[MemoryPath, ...]:
    """Paths that an error reply names."""
    try:
        return paths_of(command if isinstance(command, Command | Clear) else parse(command))
    except Refused:
        return (MemoryPath.known(ROOT),)


def _error(done: JsonBody) -> RetentiveError:
    found = error_of(done["content"], done["error_code"])
    found.conflicting = conflicting_in(done)
    return found


def _listed(given: JsonBody) -> Listed:
    if given["type"] == "memory_prefix":
        return ListedDirectory(objects.tool_path(given["path"]))
    return ListedMemory(objects.memory(given), given["content"])
