"""Takes the place of `_fake_anthropic.py` in the SDK's tests of directory synchronisation: the memory is on a server.

It has the names and the behaviour of the file that it replaces, and sends every request to `RETENTIVE_TEST_URL`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from types import SimpleNamespace
from typing import Any

import httpx2
from anthropic import Anthropic, APIStatusError, AsyncAnthropic

OPTIONS: dict[str, Any] = {
    "base_url": os.environ["RETENTIVE_TEST_URL"],
    "api_key": os.environ["RETENTIVE_TEST_KEY"],
    "_strict_response_validation": True,
}


def _sha(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def _status_error(code: int) -> APIStatusError:
    request = httpx2.Request("POST", "https://api.example/v1/memory")
    return APIStatusError(f"status {code}", response=httpx2.Response(code, request=request), body=None)


class _Files(MutableMapping[str, "str | None"]):
    """The memories of a store as a mapping of paths to contents. Every access is a request."""

    def __init__(self, client: Anthropic, store_id: str) -> None:
        self._memories = client.beta.memory_stores.memories
        self._store_id = store_id

    def _listed(self, view: Any = "basic") -> dict[str, Any]:
        found = self._memories.list(self._store_id, view=view, limit=100)
        return {each.path[1:]: each for each in found if each.type == "memory"}

    def __getitem__(self, path: str) -> str | None:
        content: str | None = self._listed("full")[path].content
        return content

    def __setitem__(self, path: str, content: str | None) -> None:
        known = self._listed().get(path)
        if known is None:
            self._memories.create(self._store_id, path=f"/{path}", content=content or "")
        else:
            self._memories.update(known.id, memory_store_id=self._store_id, content=content or "")

    def __delitem__(self, path: str) -> None:
        self._memories.delete(self._listed()[path].id, memory_store_id=self._store_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed())

    def __len__(self) -> int:
        return len(self._listed())

    def __eq__(self, other: object) -> bool:
        return {path: each.content for path, each in self._listed("full").items()} == other

    __hash__ = None  # type: ignore[assignment]  # it is compared by its contents

    def __repr__(self) -> str:
        return repr(dict(self))


class MemoryServer:
    """A memory store, and the requests that the code under test sent to it."""

    def __init__(self, initial: Mapping[str, str | None]) -> None:
        self.client = Anthropic(**OPTIONS)
        self.store_id = self.client.beta.memory_stores.create(name="notes").id
        self.files: MutableMapping[str, str | None] = _Files(self.client, self.store_id)
        for path, content in initial.items():
            self.files[path] = content
        self.received: list[tuple[Any, ...]] = []
        self.retrieves: list[str] = []
        self.content_fetches: list[str] = []
        self.fetch_hook: Callable[[str], None] | None = None
        self.upload_hook: Callable[[str], Awaitable[None]] | None = None
        self.names: dict[str, str] = {}

    @property
    def max_content_bytes(self) -> int | None:
        """Limit of a memory."""
        return None

    @max_content_bytes.setter
    def max_content_bytes(self, limit: int) -> None:
        self.client.post(
            f"/v1/memory_stores/{self.store_id}/settings", cast_to=object, body={"max_memory_bytes": limit}
        )

    def write(self, path: str, content: str) -> None:
        self.files[path] = content

    def delete(self, path: str) -> None:
        del self.files[path]


def created(path: str, content: str) -> tuple[Any, ...]:
    return ("create", path, content)


def updated(path: str, content: str, *, was: str) -> tuple[Any, ...]:
    return ("update", path, content, _sha(was))


def deleted(path: str, *, was: str) -> tuple[Any, ...]:
    return ("delete", path, _sha(was))


class _Resource:
    """The resource `memories` of the asynchronous client, which records what the code under test sends.

    The tests have fixed ids of stores; each means the store of this resource.
    """

    def __init__(self, server: MemoryServer, *, noise: bool = False) -> None:
        self._server, self._memories, self._noise = server, AsyncAnthropic(**OPTIONS).beta.memory_stores.memories, noise

    def _own(self, options: dict[str, Any]) -> dict[str, Any]:
        return options | {"memory_store_id": self._server.store_id}

    def list(self, memory_store_id: str, **options: Any) -> AsyncIterator[Any]:
        async def found() -> AsyncIterator[Any]:
            if self._noise:
                yield SimpleNamespace(type="memory_prefix", path="/projects/")
            if memory_store_id == "memstore_broken":
                content = "partial" if options.get("view") == "full" else None
                sha = _sha("partial")
                yield SimpleNamespace(
                    type="memory", id="mem:half", path="/half.md", content=content, content_sha256=sha
                )
                raise RuntimeError("list exploded")
            async for each in self._memories.list(self._server.store_id, **options):
                if each.type == "memory":
                    self._server.names[each.id] = each.path[1:]
                yield each

        return found()

    async def retrieve(self, memory_id: str, **options: Any) -> Any:
        path = self._server.names.get(memory_id, memory_id)
        self._server.content_fetches.append(path)
        if self._server.fetch_hook is not None:
            self._server.fetch_hook(path)
        return await self._memories.retrieve(memory_id, **self._own(options))

    async def create(self, _memory_store_id: str, *, path: str, content: str) -> Any:
        if self._server.upload_hook is not None:
            await self._server.upload_hook(path[1:])
        self._server.received.append(created(path[1:], content))
        made = await self._memories.create(self._server.store_id, path=path, content=content)
        self._server.names[made.id] = path[1:]
        return made

    async def update(self, memory_id: str, **options: Any) -> Any:
        path = self._server.names.get(memory_id, memory_id)
        if self._server.upload_hook is not None:
            await self._server.upload_hook(path)
        sha = options["precondition"]["content_sha256"]
        self._server.received.append(("update", path, options["content"], sha))
        return await self._memories.update(memory_id, **self._own(options))

    async def delete(self, memory_id: str, **options: Any) -> Any:
        path = self._server.names.get(memory_id, memory_id)
        self._server.received.append(("delete", path, options.get("expected_content_sha256")))
        return await self._memories.delete(memory_id, **self._own(options))


def _store(store_id: str, name: str, mount_path: str | None, access: str | None) -> SimpleNamespace:
    return SimpleNamespace(
        type="memory_store", memory_store_id=store_id, mount_path=mount_path, name=name, access=access
    )


def fake_anthropic(
    initial: Mapping[str, str | None],
    *,
    access: str | None = None,
    broken_store: bool = False,
    broken_store_last: bool = False,
    no_stores: bool = False,
    mount_path: str | None = None,
    noise: bool = False,
) -> tuple[Any, MemoryServer]:
    """A client whose session has a memory store named `notes`, and the store."""
    server = MemoryServer(initial)
    resources = [] if no_stores else [_store("memstore_notes", "notes", mount_path, access)]
    if noise:
        resources.insert(0, SimpleNamespace(type="file", file_id="file_1"))
    broken = [_store("memstore_broken", "broken", None, None)]
    resources = [*(broken if broken_store else []), *resources, *(broken if broken_store_last else [])]

    async def retrieve(session_id: str) -> Any:
        server.retrieves.append(session_id)
        return SimpleNamespace(status="running", agent=SimpleNamespace(skills=[]), resources=resources)

    stores = SimpleNamespace(memories=_Resource(server, noise=noise))
    return SimpleNamespace(
        beta=SimpleNamespace(sessions=SimpleNamespace(retrieve=retrieve), memory_stores=stores)
    ), server
