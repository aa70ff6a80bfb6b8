"""`python -m retentive.testing.scripted_claude SCRIPT [--port N]`: a scripted Claude for programs in any language.

SCRIPT is a JSON file with the fields of `Play`. docs/testing-your-agent.md describes them.
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

from retentive.testing.scripted_claude.http import scripted_claude
from retentive.testing.scripted_claude.script import (
    Call,
    Check,
    Content,
    Disconnect,
    ErrorResponse,
    Fault,
    Raw,
    Script,
    ScriptError,
    StreamError,
    Thinking,
    Turn,
)

_BLOCKS: Mapping[str, type[Any]] = {"call": Call, "thinking": Thinking, "raw": Raw}
_FAULTS: Mapping[str, type[Any]] = {"error": ErrorResponse, "disconnect": Disconnect, "stream_error": StreamError}


def parse(text: str) -> tuple[list[Script], dict[str, Any]]:
    """Return the scripts of a JSON text, and the options of `scripted_claude`. Raises `ScriptError`."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ScriptError(f"the script is not JSON: {error}") from None
    fields = _fields(given, ("scripts", "faults", "threads", "context_window"), "the script")
    scripts = [_script(each, f"scripts[{n}]") for n, each in enumerate(_list(fields.pop("scripts", []), "scripts"))]
    faults = fields.get("faults", {})
    if not isinstance(faults, Mapping) or not all(number.isdecimal() for number in faults):
        raise ScriptError("faults must be an object whose fields are numbers of requests")
    fields["faults"] = {int(number): _fault(each, number) for number, each in faults.items()}
    return scripts, fields


def _script(given: object, where: str) -> Script:
    fields = _fields(given, ("turns", "name", "when"), where)
    turns = [
        _turn(each, f"{where}.turns[{n}]") for n, each in enumerate(_list(fields.get("turns", []), f"{where}.turns"))
    ]
    script: Script = _built(Script, {**fields, "turns": tuple(turns)}, where)
    return script


def _turn(given: object, where: str) -> Turn:
    """Parse a turn: a text, a list of blocks, or an object with the fields of `Turn`."""
    fields = dict(given) if isinstance(given, Mapping) else {"blocks": [given] if isinstance(given, str) else given}
    blocks = fields.get("blocks")
    if not isinstance(blocks, list):
        raise ScriptError(f"{where} must be a text, a list of blocks, or an object with `blocks`")
    parsed = tuple(_block(each, f"{where}.blocks[{n}]") for n, each in enumerate(blocks))
    turn: Turn = _built(Turn, {**fields, "blocks": parsed}, where)
    return turn


def _block(given: object, where: str) -> Content:
    if isinstance(given, str):
        return given
    kind, fields = _only(given, _BLOCKS, where)
    if (check := fields.get("check")) is not None:
        check = _fields(check, ("text", "contains", "is_error"), f"{where}.check")
        check = _built(Check, {**check, "contains": tuple(check.get("contains", ()))}, f"{where}.check")
        fields = {**fields, "check": check}
    block: Content = _built(_BLOCKS[kind], fields, where)
    return block


def _fault(given: object, number: str) -> Fault:
    where = f"faults[{number}]"
    kind, fields = _only(given, _FAULTS, where)
    fault: Fault = _built(_FAULTS[kind], fields, where)
    return fault


def _list(given: object, where: str) -> list[object]:
    if not isinstance(given, list):
        raise ScriptError(f"{where} must be a list")
    return given


def _only(given: object, kinds: Mapping[str, object], where: str) -> tuple[str, dict[str, Any]]:
    if isinstance(given, Mapping) and len(given) == 1:
        ((kind, fields),) = given.items()
        if kind in kinds and isinstance(fields, Mapping):
            return kind, dict(fields)
    raise ScriptError(f"{where} must be an object with one of the fields {', '.join(kinds)}, each an object")


def _fields(given: object, known: tuple[str, ...], where: str) -> dict[str, Any]:
    unknown = set(given) - set(known) if isinstance(given, Mapping) else {"it"}
    if unknown or not isinstance(given, Mapping):
        raise ScriptError(f"{where} must be an object with the fields {', '.join(known)}")
    return dict(given)


def _built(kind: type[Any], fields: Mapping[str, Any], where: str) -> Any:
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:
        raise ScriptError(f"{where}: {error}") from None


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
    with scripted_claude(*scripts, port=given.port, **options) as server:
        print(server.url, flush=True)
        stopped.wait()
    try:
        server.verify()
    except AssertionError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
