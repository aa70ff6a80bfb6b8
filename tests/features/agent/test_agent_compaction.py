"""Compaction on demand: `agent.compact()` sends one request, and later requests start with its summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

import retentive
from retentive import InvalidInput, MemoryStore
from retentive.agent import (
    Agent,
    Budget,
    Compaction,
    Event,
    Finished,
    Overloaded,
    RequestRefused,
    ToolCall,
    ToolReply,
    UsageReport,
)
from support.fixed_api import VIEW, Api, message, streamed, text, use

from .runs import KINDS, FixedApiAgent

SUMMARY = {"type": "compaction", "content": "They like tea.", "signature": "EuYB"}
USAGE = {
    "input_tokens": 0,
    "output_tokens": 0,
    "iterations": [{"type": "compaction", "input_tokens": 144, "output_tokens": 276}],
}
COMPACTED = {**message([SUMMARY], "compaction"), "usage": USAGE}
EDITING, THRESHOLD, ON_DEMAND = "context-management-2025-06-27", "compact-2026-01-12", "compact-2026-09-04"
both = pytest.mark.parametrize("kind", KINDS)
ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with retentive.open("sqlite://") as opened:
        yield opened.store()


def way(stream: bool) -> Callable[[Any], Any]:
    return streamed if stream else dict


def last(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def betas(api: Api) -> list[str]:
    return [headers.get("anthropic-beta", "") for headers in api.headers]


@both
@ways
def test_a_conversation_is_compacted(kind: str, stream: bool, store: MemoryStore) -> None:
    """The block is kept as it came, with the messages before it, and sent first in later requests."""
    send = way(stream)
    api = Api(*map(send, (message([text("Noted.")]), COMPACTED, message([text("Tea.")]), message([text("Still.")]))))
    asked = FixedApiAgent(kind, api, store, stream=stream, system="Be kind.")
    asked.run("I like tea.")
    events = asked.compact()
    assert [event for event in events if not isinstance(event, UsageReport)] == [
        Compaction("They like tea."),
        Finished("pause", "", 1, 420, "compaction"),
    ]
    assert asked.messages[-1] == {"role": "assistant", "content": [SUMMARY]}
    assert [turn["role"] for turn in asked.messages] == ["user", "assistant", "assistant"]
    assert (asked.saved["used"]["turns"], asked.saved["used"]["input_tokens"]) == (2, 145)
    assert last(asked.run("What do I like?")).text.strip() == "Tea."
    assert last(asked.run("Still?")).text.strip() == "Still."
    first, compacting, later, latest = api.sent
    assert compacting["compaction"] == {"type": "summarize"}
    assert compacting["messages"][0] == first["messages"][0]
    assert (compacting["system"], compacting["tools"]) == (first["system"], first["tools"])
    assert "context_management" not in compacting
    assert "compaction" not in later
    assert [turn["content"][0] for turn in later["messages"]] == [SUMMARY, text("What do I like?")]
    assert latest["messages"][0]["content"] == [SUMMARY]
    assert [edit["type"] for edit in later["context_management"]["edits"]] == ["clear_tool_uses_20250919"]
    assert betas(api) == [f"{EDITING},{THRESHOLD}", ON_DEMAND, f"{EDITING},{ON_DEMAND}", f"{EDITING},{ON_DEMAND}"]


@both
def test_a_conversation_is_compacted_again(kind: str, store: MemoryStore) -> None:
    """The new summary replaces the old one."""
    newer = {**message([{**SUMMARY, "content": "Green tea."}], "compaction"), "usage": USAGE}
    api = Api(COMPACTED, message([text("Noted.")]), newer, message([text("Green.")]))
    asked = FixedApiAgent(kind, api, store)
    asked.saved = {"messages": [{"role": "user", "content": "I like tea."}], "used": NOTHING, "stop_reason": "end_turn"}
    asked.compact()
    asked.run("Green tea.")
    asked.compact()
    asked.run()
    assert [len(sent["messages"]) for sent in api.sent] == [1, 2, 3, 1]
    assert api.sent[2]["messages"][0]["content"] == [SUMMARY]
    assert [block["content"] for block in api.sent[3]["messages"][0]["content"]] == ["Green tea."]


NOTHING = {"turns": 0, "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_creation_tokens": 0}


@both
def test_open_calls_run_first(kind: str, store: MemoryStore) -> None:
    """The API refuses to compact a conversation whose last response has calls without a result."""
    asked = FixedApiAgent(kind, Api(COMPACTED, message([text("Nothing.")])), store)
    called = {"role": "assistant", "content": [use(VIEW)]}
    asked.saved = [{"role": "user", "content": "Look."}, called]
    assert [type(event) for event in asked.compact()] == [ToolCall, ToolReply, Compaction, UsageReport, Finished]
    assert [turn["role"] for turn in asked.messages] == ["user", "assistant", "user", "assistant"]
    assert last(asked.run()).text == "Nothing."


@both
@ways
@pytest.mark.parametrize(
    ("stop_reason", "reason"),
    [
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "context_full"),
        ("tool_use", "other"),
        ("refusal", "refusal"),
        ("end_turn", "other"),
    ],
)
def test_without_a_summary_nothing_changes(
    kind: str, stream: bool, stop_reason: str, reason: str, store: MemoryStore
) -> None:
    send = way(stream)
    api = Api(*map(send, (message([text("Hi.")]), message([], stop_reason), message([text("Yes.")]))))
    asked = FixedApiAgent(kind, api, store, stream=stream)
    asked.run("Hello?")
    before = list(asked.messages)
    events = asked.compact()
    assert events[0] == Compaction(None)
    assert last(events).reason == reason
    assert asked.messages == before
    assert last(asked.run("There?")).text.strip() == "Yes."
    assert len(api.sent[2]["messages"]) == 3


@both
def test_instructions_replace_the_prompt(kind: str, store: MemoryStore) -> None:
    api = Api(COMPACTED)
    asked = FixedApiAgent(kind, api, store)
    asked.saved = [{"role": "user", "content": "I like tea."}]
    asked.compact(instructions="Keep all names.")
    assert api.sent[0]["compaction"] == {"type": "summarize", "instructions": "Keep all names."}


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [(" ", "must not be blank"), (5, "must be a string"), ("x" * 16_385, "not be longer than 16,384 characters")],
)
def test_invalid_instructions_are_rejected(instructions: Any, expected: str, store: MemoryStore) -> None:
    with Api().client() as client, pytest.raises(InvalidInput, match=expected):
        Agent(client, memory=store).compact(instructions=instructions)


def test_an_empty_conversation_is_not_compacted(store: MemoryStore) -> None:
    with Api().client() as client, pytest.raises(InvalidInput, match="the conversation is empty"):
        list(Agent(client, memory=store).compact())


def test_fields_that_shape_a_reply_are_left_out(store: MemoryStore) -> None:
    """The API refuses them beside `compaction`."""
    shape = {"stop_sequences": ["END"], "tool_choice": {"type": "any"}}
    output = {"output_config": {"format": {"type": "json_schema", "schema": {}}, "effort": "low"}}
    api = Api(COMPACTED)
    asked = FixedApiAgent("sync", api, store, request={**shape, **output, "metadata": {"user_id": "u1"}})
    asked.saved = [{"role": "user", "content": "I like tea."}]
    asked.compact()
    assert not set(shape) & set(api.sent[0])
    assert (api.sent[0]["output_config"], api.sent[0]["metadata"]) == ({"effort": "low"}, {"user_id": "u1"})


@both
@pytest.mark.parametrize(("status", "kind_of_error"), [(529, Overloaded), (400, RequestRefused)])
def test_a_failed_request_leaves_the_conversation(
    kind: str, status: int, kind_of_error: type[Exception], store: MemoryStore
) -> None:
    """An error keeps all messages: none of them is known to be its cause."""
    body = {"type": "error", "error": {"type": "overloaded_error" if status == 529 else "invalid_request_error"}}
    api = Api(httpx2.Response(status, json=body), COMPACTED)
    asked = FixedApiAgent(kind, api, store)
    asked.saved = [{"role": "user", "content": "I like tea."}]
    with pytest.raises(kind_of_error):
        asked.compact()
    assert len(asked.messages) == 1
    assert last(asked.compact()).reason == "pause"


def test_a_compaction_counts_for_the_budget(store: MemoryStore) -> None:
    api = Api(message([text("Hi.")]), COMPACTED)
    asked = FixedApiAgent("sync", api, store, budget=Budget(max_total_turns=2))
    asked.run("Hello?")
    assert last(asked.compact()).reason == "pause"
    assert last(asked.compact()).reason == "budget"
    assert len(api.sent) == 2
