"""Tests of `Agent` and `AsyncAgent`: their events, their memory, and runs that are interrupted and continued."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool

from retentive import InvalidInput, MemoryStore
from retentive.agent import (
    Agent,
    AsyncAgent,
    Budget,
    Event,
    Finished,
    Stopped,
    Text,
    ToolCall,
    ToolReply,
    UsageReport,
    memory_context,
    run_tools,
    tidy_note,
    topic_guidance,
)
from retentive.agent.turns import NOT_RUN
from retentive.integrations.anthropic import MemoryTool
from retentive.integrations.messages import TOOL
from retentive.testing.scripted_claude import (
    Call,
    Check,
    Script,
    ScriptedClaude,
    Turn,
    scripted_claude,
)
from support.fixed_api import Api, message, text

from .runs import KINDS, LOOK, NOTE, STORY, TEA, client_of, play

TOLD = "I like tea."
both = pytest.mark.parametrize("kind", KINDS)


@beta_async_tool
async def wait() -> str:
    """Wait."""
    return "Waited."


@both
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_run_yields_its_events_in_order(kind: str, stream: bool, server: ScriptedClaude, store: MemoryStore) -> None:
    """A run yields texts, calls before their execution, results, usage and its end.

    The memory then contains the note.
    """
    played = play(kind, server.url, TOLD, memory=store, actor="session:s1", stream=stream)
    kinds = [type(event) for event in played.events if not isinstance(event, Text)]
    assert kinds == [
        *[ToolCall, UsageReport, ToolReply],
        *[ToolCall, ToolCall, UsageReport, ToolReply, ToolReply],
        *[UsageReport, Finished],
    ]
    assert played.text == (
        "I look at what I know first.And, in the same breath, I look for more:You like tea, and I will remember it."
    )
    assert [(call.name, call.input) for call in played.of(ToolCall)][:2] == [
        ("memory", LOOK.input),
        ("memory", NOTE.input),
    ]
    replies = played.of(ToolReply)
    assert [(reply.name, reply.is_error) for reply in replies] == [
        ("memory", False),
        ("memory", False),
        ("memory", True),
    ]
    assert [reply.id for reply in replies] == [call.id for call in played.of(ToolCall)]
    assert replies[1].text == f"File created successfully at: {TEA}"
    (finished,) = played.of(Finished)
    spent = sum(report.usage.total_tokens for report in played.of(UsageReport))
    assert finished == Finished("end_turn", "You like tea, and I will remember it.", 3, spent)
    assert [report.turn for report in played.of(UsageReport)] == [1, 2, 3]
    assert store.read(TEA) == "likes tea\n"
    assert [str(version.actor) for version in store.versions()] == ["session:s1"]
    assert server.failures == []


@both
def test_requests_have_the_expected_fields(kind: str, server: ScriptedClaude, store: MemoryStore) -> None:
    """The memory tool needs no beta. Each request contains the complete conversation and no thread."""
    play(kind, server.url, TOLD, memory=store, system="Be kind.", language="fr", topic="tea", model="claude-opus-5-5")
    bodies: list[Any] = [exchange.body for exchange in server.requests]
    assert bodies[0] == {
        "model": "claude-opus-5-5",
        "max_tokens": 8_192,
        "messages": [{"role": "user", "content": [{"type": "text", "text": TOLD}]}],
        "tools": [{"type": "memory_20250818", "name": "memory"}],
        "system": [
            {
                "type": "text",
                "text": f"Be kind.\n\n{tidy_note(language='fr')}\n\n{topic_guidance('tea', language='fr')}",
                "cache_control": {"type": "ephemeral"},
            }
        ],
        "cache_control": {"type": "ephemeral"},
        "context_management": memory_context(),
    }
    assert [len(body["messages"]) for body in bodies] == [1, 3, 5]
    betas = "context-management-2025-06-27,compact-2026-01-12"
    assert {exchange.headers["anthropic-beta"] for exchange in server.requests} == {betas}


@both
def test_a_plain_agent_sends_no_betas(kind: str, server: ScriptedClaude, store: MemoryStore) -> None:
    play(kind, server.url, TOLD, memory=store, context=None, tidy=False, cache=False, budget=Budget(max_turns=1))
    body: Any = server.requests[0].body
    assert sorted(body) == ["max_tokens", "messages", "model", "tools"]
    assert "anthropic-beta" not in server.requests[0].headers


@both
def test_extra_fields_and_betas_are_sent(kind: str, server: ScriptedClaude, store: MemoryStore) -> None:
    request = {"metadata": {"user_id": "u1"}, "betas": ["one-2026-01-01", "context-management-2025-06-27"]}
    play(kind, server.url, TOLD, memory=store, request=request, budget=Budget(max_turns=1))
    body: Any = server.requests[0].body
    assert body["metadata"] == {"user_id": "u1"}
    assert server.requests[0].headers["anthropic-beta"] == (
        "one-2026-01-01,context-management-2025-06-27,compact-2026-01-12"
    )


@pytest.mark.parametrize("as_path", [False, True])
def test_the_agent_opens_and_closes_a_location(as_path: bool, server: ScriptedClaude, tmp_path: Path) -> None:
    at = tmp_path / "memory"
    assert play("sync", server.url, TOLD, memory=at if as_path else str(at)).of(Finished)[0].reason == "end_turn"
    assert (at / TEA[1:]).read_text() == "likes tea\n"


def test_the_agent_closes_only_its_own_resources(server: ScriptedClaude, store: MemoryStore) -> None:
    """The client and the memory that the application opened stay open."""
    view = {"command": "view", "path": "/memories"}
    with client_of(server.url) as client:
        with Agent(client, memory="sqlite://") as own, Agent(client, memory=store):
            assert not own.memory.execute(view).is_error
        assert own.memory.execute(view).code == "closed"
        assert not store.execute(view).is_error
        assert not client.is_closed()


def test_additional_tools_run_beside_the_memory(store: MemoryStore) -> None:
    @beta_tool
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    script = Script((Turn((Call({"a": 2, "b": 3}, Check("5"), name="add"),)), Turn(("Five.",))))
    with scripted_claude(script) as server:
        played = play("sync", server.url, "Add.", memory=store, tools=[add])
        assert server.failures == []
        body: Any = server.requests[0].body
    assert [tool["name"] for tool in body["tools"]] == ["memory", "add"]
    assert [(reply.name, reply.text) for reply in played.of(ToolReply)] == [("add", "5")]


@both
def test_max_turns_ends_a_run(kind: str, server: ScriptedClaude, store: MemoryStore) -> None:
    """The tools of the last response still run, so the conversation is valid.

    `run()` without a message continues it.
    """
    played = play(kind, server.url, TOLD, None, memory=store, budget=Budget(max_turns=2))
    first, second = played.of(Finished)
    assert (first.reason, first.turns, first.detail) == ("budget", 2, "max_turns: 2 of 2 replies")
    assert (second.reason, second.turns) == ("end_turn", 1)
    assert store.read(TEA) == "likes tea\n"
    assert server.failures == []


@pytest.mark.parametrize("limits", [{"max_turns": 0}, {"max_tokens": -1}, {"max_total_tokens": 0}, {"max_turns": True}])
def test_an_invalid_budget_is_rejected(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match="must be an integer of at least 1"):
        Budget(**limits)


@both
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("left_at", [Text, ToolCall, UsageReport, ToolReply, Finished])
def test_a_run_can_be_interrupted_at_any_event(
    kind: str, stream: bool, left_at: type[Event], server: ScriptedClaude, store: MemoryStore
) -> None:
    """A new agent continues the saved conversation to the same end. Each command runs once."""
    left = play(kind, server.url, TOLD, memory=store, stop_at=left_at, stream=stream)
    saved = json.loads(json.dumps(left.messages))
    again = [] if left_at is Finished else [None]
    played = play(kind, server.url, *again, memory=store, messages=saved, stream=stream)
    assert [event.reason for event in [*left.of(Finished), *played.of(Finished)]] == ["end_turn"]
    assert server.failures == []
    assert [version.operation for version in store.versions()] == ["created"]


@both
def test_a_refused_response_is_not_kept(kind: str, store: MemoryStore) -> None:
    """Sending the response back would make the API refuse again."""
    with scripted_claude(Script((Turn(("I can",), "refusal"),))) as server:
        played = play(kind, server.url, "Do it.", memory=store)
    (finished,) = played.of(Finished)
    assert (finished.reason, finished.text) == ("refusal", "I can")
    assert [message["role"] for message in played.messages] == ["user"]


@both
def test_a_truncated_response_leaves_a_valid_conversation(kind: str, store: MemoryStore) -> None:
    """The calls of the response do not run, because the last call may be incomplete.

    Each gets an error as its result.
    """
    cut = Turn((Call(dict(NOTE.input), Check(NOT_RUN, is_error=True)),), "max_tokens")
    with scripted_claude(Script((cut, Turn(("In short.",))))) as server:
        played = play(kind, server.url, TOLD, "Shorter, please.", memory=store)
        assert server.failures == []
    assert [finished.reason for finished in played.of(Finished)] == ["max_tokens", "end_turn"]
    assert [reply.is_error for reply in played.of(ToolReply)] == [True]
    assert list(store.memories()) == []


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("model_context_window_exceeded", "context_full"),
        ("stop_sequence", "end_turn"),
        ("new_in_2030", "other"),
        ("tool_use", "end_turn"),
    ],
)
def test_every_stop_reason_ends_a_run(stop: str, reason: str, store: MemoryStore) -> None:
    with scripted_claude(Script((Turn(("So far.",), stop),))) as server:
        (finished,) = play("sync", server.url, "Go.", memory=store).of(Finished)
    assert (finished.reason, finished.detail) == (reason, stop)


def test_a_paused_turn_is_resumed(store: MemoryStore) -> None:
    """A paused turn of server tools is one run with one text. Its parts are sent back unchanged."""
    api = Api(message([text("Searching.")], "pause_turn"), message([text("Found.")]))
    with api.client() as client:
        agent = Agent(client, memory=store)
        finished = list(agent.run("Search."))[-1]
    assert finished == Finished("end_turn", "Searching.\n\nFound.", 2, 4)
    assert api.sent[1]["messages"][1:] == [{"role": "assistant", "content": [text("Searching.")]}]
    assert [turn["role"] for turn in agent.messages] == ["user", "assistant", "assistant"]


def test_ask_returns_the_text(server: ScriptedClaude, store: MemoryStore) -> None:
    with client_of(server.url) as client:
        assert Agent(client, memory=store).ask(TOLD) == "You like tea, and I will remember it."


def test_ask_reports_the_reason_without_an_answer(server: ScriptedClaude, store: MemoryStore) -> None:
    with client_of(server.url) as client:
        agent = Agent(client, memory=store, budget=Budget(max_turns=1))
        with pytest.raises(Stopped, match="without an answer: budget") as stopped:
            agent.ask(TOLD)
    assert (stopped.value.reason, stopped.value.code) == ("budget", "stopped")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"memory": 5}, "a location .* a MemoryStore, or Mounts"),
        ({"language": "es"}, "choose one of en, de, fr, ja, zh-TW"),
        ({"request": {"tools": [], "model": "x"}}, "`request` must not contain model, tools"),
        ({"budget": Budget(max_tokens=30_000)}, "requires stream=True"),
        ({"actor": ""}, "actor"),
        ({"actor": 5}, "actor must be"),
        ({"messages": "hi"}, "`messages` must be a list"),
        ({"messages": [5]}, r"messages\[0\] must be a dict with `content` and `role`"),
        ({"messages": [{"role": "x", "content": "hi"}]}, r"messages\[0\] must be a dict with `content` and `role`"),
        ({"messages": [{"role": "user"}]}, r"messages\[0\]: `content` must be"),
        ({"messages": [{"role": "user", "content": " "}]}, r"messages\[0\]: a text block must not be blank"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "lone surrogate"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "b": object()}]}]},
            "cannot be serialized as JSON",
        ),
        ({"request": {"betas": "one"}}, "`betas` in `request`"),
        ({"request": {"betas": [1]}}, "`betas` in `request`"),
        ({"tools": 5}, "`tools` must be a list"),
        ({"tools": [5]}, "each tool must be a function"),
        ({"tools": [print]}, "each tool must be a function"),
        ({"tools": [{"x": 1}]}, "each tool must be a function"),
        ({"model": ""}, "`model` must not be empty"),
        ({"model": 5}, "`model` must be a string"),
        ({"system": 5}, "system prompt must be a string"),
        ({"system": "\ud800"}, "lone surrogate"),
        ({"topic": 5}, "`topic` must be a string"),
        ({"tools": [wait]}, "the tool 'wait' is async; use AsyncAgent, or define the tool with `beta_tool`"),
        ({"tools": [TOOL]}, "already has a tool named 'memory'; pass the memory as the argument `memory`"),
        ({"tools": [{"name": "a"}, {"name": "a"}]}, "two tools are named 'a'; the API accepts each name once"),
    ],
)
def test_invalid_options_are_rejected(
    options: dict[str, Any], expected: str, server: ScriptedClaude, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is raised before the memory is opened."""
    monkeypatch.chdir(tmp_path)
    with client_of(server.url) as client, pytest.raises(InvalidInput, match=expected):
        Agent(client, **options)
    assert list(tmp_path.iterdir()) == []


