"""Context management: the sent requests and the parsed responses are compared with the types of the installed SDK."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import httpx2
import pytest
from anthropic import Anthropic
from anthropic.types.beta import (
    BetaClearThinking20251015EditParam,
    BetaClearToolUses20250919EditParam,
    BetaCompact20260112EditParam,
    BetaInputTokensTriggerParam,
    BetaThinkingTurnsParam,
    BetaToolUsesKeepParam,
    BetaToolUsesTriggerParam,
)
from anthropic.types.beta.beta_context_management_config_param import Edit as SdkEdit
from pydantic import TypeAdapter

from retentive import InvalidInput
from retentive.agent import (
    ClearThinking,
    ClearToolUses,
    Compact,
    ContextManagement,
    InputTokens,
    ToolUses,
    memory_context,
)
from support.fixed_api import message, text

UNFIT: Any = 100_000
WORD: Any = "some"
EDITING = "context-management-2025-06-27"
COMPACTION = "compact-2026-01-12"
FULL = ContextManagement(
    ClearThinking(keep=2),
    ClearToolUses(
        trigger=ToolUses(30), keep=5, clear_at_least=5_000, exclude_tools=["memory"], clear_tool_inputs=["search"]
    ),
    Compact(trigger=InputTokens(50_000), instructions="Keep the decisions.", pause_after_compaction=True),
)
SDK_TYPES: dict[str, Any] = {
    ClearToolUses.type: BetaClearToolUses20250919EditParam,
    ClearThinking.type: BetaClearThinking20251015EditParam,
    Compact.type: BetaCompact20260112EditParam,
}


def test_defaults_match_the_documentation() -> None:
    assert ContextManagement(ClearThinking(), ClearToolUses(), Compact()).request() == {
        "edits": [
            {"type": "clear_thinking_20251015"},
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 100_000},
                "keep": {"type": "tool_uses", "value": 3},
                "clear_tool_inputs": False,
            },
            {
                "type": "compact_20260112",
                "trigger": {"type": "input_tokens", "value": 150_000},
                "pause_after_compaction": False,
            },
        ]
    }


def test_every_option_is_sent() -> None:
    assert FULL.request() == {
        "edits": [
            {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}},
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "tool_uses", "value": 30},
                "keep": {"type": "tool_uses", "value": 5},
                "clear_at_least": {"type": "input_tokens", "value": 5_000},
                "exclude_tools": ["memory"],
                "clear_tool_inputs": ["search"],
            },
            {
                "type": "compact_20260112",
                "trigger": {"type": "input_tokens", "value": 50_000},
                "instructions": "Keep the decisions.",
                "pause_after_compaction": True,
            },
        ]
    }
    assert ClearThinking(keep="all").request()["keep"] == "all"
    assert ClearToolUses(clear_tool_inputs=True).request()["clear_tool_inputs"] is True


def test_options_match_the_sdk() -> None:
    """The test fails if a new version of the SDK has a new edit or option."""
    assert {edit["type"]: set(edit) for edit in FULL.request()["edits"]} == {
        kind: set(get_type_hints(sdk)) for kind, sdk in SDK_TYPES.items()
    }
    assert set(get_args(SdkEdit)) == set(SDK_TYPES.values())
    for ours in (ClearToolUses, ClearThinking, Compact):
        assert {spec.name for spec in fields(ours)} | {"type"} == set(get_type_hints(SDK_TYPES[ours.type]))
    for sdk in (BetaInputTokensTriggerParam, BetaToolUsesTriggerParam, BetaToolUsesKeepParam, BetaThinkingTurnsParam):
        assert set(get_type_hints(sdk)) == {"type", "value"}


@pytest.mark.parametrize(
    "context",
    [FULL, memory_context(), ContextManagement(ClearThinking(keep="all"), ClearToolUses(), Compact())],
    ids=["full", "memory", "plain"],
)
def test_requests_match_the_sdk_types(context: ContextManagement) -> None:
    for edit in context.request()["edits"]:
        assert TypeAdapter(SDK_TYPES[edit["type"]]).validate_python(edit, strict=True) == edit


def test_the_sdk_sends_edits_with_their_betas() -> None:
    """A real client sends the edits, and the test reads the bytes of its HTTP request."""
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, json=message([text("Go on.")]))

    with Anthropic(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(answer))) as client:
        context: Any = FULL.request()
        client.beta.messages.create(
            model="claude-sonnet-5-5", max_tokens=1, messages=[], context_management=context, betas=[*FULL.betas]
        )
    assert json.loads(sent[0].content)["context_management"] == FULL.request()
    assert sent[0].headers["anthropic-beta"] == f"{EDITING},{COMPACTION}"


def test_each_edit_adds_its_beta() -> None:
    assert ContextManagement(ClearThinking(), ClearToolUses()).betas == [EDITING]
    assert ContextManagement(Compact()).betas == [COMPACTION]
    assert FULL.betas == [EDITING, COMPACTION]


def test_the_default_excludes_the_memory_tool() -> None:
    (edit,) = memory_context().request()["edits"]
    assert edit["exclude_tools"] == ["memory"]
    (edit,) = memory_context(exclude_memory=False, trigger=ToolUses(9), keep=1, clear_at_least=7).request()["edits"]
    assert edit == {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "tool_uses", "value": 9},
        "keep": {"type": "tool_uses", "value": 1},
        "clear_at_least": {"type": "input_tokens", "value": 7},
        "clear_tool_inputs": False,
    }


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: ClearToolUses(trigger=InputTokens(0)), "`trigger` of ClearToolUses must be an integer of at least 1"),
        (lambda: ClearToolUses(keep=-1), "`keep` of ClearToolUses must be .* at least 0"),
        (lambda: ClearToolUses(keep=True), "at least 0"),
        (lambda: ClearToolUses(clear_at_least=-1), "`clear_at_least` of ClearToolUses must be .* at least 0"),
        (lambda: ClearToolUses(exclude_tools="memory"), "`exclude_tools` must be a list of tool names"),
        (lambda: ClearToolUses(exclude_tools=[""]), "`exclude_tools` must be a list of tool names"),
        (lambda: ClearToolUses(clear_tool_inputs=UNFIT), "`clear_tool_inputs` must be a list of tool names"),
        (lambda: Compact(instructions=UNFIT), "`instructions` must be a string"),
        (lambda: Compact(instructions="\ud800"), "lone surrogate"),
        (lambda: ClearThinking(keep=0), "`keep` of ClearThinking must be .* at least 1"),
        (lambda: ClearThinking(keep=WORD), "a number of turns or 'all', not 'some'"),
        (lambda: Compact(trigger=InputTokens(49_999)), "at least 50,000"),
        (lambda: Compact(instructions="  "), "omit it to use the default summary prompt"),
        (ContextManagement, "at least one edit"),
        (lambda: ContextManagement(Compact(), Compact()), "each type of edit is allowed only once"),
        (lambda: ContextManagement(ClearToolUses(), ClearThinking()), "ClearThinking must be the first"),
    ],
)
def test_invalid_options_are_rejected(make: Any, expected: str) -> None:
    with pytest.raises(InvalidInput, match=expected):
        make()


def test_limits_are_inclusive() -> None:
    assert ClearToolUses(trigger=ToolUses(1), keep=0, clear_at_least=0).request()["keep"]["value"] == 0
    assert Compact(trigger=InputTokens(50_000)).request()["trigger"]["value"] == 50_000
    assert ClearThinking(keep=1).request()["keep"]["value"] == 1
