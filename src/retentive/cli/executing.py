"""`exec`: run one JSON command per line, for programs in any language."""

from __future__ import annotations

import json
import sys
from typing import NoReturn

from retentive.cli import output
from retentive.cli.location import Location, failure
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
            try:
                answer: object = _answer(store, line)
            except RetentiveError as error:
                answer = failure(error)
            output.write_line(output.to_json(answer))


def _answer(store: MemoryStore, line: bytes) -> Reply | dict[str, object]:
    """Return the reply to one line: a `Reply`, or a tool_result block. Raises `InvalidInput` for other lines."""
    try:
        given = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # json.JSONDecodeError has the reason without its position in lines
        core_of(store).reject(InvalidInput(f"the line is not JSON: {getattr(error, 'msg', error)}"))
    if isinstance(given, dict) and (given.get("type") == "tool_use" or {"id", "input"} <= given.keys()):
        return run_block(store, given)
    return store.execute(given)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
