"""Runs calls of the memory and search tools, for frameworks that pass a context object to their tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from retentive import aio
from retentive.errors import InvalidInput
from retentive.integrations.function_tool import request_of
from retentive.integrations.memory import (
    ActorLike,
    AuthorOfRun,
    MemoryLocation,
    SupportsExecute,
    id_options,
    memory_of_run,
    open_memory,
)
from retentive.integrations.named import named
from retentive.integrations.search_tool import search_reply
from retentive.mounts import Mounts
from retentive.storage.contract import as_actor
from retentive.store import MemoryStore
from retentive.values.replies import Reply

if TYPE_CHECKING:
    from retentive.mounts import MemoryTree

MemoryOfCall: TypeAlias = "MemoryLocation | SupportsExecute | Callable[[Any], SupportsExecute]"
SearchOfCall: TypeAlias = "MemoryLocation | MemoryStore | Mounts | Callable[[Any], MemoryStore | Mounts]"
ActorOfCall: TypeAlias = ActorLike | Callable[[Any], ActorLike]
NameOfCall: TypeAlias = str | Callable[[Any], str | None] | None


@dataclass(frozen=True, slots=True, repr=False)
class MemoryCalls:
    """Runs the calls of a memory tool.

    `memory` and `author` may be functions. They get the context object that the framework passes to each call.
    """

    integration: str
    memory: SupportsExecute | Callable[[Any], SupportsExecute]
    author: AuthorOfRun

    @classmethod
    def of(
        cls,
        integration: str,
        memory: MemoryOfCall,
        *,
        store: str | None,
        actor: ActorOfCall,
        source: NameOfCall,
        session: NameOfCall,
    ) -> MemoryCalls:
        """Open the memory and check the arguments. Raises `InvalidInput` and storage errors."""
        return cls(integration, memory_of_run(memory, store), AuthorOfRun(actor, source, session))

    async def reply(
        self, context: object, arguments: Mapping[str, Any] | str, call_id: str | None, run: str | None = None
    ) -> Reply:
        """Run a call in a worker thread. Invalid input gets an error reply. `run` names the run of `call_id`."""
        memory = self.memory(context) if callable(self.memory) else self.memory
        through = cast("MemoryTree", named(memory, self.integration))  # uses only the method `execute`
        options = id_options(memory, call_id, run)
        return await aio.execute(through, request_of(arguments), **self.author.of(context), **options)


@dataclass(frozen=True, slots=True, repr=False)
class SearchCalls:
    """Runs the calls of a search tool.

    `memory` and `actor` may be functions. They get the context object that the framework passes to each call.
    """

    integration: str
    memory: MemoryStore | Mounts | Callable[[Any], MemoryStore | Mounts]
    actor: ActorOfCall

    @classmethod
    def of(cls, integration: str, memory: SearchOfCall, *, store: str | None, actor: ActorOfCall) -> SearchCalls:
        """Open the memory and check the arguments. Raises `InvalidInput` and storage errors."""
        checked = actor if callable(actor) else as_actor(actor)
        if not callable(memory):
            return cls(integration, open_memory(memory, store, method="search")[0], checked)
        if store is not None:
            raise InvalidInput(
                f"`store` has no effect if `memory` is a function; return the memory store {store!r} from the function"
            )
        return cls(integration, memory, checked)

    async def reply(self, context: object, arguments: Mapping[str, Any] | str) -> Reply:
        """Run a call in a worker thread. Invalid input gets an error reply."""
        memory = self.memory(context) if callable(self.memory) else self.memory
        actor = as_actor(self.actor(context) if callable(self.actor) else self.actor)
        search = partial(search_reply, named(memory, self.integration), request_of(arguments), actor=actor)
        return await aio.in_thread(search)
