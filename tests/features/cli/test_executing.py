"""`exec` prints one reply line for each input line, whether the input is valid or not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from support.command_line import AT, RETENTIVE, environment, here, process

PATH = "/memories/notes.md"
CREATE = {"command": "create", "path": PATH, "file_text": "one\n"}
VIEW = {"command": "view", "path": PATH}
VIEWED = f"Here's the content of {PATH} with line numbers:\n     1\tone"


def answers(at: str, *lines: object, last: bytes = b"\n") -> list[Any]:
    """Return the replies to these lines, given as bytes or as JSON values."""
    written = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    ended = here(at, "exec", text=b"\n".join(written) + last)
    assert (ended.exit_code, ended.stderr) == (0, "")
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_tool_use_blocks_are_answered_by_tool_result_blocks(tmp_path: Path) -> None:
    blocks = [
        {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": CREATE},
        {"id": "toolu_2", "name": "memory", "input": VIEW},
        {"type": "tool_use", "id": "toolu_3", "name": "memory", "input": CREATE},
        {"type": "tool_use", "id": "toolu_4", "name": "bash", "input": {}},
        {"type": "tool_use", "name": "memory", "input": VIEW},
        {"type": "tool_use", "id": "\ud800", "name": "memory", "input": VIEW},
    ]
    first, second, third, fourth, fifth, sixth = answers(f"sqlite:///{tmp_path}/m.db", *blocks)
    assert first == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": f"File created successfully at: {PATH}",
    }
    assert (second["tool_use_id"], second["content"]) == ("toolu_2", VIEWED)
    assert (third["tool_use_id"], third["is_error"]) == ("toolu_3", True)
    assert fourth["content"] == "Error: Unknown tool 'bash'. The tool is named `memory`"
    assert fifth == {
        "text": "Error: `block` must be a tool_use block with an id",
        "is_error": True,
        "code": "invalid_input",
    }
    assert sixth["tool_use_id"] == "\ud800"


NO_COMMANDS = (
    b"1",
    b"[]",
    b"{}",
    b'{"command": 1e999}',
    b'{"command": "view", "path": "\\ud800"}',
    b'{"command": "insert", "path": "/memories/x", "insert_line": 1e999, "insert_text": "x"}',
    b'{"command": "create", "path": "/memories/x", "file_text": "\\u0000"}',
    b'{"command": "create", "path": "/memories/x", "file_text": ' + b"[" * 200 + b"]" * 200 + b"}",
    b'{"type": "tool_use"}',
)
BAD_LINES = {
    b"not json": "Expecting value",
    b"  \r": "Expecting value",
    b'{"command": "view"': "Expecting ',' delimiter",
    b'{"command": "\xff"}': "'utf-8' codec can't decode byte 0xff in position 13: invalid start byte",
    b'{"insert_line": NaN}': "NaN is not a JSON number",
    b'{"insert_line": ' + b"9" * 5_000 + b"}": "Exceeds the limit",
    b"[" * 100_000: "maximum recursion depth",
}


def test_a_bad_line_gets_an_error_reply_and_exec_continues(tmp_path: Path) -> None:
    """In a process of its own: at the recursion limit, Python reports audit hooks that other tests have installed."""
    lines = [line for bad in BAD_LINES for line in (bad, json.dumps(CREATE).encode())]
    ended = process(tmp_path, "--at", "sqlite:///m.db", "exec", text=b"\n".join(lines) + b"\n")
    assert (ended.status, ended.err) == (0, "")
    found = [json.loads(line) for line in ended.out.splitlines()]
    for reply, why in zip(found[::2], BAD_LINES.values(), strict=True):
        assert reply["text"].startswith(f"Error: the line is not JSON: {why}")
    assert {(reply["is_error"], reply["code"]) for reply in found[::2]} == {(True, "invalid_input")}
    assert [reply["code"] for reply in found[1::2]] == [None] + ["already_exists"] * (len(BAD_LINES) - 1)


def test_json_without_a_command_gets_an_error_reply(tmp_path: Path) -> None:
    for found in answers(f"sqlite:///{tmp_path}/m.db", *NO_COMMANDS):
        assert (found["is_error"], found["code"]) in {(True, "invalid_input"), (True, "invalid_path")}
        assert found["text"].startswith("Error: ")


def test_each_reply_is_written_before_the_next_line_is_read(tmp_path: Path) -> None:
    command = [RETENTIVE, "--at", AT, "exec"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path, env=environment(tmp_path)
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for line, code in ((CREATE, None), (CREATE, "already_exists")):
            running.stdin.write(json.dumps(line).encode() + b"\n")
            running.stdin.flush()
            assert json.loads(running.stdout.readline())["code"] == code
        running.stdin.close()
        assert running.stdout.read() == b""
        assert running.wait(60) == 0
