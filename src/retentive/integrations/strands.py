"""Tools and sessions for Strands Agents: `memory_tool`, `search_tool` and `MemorySessionRepository`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from retentive.values.extras import pip_install

try:
    from strands.session import SessionRepository
    from strands.tools import PythonAgentTool
    from strands.types.exceptions import SessionException
    from strands.types.session import Session, SessionAgent, SessionMessage
except ImportError as error:
    raise ImportError(f"this module needs Strands Agents: {pip_install('strands')}") from error

from retentive.errors import Conflict, InvalidInput, NotFound
from retentive.integrations.calls import ActorOfCall, MemoryOfCall, NameOfCall, SearchOfCall, ToolCalls
from retentive.integrations.documents import (
    acting,
    json_object,
    json_text,
    memories_below,
    segment,
)
from retentive.integrations.memory import ActorLike, MemoryLocation, open_memory
from retentive.integrations.schemas import (
    MEMORY,
    MEMORY_DESCRIPTION,
    MEMORY_SCHEMA,
    SEARCH,
    SEARCH_DESCRIPTION,
    SEARCH_SCHEMA,
)
from retentive.store import MemoryStore
from retentive.values.paths import ROOT
from retentive.values.replies import Reply

if TYPE_CHECKING:
    from strands.multiagent import MultiAgentBase
    from strands.types.tools import ToolFunc, ToolResult, ToolUse


def memory_tool(
    memory: MemoryOfCall,
    *,
    store: str | None = None,
    actor: ActorOfCall = None,
    source: NameOfCall = None,
    session: NameOfCall = None,
) -> PythonAgentTool:
    """Create the memory tool, for `Agent(tools=[...])`. Each call runs in a worker thread. Raises `InvalidInput`.

    `memory` is a `MemoryStore`, `Mounts`, or a location (a directory, a URL or an opened location). For a location,
    `store` selects a memory store by its key or id. `actor`, `source` and `session` are recorded with each change.

    For an agent that serves several users, pass functions as `memory`, `actor`, `source` and `session`. Each function
    takes the invocation state (a dict) and returns the value for the current run.

    An error reply is a result with the status "error".
    """
    calls = ToolCalls("strands", memory, store, actor=actor, source=source, session=session)
    return _tool(
        MEMORY,
        MEMORY_DESCRIPTION,
        MEMORY_SCHEMA,
        lambda use, state: calls.reply_async(state, use["input"], use["toolUseId"]),
    )


def search_tool(memory: SearchOfCall, *, store: str | None = None, actor: ActorOfCall = None) -> PythonAgentTool:
    """Create the tool `memory_search`. `memory`, `store` and `actor` are as in `memory_tool`. Raises `InvalidInput`."""
    calls = ToolCalls("strands", memory, store, actor=actor, method="search")
    return _tool(SEARCH, SEARCH_DESCRIPTION, SEARCH_SCHEMA, lambda use, state: calls.found(state, use["input"]))


def _tool(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    reply_to: Callable[[ToolUse, dict[str, Any]], Awaitable[Reply]],
) -> PythonAgentTool:
    async def run(tool_use: ToolUse, /, **invocation_state: Any) -> ToolResult:
        reply = await reply_to(tool_use, invocation_state)
        status = "error" if reply.is_error else "success"
        result = {"toolUseId": tool_use["toolUseId"], "status": status, "content": [{"text": reply.text}]}
        return cast("ToolResult", result)

    spec = {"name": name, "description": description, "inputSchema": {"json": dict(schema)}}
    return PythonAgentTool(name, cast("Any", spec), cast("ToolFunc", run))


class MemorySessionRepository(SessionRepository):
    """Sessions in a memory store, for `RepositorySessionManager(session_id, MemorySessionRepository(...))`.

    Sessions, agents, messages, and the states of multi-agents are JSON memories below `/memories/sessions`. Use a
    separate store, so that models do not see these documents among their memories. Threads and processes may share a
    repository.

    An update of a document that does not exist, or the creation of a session that already exists, raises Strands'
    `SessionException`. Ids that are too long for a file name, values that are not JSON, and messages that exceed the
    limits of the store raise `InvalidInput`.
    """

    def __init__(
        self, memory: MemoryLocation | MemoryStore, *, store: str | None = None, actor: ActorLike = None
    ) -> None:
        self._store = acting(open_memory(memory, store, method="batch")[0], "strands", actor)

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Create a session."""
        self._create(_session_path(session.session_id), session.to_dict())
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session, or None if it does not exist."""
        found = self._read(_session_path(session_id))
        return None if found is None else Session.from_dict(found)

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Create an agent in a session. As in Strands' own repositories, an agent with the same id is replaced."""
        self._write(_agent_path(session_id, session_agent.agent_id), session_agent.to_dict())

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return an agent, or None if it does not exist."""
        found = self._read(_agent_path(session_id, agent_id))
        return None if found is None else SessionAgent.from_dict(found)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Replace the state of an agent. Its creation time is kept."""
        self._update(_agent_path(session_id, session_agent.agent_id), session_agent.to_dict())

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Create a message. As in Strands' own repositories, a message with the same id is replaced."""
        self._write(_message_path(session_id, agent_id, session_message.message_id), session_message.to_dict())

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        """Return a message, or None if it does not exist."""
        found = self._read(_message_path(session_id, agent_id, message_id))
        return None if found is None else SessionMessage.from_dict(found)

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Replace a message. Its creation time is kept, and the previous text remains in the history of the store."""
        self._update(_message_path(session_id, agent_id, session_message.message_id), session_message.to_dict())

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        """Return the messages of an agent, oldest first."""
        if self._read(_agent_path(session_id, agent_id)) is None:
            raise SessionException(f"the session has no agent {agent_id}")
        if offset < 0 or (limit is not None and limit < 0):
            raise InvalidInput("`limit` and `offset` must not be negative")
        found = memories_below(self._store, _messages_directory(session_id, agent_id))
        chosen = islice(found, offset, None if limit is None else offset + limit)
        return [SessionMessage.from_dict(json_object(memory.path, text)) for memory, text in chosen]

    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        """Create the state of a multi-agent."""
        self._write(_multi_agent_path(session_id, multi_agent.id), multi_agent.serialize_state())

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> dict[str, Any] | None:
        """Return the state of a multi-agent, or None if it does not exist."""
        return self._read(_multi_agent_path(session_id, multi_agent_id))

    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        """Replace the state of a multi-agent."""
        self._update(_multi_agent_path(session_id, multi_agent.id), multi_agent.serialize_state())

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            return json_object(path, self._store.read(path))
        except NotFound:
            return None

    def _create(self, path: str, value: Mapping[str, Any]) -> None:
        try:
            self._store.write(path, json_text(value), if_version="")
        except Conflict:
            raise SessionException(f"{path} already exists") from None

    def _write(self, path: str, value: Mapping[str, Any]) -> None:
        self._store.write(path, json_text(value))

    def _update(self, path: str, value: dict[str, Any]) -> None:
        found = self._read(path)
        if found is None:
            raise SessionException(f"{path} does not exist")
        kept = {name: found[name] for name in ("created_at",) if name in found and name in value}
        self._write(path, {**value, **kept})


def _directory(session_id: str) -> str:
    return f"{ROOT}/sessions/{segment('a session id', session_id)}"


def _session_path(session_id: str) -> str:
    return f"{_directory(session_id)}/session.json"


def _agent_directory(session_id: str, agent_id: str) -> str:
    return f"{_directory(session_id)}/agents/{segment('an agent id', agent_id)}"


def _agent_path(session_id: str, agent_id: str) -> str:
    return f"{_agent_directory(session_id, agent_id)}/agent.json"


def _messages_directory(session_id: str, agent_id: str) -> str:
    return f"{_agent_directory(session_id, agent_id)}/messages"


def _message_path(session_id: str, agent_id: str, message_id: int) -> str:
    if type(message_id) is not int or message_id < 0:
        raise InvalidInput("a message id must be an integer of at least 0")
    return f"{_messages_directory(session_id, agent_id)}/{message_id:012}.json"


def _multi_agent_path(session_id: str, multi_agent_id: str) -> str:
    return f"{_directory(session_id)}/multi_agents/{segment('the id of a multi-agent', multi_agent_id, '.json')}"
