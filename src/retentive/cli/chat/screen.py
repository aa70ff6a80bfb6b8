"""Output of a conversation. `Screen` prints text and a line for each memory call, and `JsonLines` prints JSON."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from retentive.agent.errors import AgentError
from retentive.agent.events import Compaction, EditsApplied, Event, Finished, StreamRestarted, Text, ToolCall, ToolReply
from retentive.agent.responses import AppliedEdit, ClearedThinking, ClearedToolUses
from retentive.cli import layouts, output
from retentive.frozen import dataclass
from retentive.values.diff import DiffLine, as_text

if TYPE_CHECKING:
    from rich.live import Live

    from retentive.cli.chat.markdown import MarkdownBlocks

MAX_LINE_CHARS = 500  # maximum length of the line for a call or a reply; the model may choose very long paths
MAX_DIFF_LINES = 40
_RETRY = "/retry sends the message again."
API_ERRORS: Mapping[str, str] = {
    "rate_limited": f"Rate limit of the API exceeded. {_RETRY}",
    "overloaded": f"The API is overloaded. {_RETRY}",
    "api_failed": f"The API failed. {_RETRY}",
    "connection_lost": f"The connection to the API failed or was interrupted. {_RETRY}",
    "not_authorized": "The API key is invalid or lacks permission. Check ANTHROPIC_API_KEY.",
    "request_refused": "The API rejected the request.",
}
"""Message for each error code of an agent. The error message of the API is printed below it."""
REFUSED = "Claude declined to answer. Your message was removed from the conversation."
ENDED: Mapping[str, str] = {
    "max_tokens": "The answer reached --max-tokens; ask Claude to continue.",
    "context_full": "The context window is full. Start a new chat; the memory is saved.",
    "budget": "Claude reached the maximum number of steps; /retry continues.",
    "pause": "Claude paused; /retry continues.",
    "refusal": REFUSED,
}
"""Message for each reason why an answer ended early."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a slash command: a text and a diff, or a request to send the last message again."""

    text: str = ""
    is_error: bool = False
    diff: Sequence[DiffLine] = ()
    retries: bool = False