def test_the_tool_of_the_tool_runner_is_not_a_memory(server: ScriptedClaude, store: MemoryStore) -> None:
    """The error names the attribute of the tool that is one."""
    tool: Any = MemoryTool(store)
    with client_of(server.url) as client:
        with pytest.raises(InvalidInput, match=r"pass the tree of the tool instead: memory=tool\.tree"):
            Agent(client, memory=tool)
        with pytest.raises(InvalidInput, match="already has a tool named 'memory'; pass the memory as"):
            Agent(client, memory=store, tools=[tool])
        assert Agent(client, memory=tool.tree).memory is store


@both
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"request": {"nope": 1}}, "the SDK cannot build this request: .*nope"),
        ({"request": {"metadata": object()}}, "cannot be serialized as JSON"),
        ({"request": {"metadata": {"user_id": "\ud800"}}}, "contains a lone surrogate"),
        ({"tools": [{"name": "x", "input_schema": object()}]}, "cannot be serialized as JSON"),
    ],
)
def test_fields_that_cannot_be_sent_are_rejected(
    kind: str, options: dict[str, Any], expected: str, server: ScriptedClaude, store: MemoryStore
) -> None:
    with pytest.raises(InvalidInput, match=expected):
        play(kind, server.url, TOLD, memory=store, **options)
    assert server.requests == []


