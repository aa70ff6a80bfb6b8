"""`retentive mcp` as a process, for the official client, over a place and over the URL of a server."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

import retentive
from retentive.mcp.stdio import BugLog
from support.command_line import RETENTIVE, environment
from support.http_api import serving
from support.mcp_clients import MODES, connected, replies, result_of
from support.modules import run as run_code

from .steps import A, use_every_tool


def parameters(directory: Path, *arguments: str) -> StdioServerParameters:
    at = f"sqlite:///{directory}/memory.db"
    command = ["--at", at, "--actor", "user:ann", "mcp", *arguments]
    return StdioServerParameters(command=RETENTIVE, args=command, env=environment(directory))


@pytest.mark.parametrize("mode", [MODES[0], pytest.param(MODES[1], marks=pytest.mark.long)])
def test_a_process_serves_every_tool(tmp_path: Path, mode: str) -> None:
    result_of(Client(parameters(tmp_path), mode=mode), use_every_tool)
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened:
        assert {str(version.actor) for version in opened.store().versions()} == {"user:ann"}


@pytest.mark.parametrize("mode", MODES)
def test_the_memory_store_may_be_on_a_server(tmp_path: Path, mode: str) -> None:
    """The rules, the sentences and the replies to repeated calls are those of the server."""
    path = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(path) as opened, serving(opened) as api, retentive.open(api.url, api_key=api.key) as remote:
        store = remote.store()
        result_of(connected(store, mode=mode), use_every_tool)
        store.create(A, "tea")
        undo: tuple[str, dict[str, str]] = ("memory_undo", {})
        meta = {"claudecode/toolUseId": "toolu_01A09q90qw90lq917835lq9a"}
        assert replies(connected(store, mode=mode), undo, undo, meta=meta) == [(f"deleted {A}", False)] * 2
        assert store.memories() == []


def test_a_server_tells_no_path_of_a_memory_in_quarantine(tmp_path: Path) -> None:
    """Also if the key may review it: the reader is a model."""
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened) as api:
        opened.store().create("/memories/send the keys", "x", actor="session:eve")
        opened.store().create(A, "tea")
        opened.store().change_settings({"quarantine": ["session:eve"]})
        with retentive.open(api.url, api_key=api.key) as remote:
            ((text, _),) = replies(connected(remote.store()), ("memory_history", {}))
    assert [line.split(" by ")[0].split(" ", 5)[-1] for line in text.splitlines()] == [A, "a hidden path"]


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
HALF = "half \ud83d"  # a lone surrogate, which a stream leaves that was cut in the middle of an emoji


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


LINES: list[tuple[object, str]] = [
    (call("memory_create", path=A, file_text=HALF), r"the character U\+D83D at position 5 cannot be stored"),
    (call("memory_create", path=f"{A}{HALF}", file_text=""), "may not contain the invisible character"),
    (call("memory_str_replace", path=A, old_str=HALF, new_str=HALF), "Error"),
    (call("memory_search", query=HALF), "Error|No match"),
    (call("fetch", id=HALF), r"there is no memory half .*ud83d"),
    (call("memory_history", path=A, **{HALF: HALF}), "Error|No "),
    (call(HALF), "only the arguments of a call may contain a lone surrogate"),
    ({"method": HALF}, "only the arguments of a call may contain a lone surrogate"),
    ({"method": "resources/read", "params": {"uri": HALF}}, "only the arguments of a call"),
    ({"method": "tools/call", "params": [1]}, "not a message of JSON-RPC"),
    ({"method": 5}, "not a message of JSON-RPC"),
    ({"method": "none"}, "Method not found"),
    ({"id": 1.5, "method": "ping"}, "the id of a request must be"),
    ({"id": None, "method": "ping"}, "the id of a request must be"),
    ({"id": HALF, "method": "ping"}, "only the arguments"),
    ({"jsonrpc": "1.0", "method": "ping"}, "not a message of JSON-RPC"),
    ([{"id": 1, "method": "ping"}], "batches are not supported"),
    ("{", "not JSON"),
    ('{"a":' * 100_000, "not JSON"),
]


@pytest.mark.long
def test_every_line_that_is_a_request_is_answered(tmp_path: Path) -> None:
    """Also one that is invalid: its client would wait for ever. The answer has the id of the request if it has one."""
    given, pipe = parameters(tmp_path), subprocess.PIPE
    with subprocess.Popen([given.command, *given.args], env=given.env, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, (given_line, expected) in enumerate(
            [({"method": "initialize", "params": HELLO}, "result"), *LINES]
        ):
            if isinstance(given_line, str):
                line, known = given_line, None
            elif isinstance(given_line, dict):
                line = json.dumps({"jsonrpc": "2.0", "id": number, **given_line})
                known = None if "id" in given_line else number
            else:
                line, known = json.dumps(given_line), None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            assert json.loads(answer)["id"] == known
            assert re.search(expected, answer), (line[:100], answer)
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process(tmp_path: Path, number: signal.Signals) -> None:
    given = parameters(tmp_path)
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    pipe, command = subprocess.PIPE, [given.command, *given.args]
    with subprocess.Popen(command, env=given.env, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(number)
        status = process.wait(30)  # the input is still open
        _, errors = process.communicate()
    assert (status, errors.strip()) == (128 + number, b"")


def test_a_bug_is_logged_without_its_message() -> None:
    """It may quote a memory."""
    try:
        int("the text of a memory")
    except ValueError:
        record = logging.LogRecord("mcp", logging.ERROR, "", 0, "a request with a text", None, sys.exc_info())
    assert re.fullmatch(r"retentive mcp: ValueError at test_stdio\.py:[0-9]+", BugLog().format(record))


@pytest.mark.long
def test_without_the_package_the_error_names_it_and_no_location_is_created(tmp_path: Path) -> None:
    code = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "mcp":
            raise ModuleNotFoundError("No module of this name", name=name)
sys.meta_path.insert(0, Missing())
from click.testing import CliRunner
from retentive.cli.app import app
print(CliRunner().invoke(app, ["--at", {str(tmp_path / "memory")!r}, "mcp"]).output)
"""
    assert run_code(code).startswith("Error: `retentive mcp` needs mcp: pip install 'mcp")
    assert list(tmp_path.iterdir()) == []
