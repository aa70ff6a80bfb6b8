"""The scripted Claude rejects the requests that the API rejects. Deviations from a script are reported as failures."""

from __future__ import annotations

from typing import Any

import pytest

from retentive.testing.scripted_claude import Call, Check, Script, ScriptedClaude, Turn

from .requests import HELLO, THREADS, TOOL, VERSION, assistant_call, post, result

CHECKS = {
    "text": (Check("no"), "expected the text 'no', got 'yes, it is'"),
    "contains": (Check(contains=("yes", "no")), "expected a text that contains 'no', got 'yes, it is'"),
    "no error": (Check(is_error=True), "expected is_error True, got False with the text 'yes, it is'"),
    "holds": (Check(holds=lambda text: "no" in text), "the check failed for the text 'yes, it is'"),
    "raises": (
        Check(holds=lambda text: text.index("no")),
        "the check raised ValueError('substring not found')",
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_failed_check_is_a_detailed_error(name: str) -> None:
    check, expected = CHECKS[name]
    claude = ScriptedClaude(Script((Turn((Call({"command": "view"}, check),)), Turn(("Fine.",))), "the script"))
    messages = [*HELLO, assistant_call("view"), result("yes, it is")]
    status, reply = post(claude, messages=messages)
    message: str = reply["error"]["message"]
    assert (status, reply["type"], reply["error"]["type"]) == (400, "error", "invalid_request_error")
    assert message.startswith('[scripted Claude] script \'the script\', turn 1: memory {"command": "view"}: ')
    assert expected in message
    assert [str(failure) in message for failure in claude.failures] == [True]


def test_a_passed_check_continues_the_script() -> None:
    every = Check("yes, it is", contains=("yes", "it"), is_error=True, holds=lambda text: "is" in text)
    claude = ScriptedClaude(Script((Turn((Call({"command": "view"}, every),)), Turn(("Fine.",)))))
    blocks = [{"type": "text", "text": "yes, "}, {"type": "text", "text": "it is"}]
    status, _ = post(claude, messages=[*HELLO, assistant_call("view"), result(blocks, is_error=True)])
    assert (status, claude.failures) == (200, [])


def test_deviations_from_the_script_are_failures() -> None:
    """Examples are a call of a missing tool, a changed history, and a conversation without a script."""
    claude = ScriptedClaude(Script((Turn((Call({"command": "view"}),)),), when="tea"))
    for request in (
        {"messages": HELLO, "tools": []},
        {"messages": [*HELLO, assistant_call("delete"), result("ok")]},
        {"messages": [{"role": "user", "content": "Good morning."}]},
    ):
        assert post(claude, **request)[0] == 400
    messages = [failure.message for failure in claude.failures]
    assert len(messages) == 3
    assert "'memory' is not in the request" in messages[0]
    assert "changed the history" in messages[1]
    assert "no script matches the first user message 'Good morning.'" in messages[2]


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "no key": ({"headers": VERSION}, 401, "x-api-key header is required"),
    "no version": (
        {"headers": {"authorization": "Bearer key"}},
        400,
        "anthropic-version: header is required",
    ),
    "not JSON": ({"raw": b"{"}, 400, "not valid JSON"),
    "too deep": ({"raw": b"[" * 100_000}, 400, "not valid JSON"),
    "not an object": ({"raw": b"[]"}, 400, "must be a JSON object"),
    "no model": ({"drop": ("model",)}, 400, "model: Field required"),
    "no max_tokens": ({"drop": ("max_tokens",)}, 400, "max_tokens: Field required"),
    "odd max_tokens": ({"max_tokens": "many"}, 400, "max_tokens: Input should be a valid integer"),
    "no messages": ({"drop": ("messages",)}, 400, "messages: Field required"),
    "empty messages": ({"messages": []}, 400, "at least one message is required"),
    "assistant first": ({"messages": [assistant_call("view")]}, 400, 'must use the "user" role'),
    "assistant last": ({"messages": [*HELLO, {"role": "assistant", "content": "x"}]}, 400, "prefill"),
    "odd role": ({"messages": [{"role": "tool", "content": "x"}]}, 400, "messages.0.role"),
    "empty content": ({"messages": [{"role": "user", "content": []}]}, 400, "non-empty content"),
    "empty text": (
        {"messages": [{"role": "user", "content": ""}]},
        400,
        "text content blocks must be non-empty",
    ),
    "blank text": (
        {"messages": [{"role": "user", "content": " \n"}]},
        400,
        "text content blocks must contain non-whitespace text",
    ),
    "blank text of the assistant": (
        {"messages": [*HELLO, {"role": "assistant", "content": [{"type": "text", "text": "\n"}]}, *HELLO]},
        400,
        "messages.1: text content blocks must contain non-whitespace text",
    ),
    "untyped block": ({"messages": [{"role": "user", "content": [{}]}]}, 400, "messages.0.content.0.type"),
    "unanswered call": (
        {"messages": [*HELLO, assistant_call("view"), {"role": "user", "content": "So?"}]},
        400,
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1",
    ),
    "half answered": (
        {"messages": [*HELLO, assistant_call("view", "t1"), assistant_call("view", "t2"), result("ok", "t1")]},
        400,
        "immediately after: t2",
    ),
    "text before the results": (
        {"messages": [*HELLO, assistant_call("view"), {"role": "user", "content": "So:"}, result("ok")]},
        400,
        "immediately after: t1",
    ),
    "unasked result": ({"messages": [result("ok")]}, 400, "unexpected `tool_use_id`"),
    "two results": (
        {"messages": [*HELLO, assistant_call("view"), result("a"), result("b")]},
        400,
        "a single result",
    ),
    "tools with one name": ({"tools": [TOOL, TOOL]}, 400, "Tool names must be unique"),
    "memory tool of another type": (
        {"tools": [{"type": "memory_20990101", "name": "memory"}]},
        400,
        "the memory tool must be {'type': 'memory_20250818', 'name': 'memory'}",
    ),
    "memory tool of another name": ({"tools": [{**TOOL, "name": "notes"}]}, 400, "the memory tool must be"),
    "thread without its beta": (
        {"thread": {"type": "create"}},
        400,
        "thread: Extra inputs are not permitted",
    ),
    "editing without its beta": ({"context_management": {}}, 400, "context_management: Extra inputs"),
    "odd thread": ({"headers": THREADS, "thread": {"type": "fork"}}, 400, "thread.type"),
    "thread from nowhere": ({"headers": THREADS, "thread": {"type": "continue"}}, 400, "previous_message_id"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_requests_are_rejected_with_the_errors_of_the_api(name: str) -> None:
    change, status, message = REFUSED[name]
    claude = ScriptedClaude(Script((Turn(("Fine.",)),)))
    answered, reply = post(claude, **change)
    assert (answered, reply["type"]) == (status, "error")
    assert message in reply["error"]["message"]
    assert claude.failures == []


def test_consecutive_messages_of_one_role_are_merged() -> None:
    """Two results in two messages answer two calls. A system message between them has no effect."""
    claude = ScriptedClaude(Script((Turn((Call({"command": "view"}), Call({"command": "view"}))), Turn(("Fine.",)))))
    note = {"role": "system", "content": "Be brief."}
    calls = [assistant_call("view", "t1"), assistant_call("view", "t2")]
    status, reply = post(claude, messages=[*HELLO, *calls, result("ok", "t1"), note, result("ok", "t2")])
    assert (status, reply["content"]) == (200, [{"type": "text", "text": "Fine."}])
