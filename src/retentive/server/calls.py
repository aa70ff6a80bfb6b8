"""The arguments of handlers: the location, the caller, and the memory store of the request."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from retentive.errors import NotFound, RetentiveError
from retentive.opening import Retentive
from retentive.server.errors import HttpError, missing
from retentive.server.key_store import KeyStore
from retentive.server.keys import KeyRecord
from retentive.server.webhooks import Webhooks
from retentive.storage.contract import Actor, StoreInfo
from retentive.store import MemoryStore, for_request, limited_to
from retentive.store.location_records import LocationRecords
from retentive.values.records import SYSTEM_STORE, RequestKey

if TYPE_CHECKING:
    from retentive.server.uploads import Upload

Json: TypeAlias = dict[str, object]
INTEGRATION = "http"
"""Name of the server in audit logs."""
NO_STORE = "memory store"
_MAX_OPEN = 1_000


class ServedLocation:
    """An open location that the server serves. Threads share it."""

    def __init__(self, opened: Retentive, keys: KeyStore | None = None, *, webhooks_to_private: bool = False) -> None:
        self.opened = opened
        self.keys = keys or KeyStore(LocationRecords(opened.backend))
        self.webhooks = Webhooks(opened)
        self.webhooks_to_private = webhooks_to_private
        self._stores: OrderedDict[tuple[str, Actor, tuple[str, ...]], tuple[StoreInfo, MemoryStore]] = OrderedDict()
        self._lock = Lock()

    def store(self, store_id: str, caller: Caller) -> tuple[StoreInfo, MemoryStore]:
        """Return the description of a memory store, and the store opened for a caller. Raises `NotFound`.

        An LRU cache keeps both, so the description may be out of date. An open store keeps its own caches.
        """
        key = store_id, caller.actor, caller.key.paths
        with self._lock:
            found = self._stores.get(key)
            if found is not None:
                self._stores.move_to_end(key)
                return found
        info = self.info(store_id)
        opened = self.opened.store(info.id).through(INTEGRATION).acting_as(caller.actor)
        found = info, limited_to(opened, caller.key.paths)
        with self._lock:
            self._stores[key] = found
            if len(self._stores) > _MAX_OPEN:
                self._stores.popitem(last=False)
        return found

    def info(self, store_id: str) -> StoreInfo:
        """Description of a memory store. Raises `NotFound`."""
        found = self.opened.backend.get_store(store_id) if store_id.startswith("memstore_") else None
        if found is None or found.id != store_id:
            raise NotFound(NO_STORE)
        return found


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: the key, and the actor of its changes."""

    key: KeyRecord
    actor: Actor

    @property
    def workspace_id(self) -> str:
        """Workspace of the key."""
        return self.key.workspace_id

    def sees(self, info: StoreInfo) -> bool:
        """Return whether the memory store is in the workspace and within the patterns of the key."""
        if info.erased_at is not None or info.id == SYSTEM_STORE:
            return False
        return info.workspace_id == self.workspace_id and self.key.sees(info.id, info.key)


@dataclass(frozen=True, slots=True)
class RouteCall:
    """One request. `ids` are the ids in its path."""

    location: ServedLocation
    caller: Caller
    method: str
    path: str
    """Path of the request."""
    last_event_id: str | None = None
    """The header `Last-Event-ID` of a client that connects again."""
    ids: Mapping[str, str] = field(default_factory=dict)
    request: RequestKey | None = None
    """From the header `Idempotency-Key`. The operations of a repeated request do not run again."""
    uploaded: Upload | None = None

    @property
    def upload(self) -> Upload:
        """The uploaded body. Only routes with an upload have one."""
        assert self.uploaded is not None
        return self.uploaded

    @property
    def info(self) -> StoreInfo:
        """The memory store that the path names. Raises `HttpError` 404 if the caller may not see it."""
        try:
            return self._seen(self.location.info(self.ids["memory_store_id"]))
        except NotFound:
            raise missing(NO_STORE) from None

    @property
    def store(self) -> MemoryStore:
        """The open memory store that the path names. Raises `HttpError` like `info`.

        Id, key and workspace of a store never change, so a cached description shows whether the caller may see it.
        """
        try:
            info, store = self.location.store(self.ids["memory_store_id"], self.caller)
        except NotFound:
            raise missing(NO_STORE) from None
        self._seen(info)
        return store if self.request is None else for_request(store, self.request)

    def _seen(self, info: StoreInfo) -> StoreInfo:
        if not self.caller.sees(info):
            raise missing(NO_STORE)
        return info

    def answered_by(self, handler: Handler, fields: Mapping[str, object]) -> RouteAnswer:
        """Return the answer of a handler. If it fails, and the memory store was erased, raise `HttpError` 404."""
        try:
            return handler(self, **fields)
        except (RetentiveError, HttpError):
            if "memory_store_id" in self.ids:
                self.check_store()
            raise

    def check_store(self) -> None:
        """Raise `HttpError` 404 if the memory store of the request no longer exists."""
        _ = self.info


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer that is sent in pieces, such as an export."""

    pieces: Generator[bytes]
    media_type: str


@dataclass(frozen=True, slots=True)
class Events:
    """An answer that sends the changes of a memory store after a cursor, as they happen.

    The cursor is the part of a version id that sorts by time. `may_continue` is called before each batch.
    """

    store: MemoryStore
    after: str
    may_continue: Callable[[], bool]


RouteAnswer: TypeAlias = "Json | Streamed | Events"
Handler: TypeAlias = Callable[..., RouteAnswer]