class Screen:
    """Output for people.

    On a terminal, control characters in texts of models and memories are escaped, Markdown is rendered, and the diff of
    each change is shown. With NO_COLOR, or on a terminal without colours, Markdown is printed unchanged. With
    `only_answer`, the answer is printed to standard output and everything else to standard error.
    """

    def __init__(self, *, only_answer: bool = False) -> None:
        self.terminal = output.on_terminal()
        self._only_answer = only_answer and not self.terminal
        self._is_rich = self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._spinner: Live | None = None
        self._blocks: MarkdownBlocks | None = None
        self._within_line = False
        self._calls: dict[str, str] = {}  # calls without a reply, by id
        self._edits: tuple[AppliedEdit, ...] = ()
        self._several = False  # True if a message has several calls, so that each reply must name its call

    def started(self, model: str, store: str, actor: str) -> None:
        """Show the model, the memory store and the actor."""
        if self.terminal and not self._only_answer:
            self._line(
                f"{model} with the memory store {store}. Changes are recorded as {actor}. /help lists the commands."
            )

    def ended(self, hints: Sequence[str]) -> None:
        """At the end of the conversation, show hints that name useful commands."""
        for hint in hints if self.terminal else ():
            self._line(hint)

    def waiting(self) -> None:
        """Show a spinner until the next output, because Claude is working."""
        if not self._is_rich or self._spinner is not None or not sys.stderr.isatty():
            return
        from rich.console import Console  # noqa: PLC0415 - slow to import
        from rich.live import Live  # noqa: PLC0415
        from rich.spinner import Spinner  # noqa: PLC0415

        spinner = Spinner("dots", "Claude is working ...")
        self._spinner = Live(
            spinner, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._spinner.start()

    def settled(self) -> None:
        """Remove the spinner."""
        if self._spinner is not None:
            self._spinner.stop()  # again, if Ctrl-C interrupted it
        self._spinner = None

    @property
    def show_diff(self) -> Callable[[list[DiffLine]], None] | None:
        """Function that shows the diff of a change; None if the output is not a terminal."""
        return self._diff if self.terminal else None

    def event(self, event: Event) -> None:
        """Show an event of the agent."""
        match event:
            case Text(text):
                self._text(text)
            case ToolCall():
                self._calls[event.id] = called(event)
                self._line(f"[{event.name}] {self._calls[event.id]}", "cyan")
            case ToolReply():
                self._reply(event)
            case EditsApplied(edits) if edits != self._edits:  # the API repeats the same edits with each request
                self._edits = edits
                self._line(f"[context] {'; '.join(map(edited, edits))}", "yellow")
            case StreamRestarted():
                self._line("[connection] The answer was interrupted; Claude starts it again.", "yellow")
            case Compaction(summary):
                self._line(f"[context] {compacted(summary)}", "yellow")
            case Finished():
                self._calls, self._several = {}, False
                self._end_line()
                if event.reason != "end_turn":
                    detail = f" ({event.detail})" if event.detail else ""
                    text = ENDED.get(event.reason, "The answer ended for an unknown reason.")
                    self._line(f"{text}{detail}", "red")

    def error(self, error: AgentError) -> None:
        """Show the reason why there is no answer, and advice."""
        self.failed(error.code, API_ERRORS.get(error.code, "No answer."), retryable=error.retryable)
        if error.code != "connection_lost":
            self._line(f"  {error}")

    def failed(self, _code: str, message: str, *, retryable: bool) -> None:
        """Show an error."""
        self._line(f"Error: {message}", "yellow" if retryable else "red")

    def interrupted(self) -> None:
        """Show that the answer was interrupted."""
        self._calls, self._several = {}, False
        self._line("(interrupted)", "yellow")

    def answered(self, _command: str, answer: Answer) -> None:
        """Show the answer to a slash command."""
        self._end_line()
        if answer.text:
            self._line(answer.text, "red" if answer.is_error else None)
        if answer.diff:
            output.emit(None, plain=as_text(answer.diff), shown=[layouts.Diff(answer.diff)])

    def _reply(self, reply: ToolReply) -> None:
        first = _short(reply.text.split("\n", 1)[0])
        call = self._calls.pop(reply.id, "")
        shown = f"{call}: {first}" if self._calls or self._several else first
        self._several = bool(self._calls)
        self._line(f"  {shown}", "red" if reply.is_error else "bright_black")
        if not self._calls:
            self.waiting()

    def _diff(self, rows: list[DiffLine]) -> None:
        left = len(rows) - MAX_DIFF_LINES
        self._end_line()
        output.emit(None, shown=[layouts.Diff(rows[:MAX_DIFF_LINES])])
        if left > 0:
            self._line(f"  {output.counted(left, 'more line')}; /diff shows all.", "bright_black")
        self.waiting()

    def _text(self, text: str) -> None:
        if not self._is_rich:
            self._write(text)
            self._within_line = not text.endswith("\n") if text else self._within_line
            return
        if self._blocks is None:
            from retentive.cli.chat.markdown import MarkdownBlocks  # noqa: PLC0415 - imports rich

            self._blocks = MarkdownBlocks()
        if shown := self._blocks.add(text):
            self.settled()
            output.write_text(shown)
        self.waiting()

    def _line(self, text: str, colour: str | None = None) -> None:
        self._end_line()
        if self._only_answer:
            output.note(text)
            return
        self._write(text, colour)
        output.write(b"\n")

    def _end_line(self) -> None:
        self.settled()
        if self._blocks is not None and (shown := self._blocks.end()):
            output.write_text(shown)
        if self._within_line:
            output.write(b"\n")
        self._within_line = False

    def _write(self, text: str, colour: str | None = None) -> None:
        if self.terminal:
            text = output.coloured(output.harmless(text), colour)
        output.write_text(text)


class JsonLines:
    """Output for programs: one JSON object on a line for each event. The field `event` names the type of the event."""

    show_diff = None

    def started(self, model: str, store: str, actor: str) -> None:
        """Show the model, the memory store and the actor."""
        self._line("started", {"model": model, "store": store, "actor": actor})

    def ended(self, _hints: Sequence[str]) -> None:
        """Print nothing. The hints are for people."""

    def waiting(self) -> None:
        """Print nothing."""

    def settled(self) -> None:
        """Print nothing."""

    def event(self, event: Event) -> None:
        """Show an event of the agent."""
        values = asdict(event)
        if isinstance(event, EditsApplied):
            values["edits"] = [{"edit": _snake(edit), **asdict(edit)} for edit in event.edits]
        self._line(_snake(event), values)

    def error(self, error: AgentError) -> None:
        """Print the error of the agent."""
        self.failed(error.code, str(error), retryable=error.retryable)

    def failed(self, code: str, message: str, *, retryable: bool) -> None:
        """Show an error."""
        self._line("error", {"code": code, "message": message, "retryable": retryable})

    def interrupted(self) -> None:
        """Show that the answer was interrupted."""
        self._line("interrupted", {})

    def answered(self, command: str, answer: Answer) -> None:
        """Show the answer to a slash command."""
        text = answer.text + as_text(answer.diff)
        self._line("command", {"command": command, "text": text, "is_error": answer.is_error})

    def _line(self, name: str, values: Mapping[str, object]) -> None:
        output.write_line(output.to_json({"event": name, **values}))


def called(call: ToolCall) -> str:
    """Return the command and the paths of a memory call."""
    given = call.input
    paths = [given.get(name) for name in ("path", "old_path", "new_path")]
    words = [given.get("command"), *paths]
    return _short(" ".join(" ".join(str(word).splitlines()) for word in words if word is not None))


def edited(edit: AppliedEdit) -> str:
    """Return a short description of a context edit by the API."""
    match edit:
        case ClearedToolUses(uses, tokens):
            return f"cleared {output.counted(uses, 'tool result')} ({tokens:,} tokens)"
        case ClearedThinking(turns, tokens):
            return f"cleared the thinking of {output.counted(turns, 'turn')} ({tokens:,} tokens)"
        case _:
            return f"applied {edit.type}"


def compacted(summary: str | None) -> str:
    """Return a short description of the result of a compaction. `summary` is None if the compaction failed."""
    if summary is None:
        return "the compaction failed; the conversation is unchanged"
    return f"the conversation was replaced by a summary of {len(summary):,} characters"


def _short(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARS else text[:MAX_LINE_CHARS] + "…"


def _snake(value: object) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(value).__name__).lower()
