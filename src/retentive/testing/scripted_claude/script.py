"""Scripts as values (turns, tool calls and checks), and their JSON format.

This module is independent of HTTP and the Messages API. `retentive.testing.scripted_claude` describes the format.
"""

from __future__ import annotations

import json
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

    `text` is the expected text of the result. Each string in `contains` must occur in the text. `is_error` must match
    that of the result; None accepts both values. After these conditions, `holds` is called with the text; the check
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


Content: TypeAlias = str | Call | Thinking


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

    A string is a turn with this text only.
    """

    turns: tuple[Turn | str, ...]
    name: str = "script"
    when: str = field(default="", kw_only=True)

    def turn(self, number: int) -> Turn | None:
        """Turn with this number, from 1. None after the last turn."""
        return to_turn(self.turns[number - 1]) if number <= len(self.turns) else None

    def unplayed(self, played: int) -> str:
        """Describe the first turn after the `played` ones. An empty string if there is none."""
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
        if not isinstance(block, (str, Call, Thinking)):
            raise ScriptError(f"a script function must return a Turn, or strings, Calls and Thinking, got {block!r}")
    return Turn(blocks)


def scripts_from_json(text: str) -> tuple[Script, ...]:
    """Parse a script file. `retentive.testing.scripted_claude` describes the format.

    Raises `ScriptError` for unknown fields: a misspelt check would otherwise never run.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ScriptError(f"the script is not JSON: {error}") from error
    top = _record(data, "script", ("scripts", "turns", "name", "when"))
    entries = _list(top, "script", "scripts") if "scripts" in top else [top]
    if "scripts" in top and len(top) > 1:
        raise ScriptError("script: no other field is allowed beside 'scripts'; move names and turns into its entries")
    return tuple(_script(entry, f"scripts[{n}]") for n, entry in enumerate(entries))


def _script(data: object, where: str) -> Script:
    record = _record(data, where, ("turns", "name", "when"))
    turns = [_turn(turn, f"{where}.turns[{n}]") for n, turn in enumerate(_list(record, where, "turns"))]
    name = _text(record, where, "name") or where
    return Script(tuple(turns), name, when=_text(record, where, "when") or "")


def _turn(data: object, where: str) -> Turn:
    record = _record(data, where, ("blocks", "stop_reason"))
    blocks = [_block(block, f"{where}.blocks[{n}]") for n, block in enumerate(_list(record, where, "blocks"))]
    try:
        return Turn(tuple(blocks), _text(record, where, "stop_reason"))
    except ScriptError as error:
        raise ScriptError(f"{where}: {error}") from error


def _block(data: object, where: str) -> Content:
    if isinstance(data, str):
        return data
    record = _record(data, where, ("call", "check", "name", "thinking"))
    if len(record) == 1 and (thinking := _text(record, where, "thinking")):
        return Thinking(thinking)
    call = record.get("call")
    if not isinstance(call, dict) or "thinking" in record:
        raise ScriptError(
            f"{where}: a block must be a string, an object with 'call' (the input of a tool call), or an object with "
            "only 'thinking'"
        )
    check = _check(record["check"], f"{where}.check") if "check" in record else None
    return Call(call, check, _text(record, where, "name") or MEMORY)


def _check(data: object, where: str) -> Check:
    record = _record(data, where, ("text", "contains", "is_error"))
    contains = _list(record, where, "contains") if "contains" in record else []
    is_error = record.get("is_error", False)
    if not all(isinstance(part, str) for part in contains):
        raise ScriptError(f"{where}.contains: expected a list of strings")
    if is_error is not None and not isinstance(is_error, bool):
        raise ScriptError(f"{where}.is_error: expected true, false or null (accepts both)")
    return Check(_text(record, where, "text"), tuple(str(part) for part in contains), is_error)


def _record(data: object, where: str, known: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(data, dict):
        raise ScriptError(f"{where}: expected an object")
    for key in data:
        if key not in known:
            raise ScriptError(f"{where}: unknown field {key!r}; expected one of {', '.join(known)}")
    return data


def _list(record: dict[str, object], where: str, key: str) -> list[object]:
    value = record.get(key)
    if not isinstance(value, list):
        raise ScriptError(f"{where}.{key}: expected a list")
    return value


def _text(record: dict[str, object], where: str, key: str) -> str | None:
    value = record.get(key)
    if value is not None and not isinstance(value, str):
        raise ScriptError(f"{where}.{key}: expected a string")
    return value
