"""What a scripted Claude says, and what it must get back: plain values, and their JSON form.

Nothing here speaks HTTP or knows the Messages API; see `retentive.testing.scripted_claude`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from retentive.testing.scripted_claude.observations import Seen

MEMORY = "memory"  # the name the API fixes for the tool of type memory_20250818


class ScriptError(ValueError):
    """A script that cannot be played; the message says where and what would be right."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came back for one call: the text of the tool_result, and whether it was marked as an error."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """What the result of one call must be. Everything given must hold.

    `text` is the whole text, exactly; each of `contains` must occur in it; `is_error` must be equal, None for
    either; `holds` gets the text last: a false answer or an exception fails the check.
    """

    text: str | None = None
    contains: tuple[str, ...] = ()
    is_error: bool | None = False
    holds: Callable[[str], object] | None = None

    def problem(self, result: Result) -> str | None:
        """What is wrong with `result`, with expected and actual, or None."""
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
        except Exception as error:  # a test's own code may raise anything; that is its answer
            return f"the check raised {error!r} for the text {text!r}"
        return None if held else f"the check did not hold for the text {text!r}"


@dataclass(frozen=True, slots=True)
class Call:
    """One tool_use block: `input` as the model would send it, for the tool `name`.

    `input` may be as wrong as a model's can be, as long as JSON can carry it. `check` is asked when the
    result comes back; without one, any result will do.
    """

    input: Mapping[str, object]
    check: Check | None = None
    name: str = MEMORY


@dataclass(frozen=True, slots=True)
class Thinking:
    """One thinking block. A client must send it back as it came; what is cleared of it, is cleared by the server."""

    text: str


Said: TypeAlias = str | Call | Thinking


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the assistant: texts (str), tool calls and thinking, in order.

    The stop reason is "tool_use" with a call in it and "end_turn" without, unless given here.
    """

    blocks: tuple[Said, ...]
    stop_reason: str | None = None

    def __post_init__(self) -> None:
        if not self.blocks or "" in self.blocks:
            raise ScriptError("a turn needs at least one block, and no text may be empty")

    @property
    def calls(self) -> tuple[Call, ...]:
        """The tool calls of the turn, in order."""
        return tuple(block for block in self.blocks if isinstance(block, Call))


@dataclass(frozen=True, slots=True)
class Script:
    """The turns of one conversation. It is for each one whose first user message contains `when`."""

    turns: tuple[Turn, ...]
    name: str = "script"
    when: str = field(default="", kw_only=True)


Answering: TypeAlias = "Callable[[Seen], Turn | Said | Sequence[Said]]"
"""A script that is a function: what it says to a request, worked out from what the model sees of it alone."""


def pick(scripts: Sequence[Script | Answering], opening: str) -> Script | Answering | None:
    """The first of `scripts` whose `when` occurs in `opening`, the text of the first user message; a function fits."""
    fitting = (script for script in scripts if not isinstance(script, Script) or script.when in opening)
    return next(fitting, None)


def turn_of(answer: object) -> Turn:
    """What a function answered as a turn; raises `ScriptError` for anything that is none."""
    if isinstance(answer, Turn):
        return answer
    blocks = tuple(answer) if isinstance(answer, (list, tuple)) else (answer,)
    for block in blocks:
        if not isinstance(block, (str, Call, Thinking)):
            raise ScriptError(f"an answer is a Turn, or texts, Calls and Thinking, got {block!r}")
    return Turn(blocks)


def scripts_from_json(text: str) -> tuple[Script, ...]:
    """The scripts in a script file, see `retentive.testing.scripted_claude` for the format.

    Raises `ScriptError` for anything it does not know: a misspelt check would otherwise pass in silence.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ScriptError(f"the script is not JSON: {error}") from error
    top = _record(data, "script", ("scripts", "turns", "name", "when"))
    entries = _list(top, "script", "scripts") if "scripts" in top else [top]
    if "scripts" in top and len(top) > 1:
        raise ScriptError("script: 'scripts' stands alone; names and turns belong inside its entries")
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


def _block(data: object, where: str) -> Said:
    if isinstance(data, str):
        return data
    record = _record(data, where, ("call", "check", "name", "thinking"))
    if len(record) == 1 and (thinking := _text(record, where, "thinking")):
        return Thinking(thinking)
    call = record.get("call")
    if not isinstance(call, dict) or "thinking" in record:
        raise ScriptError(
            f"{where}: a block is a text, or an object with a 'call', the input of a tool call, or 'thinking' alone"
        )
    check = _check(record["check"], f"{where}.check") if "check" in record else None
    return Call(call, check, _text(record, where, "name") or MEMORY)


def _check(data: object, where: str) -> Check:
    record = _record(data, where, ("text", "contains", "is_error"))
    contains = _list(record, where, "contains") if "contains" in record else []
    is_error = record.get("is_error", False)
    if not all(isinstance(part, str) for part in contains):
        raise ScriptError(f"{where}.contains: expected a list of texts")
    if is_error is not None and not isinstance(is_error, bool):
        raise ScriptError(f"{where}.is_error: expected true, false or null (either)")
    return Check(_text(record, where, "text"), tuple(str(part) for part in contains), is_error)


def _record(data: object, where: str, known: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(data, dict):
        raise ScriptError(f"{where}: expected an object")
    for key in data:
        if key not in known:
            raise ScriptError(f"{where}: unknown field {key!r}, expected one of {', '.join(known)}")
    return data


def _list(record: dict[str, object], where: str, key: str) -> list[object]:
    value = record.get(key)
    if not isinstance(value, list):
        raise ScriptError(f"{where}.{key}: expected a list")
    return value


def _text(record: dict[str, object], where: str, key: str) -> str | None:
    value = record.get(key)
    if value is not None and not isinstance(value, str):
        raise ScriptError(f"{where}.{key}: expected a text")
    return value
