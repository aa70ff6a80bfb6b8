"""Output of a conversation: text with a line for each memory call, coloured on a terminal, or JSON lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from retentive.agent.errors import AgentError
from retentive.agent.events import Compaction, EditsApplied, Event, Finished, StreamRestarted, Text, ToolCall, ToolReply
from retentive.agent.responses import AppliedEdit, ClearedThinking, ClearedToolUses
from retentive.cli import layouts, output
from retentive.values.diff import DiffLine, as_text

if TYPE_CHECKING:
    from retentive.cli.chat.session import Session

MAX_LINE_CHARS = 500  # limit for a call or a reply, because the model chooses the length of a path
_RETRY = "/retry sends the message again."
API_ERRORS: Mapping[str, str] = {
    "rate_limited": f"Rate limit of the API exceeded. {_RETRY}",
    "overloaded": f"The API is overloaded. {_RETRY}",
    "api_failed": f"The API failed. {_RETRY}",
    "connection_lost": f"The connection to the API failed or was interrupted. {_RETRY}",
    "not_authorized": "The API key is invalid or lacks permission. Check ANTHROPIC_API_KEY.",
    "request_refused": "The API rejected the request.",
}
"""Message for each error code of an agent. The message of the API follows it."""
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
    """Output for people. On a terminal, control characters in texts of models and memories are escaped."""

    def __init__(self) -> None:
        self.terminal = output.on_terminal()
        self._within_line = False
        self._calls: dict[str, str] = {}  # calls that have no reply yet, by id
        self._edits: tuple[AppliedEdit, ...] = ()
        self._several = False  # several calls in one message; each reply then names its call

    def started(self, model: str, store: str, actor: str) -> None:
        """Show the model, the memory store and the actor."""
        if self.terminal:
            self._line(
                f"{model} with the memory store {store}. Changes are recorded as {actor}. /help lists the commands."
            )

    def ended(self, session: Session) -> None:
        """Show the number of changes, and the command that reverts them."""
        number = len({version.revision for version in session.changes()}) if self.terminal else 0
        if number:
            actor = session.actor
            which = f"--session {actor.id}" if actor.kind == "session" else f"--actor {actor}"
            self._line(f"{output.counted(number, 'change')} of the memory; revert with `retentive undo {which}`.")

    def event(self, event: Event) -> None:
        """Show an event of the agent."""
        match event:
            case Text(text):
                self._write(text)
                self._within_line = not text.endswith("\n") if text else self._within_line
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
        """Show why there is no answer and what to do."""
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

    def _line(self, text: str, colour: str | None = None) -> None:
        self._end_line()
        self._write(text, colour)
        output.write(b"\n")

    def _end_line(self) -> None:
        if self._within_line:
            output.write(b"\n")
        self._within_line = False

    def _write(self, text: str, colour: str | None = None) -> None:
        if self.terminal:
            text = output.coloured(layouts.harmless(text), colour)
        output.write_text(text)


class JsonLines:
    """Prints each event as a JSON object on its own line. The field `event` is the kind of the event."""

    def started(self, model: str, store: str, actor: str) -> None:
        """Show the model, the memory store and the actor."""
        self._line("started", {"model": model, "store": store, "actor": actor})

    def ended(self, _session: Session) -> None:
        """Print nothing, since a program can count the events itself."""

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
    """A memory call in a few words: its command and paths."""
    given = call.input
    paths = [given.get(name) for name in ("path", "old_path", "new_path")]
    words = [given.get("command"), *paths]
    return _short(" ".join(" ".join(str(word).splitlines()) for word in words if word is not None))


def edited(edit: AppliedEdit) -> str:
    """A context edit by the API, in a few words."""
    match edit:
        case ClearedToolUses(uses, tokens):
            return f"cleared {output.counted(uses, 'tool result')} ({tokens:,} tokens)"
        case ClearedThinking(turns, tokens):
            return f"cleared the thinking of {output.counted(turns, 'turn')} ({tokens:,} tokens)"
        case _:
            return f"applied {edit.type}"


def compacted(summary: str | None) -> str:
    """The result of a compaction."""
    if summary is None:
        return "the compaction failed; the conversation is unchanged"
    return f"the conversation was replaced by a summary of {len(summary):,} characters"


def _short(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARS else text[:MAX_LINE_CHARS] + "…"


def _snake(value: object) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(value).__name__).lower()
