"""The scripted Claude: the format of its responses, its script files and its command line."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from retentive.testing.scripted_claude import (
    Call,
    Script,
    Turn,
    scripted_claude,
)

from .requests import ASK, HELLO, TOOL, open_url

if TYPE_CHECKING:
    pass


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


def test_the_package_imports_no_heavy_modules() -> None:
    code = "import sys, retentive.testing; print({'starlette', 'uvicorn', 'anthropic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
