"""`python -m retentive.testing.scripted_claude SCRIPT [--port N]`: a scripted Claude for programs in any language.

SCRIPT is a JSON file. docs/library.md describes its fields.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retentive.testing.scripted_claude.claude import ScriptedClaude
from retentive.testing.scripted_claude.script import (
    Call,
    Check,
    Disconnect,
    ErrorResponse,
    Raw,
    Script,
    ScriptError,
    StreamError,
    Thinking,
    Turn,
)

_BLOCKS: Mapping[str, type[Any]] = {"call": Call, "thinking": Thinking, "raw": Raw}
_FAULTS: Mapping[str, type[Any]] = {"error": ErrorResponse, "disconnect": Disconnect, "stream_error": StreamError}
_OPTIONS = {"scripts", "faults", "threads", "context_window"}


def parse(text: str) -> tuple[list[Script], dict[str, Any]]:
    """Return the scripts of a JSON text, and the options of `scripted_claude`. Raises `ScriptError`."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ScriptError(f"the script is not JSON: {error}") from None
    if not isinstance(given, dict) or not given.keys() <= _OPTIONS:
        raise ScriptError(f"the script must be an object with the fields {', '.join(sorted(_OPTIONS))}")
    scripts, faults, place = list[Script](), dict[int, Any](), "the script"
    try:
        for n, script in enumerate(_list(given.pop("scripts", []), "scripts")):
            turns, place = list[Turn](), f"scripts[{n}]"
            for m, turn in enumerate(_list(script["turns"], "turns")):
                place = f"scripts[{n}].turns[{m}]"
                turns.append(_turn(turn))
            place = f"scripts[{n}]"
            scripts.append(Script(**{**script, "turns": tuple(turns)}))
        place = "faults"
        for number, fault in given.pop("faults", {}).items():
            place = f"faults[{number}]"
            faults[int(number)] = _tagged(fault, _FAULTS)
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise ScriptError(f"{place} is not as the documentation says: {error}") from None
    return scripts, {**given, "faults": faults}


def _list(given: object, name: str) -> list[Any]:
    if not isinstance(given, list):
        raise ScriptError(f"{name} must be a list")
    return given


def _turn(given: Any) -> Turn:
    """Parse a turn: a text, a list of blocks, or an object with the fields of `Turn`."""
    fields = given if isinstance(given, dict) else {"blocks": [given] if isinstance(given, str) else given}
    blocks = [each if isinstance(each, str) else _tagged(each, _BLOCKS) for each in _list(fields["blocks"], "blocks")]
    return Turn(**{**fields, "blocks": tuple(blocks)})


def _tagged(given: Any, kinds: Mapping[str, type[Any]]) -> Any:
    """Parse an object whose only field is one of `kinds`."""
    if not isinstance(given, dict) or len(given) != 1 or not given.keys() <= kinds.keys():
        raise ScriptError(f"expected an object with one of the fields {', '.join(kinds)}")
    ((kind, fields),) = given.items()
    if fields.get("check") is not None:
        check = {**fields["check"], "contains": tuple(fields["check"].get("contains", ()))}
        fields = {**fields, "check": Check(**check)}
    return kinds[kind](**fields)


def main() -> None:
    """Serve the script that the command line names, print the URL, and stop at SIGINT or SIGTERM.

    Exits with status 1 if a client did not follow the script, and prints why.
    """
    parser = argparse.ArgumentParser(prog="python -m retentive.testing.scripted_claude")
    parser.add_argument("script", type=Path, help="JSON file")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 selects a free one")
    given = parser.parse_args()
    try:
        scripts, options = parse(given.script.read_text("utf-8"))
    except (OSError, ScriptError) as error:
        parser.error(str(error))
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with ScriptedClaude(*scripts, port=given.port, **options) as server:
        print(server.url, flush=True)
        stopped.wait()
    try:
        server.verify()
    except AssertionError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
