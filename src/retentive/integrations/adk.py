"""Memory service for Google's Agent Development Kit: `Runner(..., memory_service=AdkMemoryService(...))`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import quote

from pydantic import ValidationError

from retentive import aio
from retentive.values.extras import pip_install

try:
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai import types
except ImportError as error:
    raise ImportError(f"AdkMemoryService needs Google ADK: {pip_install('adk')}") from error

from retentive import opening
from retentive.errors import Damaged, InvalidInput, NotFound
from retentive.integrations.documents import (
    in_batches,
    json_object,
    json_text,
    memories_below,
    ranked,
    segment,
    segment_name,
    settled,
    until_no_conflict,
)
from retentive.integrations.memory import ActorLike, MemoryLocation, acting, unwrapped
from retentive.opening import Retentive
from retentive.store import MemoryStore
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

StoreOfUser: TypeAlias = Callable[[str, str], MemoryStore]
_SUFFIX = ".json"


class AdkMemoryService(BaseMemoryService):
    """Memory service with one memory store for each user of each app. Threads and processes may share a location.

    `memory` is a location: a directory, a URL or an opened location. It can also be a function that takes an app name
    and a user id and returns a memory store. `actor` is recorded with each change.

    Each event with text becomes one memory. An event is added only once: if its session is added again, an edited
    memory is not overwritten, and a deleted memory is not restored. A search returns the best `limit` memories that
    contain any word of the query, in any word form.

    The methods raise `NotImplementedError` for their argument `custom_metadata`. The field `custom_metadata` of a
    `MemoryEntry` is stored. Ids that are too long for a file name, and contents over the limits of the
    store, raise `InvalidInput`.
    """

    def __init__(self, memory: MemoryLocation | StoreOfUser, *, actor: ActorLike = None, limit: int = 10) -> None:
        self._location = _location(memory)
        self._actor, self._limit = actor, limit

    async def add_session_to_memory(self, session: Session) -> None:
        """Add those events of a session that have not been added before."""
        await self._add(session.app_name, session.user_id, session.id, session.events)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add events that were not added before."""
        _refuse(custom_metadata)
        await self._add(app_name, user_id, session_id, events)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Write entries. An earlier entry with the same id is replaced.

        If an entry has no id, its id is made from its content.
        """
        _refuse(custom_metadata)
        texts = dict(_entry_document(entry) for entry in memories)

        def write() -> None:
            store = self._store(app_name, user_id)
            in_batches(store, [{"command": "write", "path": path, "file_text": text} for path, text in texts.items()])

        await settled(write)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the memories of the user that match the words of a query, best first."""
        found = await aio.in_thread(self._search, app_name, user_id, query)
        return SearchMemoryResponse(memories=found)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete a memory by the id that `search_memory` returned. An unknown id changes nothing."""
        if memory_id:
            await settled(lambda: until_no_conflict(lambda: self._delete(app_name, user_id, memory_id)))

    def _store(self, app_name: str, user_id: str) -> MemoryStore:
        """Return the memory store of a user of an app. If `memory` is a location, the store is created on first use."""
        location = self._location
        found = (
            location.store(_key(app_name, user_id)) if isinstance(location, Retentive) else location(app_name, user_id)
        )
        return acting(found, "adk", self._actor)

    def _known_store(self, app_name: str, user_id: str) -> MemoryStore | None:
        """Return the store of a user, or None if it does not exist."""
        if isinstance(self._location, Retentive):
            try:
                self._location.get_store(_key(app_name, user_id))
            except NotFound:
                return None
        return self._store(app_name, user_id)

    async def _add(self, app_name: str, user_id: str, session_id: str | None, events: Sequence[Event]) -> None:
        under = f"{ROOT}/events" if session_id is None else f"{ROOT}/sessions/{segment('a session id', session_id)}"
        texts = dict(_event_document(under, event) for event in events if _text(event.content))

        def add() -> None:
            store = self._store(app_name, user_id)
            known = {memory.path for memory in store.memories(under)}
            new = [path for path in texts if path not in known and not store.versions(path, limit=1)]
            in_batches(
                store,
                [{"command": "write", "path": path, "file_text": texts[path], "if_version": ""} for path in new],
            )

        if texts:
            await settled(lambda: until_no_conflict(add))

    def _search(self, app_name: str, user_id: str, query: str) -> list[MemoryEntry]:
        store = self._known_store(app_name, user_id)
        if store is None or not query.strip():
            return []
        entries = {
            memory.path: (memory, _entry(memory.path, text))
            for memory, text in memories_below(store, ROOT)
            if _is_entry(memory.path)
        }
        texts = [(memory, _text(entry.content)) for memory, entry in entries.values()]
        return [entries[path][1] for path, _ in ranked(store, query, texts)[: self._limit]]

    def _delete(self, app_name: str, user_id: str, memory_id: str) -> None:
        store = self._known_store(app_name, user_id)
        if store is None:
            return
        found = [each for each in store.memories() if _is_entry(each.path) and _id(each.path) == memory_id]
        in_batches(store, [{"command": "delete", "path": each.path, "if_version": each.version_id} for each in found])


def _location(memory: Any) -> Retentive | StoreOfUser:
    location = unwrapped(memory)
    if isinstance(location, str | os.PathLike):
        return opening.open(location)
    if isinstance(location, Retentive):
        return location
    if callable(location):
        return cast("StoreOfUser", location)
    raise InvalidInput(
        "`memory` must be a location (a directory, sqlite:///...), an opened location, or a function that returns the "
        "memory store for an app name and a user id"
    )


def _key(app_name: str, user_id: str) -> str:
    return "/".join(quote(each, safe="@ ") for each in (app_name, user_id))


def _refuse(custom_metadata: Mapping[str, object] | None) -> None:
    if custom_metadata:
        raise NotImplementedError(
            "`custom_metadata` is not supported as an argument; set the field `custom_metadata` of each `MemoryEntry`. "
            "To expire memories, use the setting `expire_after_days`"
        )


def _text(content: types.Content | None) -> str:
    parts = content.parts if content is not None and content.parts else []
    return "\n".join(part.text for part in parts if part.text)


def _event_document(under: str, event: Event) -> tuple[str, str]:
    value = {
        "author": event.author,
        "timestamp": datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
        "content": _as_json(event.content),
    }
    return f"{under}/{segment('an event id', event.id, _SUFFIX)}", json_text(value)


def _entry_document(entry: MemoryEntry) -> tuple[str, str]:
    fields = {"author": entry.author, "timestamp": entry.timestamp, "custom_metadata": entry.custom_metadata or None}
    value = {name: each for name, each in fields.items() if each is not None} | {"content": _as_json(entry.content)}
    text = json_text(value)
    name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32] if entry.id is None else entry.id
    return f"{ROOT}/entries/{segment('a memory id', name, _SUFFIX)}", text


def _as_json(content: types.Content | None) -> object:
    assert content is not None
    return content.model_dump(mode="json", exclude_none=True)


def _is_entry(path: str) -> bool:
    match path.removeprefix(ROOT + "/").split("/"):
        case ["events" | "entries", name] | ["sessions", _, name]:
            return name.endswith(_SUFFIX)
    return False


def _id(path: str) -> str:
    return segment_name(path.rpartition("/")[2], _SUFFIX)


def _entry(path: str, text: str) -> MemoryEntry:
    """Parse the entry in a memory. Raises `Damaged` if the text is not an entry."""
    try:
        return MemoryEntry.model_validate({**json_object(path, text), "id": _id(path)})
    except ValidationError:
        raise Damaged(
            f"{path} does not contain an entry of ADK; restore an earlier version of the memory, or delete the memory"
        ) from None
