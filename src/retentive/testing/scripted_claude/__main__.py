"""Command `python -m retentive.testing.scripted_claude`."""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from retentive.testing.scripted_claude.choices import Choices
from retentive.testing.scripted_claude.claude import ScriptedClaude
from retentive.testing.scripted_claude.context import default_summary
from retentive.testing.scripted_claude.faults import parse_fault
from retentive.testing.scripted_claude.http import BANNER, Site
from retentive.testing.scripted_claude.prompt import Prompt
from retentive.testing.scripted_claude.script import ScriptError, scripts_from_json

_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve a script until SIGINT or SIGTERM. Returns exit status 1 if a script failed."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        claude = _claude(options)
    except (OSError, ValueError, ImportError, AttributeError) as error:
        parser.error(str(error))

    def announce() -> None:
        print(claude.url, flush=True)
        print(BANNER, file=sys.stderr, flush=True)

    for signum in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again after its shutdown, which would end the process before the report below.
        signal.signal(signum, lambda _signum, _frame: None)
    Site(claude, port=options.port, on_startup=announce).run()
    for failure in claude.failures:
        print(failure, file=sys.stderr)
    return 1 if claude.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m retentive.testing.scripted_claude", description=BANNER)
    parser.add_argument("script", help="JSON script file, described in the module documentation, or MODULE:FUNCTION")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; the default 0 picks a free port")
    parser.add_argument("--context-window", type=int, metavar="TOKENS", help="reject larger prompts")
    parser.add_argument("--summarize", metavar="MODULE:FUNCTION", help="function that writes compaction summaries")
    parser.add_argument("--choices", default="{}", metavar="JSON", help="options such as '{\"warn_at\": 0.5}'")
    parser.add_argument("--fault", action="append", default=[], metavar="N=FAULT", help="such as 3=429:2 or 5=cut")
    return parser


def _claude(options: argparse.Namespace) -> ScriptedClaude:
    """Create the scripted Claude from the command line options. It records counts and failures, but no requests."""
    is_function = _FUNCTION.fullmatch(options.script) is not None and not Path(options.script).exists()
    return ScriptedClaude(
        *([_function(options.script)] if is_function else scripts_from_json(Path(options.script).read_text("utf-8"))),
        threads=not is_function,
        context_window=options.context_window,
        choices=Choices.parse(json.loads(options.choices)),
        summarize=_function(options.summarize) if options.summarize else default_summary,
        faults=dict(parse_fault(text) for text in options.fault),
        keep_requests=False,
    )


def _function(name: str) -> Callable[[Prompt], Any]:
    """Import `MODULE:FUNCTION`. The working directory is on the module search path."""
    module, _, attribute = name.partition(":")
    function = getattr(import_module(module), attribute)
    if not callable(function):
        raise ScriptError(f"{name} is not a function; expected MODULE:FUNCTION")
    return cast("Callable[[Prompt], Any]", function)


if __name__ == "__main__":
    sys.exit(main())
