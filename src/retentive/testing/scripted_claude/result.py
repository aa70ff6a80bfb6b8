"""Results of tool calls, as a script sees them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a tool call: the text of the tool_result block and its `is_error`."""

    text: str
    is_error: bool = False
