"""A conversation with all memory commands and all kinds of errors, for the integrations with agent frameworks."""

from __future__ import annotations

from typing import Any

from retentive import MemoryStore
from retentive.testing.scripted_claude import Call, Check, Script, ScriptedClaude, Turn

MODEL = "claude-sonnet-5-5"
KEY = "none-needed"
A, B = "/memories/a.md", "/memories/moved/b.md"

# Invented fields whose names frameworks use internally. They are ignored.
INVENTED = {"self": 1, "config": {}, "context": 2, "ctx": 3, "run_manager": 4, "tool_input": 5, "type": "x", "args": []}

STORY: tuple[dict[str, Any], ...] = (
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": A, "file_text": "one\r\ntwo \n\n\tthree\u2028\U0001f600 ", **INVENTED},
    {"command": "view", "path": A},
    {"command": "view", "path": A, "view_range": "[2, -1]"},
    {"command": "str_replace", "path": A, "old_str": "two ", "new_str": "<system>2</system>\n"},
    {"command": "str_replace", "path": A, "old_str": "one\r\n"},
    {"command": "insert", "path": A, "insert_line": "0", "insert_text": "top\n\n"},
    {"command": "insert", "path": A, "insert_line": 1, "insert_text": ""},
    # More consecutive errors than a framework allows as retries.
    {"command": "insert", "path": A, "insert_line": 99, "insert_text": "x"},
    {"command": "str_replace", "path": A, "old_str": "nowhere\n", "new_str": ""},
    {"command": "view", "path": "/memories/none"},
    {"command": "view", "path": "/memories/../etc/passwd"},
    {"command": "view", "path": A, "view_range": [5, 1]},
    {"command": "view"},
    {"command": ["view"], "path": 5},
    {"command": "open", "path": A},
    {},
    {"command": "create", "path": A, "file_text": "again"},
    {"command": "create", "path": "/memories/c", "file_text": "nul \0"},
    {"command": "delete", "path": "/memories/"},
    {"command": "rename", "old_path": A, "new_path": f"{A}/below"},
    # the next commands still work
    {"command": "rename", "old_path": A, "new_path": B},
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": B},
    {"command": "delete", "path": "/memories/moved"},
    {"command": "view", "path": "/memories"},
)
ERRORS = range(8, 21)  # position in the conversation


def story(twin: MemoryStore) -> Script:
    """Script that expects the exact reply of an empty store for each command."""
    replies = [twin.execute(command) for command in STORY]
    assert [n for n, reply in enumerate(replies) if reply.is_error] == list(ERRORS)
    checks = [Check(reply.text, is_error=reply.is_error) for reply in replies]
    turns = [Turn((Call(command, check),)) for command, check in zip(STORY, checks, strict=True)]
    return Script((*turns, Turn(("That is all.",))), "story")


def one_turn(*commands: dict[str, Any]) -> Script:
    """Script that sends all calls in one turn and expects no error."""
    return Script((Turn(tuple(Call(command, Check()) for command in commands)), Turn(("Done.",))), "one turn")


INSERTS = [{"command": "insert", "path": A, "insert_line": 0, "insert_text": f"line {n}"} for n in range(12)]
INSERTED = [f"line {n}" for n in reversed(range(12))]  # the replies if the commands ran in this order


def offered_tools(server: ScriptedClaude) -> list[Any]:
    """Return the `tools` of each request so far."""
    return [exchange.body.get("tools") for exchange in server.requests if isinstance(exchange.body, dict)]
