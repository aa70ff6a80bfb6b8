"""The scripted Claude rejects the requests that the API rejects. Deviations from a script are reported as failures."""

from __future__ import annotations

import pytest

from retentive.testing.scripted_claude import Call, Check, Script, ScriptedClaude, Turn

from .requests import HELLO, assistant_call, post, result

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


def test_consecutive_messages_of_one_role_are_merged() -> None:
    """Two results in two messages answer two calls. A system message between them has no effect."""
    claude = ScriptedClaude(Script((Turn((Call({"command": "view"}), Call({"command": "view"}))), Turn(("Fine.",)))))
    note = {"role": "system", "content": "Be brief."}
    calls = [assistant_call("view", "t1"), assistant_call("view", "t2")]
    status, reply = post(claude, messages=[*HELLO, *calls, result("ok", "t1"), note, result("ok", "t2")])
    assert (status, reply["content"]) == (200, [{"type": "text", "text": "Fine."}])
