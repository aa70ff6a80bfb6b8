"""`exec`: run one JSON command per line, for programs in any language."""

from __future__ import annotations

import json
import sys
from typing import NoReturn

from retentive.cli import output
from retentive.cli.location import Location
from retentive.cli.options import command
from retentive.errors import InvalidInput, RetentiveError
from retentive.integrations.messages import run_block
from retentive.store import MemoryStore, core_of
from retentive.values.replies import Reply


@command("exec")
def execute(location: Location) -> None:
    """Answer JSON commands, one per line.

    For each line of standard input, exec prints one line with the reply, before it reads the next line. If a line is
    the input of a tool call, such as {"command": "view", "path": "/memories"}, the reply is {"text", "is_error",
    "code"}. If it is a tool_use block, the reply is its tool_result block. For any other line the reply is an error,
    and exec continues. It exits with status 0 at the end of the input.

    Creates the location and the memory store if they do not exist.
    """
    with location.created(sweep=True) as store:
        for line in sys.stdin.buffer if sys.stdin is not None else ():
            output.write_line(output.to_json(answer(store, line)))


def answer(store: MemoryStore, line: bytes) -> Reply | dict[str, object]:
    """Return the reply to one line: a `Reply`, or a tool_result block."""
    try:
        try:
            given = _parsed(line)
        except InvalidInput as error:
            core_of(store).reject(error)
        if isinstance(given, dict) and (given.get("type") == "tool_use" or {"id", "input"} <= given.keys()):
            return run_block(store, given)
        return store.execute(given)
    except RetentiveError as error:
        return output.failure(error)


def _parsed(line: bytes) -> object:
    """Parse the JSON value in a line. Raises `InvalidInput` with the reason."""
    if not line.strip():
        raise InvalidInput("the line is empty")
    try:
        value: object = json.loads(line.removesuffix(b"\n").decode(), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the line is not UTF-8 (byte {error.start + 1})") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(f"the line is not JSON: {error.msg} (character {error.pos + 1})") from None
    except RecursionError:
        raise InvalidInput("the line is nested too deeply") from None
    except ValueError:  # Python does not convert numbers of more than 4,300 digits
        raise InvalidInput("a number in the line is too long") from None
    return value


def _no_constant(name: str) -> NoReturn:
    raise InvalidInput(f"the line is not JSON: {name} is not a JSON number")
