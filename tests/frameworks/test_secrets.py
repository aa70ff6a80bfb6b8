"""Secrets in sessions of Strands and memories of ADK: each form is removed, and every document can be read."""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.events.event import Event
from google.genai import types
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import retentive
from retentive.integrations.adk import AdkMemoryService
from retentive.integrations.strands import MemorySessionRepository
from support.secret_forms import remains, texts


def test_each_form_is_removed_from_messages_of_strands() -> None:
    """As text, as the input of a tool, and as a name in the state of the agent."""
    repository = MemorySessionRepository(retentive.open("sqlite://").store())
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    left = []
    for name, text, value in texts():
        agent = SessionAgent(agent_id="a", state={text: text}, conversation_manager_state={})
        repository.create_agent("s", agent)
        use = {"toolUse": {"toolUseId": "t", "name": "run", "input": {"command": text}}}
        message: Any = {"role": "user", "content": [{"text": text}, use]}
        repository.create_message("s", "a", SessionMessage.from_message(message, 0))
        (kept,) = repository.list_messages("s", "a")
        state = repository.read_agent("s", "a")
        assert state is not None
        assert [set(part) for part in kept.message["content"]] == [{"text"}, {"toolUse"}]
        if remains(value, f"{kept.message}{state.state}"):
            left.append(name)
    assert left == []


def test_each_form_is_removed_from_memories_of_adk() -> None:
    async def all_forms() -> list[str]:
        service = AdkMemoryService(retentive.open("sqlite://"), limit=10_000)
        left = []
        for number, (name, text, value) in enumerate(texts()):
            user: dict[str, Any] = {"app_name": "app", "user_id": f"u{number}"}
            content = types.Content(role="user", parts=[types.Part(text=f"kettle {text}")])
            event = Event(id="e", author="user", timestamp=1_800_000_000.5, content=content)
            await service.add_events_to_memory(**user, events=[event])
            found = await service.search_memory(**user, query="kettle")
            assert len(found.memories) == 1
            if remains(value, found.model_dump_json()) or remains(value, repr(found)):
                left.append(name)
        return left

    assert asyncio.run(all_forms()) == []
