"""Routes of the API: the table of routes, and what a handler gets and returns."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from inspect import signature
from typing import IO, Any, Literal, TypeAlias, TypeVar, get_type_hints

from pydantic import create_model
from starlette.responses import StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as RequestScope

from retentive.errors import NotFound, RetentiveError
from retentive.opening import Retentive
from retentive.server.dreams import dreams_key
from retentive.server.errors import HttpError, forbidden, missing
from retentive.server.keys import KeyStore
from retentive.server.requests import next_of, place_in
from retentive.server.rights import ID_PREFIX, OF_PATHS, KeyRecord
from retentive.server.webhooks import Webhooks
from retentive.storage.contract import Actor, StoreInfo
from retentive.store import MemoryStore, with_options
from retentive.store.location_records import LocationRecords
from retentive.transfer.files import CHUNK
from retentive.values.records import SYSTEM_STORE, RequestKey
from retentive.wire.base import Answer, AnswerPage, Fields, ObjectOf, PageQuery
from retentive.wire.stores import Scope

Json: TypeAlias = dict[str, object]
_NO_FILTERS = frozenset({*PageQuery.model_fields, "view"})
INTEGRATION = "http"
"""Name of this integration in audit logs."""
NO_STORE = "memory store"


class ServedLocation:
    """An open location, with its API keys, its webhooks and a cache of open memory stores. Threads may share it."""

    def __init__(self, opened: Retentive, keys: KeyStore | None = None, *, webhooks_to_private: bool = False) -> None:
        self.opened = opened
        self.keys = keys or KeyStore(LocationRecords(opened.backend))
        self.webhooks = Webhooks(opened)
        self.webhooks_to_private = webhooks_to_private
        self.can_dream = bool(dreams_key())
        self._store = lru_cache(1_000)(self._opened)

    def store(self, store_id: str, caller: Caller, *, is_whole: bool = False) -> tuple[StoreInfo, MemoryStore]:
        """Open a memory store for a caller. Return its description and the open memory store. Raises `HttpError`.

        Both are kept in an LRU cache, so the description may be out of date. An open memory store has caches of its
        own, which are kept with it. With `is_whole`, it has no limit to paths: for what needs a scope that has none.
        """
        if caller.key.grants:
            caller = caller.within(self.info(store_id))
        key, paths = (
            caller.key,
            () if is_whole else (("scope", caller.key.paths), ("write_scope", caller.key.write_paths)),
        )
        about = ("actor", caller.actor), ("api_key_id", caller.recorded_key), ("principal", key.principal or "")
        return self._store(store_id, (*about, ("hides_history", not key.allows("review")), *paths))

    def named(self, name: str, caller: Caller) -> tuple[StoreInfo, MemoryStore]:
        """Open the memory store with this key or id for a caller, as `store` does.

        Raises `HttpError` 404 if the caller sees no such memory store, or `InvalidInput`.
        """
        with suppress(NotFound, HttpError):
            if not name.startswith("memstore_"):
                name = self.opened.get_store(name, workspace=caller.workspace_id).id
            found = self.store(name, caller)
            if caller.sees(found[0]):
                return found
        raise missing(NO_STORE)

    def stores(self, workspace_id: str, *, include_archived: bool = False) -> Iterator[StoreInfo]:
        """Yield the memory stores of a workspace, newest first, without the archived ones unless they are included."""
        after: str | None = ""
        while after is not None:
            found = self.opened.list_stores(
                workspace=workspace_id, include_archived=include_archived, after=after or None, limit=500
            )
            yield from found.items
            after = found.next

    def _opened(self, store_id: str, options: tuple[tuple[str, object], ...]) -> tuple[StoreInfo, MemoryStore]:
        info = self.info(store_id)
        return info, with_options(self.opened.store(info.id), integration=INTEGRATION, **dict(options))

    def info(self, store_id: str) -> StoreInfo:
        """Return the current description of a memory store. Raises `HttpError` 404."""
        found = self.opened.backend.get_store(store_id) if store_id.startswith("memstore_") else None
        if found is None or found.id != store_id:
            raise missing(NO_STORE)
        return found


@dataclass(frozen=True, slots=True)
class Caller:
    """Sender of a request: its key, and the actor to record for its changes.

    `key` has all rights of the caller, or only those in one memory store. `whole` is then the key with all of them.
    """

    key: KeyRecord
    actor: Actor
    whole: KeyRecord | None = None

    @property
    def recorded_key(self) -> str:
        """Id of the API key to record with changes. Empty if the actor is this key, or if an OAuth token was used."""
        is_named = self.actor == Actor("api_key", self.key.id)
        return self.key.id if self.key.id.startswith(ID_PREFIX) and not is_named else ""

    @property
    def workspace_id(self) -> str:
        """Id of the workspace that the key belongs to."""
        return self.key.workspace_id

    def sees(self, info: StoreInfo) -> bool:
        """Return whether the key has any right in a memory store.

        The memory store must be in the workspace of the key. Erased memory stores and the internal system store are
        never seen.
        """
        if info.erased_at is not None or info.id == SYSTEM_STORE:
            return False
        return info.workspace_id == self.workspace_id and self.record.sees(info.id, info.key)

    def may(self, scope: Scope, info: StoreInfo) -> bool:
        """Return whether the key has a scope in a memory store."""
        return self.sees(info) and self.within(info).key.allows(scope)

    @property
    def record(self) -> KeyRecord:
        """The key with all its rights."""
        return self.whole or self.key

    def within(self, info: StoreInfo) -> Caller:
        """Return the caller with its rights in one memory store. Raises `HttpError` 404 if it may not see the store."""
        key = self.record.within(info.id, info.key) if self.sees(info) else None
        if key is None:
            raise missing(NO_STORE)
        return replace(self, key=key, whole=self.record)


@dataclass(slots=True)
class RouteCall:
    """Request to a route. `ids` contains the ids in the path of the URL, such as `memory_store_id`."""

    location: ServedLocation
    caller: Caller
    method: str
    path: str
    """Path of the URL."""
    ids: Mapping[str, str] = field(default_factory=dict)
    scopes: tuple[Scope, ...] = ()
    """Scopes of the route, of which the caller needs one. Empty if that was checked."""
    last_event_id: str | None = None
    """Header `Last-Event-ID`, which a client sends when it reconnects."""
    request: RequestKey | None = None
    """Idempotency key of the request. A request with the same key as an earlier one is not run again."""
    run: str | None = None
    """Header `Retentive-Run`: the run in which the ids of tool calls are unique."""
    upload: IO[bytes] | None = None
    """Uploaded file."""
    given: dict[str, object] = field(default_factory=dict, repr=False)
    """Fields of the query and the body, as the client sent them."""
    arguments: dict[str, object] = field(default_factory=dict, repr=False)
    """The other arguments of the handler: the fields of the query, and `body` or `upload`."""
    asked: PageQuery = field(default_factory=PageQuery)
    """Which page of a list to answer, if the route is that of a list."""

    @property
    def integration(self) -> str:
        """Name of the door in audit logs."""
        return INTEGRATION

    @property
    def logged(self) -> Mapping[str, str]:
        """Who makes a change of the location, and how: arguments of the methods that log it."""
        return {"by": str(self.caller.actor), "integration": self.integration}

    @property
    def listing(self) -> str:
        """What identifies a list: its workspace, path and filters. The cursors of its pages contain a digest of it."""
        filters = [each for each in sorted(self.given.items()) if each[0] not in _NO_FILTERS]
        return f"{self.caller.workspace_id} {self.path} {filters}"

    @property
    def start(self) -> str:
        """Key after which the page of a list begins, empty for the first page. Raises `HttpError` 400."""
        return "" if self.asked.page is None else place_in(self.asked.page, self.listing, 1)[0]

    def page(self, model: type[M], items: Iterable[Any], last: str | None) -> AnswerPage[M]:
        """Return a page of a list that shows `items`. `last` is the key after which the next page begins, if any."""
        shown: Any = AnswerPage[model]  # type: ignore[valid-type]
        data = [model.of(each) if issubclass(model, ObjectOf) else each for each in items]
        return shown(data=data, next_page=next_of(last, self.listing))  # type: ignore[no-any-return]

    @property
    def info(self) -> StoreInfo:
        """Current description of the memory store in the path. Raises `HttpError` 404 if the caller may not see it."""
        return self._seen(self.location.info(self.ids["memory_store_id"]))

    @property
    def store(self) -> MemoryStore:
        """Memory store in the path, opened for the caller. Raises `HttpError` 404 if the caller may not see it.

        This check uses a cached description. This is safe, because the id, key and workspace of a memory store
        never change.
        """
        is_whole = bool(self.scopes) and OF_PATHS.isdisjoint(self.scopes)
        info, store = self.location.store(self.ids["memory_store_id"], self.caller, is_whole=is_whole)
        self._seen(info)
        return store if self.request is None else with_options(store, request=self.request)

    def _seen(self, info: StoreInfo) -> StoreInfo:
        if not self.caller.sees(info):
            raise missing(NO_STORE)
        return info

    def answered_by(self, handler: Handler) -> RouteAnswer:
        """Call a handler with the query and the body, and return its result.

        If the handler fails because the memory store was erased meanwhile, `HttpError` 404 is raised instead. If the
        object with the last id in the path is missing, the message does not tell which one.
        """
        try:
            self.enter()
            return handler(self, **self.arguments)
        except (RetentiveError, HttpError) as error:
            if "memory_store_id" in self.ids:
                self.check_store()
            names = [name for name in self.ids if name != "memory_store_id"]
            if isinstance(error, NotFound) and names:
                raise missing(names[-1].removesuffix("_id").replace("_", " ")) from None
            raise

    def enter(self) -> None:
        """Limit the caller to its rights in the memory store in the path. Raises `HttpError` 404 or 403."""
        if self.caller.key.grants and "memory_store_id" in self.ids:
            self.caller = self.caller.within(self.info)
            if self.scopes and not any(map(self.caller.key.allows, self.scopes)):
                raise lacking(self.scopes)

    def check_store(self) -> None:
        """Raise `HttpError` 404 if the memory store in the path does not exist or the caller may not see it."""
        _ = self.info


def lacking(scopes: tuple[Scope, ...]) -> HttpError:
    """Return the error for a key that has none of the scopes."""
    return forbidden(f"the API key needs the scope {' or '.join(scopes)}")


@dataclass(frozen=True, slots=True)
class Streamed:
    """Response that is sent from a file, such as an export. The file is closed then."""

    file: IO[bytes]
    media_type: str


@dataclass(frozen=True, slots=True)
class Events:
    """Response that streams the changes of a memory store as they happen.

    `after` is the part of a version id that sorts by time. The stream contains the changes after that version.
    `may_continue` is called before each batch of changes. The stream ends when it returns False.
    """

    store: MemoryStore
    after: str
    may_continue: Callable[[], bool]


class ClosingResponse(StreamingResponse):
    """Response of pieces or a file, which it closes, or calls `close`, even if the client is gone before the first."""

    def __init__(
        self,
        content: Iterator[bytes] | AsyncIterator[bytes] | IO[bytes],
        media_type: str,
        *,
        close: Callable[[], None] | None = None,
        **options: Any,
    ) -> None:
        read = getattr(content, "read", None)
        pieces = content if read is None else iter(partial(read, CHUNK), b"")
        super().__init__(pieces, media_type=media_type, **options)
        self._close: Callable[[], None] = getattr(content, "close", lambda: None) if close is None else close

    async def __call__(self, scope: RequestScope, receive: Receive, send: Send) -> None:
        """Send the response, then close its content."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