def test_one_run_at_a_time(store: MemoryStore) -> None:
    """Messages of two runs would mix.

    A second run may start once the first has ended, was closed or was garbage-collected.
    """
    script = Script((*STORY.turns, "More.", "Even more.", "Done."))
    with scripted_claude(script) as server, client_of(server.url) as client:
        agent = Agent(client, memory=store)
        events = agent.run(TOLD)
        next(event for event in events if isinstance(event, ToolCall))
        with pytest.raises(InvalidInput, match="a run in progress"):
            agent.ask("And coffee?")
        assert [turn["role"] for turn in agent.messages] == ["user", "assistant"]
        assert isinstance(list(events)[-1], Finished)
        left = agent.run("More?")
        next(left)
        left.close()  # type: ignore[attr-defined] # a generator
        next(agent.run())
        assert agent.ask()


def test_an_abandoned_async_run_does_not_block_the_next(store: MemoryStore) -> None:
    """The first run is abandoned without `aclosing`, which would end the run immediately."""

    async def asked() -> str:
        async with AsyncAnthropic(base_url=started.url, api_key="none") as client:
            agent = AsyncAgent(client, memory=store)
            async for event in agent.run(TOLD):
                if isinstance(event, ToolReply):
                    break
            async for _ in agent.run():
                with pytest.raises(InvalidInput, match="a run in progress"):
                    await agent.ask("More?")
                break
            return await agent.ask()

    with scripted_claude(STORY) as started:
        assert asyncio.run(asked()) == "You like tea, and I will remember it."


