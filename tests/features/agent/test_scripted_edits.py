"""Parsing of `context_management`: the documented defaults, and a helpful 400 error for invalid values."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import BadRequestError

from retentive.testing.scripted_claude import ScriptedClaude, scripted_claude
from retentive.testing.scripted_claude.choices import Choices
from retentive.testing.scripted_claude.edits import (
    BETAS,
    ClearThinkingEdit,
    ClearToolUsesEdit,
    CompactEdit,
    Trigger,
    parse_edits,
)
from retentive.testing.scripted_claude.errors import ApiError

from .requests import COMPACT_BETA, CONTEXT, CONTEXT_BETA, WAYS, ask, clearing, compacting, management, post, thinking

CLEAR = "clear_tool_uses_20250919"


def edits(*given: object, choices: Choices | None = None, **body: object) -> Any:
    return parse_edits(
        {"context_management": {"edits": list(given)}, **body}, set(BETAS.values()), choices or Choices()
    )


def test_defaults_match_the_documentation() -> None:
    assert edits({"type": CLEAR}) == (
        ClearToolUsesEdit(Trigger("input_tokens", 100_000), 3, 0, frozenset(), clear_inputs=False),
    )
    assert edits({"type": "compact_20260112"}) == (CompactEdit(150_000, pause=False, instructions=None),)
    assert edits(thinking()) == (ClearThinkingEdit(None),)


def test_every_field_is_read() -> None:
    full = {
        "type": CLEAR,
        "trigger": {"type": "tool_uses", "value": 7},
        "keep": {"type": "tool_uses", "value": 1},
        "clear_at_least": {"type": "input_tokens", "value": 500},
        "exclude_tools": ["memory"],
        "clear_tool_inputs": True,
    }
    expected = ClearToolUsesEdit(Trigger("tool_uses", 7), 1, 500, frozenset({"memory"}), clear_inputs=True)
    assert edits(full) == (expected,)
    assert edits({**full, "clear_tool_inputs": ["read"]})[0].clear_inputs == {"read"}
    assert edits({**full, **dict.fromkeys(full), "type": CLEAR}) == edits({"type": CLEAR})
    compact = compacting(over=60_000, pause_after_compaction=True, instructions="Keep names.")
    assert edits(compact) == (CompactEdit(60_000, pause=True, instructions="Keep names."),)
    for keep in ("all", {"type": "all"}):
        assert edits(thinking(keep)) == (ClearThinkingEdit("all"),)
    assert edits(thinking({"type": "thinking_turns", "value": 2})) == (ClearThinkingEdit(2),)


def test_no_edits_differ_from_an_empty_list() -> None:
    assert parse_edits({}, set(), Choices()) is None
    assert edits() == parse_edits({"context_management": {}}, {CONTEXT_BETA}, Choices()) == ()


WRONG: dict[str, tuple[object, str]] = {
    "no object": ([], "context_management: Input should be an object"),
    "no list": ({"edits": {}}, "context_management.edits: Input should be a valid list"),
    "another field": ({"edit": []}, "context_management.edit: Extra inputs are not permitted (known here: edits)"),
    "no type": ({"edits": [{}]}, "edits.0.type: Field required"),
    "unknown type": (
        {"edits": [{"type": "clear_all_2099"}]},
        (
            "edits.0: Input tag 'clear_all_2099' found using 'type' does not match any of the expected tags: "
            "'clear_thinking_20251015', 'clear_tool_uses_20250919', 'compact_20260112'"
        ),
    ),
    "field of another edit": (
        {"edits": [{"type": CLEAR, "instructions": "x"}]},
        f"edits.0.{CLEAR}.instructions: Extra inputs are not permitted (known here: type, trigger, keep,",
    ),
    "trigger as a number": ({"edits": [{"type": CLEAR, "trigger": 5}]}, f"{CLEAR}.trigger: Input should be an object"),
    "trigger of another kind": (
        {"edits": [clearing(trigger={"type": "tokens", "value": 5})]},
        ".trigger.type: Input should be 'input_tokens' or 'tool_uses'",
    ),
    "trigger without a value": (
        {"edits": [clearing(trigger={"type": "tool_uses"})]},
        ".trigger.value: Input should be a valid integer",
    ),
    "trigger that is true": (
        {"edits": [clearing(trigger={"type": "tool_uses", "value": True})]},
        ".trigger.value: Input should be a valid integer",
    ),
    "trigger of nothing": (
        {"edits": [clearing(trigger={"type": "tool_uses", "value": 0})]},
        ".trigger.value: Input should be greater than or equal to 1",
    ),
    "keep in tokens": (
        {"edits": [{"type": CLEAR, "keep": {"type": "input_tokens", "value": 1}}]},
        ".keep.type: Input should be 'tool_uses'",
    ),
    "negative keep": ({"edits": [clearing(keep=-1)]}, ".keep.value: Input should be greater than or equal to 0"),
    "names as a text": (
        {"edits": [clearing(exclude_tools="memory")]},
        ".exclude_tools: Input should be a list of tool names",
    ),
    "inputs as a text": (
        {"edits": [clearing(clear_tool_inputs="read")]},
        ".clear_tool_inputs: Input should be a list of tool names",
    ),
    "no turns": (
        {"edits": [thinking({"type": "thinking_turns", "value": 0})]},
        ".keep.value: Input should be greater than or equal to 1",
    ),
    "odd turns": ({"edits": [thinking("none")]}, ".keep: Input should be an object"),
    "thinking second": (
        {"edits": [clearing(), thinking()]},
        "`clear_thinking_20251015` must be the first edit in the list",
    ),
    "small compaction": (
        {"edits": [compacting(over=49_999)]},
        ".trigger.value: Input should be greater than or equal to 50000",
    ),
    "compaction by uses": (
        {"edits": [{"type": "compact_20260112", "trigger": {"type": "tool_uses", "value": 60_000}}]},
        ".trigger.type: Input should be 'input_tokens'",
    ),
    "pause as a text": ({"edits": [compacting(pause_after_compaction="yes")]}, "Input should be a valid boolean"),
    "instructions as a list": ({"edits": [compacting(instructions=[])]}, "Input should be a valid string"),
    "twice": ({"edits": [clearing(), clearing()]}, "each strategy can be used only once"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_edits_are_rejected_with_the_expected_value(name: str) -> None:
    given, message = WRONG[name]
    status, reply = post(ScriptedClaude(lambda _seen: "Fine."), headers=CONTEXT, context_management=given)
    assert (status, reply["error"]["type"]) == (400, "invalid_request_error")
    assert message in reply["error"]["message"]


@pytest.mark.parametrize("way", WAYS)
def test_each_edit_needs_its_beta_header(way: str) -> None:
    """Without any beta header, the field is unknown. With the wrong header, the error names the edit."""
    asked: list[tuple[list[str], Any, str]] = [
        ([], clearing(), f"context_management: Extra inputs are not permitted .*beta header {CONTEXT_BETA}"),
        ([], compacting(), f"context_management: Extra inputs are not permitted .*beta header {COMPACT_BETA}"),
        ([COMPACT_BETA], clearing(), f"needs the beta header {CONTEXT_BETA}"),
        ([COMPACT_BETA], thinking(), f"needs the beta header {CONTEXT_BETA}"),
        ([CONTEXT_BETA], compacting(), f"needs the beta header {COMPACT_BETA}"),
    ]
    with scripted_claude(lambda _seen: "Fine.") as server:
        for betas, edit, message in asked:
            with pytest.raises(BadRequestError, match=message):
                ask(server, way, betas=betas, context_management=management(edit))
        assert ask(server, way, betas=[COMPACT_BETA], context_management=management(compacting())).content


def test_thinking_can_be_required() -> None:
    strict = Choices(thinking_must_be_enabled=True)
    for given in (None, {"type": "disabled"}):
        with pytest.raises(ApiError, match="strategy requires `thinking` to be enabled"):
            edits(thinking(), choices=strict, thinking=given)
        assert edits(thinking(), thinking=given)
    for kind in ("enabled", "adaptive"):
        assert edits(thinking(), choices=strict, thinking={"type": kind})


def test_an_edit_can_be_allowed_twice() -> None:
    assert len(edits(clearing(), clearing(), choices=Choices(repeated_edits=True))) == 2


def test_choices_are_parsed_from_json() -> None:
    given = {"warn_at": None, "thinking_turns": 2, "placeholder": "gone", "cleared_input": {"a": 1}}
    assert Choices.parse(given) == Choices(warn_at=None, thinking_turns=2, placeholder="gone", cleared_input={"a": 1})
    wrongs: list[dict[str, object]] = [
        {"warn": 1},
        {"warn_at": "1"},
        {"thinking_turns": 0},
        {"repeated_edits": 1},
        {"cleared_input": []},
    ]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="choice"):
            Choices.parse(wrong)
