"""Open location on a server."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn
from urllib.parse import urlsplit

from retentive.errors import InvalidInput, NotFound, PermissionDenied
from retentive.history.removal import Removed
from retentive.remote.calls import Remote, Who, like, no_route
from retentive.remote.client import Client
from retentive.remote.store import RemoteStore
from retentive.store.location import DEFAULT_KEY, ID, Retentive
from retentive.values.listing import ListPage
from retentive.values.properties import StoreInfo
from retentive.values.records import DEFAULT_WORKSPACE, Actor
from retentive.wire.base import AnswerPage, DeletedObject
from retentive.wire.stores import StoreObject


class RemoteLocation(Remote, Retentive):
    """Server with memory stores. Threads and event loops may share it."""

    base = "/v1/memory_stores"

    def __init__(self, server: ServerAddress, *, actor: Actor | None, create: bool) -> None:
        self.client = Client(server)
        self._actor = actor
        self._creates = create

    def __repr__(self) -> str:
        return "<RemoteLocation>"

    def _by(self) -> Actor | None:
        return self._actor

    def __getattr__(self, name: str) -> NoReturn:
        if name == "backend":
            raise no_route()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @like(Retentive.store)
    def store(self, id_or_key: str | None, name: str | None, workspace: str) -> RemoteStore:
        key = DEFAULT_KEY if id_or_key is None else id_or_key
        found = self._found(key, workspace)
        if found is None and self._creates and not ID.fullmatch(key):
            try:
                found = self.post(StoreObject, "", {"name": name or key, "key": key})
            except PermissionDenied as error:
                if error.code != PermissionDenied.code:
                    raise
                raise NotFound(
                    f"there is no memory store {key!r}, and the API key is not allowed to create it"
                ) from None
        return RemoteStore(self.client, _existing(found, key), self._actor)

    def _found(self, id_or_key: str, workspace: str) -> StoreObject | None:
        if workspace != DEFAULT_WORKSPACE:
            raise InvalidInput(_OWN_WORKSPACE)
        if not ID.fullmatch(id_or_key):
            query = {"key": id_or_key, "include_archived": True}
            return next(iter(self.get(AnswerPage[StoreObject], "", query).data), None)
        try:
            return self.get(StoreObject, f"/{id_or_key}")
        except NotFound:
            return None

    def _at(self, id_or_key: str, workspace: str = DEFAULT_WORKSPACE) -> str:
        return f"/{_existing(self._found(id_or_key, workspace), id_or_key).id}"

    @like(Retentive.stores)
    def stores(self) -> list[StoreInfo]:
        found = self.pages(AnswerPage[StoreObject], "", {"include_archived": True})
        return [each.value() for each in found][::-1]

    @like(Retentive.create_store)
    def create_store(
        self, name: str, description: str, metadata: Mapping[str, str] | None, key: str | None, workspace: str
    ) -> StoreInfo:
        if workspace != DEFAULT_WORKSPACE:
            raise InvalidInput(_OWN_WORKSPACE)
        body = {"name": name, "description": description, "metadata": metadata, "key": key}
        return self.post(StoreObject, "", body, is_once=key is None).value()

    @like(Retentive.get_store)
    def get_store(self, id_or_key: str, workspace: str) -> StoreInfo:
        return _existing(self._found(id_or_key, workspace), id_or_key)

    @like(Retentive.list_stores)
    def list_stores(
        self, workspace: str | None, created_from: datetime | None, created_to: datetime | None, after: str | None,
        limit: int, *, include_archived: bool,
    ) -> ListPage[StoreInfo, str]:  # fmt: skip
        query = {
            "include_archived": include_archived,
            "created_at[gte]": created_from,
            "created_at[lte]": created_to,
            "limit": min(limit, 100),
            "page": after,
        }
        found = self.get(AnswerPage[StoreObject], "", query)
        return ListPage(tuple(each.value() for each in found.data), found.next_page)

    @like(Retentive.update_store)
    def update_store(
        self, id_or_key: str, *, name: str | None, description: str | None, metadata: Mapping[str, str | None] | None,
        workspace: str, actor: Who,
    ) -> StoreInfo:  # fmt: skip
        body = {"name": name, "description": description, "metadata": metadata}
        return self.post(StoreObject, self._at(id_or_key, workspace), body, actor).value()

    @like(Retentive.archive_store)
    def archive_store(self, id_or_key: str, workspace: str, actor: Who) -> StoreInfo:
        return self.post(StoreObject, f"{self._at(id_or_key, workspace)}/archive", None, actor).value()

    @like(Retentive.erase)
    def erase(self, id_or_key: str, actor: Who) -> Removed:
        path = self._at(id_or_key)
        with suppress(NotFound):  # an earlier attempt of this request has erased it, and its answer was lost
            self.call(DeletedObject, "DELETE", path, actor)
        return Removed(0, pending=False)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def _existing(found: StoreObject | None, id_or_key: str) -> StoreInfo:
    if found is None:
        raise NotFound(f"there is no memory store {id_or_key!r}")
    return found.value()


_OWN_WORKSPACE = "a server uses the workspace of the API key; omit `workspace`"
KEY_VARIABLE = "RETENTIVE_API_KEY"
_INVALID_URL = "the URL of the server is invalid; use https://host or https://host:port"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of a server, and the API key and options for connecting to it. `url` has no slash at its end."""

    url: str
    is_loopback: bool
    api_key: str = field(repr=False)
    ca_file: str | None = None


def server_at(
    url: str, *, api_key: str | None = None, ca_file: str | None = None, insecure: bool = False
) -> ServerAddress:
    """Parse the URL of a server. The API key comes from the argument or from the environment.

    Raises `InvalidInput`. The error contains neither the key nor the URL, because the URL may contain a password.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidInput(_INVALID_URL) from None
    if not host or port == 0 or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput(_INVALID_URL)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidInput(
            "the URL of a server must not have a user, query or fragment; "
            f"pass the API key as `api_key`, or set {KEY_VARIABLE}"
        )
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if parts.scheme == "http" and not insecure and not is_loopback:
        raise InvalidInput("http sends the API key and all memories unencrypted; use https, or pass insecure=True")
    key = api_key if api_key is not None else os.environ.get(KEY_VARIABLE, "")
    if not key:
        raise InvalidInput(f"to connect to a server, pass an API key as `api_key`, or set {KEY_VARIABLE}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput("the API key contains an invalid character")
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return ServerAddress(base, is_loopback, key, ca_file)
