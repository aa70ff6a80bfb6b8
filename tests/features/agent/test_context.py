"""Context management: the edits that are sent are those of the installed SDK."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest
from anthropic import Anthropic
from anthropic.types.beta.beta_context_management_config_param import Edit
from pydantic import TypeAdapter

from retentive import InvalidInput
from retentive.agent import Agent, betas_of, memory_context

EDITING = "context-management-2025-06-27"
COMPACTION = "compact-2026-01-12"


def test_the_edits_are_those_of_the_documentation_and_of_the_sdk() -> None:
    """The test fails if a new version of the SDK has a new edit."""
    context = memory_context()
    assert context == {
        "edits": [
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 100_000},
                "keep": {"type": "tool_uses", "value": 3},
                "clear_at_least": {"type": "input_tokens", "value": 20_000},
                "exclude_tools": ["memory"],
            },
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 150_000}},
        ]
    }
    assert TypeAdapter(list[Edit]).validate_python(context["edits"], strict=True) == context["edits"]
    types = [get_args(get_type_hints(sdk)["type"])[0] for sdk in get_args(Edit)]
    assert all(betas_of({"edits": [{"type": each}]}) for each in types)


def test_each_option_changes_its_edit() -> None:
    (edit,) = memory_context(clear_over=30_000, keep=0, clear_at_least=0, exclude_memory=False, compact_over=None)[
        "edits"
    ]
    assert [edit[name]["value"] for name in ("trigger", "keep", "clear_at_least")] == [30_000, 0, 0]
    assert "exclude_tools" not in edit
    assert memory_context(compact_over=50_000)["edits"][1]["trigger"]["value"] == 50_000


@pytest.mark.parametrize(
    ("edits", "betas"),
    [
        ([{"type": "clear_thinking_20251015"}], [EDITING]),
        ([{"type": "compact_20260112"}], [COMPACTION]),
        ([{"type": "new_in_2030"}], []),
    ],
)
def test_each_edit_adds_its_beta(edits: list[dict[str, Any]], betas: list[str]) -> None:
    assert betas_of({"edits": edits}) == betas


@pytest.mark.parametrize(
    "options", [{"clear_over": -1}, {"keep": True}, {"clear_at_least": "1"}, {"compact_over": 49_999}]
)
def test_invalid_options_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"`{next(iter(options))}` must be an integer of at least"):
        memory_context(**options)


@pytest.mark.parametrize("context", [5, [], {}, {"edits": 5}, {"edits": ["clear"]}])
def test_an_invalid_context_of_an_agent_is_rejected(context: Any) -> None:
    with pytest.raises(InvalidInput, match="`context` must be a dict"):
        Agent(Anthropic(api_key="k"), memory="sqlite://", context=context)
