"""The search tool: with the SDK, as a function tool, and over several stores."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic
from jsonschema import Draft202012Validator

import retentive
from retentive import MemorySearchTool, MemoryStore, MemoryTool
from retentive.integrations.schemas import MAX_SEARCH_LIMIT as MAX_LIMIT
from retentive.integrations.schemas import SEARCH as NAME
from retentive.integrations.schemas import SEARCH_DESCRIPTION as DESCRIPTION
from retentive.integrations.schemas import SEARCH_SCHEMA as INPUT_SCHEMA
from retentive.integrations.search_tool import MAX_REPLY_CHARS, search_reply, search_tool
from retentive.testing.scripted_claude import Call, Check, Script, ScriptedClaude, Turn, scripted_claude
from support.clock import DAY

TEXTS = {
    "/memories/refunds.md": "Refunds within 30 days.\n\nNo refund for fees.\nrefund\nrefund\nrefund\n",
    "/memories/team/rules.md": "Ask before a REFUND.\r\n",
    "/memories/team/refund/other.md": "Nothing of it.\n",
}
FOUND = """\
3 of 3 memories, best first:

/memories/refunds.md (score 0.20, changed just now)
4: refund
5: refund
6: refund
[2 more lines match]

/memories/team/rules.md (score 0.15, changed just now)
1: Ask before a REFUND.\r

/memories/team/refund/other.md (score 0.11, changed just now): only its path matches

