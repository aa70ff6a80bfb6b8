"""Scripts that are overrun or not used up, the pytest fixture, and an import without the extra."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from anthropic import Anthropic, BadRequestError

from retentive.testing.scripted_claude import Script, ScriptedClaude, Turn, scripted_claude

pytest_plugins = ["pytester"]
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


@pytest.mark.long
@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_an_import_without_the_extra_names_it(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import retentive.testing.scripted_claude"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: the scripted Claude needs the extra `testing` of retentive: pip install '")
