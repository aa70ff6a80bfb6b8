"""The limits of a conversation count all its runs, in the same agent and in those that continue it later."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retentive import InvalidInput, MemoryStore
from retentive.agent import Agent, Budget, Event, Finished, TokenUsage, UsageReport
from support.fixed_api import VIEW, Api, message, text, use

from .runs import KINDS, FixedApiAgent

both = pytest.mark.parametrize("kind", KINDS)
SEARCHED: dict[str, Any] = {
    **message([text("Found.")]),
    "usage": {
        "input_tokens": 3,
        "output_tokens": 5,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 11,
        "iterations": [
            {"type": "compaction", "input_tokens": 100, "output_tokens": 10},
            {"type": "message", "input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 7},
        ],
    },
}


def last(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


LIMITS = [
    ({"max_total_turns": 2}, "max_total_turns: 2 of 2 replies"),
    ({"max_total_tokens": 4}, "max_total_tokens: 4 of 4 tokens"),
]


@both
@pytest.mark.parametrize(("limits", "detail"), LIMITS)
def test_a_limit_holds_in_later_runs(kind: str, limits: dict[str, int], detail: str, store: MemoryStore) -> None:
    """Each run has a new agent. Each response has 2 tokens. At the limit, no request is sent."""
    api = Api(message([text("One.")]), message([text("Two.")]), message([text("Three.")]))
    asked = FixedApiAgent(kind, api, store, budget=Budget(**limits))
    assert [last(asked.run(told)).reason for told in ("1?", "2?", "3?")] == ["end_turn", "end_turn", "budget"]
    assert last(asked.run()) == Finished("budget", "", 0, 0, detail)
    assert len(api.sent) == 2
    raised = FixedApiAgent(kind, api, store, budget=Budget(max_total_turns=3))
    raised.saved = asked.saved
    assert last(raised.run()).text == "Three."


@both
def test_calls_run_before_the_limit_ends_a_run(kind: str, store: MemoryStore) -> None:
    """As after a kill: the response is saved, but its call has not run."""
    saved = {
        "messages": [{"role": "user", "content": "Look."}, {"role": "assistant", "content": [use(VIEW)]}],
        "used": {**USED, "turns": 1},
        "stop_reason": "tool_use",
    }
    api = Api(message([text("Never.")]))
    asked = FixedApiAgent(kind, api, store, budget=Budget(max_total_turns=1))
    asked.saved = saved
    assert last(asked.run()).reason == "budget"
    assert asked.messages[-1]["content"][0]["type"] == "tool_result"
    assert api.sent == []


@both
def test_all_responses_are_counted(kind: str, store: MemoryStore) -> None:
    """A refusal is not part of the conversation, but it has a price. So has a compaction."""
    api = Api(message([text("No.")], "refusal"), SEARCHED)
    asked = FixedApiAgent(kind, api, store)
    asked.run("Do it.")
    assert asked.saved["used"]["turns"] == 1
    events = asked.run("Search.")
    assert asked.saved["used"] == {
        "turns": 2,
        "input_tokens": 104,
        "output_tokens": 16,
        "cache_read_tokens": 7,
        "cache_creation_tokens": 0,
    }
    (report,) = [event for event in events if isinstance(event, UsageReport)]
    assert report.total_tokens == 125
    assert (report.usage.cache_read_tokens, report.usage.cache_creation_tokens) == (7, 11)


def test_messages_alone_have_used_nothing(store: MemoryStore) -> None:
    with Api(message([text("Yes.")])).client() as client:
        agent = Agent(client, memory=store)
        agent.ask("1?")
        assert agent.used == TokenUsage(1, 1, 1)
        assert Agent(client, memory=store, messages=agent.messages).used == TokenUsage()
        again = Agent(client, memory=store, messages=json.loads(json.dumps(agent.saved())))
        assert (again.used, again.messages) == (agent.used, agent.messages)


USED = {"turns": 0, "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_creation_tokens": 0}


@pytest.mark.parametrize(
    ("saved", "expected"),
    [
        ({}, r"the dict that `agent\.saved\(\)` returned"),
        ({"messages": []}, r"the dict that `agent\.saved\(\)` returned"),
        ({"used": USED}, r"the dict that `agent\.saved\(\)` returned"),
        ({"messages": [], "used": {}}, "turns of a saved conversation must be an integer"),
        ({"messages": [], "used": {**USED, "turns": -1}}, "turns of a saved conversation must be an integer"),
        ({"messages": [], "used": {**USED, "input_tokens": "1"}}, "input_tokens of a saved conversation must be"),
        ({"messages": [], "used": USED}, "stop_reason of a saved conversation must be a string"),
        ({"messages": [5], "used": USED, "stop_reason": "end_turn"}, r"messages\[0\] must be a dict"),
    ],
)
def test_an_invalid_saved_conversation_is_rejected(saved: dict[str, Any], expected: str, store: MemoryStore) -> None:
    with Api().client() as client, pytest.raises(InvalidInput, match=expected):
        Agent(client, memory=store, messages=saved)
