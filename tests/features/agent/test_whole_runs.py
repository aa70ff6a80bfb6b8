"""Whatever Claude answers and wherever a run is left, the API accepts the next request of the conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx2
from anthropic import Anthropic
from hypothesis import given, settings
from hypothesis import strategies as st

import retentive
from retentive.agent import Agent, Budget
from retentive.testing.scripted_claude import Call, Raw, ScriptedClaude, Thinking, Turn
from support.profiles import sized

SEARCH = {"type": "server_tool_use", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "content": []}
PLAIN: dict[str, Any] = {
    "text": "Said.",
    "blank": " \n",
    "thinking": Thinking("Hm."),
    "hidden": Raw({"type": "redacted_thinking", "data": "x"}),
    "call": Call({"command": "view", "path": "/memories"}),
    "summary": Raw({"type": "compaction", "content": "They like tea."}),
    "no summary": Raw({"type": "compaction", "content": None}),
}
BLOCKS = st.lists(st.sampled_from([*PLAIN, "search", "found"]), min_size=1, max_size=4)
REASONS = st.sampled_from([None, None, "max_tokens", "pause_turn", "refusal"])
NEXT = st.sampled_from(["Go on.", None])
STEPS = st.lists(st.tuples(BLOCKS, REASONS, NEXT, st.booleans()), max_size=6)


def replies(steps: list[Any]) -> Iterator[Turn]:
    """Each call of a server tool has an id of its own, and its result follows it. A call of the client ends a response,
    so no summary comes after it.
    """
    number = 0
    for kinds, reason, *_ in steps:
        blocks = list[Any]()
        for at, kind in enumerate(kinds):
            number += kind == "search"
            raw = {"search": Raw({**SEARCH, "id": f"s{number}"}), "found": Raw({**FOUND, "tool_use_id": f"s{number}"})}
            cannot_be = kind == "found" and (not blocks or blocks[-1] != raw["search"])
            cannot_be = cannot_be or (kind == "call" and "summary" in kinds[at:])
            blocks += [PLAIN["text"]] if cannot_be else [{**PLAIN, **raw}[kind]]
        yield Turn(tuple(blocks), reason)


@settings(max_examples=sized(quick=30, long=1_000, full=10_000), deadline=None)
@given(STEPS)
def test_the_api_accepts_every_request(steps: list[Any]) -> None:
    turns, saved = replies(steps), dict[str, Any]()
    claude = ScriptedClaude(lambda _: next(turns, "Fine."))

    def answer(request: httpx2.Request) -> httpx2.Response:
        exchange = claude.answer({name.lower(): value for name, value in request.headers.items()}, request.content)
        return httpx2.Response(exchange.status, json=dict(exchange.reply))

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    with retentive.open("sqlite://") as opened, Anthropic(api_key="k", max_retries=0, http_client=http) as client:
        for *_, message, is_killed in [*steps, ("Bye.", False)]:
            given: Any = saved or ()
            agent = Agent(client, memory=opened.store(), messages=given, budget=Budget(max_turns=1))
            for _ in agent.run(message if saved else "Hello."):
                if is_killed:
                    break
            saved = json.loads(json.dumps(agent.saved()))
    assert [exchange.reply for exchange in claude.requests if exchange.status != 200] == []
    for exchange in claude.requests:
        sent: Any = exchange.body
        for one, after in pairwise(sent["messages"]):  # the scripted Claude does not check this rule
            is_final = one["role"] == "assistant" and after["role"] == "user"
            assert not (is_final and one["content"][-1]["type"] in {"thinking", "redacted_thinking"})
