"""Parsing of `context_management`: the documented defaults, and a helpful 400 error for invalid values."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import BadRequestError

from retentive.testing.scripted_claude import scripted_claude
from retentive.testing.scripted_claude.edits import (
    ClearThinkingEdit,
    ClearToolUsesEdit,
    CompactEdit,
    Trigger,
    parse_edits,
)

from .requests import COMPACT_BETA, CONTEXT_BETA, WAYS, ask, clearing, compacting, management, thinking

CLEAR = "clear_tool_uses_20250919"


def edits(*given: object) -> Any:
    return parse_edits({"edits": list(given)})


def test_defaults_match_the_documentation() -> None:
    assert edits({"type": CLEAR}) == (
        ClearToolUsesEdit(Trigger("input_tokens", 100_000), 3, 0, frozenset(), clear_inputs=False),
    )
    assert edits({"type": "compact_20260112"}) == (CompactEdit(150_000, pause=False, instructions=None),)
    assert edits(thinking()) == (ClearThinkingEdit(1),)


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
    assert parse_edits(None) is None
    assert edits() == parse_edits({}) == ()


@pytest.mark.parametrize("way", WAYS)
def test_each_edit_needs_its_beta_header(way: str) -> None:
    """Without any beta header, the field is unknown. With the wrong header, the edit is unknown."""
    asked: list[tuple[list[str], Any, str]] = [
        ([], clearing(), "context_management: Extra inputs are not permitted"),
        ([], compacting(), "context_management: Extra inputs are not permitted"),
        ([COMPACT_BETA], clearing(), "does not match any of the expected tags: 'compact_20260112'"),
        ([COMPACT_BETA], thinking(), "does not match any of the expected tags: 'compact_20260112'"),
        ([CONTEXT_BETA], compacting(), "Input tag 'compact_20260112' found"),
    ]
    with scripted_claude(lambda _seen: "Fine.") as server:
        for betas, edit, message in asked:
            with pytest.raises(BadRequestError, match=message):
                ask(server, way, betas=betas, context_management=management(edit))
        assert ask(server, way, betas=[COMPACT_BETA], context_management=management(compacting())).content
