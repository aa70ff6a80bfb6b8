"""The HTTP server of the scripted Claude, as a context manager and as a program."""

from __future__ import annotations

import argparse
import json
import re
import secrets
import signal
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from retentive.testing.scripted_claude.choices import Choices
from retentive.testing.scripted_claude.compaction import default_summary
from retentive.testing.scripted_claude.context import Context, Summarize, managed
from retentive.testing.scripted_claude.errors import ApiError, invalid
from retentive.testing.scripted_claude.faults import Broken, Cut, Plan, Refused, Trouble, trouble_from, trouble_of
from retentive.testing.scripted_claude.http import BANNER, serve, served
from retentive.testing.scripted_claude.messages import Conversation, merged
from retentive.testing.scripted_claude.observations import Seen
from retentive.testing.scripted_claude.reply import Failure, PlayError, Reply, next_turn, reply_of
from retentive.testing.scripted_claude.requests import Paused, Request, Threads, check_conversation, parse
from retentive.testing.scripted_claude.script import (
    Answering,
    Script,
    ScriptError,
    scripts_from_json,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what was answered; `reply` is the message, also when it was streamed, or the error.

    `seen` is what the model saw of it, None where it was refused before. `status` is 0 where nothing was sent.
    """

    headers: Mapping[str, str]
    body: object
    status: int
    reply: Mapping[str, object]
    seen: Seen | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """What goes out for one request: a reply or an error, whether as a stream, and what goes wrong on the way."""

    reply: Reply | ApiError
    stream: bool = False
    trouble: Trouble | None = None


class Options(TypedDict, total=False):
    """What `scripted_claude` and `ScriptedClaude` can be told, see there."""

    threads: bool
    context_window: int | None
    choices: Choices
    summarize: Summarize
    troubles: Plan
    keep_requests: bool


class ScriptedClaude:
    """The server: what it was asked and what went wrong. Started by `scripted_claude`.

    `failures` and `requests` grow while it runs and may be read from any thread; so does `largest_prompt`, the tokens
    of the largest prompt after edits that it counted, refused ones included.

    `threads=False` makes it refuse message threads, as the API does for some organisations. `context_window` is
    the most tokens a prompt may have, `summarize` writes the summary of a compaction, or None if it fails, `choices`
    say what the documentation leaves open, `troubles` go wrong. With `keep_requests=False` it remembers no request.
    `new_suffix` gives the unique part of each id.
    """

    def __init__(
        self,
        *scripts: Script | Answering,
        threads: bool = True,
        context_window: int | None = None,
        choices: Choices | None = None,
        summarize: Summarize = default_summary,
        troubles: Plan = MappingProxyType({}),
        keep_requests: bool = True,
        new_suffix: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self.url = ""
        self.failures: list[Failure] = []
        self.requests: list[Exchange] = []
        self.largest_prompt = 0
        self._scripts = scripts
        self._threads = Threads(supported=threads)
        self._paused = Paused()
        self._context_window = context_window
        self._choices = choices or Choices()
        self._summarize = summarize
        self._troubles = troubles
        self._keep_requests = keep_requests
        self._new_suffix = new_suffix
        self._tally: Counter[str] = Counter()

    def answer(self, headers: Mapping[str, str], data: bytes) -> Answered:
        """The answer to one `POST /v1/messages`, recorded."""
        self._tally["requests"] += 1
        trouble = trouble_of(self._troubles, self._tally["requests"])
        body: object = None
        seen: Seen | None = None
        stream = False
        answered: Reply | ApiError
        try:
            body = _json(data)
            stream = isinstance(body, dict) and body.get("stream") is True
            self._raise_trouble(trouble, stream=stream)
            request = parse(headers, body, self._choices)
            answered, seen = self._reply(request)
        except ApiError as error:
            answered = error
        except PlayError as failed:
            self.failures.append(failed.failure)
            answered = invalid(f"[scripted Claude] {failed.failure}")
        status, reply = _rendered(answered, trouble)
        if self._keep_requests:
            self.requests.append(Exchange(dict(headers), body, status, reply, seen))
        return Answered(answered, stream, trouble)

    def count(self, headers: Mapping[str, str], data: bytes) -> dict[str, object] | ApiError:
        """The answer to one `POST /v1/messages/count_tokens`. It compacts nothing anew."""
        try:
            request = parse(headers, _json(data), self._choices, counting=True)
            conversation = Conversation(merged(request.messages), request.system, request.tools)
            check_conversation(conversation, self._paused)
        except ApiError as error:
            return error
        context = managed(conversation, request.edits or (), self._choices, summarize=None)
        counted: dict[str, object] = {"input_tokens": context.tokens}
        if request.edits is not None:
            counted["context_management"] = {"original_input_tokens": context.original_tokens}
        return counted

    def state(self) -> dict[str, object]:
        """How many requests there were, what was done to them, and what failed: what `GET /scripted` answers."""
        names = ("requests", "cleared_tool_uses", "cleared_thinking_turns", "compactions", "warnings")
        counts: dict[str, object] = {name: self._tally[name] for name in names}
        return {**counts, "largest_prompt": self.largest_prompt, "failures": [str(failed) for failed in self.failures]}

    def _reply(self, request: Request) -> tuple[Reply, Seen]:
        conversation = self._threads.join(request)
        check_conversation(conversation, self._paused)
        context = managed(conversation, request.edits or (), self._choices, summarize=self._summary)
        self._check_sizes(context)
        seen = context.seen(self._choices)
        pauses = context.compaction is not None and context.compaction.pauses
        turn = None if pauses else next_turn(self._scripts, conversation, seen)
        reply = reply_of(turn, context, suffix=self._new_suffix(), edited=request.edits is not None)
        self._threads.keep(request, conversation, reply.id, reply.blocks)
        self._paused.keep(reply.stop_reason, reply.blocks)
        self._enter(context)
        return reply, seen

    def _summary(self, seen: Seen) -> str | None:
        try:
            summary = self._summarize(seen)
        except Exception as error:  # somebody's own function may raise anything
            raise PlayError(Failure("summarize", 0, f"the function raised {error!r}")) from error
        if summary is not None and not isinstance(summary, str):
            raise PlayError(Failure("summarize", 0, f"a summary is a text or None, got {summary!r}"))
        return summary

    def _check_sizes(self, context: Context) -> None:
        for size in context.prompts:
            self.largest_prompt = max(self.largest_prompt, size)
            if self._context_window is not None and size > self._context_window:
                raise invalid(f"prompt is too long: {size} tokens > {self._context_window} maximum")

    def _enter(self, context: Context) -> None:
        """Count what was done to a request that is answered."""
        for edit in context.applied:
            for name in ("cleared_tool_uses", "cleared_thinking_turns"):
                self._tally[name] += int(str(edit.get(name, 0)))
        self._tally["compactions"] += context.compaction is not None
        self._tally["warnings"] += context.warning is not None

    def _raise_trouble(self, trouble: Trouble | None, *, stream: bool) -> None:
        """Raise the `ApiError` that is answered instead; a connection that is cut beforehand has none to answer."""
        match trouble:
            case Refused():
                raise trouble.error()
            case Broken(status=status) if not stream:
                raise Refused(status).error()
            case Cut(None):
                raise Refused(500).error()


@contextmanager
def scripted_claude(
    *scripts: Script | Answering, port: int = 0, **options: Unpack[Options]
) -> Iterator[ScriptedClaude]:
    """A `ScriptedClaude` serving on the loopback while the block runs, in a thread; port 0 is a free one."""
    claude = ScriptedClaude(*scripts, **options)
    with served(claude, port=port):
        yield claude


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve a script until stopped; the exit code is 1 if it failed."""
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
        # uvicorn shuts down in order and raises the signal again, which would end us before the report below.
        signal.signal(signum, lambda _signum, _frame: None)
    serve(claude, port=options.port, on_startup=announce)
    for failure in claude.failures:
        print(failure, file=sys.stderr)
    return 1 if claude.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m retentive.testing.scripted_claude", description=BANNER)
    parser.add_argument("script", help="a JSON file, see the documentation of this module, or MODULE:FUNCTION")
    parser.add_argument("--port", type=int, default=0, help="the port on 127.0.0.1; 0, the default, takes a free one")
    parser.add_argument("--context-window", type=int, metavar="TOKENS", help="refuse larger prompts")
    parser.add_argument("--summarize", metavar="MODULE:FUNCTION", help="what writes the summaries of compactions")
    parser.add_argument("--choices", default="{}", metavar="JSON", help="such as '{\"warn_at\": 0.5}'")
    parser.add_argument("--trouble", action="append", default=[], metavar="N=WHAT", help="such as 3=429:2 or 5=cut")
    return parser


def _claude(options: argparse.Namespace) -> ScriptedClaude:
    """The server the command line asks for. One with a function remembers nothing but what failed and sums."""
    is_function = _FUNCTION.fullmatch(options.script) is not None and not Path(options.script).exists()
    return ScriptedClaude(
        *([_function(options.script)] if is_function else scripts_from_json(Path(options.script).read_text("utf-8"))),
        threads=not is_function,
        context_window=options.context_window,
        choices=Choices.parse(json.loads(options.choices)),
        summarize=_function(options.summarize) if options.summarize else default_summary,
        troubles=dict(trouble_from(spelt) for spelt in options.trouble),
        keep_requests=False,
    )


def _function(name: str) -> Callable[[Seen], Any]:
    """The function with this name, `MODULE:FUNCTION`; modules of the working directory are found."""
    module, _, attribute = name.partition(":")
    found = getattr(import_module(module), attribute)
    if not callable(found):
        raise ScriptError(f"{name} is not a function")
    return cast("Callable[[Seen], Any]", found)


def _json(data: bytes) -> object:
    try:
        body: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise invalid(f"The request body is not valid JSON: {error}") from error
    return body


def _rendered(answered: Reply | ApiError, trouble: Trouble | None) -> tuple[int, dict[str, object]]:
    if trouble == Cut(None):
        return 0, {}
    if isinstance(answered, ApiError):
        return answered.status, answered.body()
    return 200, answered.message()
