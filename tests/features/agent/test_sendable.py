"""Every request is one that the API accepts, whatever the conversation contains."""

from __future__ import annotations

import random
from typing import Any

import pytest

from retentive.agent import run_tools
from retentive.agent.conversation import EMPTY_ERROR, add_result, tool_result, unanswered_calls
from retentive.agent.sendable import UNKNOWN_OUTCOME, sendable
from support.profiles import sized

ASK: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "Hello?"}]}
NEXT: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "And?"}]}
SAID = {"type": "text", "text": "Well."}
BLANK = {"type": "text", "text": " \n"}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}


def call(number: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"t{number}", "name": "memory", "input": {}}


def answer(number: int, content: object = "ok", **more: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"t{number}", "content": content, **more}


def searching(number: int) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": f"s{number}", "name": "web_search", "input": {"query": "x"}}


def found(number: int) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": f"s{number}", "content": []}


def says(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def asks(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


MENDED: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "blank text": ([ASK, says(BLANK, SAID), NEXT], [ASK, says(SAID), NEXT]),
    "a message of blank text": ([ASK, says(BLANK), NEXT], [ASK, NEXT]),
    "thinking at the end": ([ASK, says(SAID, THOUGHT), NEXT], [ASK, says(SAID), NEXT]),
    "a response of thinking": ([ASK, says(THOUGHT), NEXT], [ASK, NEXT]),
    "an empty error": (
        [ASK, says(call(1)), asks(answer(1, "", is_error=True))],
        [ASK, says(call(1)), asks(answer(1, EMPTY_ERROR, is_error=True))],
    ),
    "an error of blank blocks": (
        [ASK, says(call(1)), asks(answer(1, [BLANK], is_error=True))],
        [ASK, says(call(1)), asks(answer(1, EMPTY_ERROR, is_error=True))],
    ),
    "a result without its call": ([ASK, says(SAID), asks(answer(7), *NEXT["content"])], [ASK, says(SAID), NEXT]),
    "a call without a result": (
        [ASK, says(call(1), call(2)), asks(answer(2)), NEXT],
        [ASK, says(call(1), call(2)), asks(answer(1, UNKNOWN_OUTCOME, is_error=True), answer(2)), NEXT],
    ),
    "a call without any result": (
        [ASK, says(call(1)), NEXT],
        [ASK, says(call(1)), asks(answer(1, UNKNOWN_OUTCOME, is_error=True), *NEXT["content"])],
    ),
    "a conversation with a summary": (
        [ASK, says(SAID), NEXT, says({"type": "compaction", "content": "So far."}, call(1)), asks(answer(1))],
        [says({"type": "compaction", "content": "So far."}, call(1)), asks(answer(1))],
    ),
    "a failed compaction": (
        [ASK, says({"type": "compaction", "content": None}, SAID), NEXT],
        [ASK, says({"type": "compaction", "content": None}, SAID), NEXT],
    ),
    "a search without results in an ended turn": ([ASK, says(SAID, searching(1)), NEXT], [ASK, says(SAID), NEXT]),
    "a search in a paused turn": ([ASK, says(SAID, searching(1))], [ASK, says(SAID, searching(1))]),
    "a search with its results in the next response": (
        [ASK, says(searching(1)), says(found(1), SAID), NEXT],
        [ASK, says(searching(1)), says(found(1), SAID), NEXT],
    ),
    "a search beside a call of the client": (
        [ASK, says(searching(1), call(1)), asks(answer(1))],
        [ASK, says(searching(1), call(1)), asks(answer(1))],
    ),
}


@pytest.mark.parametrize("name", MENDED)
def test_a_conversation_is_mended(name: str) -> None:
    """The saved messages stay as they are, and a mended conversation is not changed again."""
    messages, expected = MENDED[name]
    before = repr(messages)
    assert sendable(messages) == expected
    assert sendable(expected) == expected
    assert repr(messages) == before


def problems(messages: list[dict[str, Any]]) -> list[str]:
    """Violated rules of the API, found independently of the code under test."""
    found_problems = []
    for at, message in enumerate(messages):
        blocks = message["content"]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        if not blocks or any(not text.strip() for text in texts):
            found_problems.append(f"{at}: blank")
        before = messages[at - 1]["content"] if at and messages[at - 1]["role"] == "assistant" else []
        called = [block["id"] for block in before if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if message["role"] == "user" and sorted(called) != sorted(results):
            found_problems.append(f"{at}: {called} but {results}")
        first_other = next((n for n, block in enumerate(blocks) if block["type"] != "tool_result"), len(blocks))
        if first_other < len(results):
            found_problems.append(f"{at}: a result after other content")
    if messages and any(block["type"] == "tool_use" for block in messages[-1]["content"]):
        found_problems.append("the end: a call without a result")
    return found_problems


def test_any_conversation_becomes_valid() -> None:
    """Random blocks in random messages, with results that are missing, empty, repeated or of other calls."""
    for seed in range(sized(quick=500, long=10_000, full=50_000)):
        rng, messages, number = random.Random(seed), [ASK], 0
        for _ in range(rng.randrange(1, 8)):
            blocks = []
            for _ in range(rng.randrange(0, 4)):
                number += 1
                blocks.append(rng.choice([SAID, BLANK, call(number), searching(number), found(number)]))
            messages.append(says(*blocks))
            number += rng.randrange(2)
            results = [
                answer(rng.randrange(1, number + 2), rng.choice(["ok", "", [BLANK]])) for _ in range(rng.randrange(3))
            ]
            said = rng.choice([[], [BLANK], NEXT["content"]])
            messages.append(asks(*results, *said))
        sent = sendable(messages)
        assert problems(sent) == [], (seed, messages)
        assert sendable(sent) == sent, seed


def test_results_are_added_in_front_of_a_new_message() -> None:
    messages: list[dict[str, Any]] = [ASK, says(call(1), call(2)), asks(answer(1), *NEXT["content"])]
    assert unanswered_calls(messages) == [call(2)]
    add_result(messages, tool_result("t2", "late"))
    assert messages[2:] == [asks(answer(1), answer(2, "late"), *NEXT["content"])]
    assert unanswered_calls(messages) == []


def test_run_tools_adds_the_missing_results_once() -> None:
    view = {**call(1), "input": {"command": "view", "path": "/memories"}}
    messages: list[dict[str, Any]] = [ASK, says(SAID, view, {**call(2), "name": "ghost"})]
    results = run_tools(messages, "sqlite://")
    assert [result["tool_use_id"] for result in results] == ["t1", "t2"]
    assert (results[0].get("is_error"), results[1]["is_error"]) == (None, True)
    assert messages[2] == asks(*results)
    assert run_tools(messages, "sqlite://") == []