@pytest.mark.parametrize("message", [None, "", []])
def test_a_run_needs_a_message_or_a_conversation(message: Any, server: ScriptedClaude, store: MemoryStore) -> None:
    with client_of(server.url) as client, pytest.raises(InvalidInput, match=r"run\(\)"):
        list(Agent(client, memory=store).run(message))


PAY = {"command": "insert", "path": "/memories/log", "insert_line": 0, "insert_text": "paid"}
PAYING: list[dict[str, Any]] = [
    {"role": "user", "content": "Pay."},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "call_0", "name": "memory", "input": PAY}]},
]


def test_a_resumed_agent_needs_no_actor_to_make_a_change_once(store: MemoryStore) -> None:
    """The saved conversation has the actor and the run, so that ids that models reuse identify a call too."""
    store.create("/memories/log", "")
    with scripted_claude(lambda _: "Done.") as server, Anthropic(base_url=server.url, api_key="k") as client:
        saved = json.dumps(Agent(client, memory=store, messages=PAYING).saved())
        agents = [Agent(client, memory=store, messages=json.loads(saved)) for _ in range(2)]
        assert [agent.ask() for agent in agents] == ["Done."] * 2  # the first was killed before it saved the result
    assert store.read("/memories/log") == "paid\n"
    assert {str(agent.actor) for agent in agents} == {str(store.versions()[0].actor)}


def test_a_resumed_turn_continues_after_calls_before_a_text(store: MemoryStore) -> None:
    """A text after a call is no answer: the model has not seen the result."""
    store.create("/memories/log", "")
    paying = [PAYING[0], {"role": "assistant", "content": [*PAYING[1]["content"], {"type": "text", "text": "Paying."}]}]
    with scripted_claude(lambda _: "Done.") as server, Anthropic(base_url=server.url, api_key="k") as client:
        assert Agent(client, memory=store, messages=paying).ask() == "Done."


def test_each_turn_of_a_conversation_may_use_the_same_ids(store: MemoryStore) -> None:
    store.create("/memories/log", "")
    messages = json.loads(json.dumps(PAYING))
    for lines in (1, 2):
        killed = json.loads(json.dumps(messages))
        for each in (killed, messages):
            run_tools(each, store, actor="session:s", run="conversation 7")
        assert store.read("/memories/log") == "paid\n" * lines
        messages.append(PAYING[1])


@pytest.mark.parametrize("name", ["actor", "run"])
def test_a_damaged_saved_name_is_refused(name: str, store: MemoryStore) -> None:
    saved = Agent(Anthropic(api_key="k"), memory=store).saved()
    with pytest.raises(InvalidInput, match=f"{name} of a saved conversation"):
        Agent(Anthropic(api_key="k"), memory=store, messages=saved | {name: 7})
