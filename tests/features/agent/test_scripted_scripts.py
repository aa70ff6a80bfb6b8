"""Scripts: checks of results, deviations from a script, script functions, and scripts in files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, BadRequestError

from retentive.testing.scripted_claude import (
    Call,
    Check,
    Script,
    ScriptedClaude,
    ScriptError,
    Turn,
    scripted_claude,
)
from retentive.testing.scripted_claude.__main__ import parse

from .requests import HELLO, TOOL, assistant_call, post, result

pytest_plugins = ["pytester"]

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
    status, reply = post(claude, messages)
    message: str = reply["error"]["message"]
    assert (status, reply["type"], reply["error"]["type"]) == (400, "error", "invalid_request_error")
    assert message.startswith("[scripted Claude] script 'the script', turn 1: memory {")
    assert expected in message
    assert [str(failure) in message for failure in claude.failures] == [True]


TEST = """
from anthropic import Anthropic

def ask(server, *texts):
    client = Anthropic(base_url=server.url, api_key="none", max_retries=0)
    for text in texts:
        client.messages.create(model="claude-sonnet-5-5", max_tokens=9, messages=[{"role": "user", "content": text}])

def test_whole(scripted_claude):
    from retentive.testing.scripted_claude import Script
    ask(scripted_claude(Script(("Hello.",), when="Hi")), "Hi")

def test_not_used_up(scripted_claude):
    from retentive.testing.scripted_claude import Script
    ask(scripted_claude(Script(("Hello.", "Bye."))), "Hi")
"""


def ask(server: ScriptedClaude, *said: str) -> str:
    """Send a conversation of user and assistant texts, and return the reply."""
    messages: list[Any] = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(said)]
    with Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        reply = client.messages.create(
            model="claude-sonnet-5-5",
            max_tokens=9,
            messages=messages,
        )
    return "".join(block.text for block in reply.content if block.type == "text")


def test_a_request_after_the_last_turn_fails() -> None:
    with scripted_claude(Script(("Hello.",), "greeting")) as server:
        assert ask(server, "Hi.") == "Hello."
        server.verify()
        with pytest.raises(BadRequestError, match="the script has only 1 turn"):
            ask(server, "Hi.", "Hello.", "And now?")
    (failure,) = server.failures
    assert (failure.script, failure.turn, failure.request) == ("greeting", 2, 2)
    with pytest.raises(AssertionError, match=r"script 'greeting', turn 2: .*And now\?.* \(request 2\)"):
        server.verify()


def test_turns_that_were_not_played_are_named() -> None:
    scripts = Script(("Hello.", Turn(("Bye.",)), "Gone."), "first", when="Hi"), Script(("No.",), "second", when="never")
    with scripted_claude(*scripts) as server:
        ask(server, "Hi.")
    with pytest.raises(AssertionError) as raised:
        server.verify()
    assert str(raised.value).splitlines() == [
        "the conversation did not follow the script:",
        "script 'first': no request for turn 2 of 3, ('Bye.',)",
        "script 'second': no request for turn 1 of 1, ('No.',)",
    ]


@pytest.mark.long
def test_the_fixture_fails_a_test_that_does_not_follow_its_script(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["retentive.testing.pytest_plugin"]')
    pytester.makepyfile(TEST)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*no request for turn 2 of 2, ('Bye.',)*"])


SCRIPT = {
    "scripts": [
        {
            "name": "tea",
            "when": "tea",
            "turns": [
                ["I look.", {"call": {"input": {"command": "view"}, "check": {"contains": ["tea.md"]}}}],
                {"blocks": ["You like tea."], "stop_reason": "stop_sequence"},
            ],
        }
    ],
    "faults": {"1": {"error": {"status": 529}}},
}


@pytest.mark.long
@pytest.mark.parametrize("listing", ["tea.md", pytest.param("nothing", marks=pytest.mark.long)])
def test_a_program_in_any_language_uses_a_script_in_a_file(tmp_path: Path, listing: str) -> None:
    """The process prints its URL, plays the file, and says at its end whether the program followed the script."""
    file = tmp_path / "script.json"
    file.write_text(json.dumps(SCRIPT), "utf-8")
    command = [sys.executable, "-m", "retentive.testing.scripted_claude", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            with Anthropic(base_url=server.stdout.readline().strip(), api_key="none", max_retries=1) as client:
                request: Any = {"model": "claude-sonnet-5-5", "max_tokens": 9, "tools": [TOOL]}
                first = client.messages.create(**request, messages=HELLO)
                reply: Any = {"role": "assistant", "content": first.content}
                messages = [*HELLO, reply, result(listing, first.content[1].id)]
                if listing == "tea.md":
                    assert client.messages.create(**request, messages=messages).stop_reason == "stop_sequence"
                else:
                    with pytest.raises(BadRequestError, match=r"expected a text that contains"):
                        client.messages.create(**request, messages=messages)
        finally:
            server.send_signal(signal.SIGTERM)
        _, errors = server.communicate()
    assert server.returncode == (0 if listing == "tea.md" else 1)
    assert ("script 'tea', turn 1" in errors) == (listing != "tea.md")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("[", "the script is not JSON"),
        ('{"script": []}', "the script must be an object with the fields context_window, faults, scripts, threads"),
        ('{"scripts": [{"turns": ["a", [{"call": {"inputs": {}}}]]}]}', r"scripts\[0\].turns\[1\] is not .*'inputs'"),
        ('{"scripts": [{"turns": [[{"text": "a"}]]}]}', r"turns\[0\] is not .* fields call, thinking, raw"),
        ('{"scripts": [{"turns": [[]]}]}', r"turns\[0\] is not .* a turn must have at least one block"),
        ('{"scripts": [{"turns": "Hello."}]}', r"scripts\[0\] is not .* turns must be a list"),
        ('{"scripts": 5}', "the script is not .* scripts must be a list"),
        ('{"scripts": [{"turns": [[{"call": {"input": {}, "check": "ok"}}]]}]}', r"turns\[0\] is not as the doc"),
        ('{"faults": {"1": {"error": {"status": 1}}}}', r"faults\[1\] is not .* the API has no error status 1"),
        ('{"faults": {"first": {"error": {"status": 529}}}}', r"faults\[first\] is not .* invalid literal"),
    ],
)
def test_an_invalid_script_in_a_file_is_refused_with_its_place(script: str, reason: str) -> None:
    with pytest.raises(ScriptError, match=reason):
        parse(script)