RouteAnswer: TypeAlias = "Answer | Streamed | Events"
Handler: TypeAlias = Callable[..., RouteAnswer]


Method: TypeAlias = Literal["GET", "POST", "DELETE"]
H = TypeVar("H", bound=Handler)
M = TypeVar("M", bound=Answer)
_NAMES = re.compile(r"\{(\w+)\}")
STORES = "/v1/memory_stores"
STORE = f"{STORES}/{{memory_store_id}}"
READ: tuple[Scope, ...] = ("read",)
WRITE: tuple[Scope, ...] = ("write",)
REVIEW: tuple[Scope, ...] = ("review",)
ERASE: tuple[Scope, ...] = ("erase",)
ADMIN: tuple[Scope, ...] = ("admin",)


@dataclass(frozen=True, slots=True)
class Route:
    """Route of the API: an HTTP method and a path, with the function that handles the requests.

    An API key needs one of the `scopes`. The handler gets a `RouteCall`, the `body` or the `upload`, and the fields of
    the query or, if there are many, the `query` itself.
    """

    method: Method
    path: str
    scopes: tuple[Scope, ...]
    handler: Handler
    query: type[Fields] = Fields
    body: type[Fields] | None = None
    answer: type[Answer] | None = None
    """Model of the answer. None if the answer is a stream."""
    media_types: tuple[str, ...] = ()
    """Media types of a stream."""
    conflicts: bool = False
    """True if a response can have status 409."""
    upload: tuple[str, ...] = ()
    """Media types of the body if the body is a file.

    Such a body is streamed, so the size limit of JSON bodies does not apply.
    """
    is_long: bool = False
    """True if the handler may take minutes."""

    @property
    def is_of_workspace(self) -> bool:
        """True if the caller needs one of the scopes for the whole workspace, and not only in some memory store."""
        return self.scopes == ADMIN and not self.path.startswith(STORES)

    @property
    def path_names(self) -> tuple[str, ...]:
        """Names of the ids in the path."""
        return tuple(_NAMES.findall(self.path))

    @property
    def name(self) -> str:
        """Name of the operation, such as `create_memory`."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """First sentence of the documentation of the handler."""
        return str(self.handler.__doc__).partition("\n")[0].removesuffix(".")


class Routes(list[Route]):
    """Routes of one module, in the order of their functions."""

    def __call__(
        self, method: Method, path: str, scopes: tuple[Scope, ...], *media_types: str, pages: bool = False,
        **options: Any,
    ) -> Callable[[H], H]:  # fmt: skip
        """Return a decorator that adds a route. With `pages`, the query says which page to answer (`RouteCall.asked`).

        `options` are fields of `Route`.
        """
        base = PageQuery if pages else Fields

        def add(handler: H) -> H:
            hints = get_type_hints(handler, include_extras=True)
            body, answer = hints.get("body"), None if media_types else hints["return"]
            fields: dict[str, Any] = {
                each.name: (hints[each.name], ... if each.default is each.empty else each.default)
                for each in signature(handler).parameters.values()
                if each.name not in {"call", "body", "upload", "query"}
            }
            query = create_model(handler.__name__, __base__=base, **fields) if fields else hints.get("query", base)
            self.append(Route(method, path, scopes, handler, query, body, answer, media_types, **options))
            return handler

        return add
