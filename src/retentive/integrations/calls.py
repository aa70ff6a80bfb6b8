"""Runs calls of the memory and search tools, for frameworks that pass a context object to their tools."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypedDict

from retentive import aio
from retentive.errors import InvalidInput
from retentive.integrations.function_tool import request_of
from retentive.integrations.memory import ActorLike, MemoryLocation, open_memory
from retentive.integrations.search_tool import search_reply
from retentive.mounts import MemoryTree
from retentive.storage.contract import as_actor
from retentive.values.provenance import origin_of
from retentive.values.replies import Reply

MemoryOfCall: TypeAlias = "MemoryLocation | MemoryTree | Callable[[Any], MemoryTree]"
ActorOfCall: TypeAlias = ActorLike | Callable[[Any], ActorLike]
NameOfCall: TypeAlias = str | Callable[[Any], str | None] | None


class ToolOptions(TypedDict, total=False):
    """Options of a memory tool besides `memory`: each but `store` may be a function, as in `ToolCalls`."""

    store: str | None
    actor: ActorOfCall
    source: NameOfCall
    session: NameOfCall


class ToolCalls:
    """Runs the calls of a memory tool or a search tool.

    `memory`, `actor`, `source` and `session` may be functions. They get the context object that the framework passes to
    each call. Raises `InvalidInput` and storage errors.
    """

    def __init__(
        self,
        integration: str,
        memory: Any,
        *,
        store: str | None = None,
        actor: ActorOfCall = None,
        source: NameOfCall = None,
        session: NameOfCall = None,
    ) -> None:
        self._integration = integration
        self._author = actor, source, session
        self._author_of(None, *(None if callable(each) else each for each in self._author))  # checks the values
        if callable(memory) and store is not None:
            raise InvalidInput(
                f"`store` has no effect if `memory` is a function; return the memory store {store!r} from the function"
            )
        self._memory = memory if callable(memory) else open_memory(memory, store)[0]

    def reply(self, context: object, arguments: Any, call_id: str | None = None, run: str | None = None) -> Reply:
        """Run a memory command. Invalid input gets an error reply. `run` names the run of `call_id`."""
        memory, author = self._resolved(context)
        reply: Reply = memory.execute(request_of(arguments), tool_use_id=call_id, run=run, **author)
        return reply

    async def reply_async(
        self, context: object, arguments: Any, call_id: str | None = None, run: str | None = None
    ) -> Reply:
        """Async version of `reply`. The command runs in a worker thread."""
        memory, author = self._resolved(context)
        return await aio.in_thread(
            partial(memory.execute, request_of(arguments), tool_use_id=call_id, run=run, **author)
        )

    async def found(self, context: object, arguments: Any) -> Reply:
        """Run a search in a worker thread. Invalid input gets an error reply."""
        memory, author = self._resolved(context)
        return await aio.in_thread(partial(search_reply, memory, request_of(arguments), actor=author["actor"]))

    def _resolved(self, context: object) -> tuple[Any, dict[str, Any]]:
        memory = self._memory(context) if callable(self._memory) else self._memory
        return memory.through(self._integration), self._author_of(context, *self._author)

    @staticmethod
    def _author_of(context: object, *author: Any) -> dict[str, Any]:
        actor, source, session = (each(context) if callable(each) else each for each in author)
        return {"actor": as_actor(actor), **origin_of(source, session)}
