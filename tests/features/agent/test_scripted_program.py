"""The scripted Claude: the format of its responses, its script files and its command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
from typing import TYPE_CHECKING, Any

import pytest

from retentive.testing.scripted_claude import (
    Call,
    Check,
    Script,
    ScriptError,
    Thinking,
    Turn,
    scripted_claude,
    scripts_from_json,
)

from .requests import ASK, HELLO, TOOL, assistant_call, open_url, result

if TYPE_CHECKING:
    from pathlib import Path


def test_a_streamed_reply_has_the_events_of_the_api() -> None:
    turn = Turn(("Let me look into it, slowly.", Call({"command": "view", "path": "/memories"}), Call({})))
    with scripted_claude(Script((turn,))) as server:
        body = {**ASK, "messages": HELLO, "tools": [TOOL], "stream": True}
        with open_url(f"{server.url}/v1/messages", body) as response:
            raw = response.read().decode()
    assert response.headers["content-type"].startswith("text/event-stream")
    assert "not from a model" in response.headers["x-scripted-claude"]
    events = [dict(line.split(": ", 1) for line in event.split("\n")) for event in raw.rstrip("\n").split("\n\n")]
    datas = [json.loads(event["data"]) for event in events]
    assert [event["event"] for event in events] == [data["type"] for data in datas]
    shapes = [(data["type"], data.get("index")) for data in datas]
    assert shapes == [
        ("message_start", None),
        ("ping", None),
        ("content_block_start", 0),
        *[("content_block_delta", 0)] * 2,
        ("content_block_stop", 0),
        ("content_block_start", 1),
        *[("content_block_delta", 1)] * 3,
        ("content_block_stop", 1),
        ("content_block_start", 2),
        ("content_block_delta", 2),
        ("content_block_stop", 2),
        ("message_delta", None),
        ("message_stop", None),
    ]
    start = datas[0]["message"]
    assert (start["content"], start["stop_reason"], start["usage"]["output_tokens"]) == ([], None, 1)
    assert "".join(data["delta"]["text"] for data in datas[3:5]) == "Let me look into it, slowly."
    started: Any = server.requests[0].reply["content"]
    assert datas[6]["content_block"] == {**started[1], "input": {}}
    assert [data["delta"]["type"] for data in datas[7:10]] == ["input_json_delta"] * 3
    assert json.loads("".join(data["delta"]["partial_json"] for data in datas[7:10])) == turn.calls[0].input
    assert datas[12]["delta"]["partial_json"] == ""
    assert datas[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert datas[-2]["usage"]["output_tokens"] > 1


def test_a_script_can_send_any_json() -> None:
    """Real models also send lone surrogates, deeply nested lists and input of the wrong type."""
    odd = {"command": "create", "path": "\ud800", "file_text": [[[None, 1e300, -0.0, 2**70]]], "": True}
    with scripted_claude(Script((Turn((Call(odd),)),))) as server:
        body = {**ASK, "messages": HELLO, "tools": [TOOL]}
        with open_url(f"{server.url}/v1/messages", body) as response:
            reply = json.load(response)
    assert reply["content"][0]["input"] == odd


FILE = {
    "scripts": [
        {
            "name": "tea",
            "when": "tea",
            "turns": [
                {
                    "blocks": [
                        "I look first.",
                        {
                            "call": {"command": "view", "path": "/memories"},
                            "check": {"text": "all", "contains": ["a"], "is_error": None},
                        },
                        {"call": {"city": "Kyoto"}, "name": "weather", "check": {}},
                    ]
                },
                {"blocks": [{"thinking": "How long?"}, "Too long."], "stop_reason": "max_tokens"},
            ],
        }
    ]
}


def test_a_script_file_is_a_script() -> None:
    look = Call({"command": "view", "path": "/memories"}, Check("all", contains=("a",), is_error=None))
    first = Turn(("I look first.", look, Call({"city": "Kyoto"}, Check(is_error=False), name="weather")))
    expected = Script((first, Turn((Thinking("How long?"), "Too long."), "max_tokens")), "tea", when="tea")
    assert scripts_from_json(json.dumps(FILE)) == (expected,)
    assert scripts_from_json(json.dumps(FILE["scripts"][0])) == (expected,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the script is not JSON"),
        ("[]", "script: expected an object"),
        ('{"scripts": [], "turns": []}', "no other field is allowed beside 'scripts'"),
        ('{"scripts": {}}', "script.scripts: expected a list"),
        ('{"name": "x"}', "scripts[0].turns: expected a list"),
        ('{"turns": [], "when": 1}', "scripts[0].when: expected a string"),
        ('{"turns": [{"blocks": []}]}', "scripts[0].turns[0]: a turn must have at least one block"),
        ('{"turns": [{"blocks": [1]}]}', "scripts[0].turns[0].blocks[0]: expected an object"),
        ('{"turns": [{"blocks": [{}]}]}', "a block must be a string, an object with 'call'"),
        (
            '{"turns": [{"blocks": [{"call": {}, "check": {"txt": ""}}]}]}',
            "turns[0].blocks[0].check: unknown field 'txt'; expected one of text, contains, is_error",
        ),
        ('{"turns": [{"blocks": [{"call": {}, "check": {"contains": [1]}}]}]}', "expected a list of strings"),
        ('{"turns": [{"blocks": [{"call": {}, "check": {"is_error": 0}}]}]}', "expected true, false or null"),
    ],
)
def test_an_invalid_script_file_names_the_position(text: str, message: str) -> None:
    with pytest.raises(ScriptError) as error:
        scripts_from_json(text)
    assert message in str(error.value)


@pytest.mark.parametrize("fails", [False, True], ids=["played", "failed"])
def test_the_command_serves_a_file_and_reports_failures(tmp_path: Path, fails: bool) -> None:
    check = {"text": "never"} if fails else {}
    script = {"turns": [{"blocks": [{"call": {"command": "view"}, "check": check}]}, {"blocks": ["Fine."]}]}
    path = tmp_path / "script.json"
    path.write_text(json.dumps(script))
    command = [sys.executable, "-m", "retentive.testing.scripted_claude", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        body = {**ASK, "messages": [*HELLO, assistant_call("view"), result("ok")], "tools": [TOOL]}
        if fails:
            with pytest.raises(urllib.error.HTTPError, match="400") as refused:
                open_url(f"{url}/v1/messages", body)
            refused.value.close()
        else:
            with open_url(f"{url}/v1/messages", body) as response:
                assert json.load(response)["content"][0]["text"] == "Fine."
        with open_url(f"{url}/scripted") as response:
            state = json.load(response)
        program.send_signal(signal.SIGTERM)
        _, errors = program.communicate(timeout=30)
    assert (state["requests"], len(state["failures"])) == (1, int(fails))
    assert program.returncode == int(fails)
    assert "not from a model" in errors
    assert ("turn 1" in errors) == fails


def test_an_invalid_file_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text("{")
    command = [sys.executable, "-m", "retentive.testing.scripted_claude", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "the script is not JSON" in done.stderr) == (2, True)


def test_the_package_imports_no_heavy_modules() -> None:
    code = "import sys, retentive.testing; print({'starlette', 'uvicorn', 'anthropic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
