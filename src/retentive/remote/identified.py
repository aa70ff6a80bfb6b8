"""Reads and changes memories on a server by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from retentive.errors import InvalidInput, NotFound
from retentive.remote import objects
from retentive.remote.methods import RemotePart, exchange, get, post
from retentive.remote.requests import HttpExchange, HttpRequest, JsonBody, segment
from retentive.store.by_id import ById
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Actor, Memory, Written
from retentive.wire.memories import MemoryObject

if TYPE_CHECKING:
    pass


class RemoteById(RemotePart, ById):
    """Access by id over HTTP."""

    def _path(self, memory_id: str) -> str:
        return f"/memories/{segment(memory_id)}"

    def _found(self, memory_id: str) -> HttpExchange[MemoryObject]:
        try:
            return (yield from get(self._store, MemoryObject, self._path(memory_id)))
        except NotFound:
            raise NotFound(f"there is no memory {memory_id}") from None

    @exchange
    def get(self, memory_id: str) -> HttpExchange[tuple[Memory, str]]:
        """Return the memory with the id `memory_id`, and its text. Raises `NotFound`."""
        found = yield from self._found(memory_id)
        return found.memory(), found.content or ""

    @exchange
    def update(
        self,
        memory_id: str,
        *,
        text: str | None = None,
        path: str | None = None,
        if_sha256: str | None = None,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> HttpExchange[Written]:
        """Replace the text of a memory, its path, or both. Changing both creates only one version.

        `Written.memory` is the new state of the memory. The server refuses a text with sensitive values. A local memory
        store may redact them instead.
        """
        if text is None and path is None:
            raise InvalidInput("specify a text, a path or both")
        before = yield from self._found(memory_id)
        condition = None if if_sha256 is None else {"type": "content_sha256", "content_sha256": if_sha256}
        target = None if path is None else objects.api_path(objects.parsed(path))
        body: JsonBody = {"content": text, "path": target, "precondition": condition, **origin_of(**origin)}
        found = (yield from post(self._store, MemoryObject, self._path(memory_id), body, actor)).memory()
        changed = int(found.version_id != before.memory_version_id)
        return Written(found.path, found.version_id, changed, memory_id=found.id, memory=found)

    @exchange
    def delete(
        self,
        memory_id: str,
        *,
        if_sha256: str | None = None,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> HttpExchange[Written]:
        """Delete the memory with the id `memory_id`. `Written.memory` is its last state."""
        found = (yield from self._found(memory_id)).memory()
        query = {"expected_content_sha256": if_sha256, **origin_of(**origin)}
        path, sender = self._store.base + self._path(memory_id), self._store.sender(actor)
        yield HttpRequest("DELETE", path, query, actor=sender, repeats=True)
        return Written(found.path, found.version_id, 1, memory_id=found.id, memory=found)
