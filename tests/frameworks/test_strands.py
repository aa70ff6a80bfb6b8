"""The Strands tools and sessions in agents with a scripted model, and beside Strands' own repository in files."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strands import Agent
from strands.agent import NullConversationManager
from strands.models import Model
from strands.multiagent import MultiAgentBase
from strands.session import FileSessionManager, RepositorySessionManager, SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import retentive
from features.integrations.conversations import ERRORS, STORY, A
from retentive import InvalidInput, MemoryStore
from retentive.integrations.schemas import MEMORY_DESCRIPTION as DESCRIPTION
from retentive.integrations.schemas import MEMORY_SCHEMA as INPUT_SCHEMA
from retentive.integrations.search_tool import search_tool as plain_search_tool
from retentive.integrations.strands import MemorySessionRepository, memory_tool, search_tool


class Scripted(Model):
    """Model that makes one call in each turn, and then says how many messages it was sent."""

    def __init__(self, name: str = "memory", calls: tuple[object, ...] = ()) -> None:
        self._name, self._calls = name, list(calls)

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> AsyncGenerator[dict[str, Any], None]:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterable[Any]:
        yield {"messageStart": {"role": "assistant"}}
        if self._calls:
            use = {"name": self._name, "toolUseId": f"toolu_strands_{len(messages):024}"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(self._calls.pop(0))}}}}
            reason = "tool_use"
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": f"{len(messages)} messages"}}}
            reason = "end_turn"
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": reason}}


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with retentive.open("sqlite://") as opened:
        yield opened.store()


def results(tool: Any, calls: tuple[object, ...], **state: Any) -> list[tuple[str, str]]:
    """Run an agent whose model makes one call in each turn; return the status and the text of each result."""
    whole = NullConversationManager()  # the default one drops old messages
    agent = Agent(
        model=Scripted(tool.tool_name, calls), tools=[tool], conversation_manager=whole, callback_handler=None
    )
    asyncio.run(agent.invoke_async("Hello", invocation_state=state))
    blocks = [block["toolResult"] for each in agent.messages for block in each["content"] if "toolResult" in block]
    return [(each["status"], each["content"][0]["text"]) for each in blocks]


def test_replies_equal_those_of_the_store(store: MemoryStore) -> None:
    """All commands and all errors give the same text. An error is a result with its status."""
    with retentive.open("sqlite://") as other:
        replies = [other.store().execute(command) for command in STORY]
    expected = [("error" if reply.is_error else "success", reply.text) for reply in replies]
    assert results(memory_tool(store, actor="session:s1", source="user", session="s1"), STORY) == expected
    assert [n for n, (status, _) in enumerate(expected) if status == "error"] == list(ERRORS)
    assert {str(version.actor) for version in store.versions()} == {"session:s1"}


def test_the_definition_is_that_of_the_function_tool(store: MemoryStore) -> None:
    spec = memory_tool(store).tool_spec
    assert (spec["name"], spec["description"], spec["inputSchema"]) == ("memory", DESCRIPTION, {"json": INPUT_SCHEMA})


def test_a_call_repeated_under_its_id_changes_nothing(store: MemoryStore) -> None:
    """Each run here uses the same ids, as an agent that continues after a crash does."""
    create = ({"command": "create", "path": A, "file_text": "one"},)
    assert results(memory_tool(store), create) == results(memory_tool(store), create)
    assert len(store.versions()) == 1


def test_memory_and_actor_can_depend_on_the_invocation() -> None:
    with retentive.open("sqlite://") as opened:
        tool = memory_tool(lambda state: opened.store(state["user"]), actor=lambda state: f"user:{state['user']}")
        for user in ("ann", "ben"):
            results(tool, ({"command": "create", "path": A, "file_text": f"notes of {user}"},), user=user)
        assert [str(version.actor) for version in opened.store("ben").versions()] == ["user:ben"]
        find = search_tool(lambda state: opened.store(state["user"]))
        assert "notes of ann" in results(find, ({"query": "notes"},), user="ann")[0][1]


def test_the_search_tool_replies_as_its_function_tool(store: MemoryStore) -> None:
    store.write(A, "Refunds are paid weekly")
    requests: tuple[Any, ...] = ({"query": "refund"}, {"query": "none"}, {}, {"query": "x", "path": "/etc"})
    replies = [plain_search_tool(store).reply(each) for each in requests]
    expected = [("error" if reply.is_error else "success", reply.text) for reply in replies]
    assert results(search_tool(store), requests) == expected


SESSIONS = st.sampled_from(["s1", "s 2"])
AGENTS = st.sampled_from(["one", "two"])
NUMBERS = st.integers(0, 12)
TEXTS = st.sampled_from(["", "a\nb", "é\u2028"])
BLOCKS = st.one_of(
    st.builds(lambda text: {"text": text}, TEXTS),
    st.binary(max_size=3).map(lambda data: {"image": {"format": "png", "source": {"bytes": data}}}),
)
MESSAGES = st.builds(
    lambda number, blocks, redacted: SessionMessage(
        {"role": "user", "content": blocks}, number, redacted and {"role": "user", "content": [{"text": "redacted"}]}
    ),
    NUMBERS,
    st.lists(BLOCKS, max_size=2),
    st.booleans(),
)
STATES = st.builds(lambda agent, n, text: SessionAgent(agent, {"n": [n, None]}, {"text": text}), AGENTS, NUMBERS, TEXTS)
STEPS = st.one_of(
    st.tuples(st.just("create_session"), SESSIONS.map(lambda name: Session(name, SessionType.AGENT))),
    st.tuples(st.just("read_session"), SESSIONS),
    st.tuples(st.sampled_from(["create_agent", "update_agent"]), SESSIONS, STATES),
    st.tuples(st.just("read_agent"), SESSIONS, AGENTS),
    st.tuples(st.sampled_from(["create_message", "update_message"]), SESSIONS, AGENTS, MESSAGES),
    st.tuples(st.just("read_message"), SESSIONS, AGENTS, NUMBERS),
    st.tuples(st.just("list_messages"), SESSIONS, AGENTS, st.one_of(st.none(), NUMBERS), NUMBERS),
)


def result(repository: SessionRepository, step: tuple[Any, ...]) -> object:
    """Result of a method as plain values, or the error of Strands."""
    name, *arguments = step
    try:
        found = getattr(repository, name)(*arguments)
    except SessionException:
        return SessionException
    if isinstance(found, list):
        return [each.to_dict() for each in found]
    return found if found is None else found.to_dict()


def has_parent(repository: SessionRepository, step: tuple[Any, ...]) -> bool:
    """False for an agent without its session, and a message without its agent: in files, directories stand for them."""
    match step:
        case ("create_agent", session_id, _):
            return repository.read_session(session_id) is not None
        case ("create_message", session_id, agent_id, _):
            return repository.read_agent(session_id, agent_id) is not None
    return True


@given(steps=st.lists(STEPS, max_size=15))
def test_results_equal_those_of_the_repository_in_files(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory, retentive.open("sqlite://") as opened:
        model = FileSessionManager("its own", storage_dir=directory)
        ours = MemorySessionRepository(opened)
        for step in [("create_session", Session("s1", SessionType.AGENT)), *steps]:
            if has_parent(model, step):
                assert result(ours, step) == result(model, step)


@pytest.mark.parametrize(("limit", "offset"), [(2, 1), (None, 3), (9, 0), (0, 0), (3, 9)])
def test_messages_come_in_pages(store: MemoryStore, limit: int | None, offset: int) -> None:
    ours = MemorySessionRepository(store)
    ours.create_agent("s", SessionAgent("a", {}, {}))
    for n in range(12):
        ours.create_message("s", "a", SessionMessage({"role": "user", "content": []}, n))
    expected = list(range(12))[offset:][:limit]
    assert [each.message_id for each in ours.list_messages("s", "a", limit, offset)] == expected


def converse(repository: SessionRepository, said: str, *calls: object) -> Agent:
    """Continue the session `s1` in a new agent."""
    tools: list[Any] = [memory_tool("sqlite://")]
    manager = RepositorySessionManager("s1", repository)
    agent = Agent(
        model=Scripted(calls=calls), agent_id="a", tools=tools, session_manager=manager, callback_handler=None
    )
    agent(said)
    return agent


def test_an_agent_continues_its_session(store: MemoryStore) -> None:
    """Another agent object with the same id has the messages, the state, and the call with its result."""
    first = converse(MemorySessionRepository(store), "Hello", {"command": "view", "path": "/memories"})
    second = converse(MemorySessionRepository(store), "Again")
    assert second.messages[: len(first.messages)] == first.messages
    assert [each["role"] for each in second.messages] == ["user", "assistant"] * 3
    assert second.messages[-1]["content"] == [{"text": "5 messages"}]


def test_a_redacted_message_stays_redacted(store: MemoryStore) -> None:
    agent = converse(MemorySessionRepository(store), "secret")
    manager = agent._session_manager
    assert manager is not None
    manager.redact_latest_message({"role": "assistant", "content": [{"text": "[redacted]"}]}, agent)
    again = converse(MemorySessionRepository(store), "Again")
    assert again.messages[1]["content"] == [{"text": "[redacted]"}]


class Team(MultiAgentBase):
    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__()
        self.id, self._state = "team", state

    async def invoke_async(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def serialize_state(self) -> dict[str, Any]:
        return self._state


def test_states_of_multi_agents_are_kept(store: MemoryStore) -> None:
    repository = MemorySessionRepository(store)
    assert repository.read_multi_agent("s1", "team") is None
    with pytest.raises(SessionException):
        repository.update_multi_agent("s1", Team({"n": 1}))
    repository.create_multi_agent("s1", Team({"n": 1}))
    repository.update_multi_agent("s1", Team({"n": [2, None]}))
    assert repository.read_multi_agent("s1", "team") == {"n": [2, None]}


REFUSED: list[Callable[[MemorySessionRepository], object]] = [
    lambda ours: ours.read_session(""),
    lambda ours: ours.create_session(Session("/" * 90, SessionType.AGENT)),
    lambda ours: ours.create_agent("s", SessionAgent("", {}, {})),
    lambda ours: ours.create_agent("s", SessionAgent("a", {"pair": (1, 2)}, {})),
    lambda ours: ours.create_agent("s", SessionAgent("a", {"n": float("nan")}, {})),
    lambda ours: ours.create_message("s", "a", SessionMessage({"role": "user", "content": []}, -1)),
    lambda ours: ours.create_message(
        "s", "a", SessionMessage({"role": "user", "content": [{"text": "x" * 200_000}]}, 1)
    ),
    lambda ours: ours.list_messages("known", "a", offset=-1),
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_a_memory_cannot_hold_is_refused(
    store: MemoryStore, call: Callable[[MemorySessionRepository], object]
) -> None:
    ours = MemorySessionRepository(store)
    ours.create_agent("known", SessionAgent("a", {}, {}))
    with pytest.raises(InvalidInput):
        call(ours)
    assert len(store.versions()) == 1


def test_two_threads_write_one_session(store: MemoryStore) -> None:
    """One of them creates the session, no message is lost, and updates keep the time of the creation."""
    agent = SessionAgent("a", {}, {}, created_at="2026-01-01")
    created, errors = [], []

    def work(number: int) -> None:
        ours = MemorySessionRepository(store)
        try:
            ours.create_session(Session("s", SessionType.AGENT))
            created.append(number)
        except SessionException:
            pass
        try:
            ours.create_agent("s", agent)
            for n in range(15):
                message = SessionMessage({"role": "user", "content": [{"text": str(number)}]}, 2 * n + number)
                ours.create_message("s", "a", message)
                ours.update_agent("s", SessionAgent("a", {"n": n}, {}))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(created) == 1
    ours = MemorySessionRepository(store)
    assert [each.message_id for each in ours.list_messages("s", "a")] == list(range(30))
    kept = ours.read_agent("s", "a")
    assert kept is not None
    assert (kept.created_at, kept.state) == ("2026-01-01", {"n": 14})
