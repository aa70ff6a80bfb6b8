"""How a conversation looks: text and a line for each memory call, in colours on a terminal; or JSON lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from retentive.agent.applied import AppliedEdit, ClearedThinking, ClearedToolUses
from retentive.agent.errors import AgentError
from retentive.agent.events import Compaction, EditsApplied, Event, Finished, Text, ToolCall, ToolReply
from retentive.cli import output
from retentive.values.diff import as_text

if TYPE_CHECKING:
    from retentive.cli.chat.session import Session
    from retentive.cli.chat.slash_commands import Answer

MAX_LINE_CHARS = 500  # of a call or an answer; a path can be as long as a model likes
_RETRY = "/retry asks again."
SAID: Mapping[str, str] = {
    "rate_limited": f"The API takes no more requests for now (rate limit). {_RETRY}",
    "overloaded": f"The API has too much to do just now (overloaded). {_RETRY}",
    "api_failed": f"The API failed. {_RETRY}",
    "connection_lost": f"The API could not be reached, or the answer broke off. {_RETRY}",
    "not_authorized": "The API does not accept the key, or the key may not do this.",
    "request_refused": "The API refuses the request as it is.",
}
"""What is told of each error of an agent, by its code; the words of the API follow."""
REFUSED = "Claude declined to answer. What was said was taken out of the conversation."
ENDED: Mapping[str, str] = {
    "max_tokens": "The answer was cut off at --max-tokens; ask Claude to go on.",
    "context_full": "The context window is full: begin anew. What Claude wrote into its memory stays.",
    "budget": "Claude took very many steps; /retry lets it go on.",
    "pause": "Claude paused; /retry lets it go on.",
    "refusal": REFUSED,
}
"""What is told where an answer ended for another reason than that Claude was done."""


class Screen:
    """Lines for people. On a terminal control characters of models and memories are shown, and do nothing."""

    def __init__(self) -> None:
        self.terminal = output.on_terminal()
        self._within_line = False
        self._calls: dict[str, str] = {}  # those that are not answered yet
        self._edits: tuple[AppliedEdit, ...] = ()
        self._several = False  # one of them was, so each answer says which it is of

    def started(self, model: str, store: str, actor: str) -> None:
        """Who talks, and where."""
        if self.terminal:
            self._line(f"{model}, with the memory store {store}. Changes are recorded as {actor}. /help tells more.")

    def ended(self, session: Session) -> None:
        """What is left, and how to have it away."""
        number = len({version.revision for version in session.changes()}) if self.terminal else 0
        if number:
            whose = f"--{'session' if session.actor.kind == 'session' else 'actor'}"
            name = session.actor.id if session.actor.kind == "session" else str(session.actor)
            self._line(f"Changes of the memory: {number}. `retentive undo {whose} {name}` takes them back.")

    def event(self, event: Event) -> None:
        """What Claude says and does."""
        match event:
            case Text(text):
                self._write(text)
                self._within_line = not text.endswith("\n") if text else self._within_line
            case ToolCall():
                self._calls[event.id] = called(event)
                self._line(f"[{event.name}] {self._calls[event.id]}", "cyan")
            case ToolReply():
                self._reply(event)
            case EditsApplied(edits) if edits != self._edits:  # each request is edited anew, often to the same
                self._edits = edits
                self._line(f"[context] {'; '.join(map(edited, edits))}", "yellow")
            case Compaction(summary):
                self._line(f"[context] {compacted(summary)}", "yellow")
            case Finished():
                self._calls, self._several = {}, False
                self._end_line()
                if event.reason != "end_turn":
                    detail = f" ({event.detail})" if event.detail else ""
                    said = ENDED.get(event.reason, "The answer ended for a reason not known here.")
                    self._line(f"{said}{detail}", "red")

    def error(self, error: AgentError) -> None:
        """Why there is no answer, and what may be done."""
        self.failed(error.code, SAID.get(error.code, "There is no answer."), retryable=error.retryable)
        if error.code != "connection_lost":
            self._line(f"  {error}")

    def failed(self, _code: str, message: str, *, retryable: bool) -> None:
        """What went wrong."""
        self._line(f"Error: {message}", "yellow" if retryable else "red")

    def interrupted(self) -> None:
        """That the answer was."""
        self._calls, self._several = {}, False
        self._line("(interrupted)", "yellow")

    def answered(self, _command: str, answer: Answer) -> None:
        """What came of a slash command."""
        self._end_line()
        if answer.text:
            self._line(answer.text, "red" if answer.is_error else None)
        if answer.diff and self.terminal:
            from retentive.cli import terminal  # noqa: PLC0415 - imports rich

            output.write_line(terminal.draw(output.Diff(answer.diff)))
        elif answer.diff:
            output.write(as_text(answer.diff).encode("utf-8", "backslashreplace"))

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
            text = output.harmless(text)
            text = output.coloured(text, colour)
        output.write(text.encode("utf-8", "backslashreplace"))


class JsonLines:
    """Each event as a JSON object on a line of its own; `event` says of which kind it is."""

    def started(self, model: str, store: str, actor: str) -> None:
        """Who talks, and where."""
        self._line("started", {"model": model, "store": store, "actor": actor})

    def ended(self, _session: Session) -> None:
        """Nothing more: who ends a program knows what it did."""

    def event(self, event: Event) -> None:
        """What Claude says and does."""
        values = asdict(event)
        if isinstance(event, EditsApplied):
            values["edits"] = [{"edit": _snake(edit), **asdict(edit)} for edit in event.edits]
        self._line(_snake(event), values)

    def error(self, error: AgentError) -> None:
        """Why there is no answer."""
        self.failed(error.code, str(error), retryable=error.retryable)

    def failed(self, code: str, message: str, *, retryable: bool) -> None:
        """What went wrong."""
        self._line("error", {"code": code, "message": message, "retryable": retryable})

    def interrupted(self) -> None:
        """That the answer was."""
        self._line("interrupted", {})

    def answered(self, command: str, answer: Answer) -> None:
        """What came of a slash command."""
        text = answer.text + as_text(answer.diff)
        self._line("command", {"command": command, "text": text, "is_error": answer.is_error})

    def _line(self, name: str, values: Mapping[str, object]) -> None:
        output.write_line(output.to_json({"event": name, **values}))


def called(call: ToolCall) -> str:
    """A call of the memory in a few words: the command and its paths."""
    given = call.input
    paths = [given.get(name) for name in ("path", "old_path", "new_path")]
    words = [given.get("command"), *paths]
    return _short(" ".join(" ".join(str(word).splitlines()) for word in words if word is not None))


def edited(edit: AppliedEdit) -> str:
    """What the API left out of a request, in a few words."""
    match edit:
        case ClearedToolUses(uses, tokens):
            return f"results of tool uses cleared: {uses:,} ({tokens:,} tokens)"
        case ClearedThinking(turns, tokens):
            return f"turns whose thinking was cleared: {turns:,} ({tokens:,} tokens)"
        case _:
            return f"edited: {edit.type}"


def compacted(summary: str | None) -> str:
    """What came of a compaction."""
    if summary is None:
        return "a summary could not be written; nothing changed"
    return f"a summary of {len(summary):,} characters takes the place of the conversation so far"


def _short(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARS else text[:MAX_LINE_CHARS] + "…"


def _snake(value: object) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(value).__name__).lower()
