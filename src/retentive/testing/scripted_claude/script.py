"""Scripts as values: turns, tool calls and checks. This module is independent of HTTP and the Messages API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from retentive.testing.scripted_claude.prompt import Prompt, Result

MEMORY = "memory"  # the API accepts no other name for the tool of type memory_20250818


class ScriptError(ValueError):
    """Invalid script. The message names the position and the expected value."""


@dataclass(frozen=True, slots=True)
class Check:
    """Expected result of a tool call. All conditions must hold.

    `text` is the expected text of the result. Each string in `contains` must occur in the text. `is_error` must equal
    the flag of the result; None accepts both values. After these conditions, `holds` is called with the text; the check
    fails if `holds` returns a false value or raises an exception.
    """

    text: str | None = None
    contains: tuple[str, ...] = ()
    is_error: bool | None = False
    holds: Callable[[str], object] | None = None

    def problem(self, result: Result) -> str | None:
        """Describe the first condition that fails, with the expected and the actual value, or return None."""
        if self.text is not None and result.text != self.text:
            return f"expected the text {self.text!r}, got {result.text!r}"
        for part in self.contains:
            if part not in result.text:
                return f"expected a text that contains {part!r}, got {result.text!r}"
        if self.is_error is not None and result.is_error != self.is_error:
            return f"expected is_error {self.is_error}, got {result.is_error} with the text {result.text!r}"
        return self._problem_of_holds(result.text)

    def _problem_of_holds(self, text: str) -> str | None:
        if self.holds is None:
            return None
        try:
            held = self.holds(text)
        except Exception as error:  # the function of a test may raise anything
            return f"the check raised {error!r} for the text {text!r}"
        return None if held else f"the check failed for the text {text!r}"


@dataclass(frozen=True, slots=True)
class Call:
    """Tool_use block that calls the tool `name` with `input`.

    `input` can be any JSON object, even an invalid command. `check` is run on the result of the call. Without a check,
    any result is accepted.
    """

    input: Mapping[str, object]
    check: Check | None = None
    name: str = MEMORY


@dataclass(frozen=True, slots=True)
class Thinking:
    """Thinking block. The client must send it back unchanged; only the server clears thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class Raw:
    """Content block that is sent as it is, such as a call of a server tool or its result."""

    block: Mapping[str, object]


Content: TypeAlias = str | Call | Thinking | Raw


@dataclass(frozen=True, slots=True)
class Turn:
    """Reply of the assistant: texts (str), tool calls and thinking, in order.

    The default stop reason is "tool_use" for a turn with tool calls and "end_turn" for other turns.
    """

    blocks: tuple[Content, ...]
    stop_reason: str | None = None

    def __post_init__(self) -> None:
        if not self.blocks or "" in self.blocks:
            raise ScriptError("a turn must have at least one block, and its texts must not be empty")

    @property
    def calls(self) -> tuple[Call, ...]:
        """Tool calls of the turn, in order."""
        return tuple(block for block in self.blocks if isinstance(block, Call))


@dataclass(frozen=True, slots=True)
class Script:
    """Turns of a conversation. The script applies to conversations whose first user message contains `when`.

    A turn may be a plain string: a reply of this text without tool calls.
    """

    turns: tuple[Turn | str, ...]
    name: str = "script"
    when: str = field(default="", kw_only=True)

    def turn(self, number: int) -> Turn | None:
        """Turn with this number, from 1. None after the last turn."""
        return to_turn(self.turns[number - 1]) if number <= len(self.turns) else None

    def unplayed(self, played: int) -> str:
        """Describe the first unplayed turn if `played` turns were played, or return "" if there is none."""
        count, turn = len(self.turns), self.turn(played + 1)
        if turn is None:
            return ""
        return f"no request for turn {played + 1} of {count}, {turn.blocks!r:.500}"


ScriptFunction: TypeAlias = "Callable[[Prompt], Turn | Content | Sequence[Content]]"
"""Script function. It computes the next turn from the prompt alone."""


def select_script(scripts: Sequence[Script | ScriptFunction], opening: str) -> Script | ScriptFunction | None:
    """Return the first script whose `when` occurs in `opening`, the first user message.

    A script function always matches.
    """
    matches = (script for script in scripts if not isinstance(script, Script) or script.when in opening)
    return next(matches, None)


def to_turn(answer: object) -> Turn:
    """Convert the return value of a script function to a turn. Raises `ScriptError` for an invalid value."""
    if isinstance(answer, Turn):
        return answer
    blocks = tuple(answer) if isinstance(answer, (list, tuple)) else (answer,)
    for block in blocks:
        if not isinstance(block, (str, Call, Thinking, Raw)):
            raise ScriptError(f"a script function must return a Turn, strings, Calls, Thinking or Raw, got {block!r}")
    return Turn(blocks)
