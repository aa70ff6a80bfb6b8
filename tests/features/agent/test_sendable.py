"""Whatever a saved conversation contains, the API accepts what the agent sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retentive.agent.sendable import UNKNOWN_OUTCOME, sendable
from retentive.testing.scripted_claude import ScriptedClaude
from support.profiles import sized

from .requests import ASK, HELLO

READ = {"name": "read", "description": "Read a file.", "input_schema": {"type": "object", "properties": {}}}
HEADERS = {
    "x-api-key": "key",
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "context-management-2025-06-27,compact-2026-01-12",
}
SAID = {"type": "text", "text": "Said."}
BLANK = {"type": "text", "text": " \n"}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
HIDDEN = {"type": "redacted_thinking", "data": "x"}
SUMMARY = {"type": "compaction", "content": "They like tea."}
NO_SUMMARY = {"type": "compaction", "content": None}
ASSISTANT = st.sampled_from(["text", "blank", "thinking", "hidden", "call", "search", "found", "summary", "no summary"])
USER = st.sampled_from(["text", "blank", "result", "late result", "unknown result", "empty error"])
TURNS = st.lists(
    st.one_of(
        st.tuples(st.just("assistant"), st.lists(ASSISTANT, min_size=1, max_size=4)),
        st.tuples(st.just("user"), st.lists(USER, min_size=1, max_size=4)),
    ),
    max_size=7,
)
PLAIN: dict[str, dict[str, Any]] = {
    "text": SAID,
    "blank": BLANK,
    "thinking": THOUGHT,
    "hidden": HIDDEN,
    "summary": SUMMARY,
    "no summary": NO_SUMMARY,
}


def call(number: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {}}


def result(number: int, content: str = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"t{number}", "content": content, **more}


def search(number: int) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": f"s{number}", "name": "web_search", "input": {}}


def found(number: int) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": f"s{number}", "content": []}


def made(turns: list[tuple[str, list[str]]]) -> list[dict[str, Any]]:
    """A conversation with these blocks. Each call has an id of its own."""
    messages: list[dict[str, Any]] = [*HELLO]
    number = 0
    for role, kinds in turns:
        blocks: list[dict[str, Any]] = []
        for kind in kinds:
            number += kind in ("call", "search", "found")
            blocks += {
                "call": [call(number)],
                "search": [search(number)],
                "found": [search(number), found(number)],
                "result": [result(number)],
                "late result": [result(max(number - 1, 0))],
                "unknown result": [result(999)],
                "empty error": [result(number, "", is_error=True)],
            }.get(kind, [PLAIN.get(kind, {})])
        messages.append({"role": role, "content": blocks})
    return [*messages, {"role": "user", "content": "Go on."}]


@settings(max_examples=sized(quick=100, long=2_000, full=20_000), deadline=None)
@given(TURNS)
def test_the_api_accepts_any_saved_conversation(turns: list[tuple[str, list[str]]]) -> None:
    messages = made(turns)
    sent = sendable(messages)
    claude = ScriptedClaude(lambda _: "Fine.")
    exchange = claude.answer(HEADERS, json.dumps({**ASK, "messages": sent, "tools": [READ]}).encode())
    assert exchange.status == 200, exchange.reply
    assert messages == made(turns)


HI: dict[str, Any] = {"role": "user", "content": [SAID]}
UNKNOWN = result(1, UNKNOWN_OUTCOME, is_error=True)


def of(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": [*blocks]}


def to(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [*blocks]}


@pytest.mark.parametrize(
    ("saved", "sent"),
    [
        ([HI, of(SAID), HI, of(SAID, SUMMARY, SAID), HI], [of(SUMMARY, SAID), HI]),
        ([HI, of(NO_SUMMARY, SAID), HI], [HI, of(NO_SUMMARY, SAID), HI]),
        ([HI, of(BLANK, SAID), to(BLANK)], [HI, of(SAID)]),
        ([HI, of(call(1)), to(SAID, result(1), result(1, "twice"), result(2))], [HI, of(call(1)), to(result(1), SAID)]),
        ([HI, of(call(1)), HI, to(result(1))], [HI, of(call(1)), to(result(1), SAID)]),
        ([HI, of(call(1)), HI], [HI, of(call(1)), to(UNKNOWN, SAID)]),
        ([HI, of(call(1))], [HI, of(call(1)), to(UNKNOWN)]),
        ([HI, of(SAID, THOUGHT, HIDDEN), HI], [HI, of(SAID), HI]),
        ([HI, of(call(1), THOUGHT), of(SAID)], [HI, of(call(1)), to(UNKNOWN), of(SAID)]),
        ([HI, of(SAID, search(1)), HI], [HI, of(SAID), HI]),
        ([HI, of(SAID, search(1))], [HI, of(SAID, search(1))]),
        ([HI, of(search(1)), of(found(1), SAID), HI], [HI, of(search(1)), of(found(1), SAID), HI]),
    ],
    ids=[
        "summary",
        "no summary",
        "blank texts",
        "results",
        "a result after a text",
        "no result",
        "no result at the end",
        "final thinking",
        "final thinking after a call",
        "server call of an ended turn",
        "server call of an open turn",
        "server call with a later result",
    ],
)
def test_what_the_api_would_refuse_is_mended(saved: list[dict[str, Any]], sent: list[dict[str, Any]]) -> None:
    assert sendable(saved) == sent