[Next: view /memories/refunds.md with view_range [1, 19], or without it.]"""
NOTHING = "0 memories match. Try other words; `view` /memories lists the memories.\n[In no memory: nowhere]"
ASK: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1_000,
    "messages": [{"role": "user", "content": "What do I know about refunds?"}],
}
EXCLUDED = (
    "Error: Invalid `query` parameter: the query has only excluded words or operators; enter at least one word to find"
)
CALLS: tuple[tuple[dict[str, Any], Check], ...] = (
    ({"query": "refund"}, Check(FOUND)),
    ({"query": "nowhere"}, Check(NOTHING)),
    ({"query": "-before"}, Check(EXCLUDED, is_error=True)),
    (
        {"query": "refund", "path": "/etc"},
        Check(contains=("Error: Path must start with /memories, got: /etc",), is_error=True),
    ),
)


def filled(store: MemoryStore) -> MemoryStore:
    for path, text in TEXTS.items():
        store.execute({"command": "create", "path": path, "file_text": text})
    return store


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with retentive.open("sqlite://") as opened:
        yield filled(opened.store())


@pytest.fixture
def claude() -> Iterator[ScriptedClaude]:
    """Script that uses all forms of the search and then views a match."""
    searches = [Turn((Call(given, check, NAME),)) for given, check in CALLS]
    look = Turn((Call({"command": "view", "path": "/memories/refunds.md"}, Check(contains=("30 days",))),))
    with scripted_claude(Script((*searches, look, Turn(("Within 30 days.",))))) as server:
        yield server


# -- the SDK -------------------------------------------------------------------------------------------------------


def test_the_tool_runs_beside_the_memory_tool(store: MemoryStore, claude: ScriptedClaude) -> None:
    tools = [MemoryTool(store), MemorySearchTool(store)]
    with Anthropic(base_url=claude.url, api_key="none-needed", max_retries=0) as client:
        last = client.beta.messages.tool_runner(tools=tools, **ASK).until_done()
    assert (last.content[0].type, claude.failures) == ("text", [])
    first = claude.requests[0].body
    assert isinstance(first, dict)
    assert first["tools"] == [
        retentive.TOOL,
        {"name": NAME, "description": DESCRIPTION, "input_schema": INPUT_SCHEMA},
    ]


# -- the function ----------------------------------------------------------------------------------------------------


def test_the_function_accepts_objects_and_json(store: MemoryStore) -> None:
    tool = search_tool(store)
    definition = json.loads(json.dumps(tool.definition))
    Draft202012Validator.check_schema(definition["parameters"])
    assert (definition["name"], definition["description"]) == (NAME, DESCRIPTION)
    given = {"query": "refund", "path": "/memories/team", "limit": 1}
    Draft202012Validator(definition["parameters"]).validate(given)
    assert tool.call(given) == tool.call(json.dumps(given)) == tool.reply(given, call_id="call_1", run="r").text
    assert search_tool(store, name="find").definition["name"] == "find"


@pytest.mark.parametrize("limit", [1, 1.0, "1"])
def test_the_number_of_omitted_matches_is_shown(store: MemoryStore, limit: object) -> None:
    assert search_reply(store, {"query": "refund", "path": "/memories/team/", "limit": limit}).text == (
        "1 of 2 memories below /memories/team, best first:\n\n"
        "/memories/team/rules.md (score 0.15, changed just now)\n1: Ask before a REFUND.\r\n\n"
        "[Next: view /memories/team/rules.md with view_range [1, 16], or without it.]\n"
        "[1 more. To see them, use more exact words, or a `path`, or a higher `limit`.]"
    )
    for number in range(MAX_LIMIT + 3):
        store.execute({"command": "create", "path": f"/memories/many/{number}", "file_text": "word"})
    reply = search_reply(store, {"query": "word", "limit": 1_000})
    assert reply.text.startswith(f"{MAX_LIMIT} of {MAX_LIMIT + 3} memories, ")
    assert reply.text.endswith("[3 more. To see them, use more exact words, or a `path`.]")
    one = search_reply(store, {"query": "REFUND +ask", "limit": None, "path": None, "other": 1})
    assert one.text.startswith("1 of 1 memories, best first:\n\n/memories/team/rules.md (score ")
    relaxed = search_reply(store, {"query": '"REFUND ask"'}).text
    assert "best first:\n[No memory contains the whole phrase; these contain words of it.]\n\n/memories/team" in relaxed
    lines = search_reply(store, {"query": "refund", "path": "/memories/refunds.md"}).text
    assert lines.startswith("1 of 1 memories below /memories/refunds.md, ")


@pytest.mark.parametrize(
    ("given", "code", "part"),
    [
        (None, "invalid_input", "Missing `query`"),
        ("refund", "invalid_input", "Missing `query`"),
        ([], "invalid_input", "Missing `query`"),
        ({"query": None}, "invalid_input", "Missing `query`"),
        ({"query": ["refund"]}, "invalid_input", 'Invalid `query` parameter: ["refund"]. It should be a string'),
        ({"query": ""}, "invalid_input", "the query is empty"),
        ({"query": "-refund"}, "invalid_input", "has only excluded words"),
        ({"query": "x" * 2_000}, "invalid_input", "longer than"),
        ({"query": "\ud800"}, "invalid_input", "lone surrogate"),
        ({"query": "x", "limit": 0}, "invalid_input", "Invalid `limit` parameter: 0. It should be an integer from 1"),
        ({"query": "x", "limit": True}, "invalid_input", "`limit`"),
        ({"query": "x", "limit": 1.5}, "invalid_input", "`limit`"),
        ({"query": "x", "limit": "many"}, "invalid_input", "`limit`"),
        ({"query": "x", "limit": object()}, "invalid_input", "`limit` parameter: something else"),
        ({"query": "x", "path": 5}, "invalid_input", "`path`"),
        (
            {"query": "x", "path": "/memories/../a"},
            "invalid_path",
            "Path /memories/../a would escape /memories directory",
        ),
    ],
)
def test_invalid_input_gets_an_error_with_the_expected_value(
    given: Any, code: str, part: str, store: MemoryStore
) -> None:
    reply = search_reply(store, given)
    assert (reply.is_error, reply.code) == (True, code)
    assert reply.text.startswith("Error: ")
    assert part in reply.text
    assert len(reply.text) < 500


def test_the_age_of_a_change_is_in_the_largest_unit_that_fits() -> None:
    for days, said in {1.5: "1 day ago", 2.5: "2 days ago", 31.0: "1 month ago", 400.0: "1 year ago"}.items():
        with retentive.open("sqlite://", clock=partial(float, time.time() - days * DAY)) as opened:
            store = filled(opened.store())
            assert f", changed {said})\n" in search_reply(store, {"query": "refund"}).text


def test_a_closed_location_is_an_error_reply(tmp_path: Path) -> None:
    opened = retentive.open(f"sqlite:///{tmp_path}/memory.db")
    store = opened.store()
    opened.close()
    reply = search_reply(store, {"query": "x"})
    assert (reply.code, reply.text) == ("closed", "Error: The memory store was closed; trying again does not help.")


# -- several stores ----------------------------------------------------------------------------------------------------


def test_a_reply_is_bounded(store: MemoryStore) -> None:
    """The description is short too, and a reply says how many results it leaves out."""
    for number in range(MAX_LIMIT):
        rows = "\n".join(f"w0rd {'x' * 190}" for _ in range(4))
        store.execute({"command": "create", "path": f"/memories/{'long' * 40}{number}", "file_text": rows})
    reply = search_reply(store, {"query": "w0rd", "limit": MAX_LIMIT})
    assert len(reply.text) <= MAX_REPLY_CHARS
    assert " more. To see them" in reply.text
    assert len(DESCRIPTION) < 600
    unknown = " ".join(f"z{number:03}" for number in range(150))
    reply = search_reply(store, {"query": f"w0rd {unknown}"})
    assert len(reply.text) <= MAX_REPLY_CHARS
    assert "z009 and 140 more words]" in reply.text
    path = "/memories/" + "/".join(["p" * 200] * 4)
    store.execute({"command": "create", "path": path, "file_text": "\n".join(["once" + " word" * 39] * 3)})
    for query in ("once", "once w0rd"):
        assert len(search_reply(store, {"query": query, "limit": MAX_LIMIT}).text) <= MAX_REPLY_CHARS
