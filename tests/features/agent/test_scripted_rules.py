"""The scripted Claude refuses what the Messages API refuses, with its status and its words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic import Anthropic, APIStatusError

from retentive.testing.scripted_claude import Call, ScriptedClaude, scripted_claude
from retentive.testing.scripted_claude.rules import RULES, ApiError

from .bad_requests import (
    BAD,
    BOTH,
    CACHING,
    CALLS,
    EPHEMERAL,
    FIELDS,
    HOUR,
    MANAGEMENT,
    MCP_BETA,
    MESSAGES,
    PNG,
    SEARCH,
    SERVER,
    THINKS,
    TOOLS,
    TOOLSET,
    Bad,
    asked,
    body_of,
    call,
    edits,
    found,
    headers_of,
    image,
    replied,
    searched,
    text,
    thought,
)
from .requests import ASK, HELLO, READ, THREADS_BETA, TOOL, clearing, compacting, result, thinking

OF_THREADS_AND_ROUTES = {"path", "method", "thread_continued"}  # tested in test_scripted_claude and below


def refused(bad: Bad) -> ApiError:
    claude = ScriptedClaude(lambda _seen: "Fine.", strict=True)
    answered = claude.answer(headers_of(bad), bad.raw or json.dumps(body_of(bad)).encode()).reply
    assert isinstance(answered, ApiError), "the request was accepted"
    return answered


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.message[:70])
def test_the_api_refuses(bad: Bad) -> None:
    error = refused(bad)
    assert (error.status, str(error)) == (bad.status, bad.message)


def test_each_rule_is_reached_by_a_bad_request() -> None:
    assert len(BAD) > 150
    assert {refused(bad).rule for bad in BAD} | OF_THREADS_AND_ROUTES == set(RULES)


def test_each_rule_has_a_source() -> None:
    for rule in RULES.values():
        assert rule.source.startswith(("docs: ", "types", "limit of")) or rule.source.count("/") == 3, rule


@pytest.mark.parametrize(
    "group", [FIELDS, TOOLS, CACHING, MESSAGES, CALLS, MANAGEMENT], ids=lambda group: group[0].message[:20]
)
def test_the_sdk_raises_the_refusal(group: list[Bad]) -> None:
    with scripted_claude(lambda _seen: "Fine.", strict=True) as server:
        client = Anthropic(base_url=server.url, api_key="none needed", max_retries=0)
        for bad in group[:: len(group) // 4]:
            body = body_of(bad)
            with pytest.raises(APIStatusError) as raised:
                client.post("/v1/messages", body=body, cast_to=object, options={"headers": headers_of(bad)})
            assert raised.value.status_code == bad.status
            answer: Any = raised.value.body
            assert answer["error"]["message"] == bad.message
        client.close()


def test_other_methods_and_paths_are_refused() -> None:
    with scripted_claude(lambda _seen: "Fine.") as server:
        client = Anthropic(base_url=server.url, api_key="none needed", max_retries=0)
        for method, path, status, message in (
            ("PUT", "/v1/messages", 405, "Method Not Allowed"),
            ("POST", "/v1/complete", 404, "Not Found"),
        ):
            with pytest.raises(APIStatusError) as raised:
                (client.put if method == "PUT" else client.post)(path, cast_to=object)
            answer: Any = raised.value.body
            assert (raised.value.status_code, answer["error"]["message"]) == (status, message)
        client.close()


GOOD: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "plain": ({}, ()),
    "streamed": ({"stream": True}, ()),
    "system prompt with caching": ({"system": [text(cache_control=HOUR)], "cache_control": EPHEMERAL}, ()),
    "metadata, stop sequences and tier": (
        {"metadata": {"user_id": "u1"}, "stop_sequences": ["END"], "service_tier": "auto"},
        (),
    ),
    "tools and a choice": ({"tools": [READ, TOOL], "tool_choice": {"type": "tool", "name": "read"}}, ()),
    "strict tool": (
        {"tools": [{**READ, "strict": True, "input_schema": {"type": "object", "additionalProperties": False}}]},
        (),
    ),
    "calls and results": (replied(text(), call("t1"), call("t2"), then=[result("a", "t1"), result("", "t2")]), ()),
    "error result": (replied(call(), then=[result("Error: no", is_error=True)]), ()),
    "thinking": ({"thinking": THINKS, "max_tokens": 2000, **replied(thought(), call(), then=[result("x")])}, ()),
    "adaptive thinking": ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, ()),
    "redacted thinking": (replied({"type": "redacted_thinking", "data": "abc"}, text()), ()),
    "server tool": ({"tools": [SEARCH], **replied(searched(), found(), text())}, ()),
    "open server call at the end": ({"tools": [SEARCH], "messages": [*HELLO, replied(searched())["messages"][1]]}, ()),
    "image": (asked(image(), text()), ()),
    "image of a URL": (asked({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}), ()),
    "image in a result": (replied(call(), then=[result([image(PNG), text()])]), ()),
    "document": (asked({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}), ()),
    "context edits": ({**edits(thinking(), clearing(), compacting()), "thinking": {"type": "adaptive"}}, BOTH),
    "compaction block": (
        {"messages": [*HELLO, *replied({"type": "compaction", "content": "So far."})["messages"][1:]]},
        BOTH,
    ),
    "failed compaction": (replied({"type": "compaction", "content": None}, text()), BOTH),
    "MCP": ({"mcp_servers": [SERVER], "tools": [TOOLSET]}, (MCP_BETA,)),
    "thread": ({"thread": {"type": "create"}}, (THREADS_BETA,)),
    "structured output": (
        {
            "output_config": {
                "format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}
            }
        },
        (),
    ),
    "four breakpoints": (asked(*[text(cache_control=EPHEMERAL)] * 4), ()),
    "system message that only configures": (
        {"messages": [*HELLO, {"role": "system", "content": [], "output_config": {"effort": "low"}}, *HELLO]},
        (),
    ),
    "messages of one role": ({"messages": [*HELLO, *HELLO]}, ()),
}


@pytest.mark.parametrize("name", GOOD)
def test_valid_requests_are_accepted(name: str) -> None:
    fields, betas = GOOD[name]
    claude = ScriptedClaude(lambda _seen: "Fine.", strict=True)
    headers = headers_of(Bad("", betas=betas))
    answered = claude.answer(headers, json.dumps({**ASK, "messages": HELLO, "tools": [TOOL], **fields}).encode())
    assert claude.requests[-1].status == 200, str(answered.reply)
    assert claude.warnings == []


def test_sampling_is_accepted_in_the_older_version() -> None:
    claude = ScriptedClaude(lambda _seen: "Fine.", strict=True)
    fields = {**ASK, "model": "claude-sonnet-4-5", "messages": HELLO, "temperature": 0.2}
    claude.answer(headers_of(Bad("", version="2023-06-01")), json.dumps(fields).encode())
    assert claude.requests[-1].status == 200


def test_unknown_names_are_warnings_unless_strict(caplog: pytest.LogCaptureFixture) -> None:
    claude = ScriptedClaude(lambda _seen: "Fine.", strict=False)
    fields = {**ASK, "model": "claude-nothing-9", "messages": HELLO, "max_token": 1}
    for _ in range(2):
        claude.answer(headers_of(Bad("", betas=("new-2099-01-01",))), json.dumps(fields).encode())
    expected = [
        "anthropic-beta: new-2099-01-01",
        "max_token: Extra inputs are not permitted",
        "model: claude-nothing-9",
    ]
    assert [exchange.status for exchange in claude.requests] == [200, 200]
    assert claude.warnings == expected
    assert len(caplog.messages) == len(expected)


def test_a_script_without_thinking_is_no_error_of_the_client() -> None:
    """A model with thinking enabled starts with thinking. A script may leave it out."""
    claude = ScriptedClaude(lambda prompt: "Fine." if prompt.calls else Call({"command": "view"}))
    fields: dict[str, Any] = {**ASK, "max_tokens": 2000, "tools": [TOOL], "thinking": THINKS, "messages": HELLO}
    claude.answer(headers_of(Bad("")), json.dumps(fields).encode())
    blocks: Any = claude.requests[-1].reply["content"]
    fields["messages"] = replied(*blocks, then=[result("ok", blocks[0]["id"])])["messages"]
    claude.answer(headers_of(Bad("")), json.dumps(fields).encode())
    assert [exchange.status for exchange in claude.requests] == [200, 200]


def test_a_count_needs_no_max_tokens() -> None:
    claude = ScriptedClaude(lambda _seen: "Fine.", strict=True)
    fields = {"model": ASK["model"], "messages": HELLO}
    assert isinstance(claude.count(headers_of(Bad("")), json.dumps(fields).encode()), dict)
    error = claude.count(headers_of(Bad("")), json.dumps({**fields, "max_tokens": 5}).encode())
    assert str(error) == "max_tokens: Extra inputs are not permitted"
