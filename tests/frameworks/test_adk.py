"""The ADK memory service gives the results of ADK's own service in memory, and keeps what a memory store promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.adk.tools.load_memory_tool import load_memory_tool
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

import retentive
from retentive import InvalidInput
from retentive.errors import Damaged
from retentive.integrations.adk import AdkMemoryService

WORDS = ["tea", "rice", "euro", "letter"]
MANY = 1_000
ANN: dict[str, Any] = {"app_name": "app", "user_id": "ann"}


def content(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def event(event_id: str, text: str, **fields: Any) -> Event:
    return Event(id=event_id, author="user", timestamp=1_800_000_000.5, content=content(text), **fields)


def session(events: Sequence[Event], session_id: str = "s1", user_id: str = "ann") -> Session:
    return Session(id=session_id, app_name="app", user_id=user_id, events=list(events))


async def found(service: BaseMemoryService, query: str, **user: str) -> list[str]:
    """Ids and texts of the found memories, in no order."""
    response = await service.search_memory(**{**ANN, **user}, query=query)
    parts = [(each.id, each.author, (each.content.parts or [])[0].text) for each in response.memories]
    return sorted(" ".join(map(str, each)) for each in parts)


SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
STEPS = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(["s1", "s2"]), SENTENCES),
    st.tuples(st.just("add session"), st.sampled_from(["s1", "s2"])),
    st.tuples(st.just("add events"), st.sampled_from(["s1", "s2"])),
    st.tuples(st.just("delete"), st.integers(0, 5)),
    st.tuples(st.just("search"), SENTENCES),
)


@given(steps=st.lists(STEPS, max_size=12))
def test_results_equal_those_of_the_service_in_memory(steps: list[tuple[Any, ...]]) -> None:
    """Sessions grow, are added again, and lose memories; each search finds the same events in both services."""
    said: dict[str, list[Event]] = {"s1": [], "s2": []}

    async def run(service: BaseMemoryService, step: tuple[Any, ...]) -> object:
        match step:
            case ("add session", session_id):
                await service.add_session_to_memory(session(said[session_id], session_id))
            case ("add events", session_id):
                await service.add_events_to_memory(**ANN, events=said[session_id][-2:], session_id=session_id)
            case ("delete", number):
                await service.delete_memory(**ANN, memory_id=f"e{number}")
            case ("search", query):
                return await found(service, query)
        return None

    async def main(ours: BaseMemoryService, model: BaseMemoryService) -> None:
        for step in [*steps, *(("search", word) for word in WORDS)]:
            if step[0] == "say":
                said[step[1]].append(event(f"e{sum(map(len, said.values()))}", step[2]))
            assert await run(ours, step) == await run(model, step)

    with retentive.open("sqlite://") as opened:
        asyncio.run(main(AdkMemoryService(opened, limit=MANY), InMemoryMemoryService()))


def test_events_are_memories_with_history() -> None:
    """An edit by a person stays when the session is added again, and so does a deletion."""
    with retentive.open("sqlite://") as opened:
        service = AdkMemoryService(opened, actor="session:s1")
        events = [event("e1", "Ada likes tea"), event("e2", "Ada likes rice"), event("e3", "Ada likes figs")]
        asyncio.run(service.add_session_to_memory(session(events[:2])))
        store = opened.store("app/ann")
        store.edit("/memories/sessions/s1/e1.json", "tea", "coffee", actor="user:bob")
        store.delete("/memories/sessions/s1/e2.json")
        asyncio.run(service.add_session_to_memory(session(events)))
        assert asyncio.run(found(service, "likes")) == ["e1 user Ada likes coffee", "e3 user Ada likes figs"]
        assert {str(version.actor) for version in store.versions() if version.operation == "created"} == {"session:s1"}


def test_all_of_a_content_is_kept() -> None:
    """Bytes, calls and the order of parts come back; the time is in UTC."""
    image = types.Part(inline_data=types.Blob(data=b"\x00\xff\xfe", mime_type="image/png"))
    call = types.Part(function_call=types.FunctionCall(name="f", args={"n": 1, "list": [None, "x"]}))
    whole = types.Content(role="user", parts=[image, types.Part(text="a\npicture"), call, types.Part(text="of tea")])
    with retentive.open("sqlite://") as opened:
        service = AdkMemoryService(opened)
        shown = Event(id="e", author="agent", timestamp=1_800_000_000, content=whole)
        empty = Event(id="none", author="agent", content=types.Content(role="user", parts=[image]))
        asyncio.run(service.add_events_to_memory(**ANN, events=[shown, empty, Event(id="x", author="agent")]))
        (entry,) = asyncio.run(service.search_memory(**ANN, query="picture")).memories
        assert (entry.id, entry.author, entry.content) == ("e", "agent", whole)
        assert entry.timestamp == "2027-01-15T08:00:00+00:00"
        assert [each.path for each in opened.store("app/ann").memories()] == ["/memories/events/e.json"]


def test_entries_are_written_and_replaced() -> None:
    with retentive.open("sqlite://") as opened:
        service = AdkMemoryService(opened)
        for text in ("tea", "rice"):
            named = MemoryEntry(id="likes", author="user", content=content(text), custom_metadata={"n": [1]})
            asyncio.run(service.add_memory(**ANN, memories=[named, MemoryEntry(content=content("euro"))]))
        assert [each.split(" ")[1:] for each in asyncio.run(found(service, "euro"))] == [["None", "euro"]]
        (entry,) = asyncio.run(service.search_memory(**ANN, query="tea rice")).memories
        assert (entry.id, entry.custom_metadata, entry.content) == ("likes", {"n": [1]}, content("rice"))


def test_a_search_takes_sentences_and_returns_the_best() -> None:
    with retentive.open("sqlite://") as opened:
        service = AdkMemoryService(opened, limit=2)
        texts = ["Refunds take a week", "I want a refund in euros", "The weather is fine", f"refund {'of it ' * 99}"]
        asyncio.run(service.add_session_to_memory(session([event(f"e{n}", each) for n, each in enumerate(texts)])))
        response = asyncio.run(service.search_memory(**ANN, query='How is "my refund" paid? -weekly by:me'))
        assert sorted(str(each.id) for each in response.memories) == ["e0", "e1"]
        for query in ("", "  ", "???", "author timestamp role"):
            assert asyncio.run(found(service, query)) == []


def test_users_are_apart_and_a_search_creates_no_store() -> None:
    with retentive.open("sqlite://") as opened:
        service = AdkMemoryService(opened)
        users = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("é", "..")]
        for number, (app, user) in enumerate(users):
            events = [event(f"e{number}", "tea")]
            asyncio.run(service.add_events_to_memory(app_name=app, user_id=user, events=events))
        for number, (app, user) in enumerate(users):
            assert asyncio.run(found(service, "tea", app_name=app, user_id=user)) == [f"e{number} user tea"]
        assert asyncio.run(found(service, "tea", user_id="nobody")) == []
        asyncio.run(service.delete_memory(app_name="app", user_id="nobody", memory_id="e0"))
        assert len(opened.stores()) == len(users)


def test_the_store_of_a_user_may_come_from_a_function() -> None:
    with retentive.open("sqlite://") as opened:
        service = AdkMemoryService(lambda app, user: opened.store(f"{user} of {app}"))
        asyncio.run(service.add_events_to_memory(**ANN, events=[event("e", "tea")]))
        assert [each.key for each in opened.stores()] == ["ann of app"]
        assert asyncio.run(found(service, "tea")) == ["e user tea"]
    with pytest.raises(InvalidInput, match="`memory` must be a location"):
        AdkMemoryService(5)  # type: ignore[arg-type]  # on purpose


def test_what_cannot_be_kept_is_refused() -> None:
    with retentive.open("sqlite://") as opened:
        service = AdkMemoryService(opened)
        calls = [
            (NotImplementedError, service.add_events_to_memory(**ANN, events=[], custom_metadata={"ttl": 5})),
            (NotImplementedError, service.add_memory(**ANN, memories=[], custom_metadata={"ttl": 5})),
            (InvalidInput, service.add_events_to_memory(**ANN, events=[event("a" * 251, "x")])),
            (InvalidInput, service.add_events_to_memory(**ANN, events=[event("e", "x")], session_id="")),
            (InvalidInput, service.add_events_to_memory(**ANN, events=[event("f", "x"), event("e", "x" * 200_000)])),
            (InvalidInput, service.add_memory(**ANN, memories=[MemoryEntry(id="/" * 90, content=content("x"))])),
        ]
        for error, call in calls:
            with pytest.raises(error):
                asyncio.run(call)
        assert asyncio.run(found(service, "x")) == []
        store = opened.store("app/ann")
        store.write("/memories/notes.md", "tea")
        assert asyncio.run(found(service, "tea")) == []
        for text in ("{}", "tea"):
            store.write("/memories/entries/e.json", text)
            with pytest.raises(Damaged, match=r"/memories/entries/e\.json does not contain"):
                asyncio.run(found(service, "tea"))


class Scripted(BaseLlm):
    """Model that calls `load_memory` once and then repeats its result."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = (llm_request.contents[-1].parts or [])[-1]
        if last.function_response is None:
            part = types.Part(function_call=types.FunctionCall(name="load_memory", args={"query": last.text}))
        else:
            part = types.Part(text=f"Found: {last.function_response.response}")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def test_an_agent_remembers_an_earlier_session() -> None:
    async def main(service: AdkMemoryService) -> str:
        sessions = InMemorySessionService()
        agent = LlmAgent(name="agent", model=Scripted(model="scripted"), tools=[load_memory_tool])
        runner = Runner(app_name="app", agent=agent, session_service=sessions, memory_service=service)
        said = ""
        for question in ("Ada pays in euros.", "What does Ada pay in?"):
            current = await sessions.create_session(app_name="app", user_id="ann")
            async for each in runner.run_async(user_id="ann", session_id=current.id, new_message=content(question)):
                said = str(each.content.parts[0].text) if each.content and each.content.parts else said
            done = await sessions.get_session(app_name="app", user_id="ann", session_id=current.id)
            assert done is not None
            await service.add_session_to_memory(done)
        return said

    with retentive.open("sqlite://") as opened:
        said = asyncio.run(main(AdkMemoryService(opened)))
    assert said.startswith("Found: ")
    assert "Ada pays in euros." in said
