"""Reads and changes memories on a server by their ids."""

from __future__ import annotations

from typing import Unpack

from retentive.errors import InvalidInput, NotFound
from retentive.remote.calls import RemotePart, Who, like, segment, sent_path
from retentive.store.by_id import ById
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Memory, Written
from retentive.wire.memories import MemoryDeleted, MemoryObject


class RemoteById(RemotePart, ById):
    """Access by id over HTTP. The server refuses a text with sensitive values; a local store may redact them."""

    async def _found(self, memory_id: str) -> MemoryObject:
        try:
            return await self._store.get(MemoryObject, f"/memories/{segment(memory_id)}")
        except NotFound:
            raise NotFound(f"there is no memory {memory_id}") from None

    @like(ById.get)
    async def get(self, memory_id: str) -> tuple[Memory, str]:
        found = await self._found(memory_id)
        return found.value(), found.content or ""

    @like(ById.update)
    async def update(
        self, memory_id: str, text: str | None, path: str | None, if_sha256: str | None, actor: Who,
        **origin: Unpack[Origin],
    ) -> Written:  # fmt: skip
        if text is None and path is None:
            raise InvalidInput("specify a text, a path or both")
        before = await self._found(memory_id)
        condition = None if if_sha256 is None else {"type": "content_sha256", "content_sha256": if_sha256}
        target = None if path is None else sent_path(path)
        body = {"content": text, "path": target, "precondition": condition, **origin_of(**origin)}
        answer = await self._store.post(MemoryObject, f"/memories/{segment(memory_id)}", body, actor)
        found, is_changed = answer.value(), answer.memory_version_id != before.memory_version_id
        return Written(found.path, found.version_id, int(is_changed), memory_id=found.id, memory=found)

    @like(ById.delete)
    async def delete(self, memory_id: str, if_sha256: str | None, actor: Who, **origin: Unpack[Origin]) -> Written:
        found = (await self._found(memory_id)).value()
        query = {"expected_content_sha256": if_sha256, **origin_of(**origin)}
        await self._store.call(MemoryDeleted, "DELETE", f"/memories/{segment(memory_id)}", actor, query=query)
        return Written(found.path, found.version_id, 1, memory_id=found.id, memory=found)
