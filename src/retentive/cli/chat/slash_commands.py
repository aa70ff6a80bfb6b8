"""Slash commands of `retentive chat`: memories, changes, undo, token usage and context."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retentive.agent.context import ContextManagement
from retentive.agent.errors import AgentError
from retentive.agent.events import UsageReport
from retentive.agent.request import request_of
from retentive.agent.responses import TokenCount, token_count
from retentive.agent.sendable import sendable
from retentive.cli.chat.changes import diffs
from retentive.cli.chat.screen import API_ERRORS, Answer, edited
from retentive.cli.chat.session import Session
from retentive.cli.undoing import DONE
from retentive.errors import RetentiveError
from retentive.frozen import dataclass
from retentive.history.apply import RestoreOutcome
from retentive.integrations.messages import TOOL
from retentive.storage.contract import Memory
from retentive.values.listing import human_size
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from anthropic import Anthropic

HELP: Mapping[str, str] = {
    "/memory": "show the memory as a tree, with sizes",
    "/view PATH": "show a memory or directory, as Claude sees it",
    "/diff": "show the changes by Claude in this conversation",
    "/undo": "undo the last change; /undo all: undo all changes in one step",
    "/usage": "show the token usage of each message",
    "/context": "show the context settings, edits and size",
    "/retry": "send the last message again, if it has no answer",
    "/help": "show this list",
    "/quit": "end the chat (Ctrl-D)",
}
_COMMAND = re.compile(r"/[a-z]+(?:[ \t].*)?")  # matches one line only; pasted text of several lines is a message
_NEXT = {"role": "user", "content": "?"}  # some models reject a conversation that ends with a message of the assistant


@dataclass(frozen=True, slots=True)
class ContextCounter:
    """Counts the tokens of the next request, by asking the API.

    `client` returns the client of the API. The other fields are parts of every request.
    """

    client: Callable[[], Anthropic]
    model: str
    system: str
    context: ContextManagement | None
    tools: Sequence[Mapping[str, Any]] = (TOOL,)

    def count(self, messages: Sequence[Mapping[str, Any]]) -> TokenCount:
        """Return the number of tokens of the next request. Raises `AgentError`.

        If the last message is an answer, a short user message is added to the request.
        """
        from retentive.agent import sdk  # noqa: PLC0415 - imports the SDK

        more = [] if messages and messages[-1]["role"] == "user" else [_NEXT]
        fields: dict[str, Any] = {"model": self.model, "tools": [*self.tools], "betas": []}
        if self.system:
            fields["system"] = self.system
        request = request_of(fields, self.context, sendable([*messages, *more]))
        with sdk.api_errors():
            return token_count(self.client().beta.messages.count_tokens(**request))


def is_command(line: str) -> bool:
    """Return whether a line has the form of a slash command.

    Returns False for a line that starts with a memory path.
    """
    return _COMMAND.fullmatch(line) is not None


@dataclass(frozen=True, slots=True)
class Commands:
    """Slash commands of a conversation."""

    session: Session
    counting: ContextCounter

    def answer(self, line: str) -> Answer | None:
        """Return the answer to a slash command. Returns None if the command ends the conversation.

        Errors are returned as answers.
        """
        name, *rest = line.split(maxsplit=1)
        if name in {"/quit", "/exit"}:
            return None
        if name not in _COMMANDS:
            return _error(f"unknown command {name}; /help lists the commands")
        try:
            return _COMMANDS[name](self, rest[0].strip() if rest else "")
        except AgentError as error:
            return _error(f"{API_ERRORS.get(error.code, 'no answer')} ({error})")
        except RetentiveError as error:
            return _error(str(error))

    def completions(self, line: str) -> list[str]:
        """Return possible completions of an incomplete line: slash commands or, after `/view`, paths of memories."""
        if line.startswith("/view "):
            typed = line.removeprefix("/view ")
            below = "" if typed.startswith("/") else f"{ROOT}/"
            paths = [memory.path.removeprefix(below) for memory in self.session.store.memories()]
            return [f"/view {path}" for path in paths if path.startswith(typed)]
        names = [*_COMMANDS, "/quit"]
        return [name for name in names if name.startswith(line)] if line.startswith("/") else []

    def _memory(self, _rest: str) -> Answer:
        return Answer("\n".join(tree(list(self.session.store.memories()))))

    def _view(self, path: str) -> Answer:
        shown = path if path.startswith("/") else f"{ROOT}/{path}"
        reply = self.session.store.execute({"command": "view", "path": shown.rstrip("/") or ROOT})
        return Answer(reply.text, reply.is_error)

    def _diff(self, _rest: str) -> Answer:
        rows = list(diffs(self.session.store, self.session.changes()))
        return Answer(diff=rows) if rows else Answer("No changes by Claude.")

    def _undo(self, which: str) -> Answer:
        if which not in {"", "all"}:
            return _error("use /undo or /undo all")
        outcome = self.session.undo_all() if which else self.session.undo_last()
        return Answer("Nothing to undo.") if outcome is None else _undone(outcome)

    def _usage(self, _rest: str) -> Answer:
        usages = [_usage(reports) for reports in self.session.usage]
        head = ("message", "replies", "input", "cache read", "cache written", "output", "total")
        rows = [(str(number), *(f"{value:,}" for value in values)) for number, values in enumerate(usages, 1)]
        sums = [f"{sum(column):,}" for column in zip(*usages, strict=True)] or ["0"] * (len(head) - 1)
        return Answer(_columns([head, *rows, ("all", *sums)]))

    def _context(self, _rest: str) -> Answer:
        context, edits = self.counting.context, self.session.edits
        settings = context.request()["edits"] if context is not None else []
        lines = [_setting(edit) for edit in settings] or ["Context editing is off (--no-context-editing)."]
        if edits:
            last = "; ".join(map(edited, edits[-1]))
            lines.append(f"The API edited the context of {len(edits):,} replies. Last: {last}.")
        if self.session.compactions:
            lines.append(f"Compactions: {self.session.compactions}.")
        count = self.counting.count(self.session.messages)
        before = count.original_input_tokens
        more = f", {before:,} before clearing" if before not in {None, count.input_tokens} else ""
        lines.append(f"The next request has {count.input_tokens:,} tokens{more}.")
        return Answer("\n".join(lines))

    def _retry(self, _rest: str) -> Answer:
        return Answer(retries=True) if self.session.can_retry() else Answer("Nothing to send again.")

    def _help(self, _rest: str) -> Answer:
        width = max(map(len, HELP)) + 2
        return Answer("\n".join(f"{name:{width}}{text}" for name, text in HELP.items()))


_COMMANDS: Mapping[str, Callable[[Commands, str], Answer]] = {
    name.split()[0]: getattr(Commands, f"_{name[1:].split()[0]}") for name in HELP if name != "/quit"
}


def tree(memories: Sequence[Memory]) -> Iterator[str]:
    """Yield a line for each directory and memory, with its size, indented as a tree.

    The size of a directory is the sum of the sizes of its memories.
    """
    sizes: dict[str, int] = {ROOT: 0}
    for memory in memories:
        parts = memory.path.split("/")
        for end in range(2, len(parts)):
            parent = "/".join(parts[:end])
            sizes[parent] = sizes.get(parent, 0) + memory.size_bytes
    rows = {f"{path}/": size for path, size in sizes.items()}
    rows |= {memory.path: memory.size_bytes for memory in memories}
    for path in sorted(rows, key=str.encode):
        depth = path.rstrip("/").count("/") - 1
        name = path if depth == 0 else "  " * depth + path.rstrip("/").rpartition("/")[2] + "/" * path.endswith("/")
        yield f"{human_size(rows[path]):>7}  {name}"


def _undone(outcome: RestoreOutcome) -> Answer:
    if outcome.conflicts:
        lines = ["nothing was undone.", *(f"{each.path}: {each.reason}." for each in outcome.conflicts)]
        return _error("\n".join(lines))
    proposed = ["This is a proposal until somebody accepts it."] if outcome.proposed else []
    lines = [f"{DONE[step.what]}  {step.path}" for step in outcome.steps] + proposed
    return Answer("\n".join(lines) or "Nothing to do.")


def _usage(reports: Sequence[UsageReport]) -> tuple[int, ...]:
    """Return the number of replies, the numbers of tokens of each kind, and the total number of tokens.

    Only the total includes the tokens of compactions.
    """
    usages = [report.usage for report in reports]
    names = ("input_tokens", "cache_read_tokens", "cache_creation_tokens", "output_tokens")
    sums = (sum(getattr(usage, name) for usage in usages) for name in names)
    return len(reports), *sums, reports[-1].total_tokens if reports else 0


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


def _setting(edit: Mapping[str, object]) -> str:
    return f"{edit['type']}: {', '.join(f'{name} {_plain(value)}' for name, value in edit.items() if name != 'type')}"


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{value['value']:,} {value['type']}"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _error(text: str) -> Answer:
    return Answer(f"Error: {text}", is_error=True)
