"""Open location on a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from datetime import datetime
from typing import Any, NoReturn

from retentive.errors import InvalidInput, NotFound, PermissionDenied
from retentive.history.removal import Removed
from retentive.remote import objects
from retentive.remote.access import Access, Address
from retentive.remote.client import Client
from retentive.remote.methods import exchange, get, no_route, pages, post, unsupported
from retentive.remote.requests import HttpExchange, HttpRequest, segment
from retentive.remote.store import RemoteStore
from retentive.store.location import DEFAULT_KEY, ID, Retentive
from retentive.values.listing import ListPage
from retentive.values.properties import StoreInfo
from retentive.values.records import DEFAULT_WORKSPACE, Actor, as_actor
from retentive.wire.base import AnswerPage
from retentive.wire.stores import StoreObject
from retentive.wire.transfers import StoreImported

_WORKSPACE = "a server uses the workspace of the API key; omit `workspace`"


class RemoteLocation(Retentive):
    """Server with memory stores. Threads and event loops may share it."""

    base = "/v1/memory_stores"
    repeats_creations = True
    """True if the server creates only one memory store when a request is sent several times."""

    def __init__(self, address: Address, access: Access, *, actor: Actor | None, create: bool) -> None:
        self.client = Client(address, access)
        self._actor = actor
        self._creates = create
        self.default_sender = None if actor is None else str(actor)
        self._run: Any = self.client.run

    def __repr__(self) -> str:
        return "<RemoteLocation>"

    def __getattr__(self, name: str) -> NoReturn:
        if name == "backend":
            raise no_route("this operation")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def described(self) -> RemoteLocation:
        """Copy of the location. The methods of the copy return exchanges instead of results."""
        location = copy(self)
        location._run = lambda found: found  # noqa: SLF001 - the same class
        return location

    @exchange
    def store(
        self, id_or_key: str | None = None, *, name: str | None = None, workspace: str = DEFAULT_WORKSPACE
    ) -> HttpExchange[RemoteStore]:
        """Open a memory store. `id_or_key` is its id, or its key in the workspace of the API key.

        If the key is new, the memory store is created, unless the location was opened with `create=False`. Raises
        `NotFound` if the memory store does not exist and must not be created.
        """
        key = DEFAULT_KEY if id_or_key is None else id_or_key
        found = yield from self._found(key, workspace)
        if found is None and self._creates and not ID.fullmatch(key):
            try:
                body = {"name": name or key, "key": key}
                found = yield from post(self, StoreObject, "", body)
            except PermissionDenied as error:
                if error.code != PermissionDenied.code:
                    raise
                raise NotFound(
                    f"there is no memory store {key!r}, and the API key is not allowed to create it"
                ) from None
        if found is None:
            raise NotFound(f"there is no memory store {key!r}")
        return self._store_of(found.info())

    def _store_of(self, info: StoreInfo) -> RemoteStore:
        return RemoteStore(self.client, info, self._actor)

    def _found(self, id_or_key: str, workspace: str) -> HttpExchange[StoreObject | None]:
        if workspace != DEFAULT_WORKSPACE:
            raise InvalidInput(_WORKSPACE)
        if not ID.fullmatch(id_or_key):
            query = {"key": id_or_key, "include_archived": True}
            return next(iter((yield from get(self, AnswerPage[StoreObject], "", query)).data), None)
        try:
            return (yield from get(self, StoreObject, f"/{segment(id_or_key)}"))
        except NotFound:
            return None

    def _existing(self, id_or_key: str, workspace: str) -> HttpExchange[StoreObject]:
        found = yield from self._found(id_or_key, workspace)
        if found is None:
            raise NotFound(f"there is no memory store {id_or_key!r}")
        return found

    def through(self, integration: str) -> RemoteLocation:
        """Return this location unchanged. `retentive serve` records the integration `http` for every request."""
        return self

    @exchange
    def stores(self) -> HttpExchange[list[StoreInfo]]:
        """Return all memory stores that the API key may see, oldest first."""
        found = yield from pages(self, "", AnswerPage[StoreObject], include_archived=True)
        return [each.info() for each in reversed(found)]

    @exchange
    def create_store(
        self,
        name: str,
        *,
        description: str = "",
        metadata: Mapping[str, str] | None = None,
        key: str | None = None,
        workspace: str = DEFAULT_WORKSPACE,
    ) -> HttpExchange[StoreInfo]:
        """Create a memory store. If the workspace already has a memory store with this key, return it unchanged."""
        if workspace != DEFAULT_WORKSPACE:
            raise InvalidInput(_WORKSPACE)
        given = {} if key is None else {"key": key}
        body = {"name": name, "description": description, "metadata": metadata, **given}
        repeats = key is not None or self.repeats_creations
        return (yield from post(self, StoreObject, "", body, repeats=repeats)).info()

    @exchange
    def get_store(self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> HttpExchange[StoreInfo]:
        """Return the memory store with the id or key `id_or_key`. Raises `NotFound`."""
        return (yield from self._existing(id_or_key, workspace)).info()

    @exchange
    def list_stores(
        self,
        *,
        workspace: str | None = None,
        include_archived: bool = False,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
        after: str | None = None,
        limit: int = 20,
    ) -> HttpExchange[ListPage[StoreInfo, str]]:
        """Return one page of memory stores, newest first. A page has at most 100 memory stores."""
        query = {
            "include_archived": include_archived,
            "created_at[gte]": objects.time_text(created_from),
            "created_at[lte]": objects.time_text(created_to),
            "limit": min(limit, 100),
            "page": after,
        }
        found = yield from get(self, AnswerPage[StoreObject], "", query)
        return ListPage(tuple(each.info() for each in found.data), found.next_page)

    @exchange
    def update_store(
        self,
        id_or_key: str,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
        workspace: str = DEFAULT_WORKSPACE,
        actor: Actor | str | None = None,
    ) -> HttpExchange[StoreInfo]:
        """Change the name, the description or the metadata of a memory store. An argument that is None changes nothing.

        A value of None inside `metadata` removes that entry.
        """
        found = yield from self._existing(id_or_key, workspace)
        body = {"name": name, "description": description, "metadata": metadata}
        return (yield from post(self, StoreObject, f"/{found.id}", body, actor)).info()

    @exchange
    def archive_store(
        self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE, actor: Actor | str | None = None
    ) -> HttpExchange[StoreInfo]:
        """Archive a memory store. This cannot be reversed."""
        found = yield from self._existing(id_or_key, workspace)
        return (yield from post(self, StoreObject, f"/{found.id}/archive", None, actor)).info()

    @exchange
    def erase(self, id_or_key: str, *, actor: Actor | str | None = None) -> HttpExchange[Removed]:
        """Permanently remove a memory store with its memories, versions and records."""
        found = yield from self._existing(id_or_key, DEFAULT_WORKSPACE)
        with suppress(NotFound):  # an earlier attempt of this request has erased it, and its answer was lost
            yield HttpRequest("DELETE", f"{self.base}/{found.id}", actor=self.sender(actor), repeats=True)
        return Removed(0, pending=False)

    @exchange
    def upload(self, pieces: Callable[[], Iterator[bytes]], key: str | None) -> HttpExchange[StoreImported]:
        """Import a memory store from an archive.

        `pieces` returns the bytes of the archive; it is called for each attempt.
        """
        done: StoreImported = yield HttpRequest(
            "POST", "/v1/memory_store_imports", {"key": key}, repeats=True, upload=pieces, answer=StoreImported
        )
        return done

    def sender(self, actor: Actor | str | None = None) -> str | None:
        """Return the actor to send with a request, as text. Raises `InvalidInput`."""
        found = as_actor(actor)
        return self.default_sender if found is None else str(found)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    records = property(unsupported("records"))
