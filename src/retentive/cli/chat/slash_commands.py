"""Slash commands of `retentive chat`: the memory, its changes, undo, token usage and context."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from retentive.agent.context import ContextManagement
from retentive.agent.errors import AgentError
from retentive.agent.responses import TokenCount, token_count
from retentive.cli.chat.screen import API_ERRORS, Answer, edited
from retentive.cli.chat.session import Session
from retentive.errors import RetentiveError
from retentive.history.apply import RestoreOutcome
from retentive.integrations.messages import TOOL
from retentive.storage.contract import Memory, Version
from retentive.store import MemoryStore
from retentive.values.diff import DiffLine, unified
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
_COMMAND = re.compile(r"/[a-z]+(?:\s.*)?", re.DOTALL)
_DONE = {"deleted": "deleted", "moved": "moved", "made": "recreated", "changed": "reverted"}
_NOWHERE = "/dev/null"
_NEXT = {"role": "user", "content": "?"}  # some models accept no conversation that ends with the assistant


@dataclass(frozen=True, slots=True)
class ContextCounter:
    """The settings of each request, to count its tokens with the API."""

    client: Anthropic
    model: str
    system: str
    context: ContextManagement | None

    def count(self, messages: Sequence[Mapping[str, Any]]) -> TokenCount:
        """Tokens of the next request, with a short message. Raises `AgentError`."""
        from retentive.agent import sdk  # noqa: PLC0415 - imports the SDK

        fields: dict[str, Any] = {"model": self.model, "messages": [*messages, _NEXT], "tools": [TOOL]}
        if self.system:
            fields["system"] = self.system
        if self.context is not None:
            fields |= {"context_management": self.context.request(), "betas": self.context.betas}
        with sdk.api_errors():
            return token_count(self.client.beta.messages.count_tokens(**fields))


def is_command(line: str) -> bool:
    """True for a slash command, known or not. A line that begins with a path is a message."""
    return _COMMAND.fullmatch(line) is not None


class Commands:
    """The slash commands of one conversation."""

    def __init__(self, session: Session, counting: ContextCounter) -> None:
        self._session = session
        self._counting = counting
        self._known: Mapping[str, Callable[[str], Answer]] = {
            "/memory": self._memory,
            "/view": self._view,
            "/diff": self._diff,
            "/undo": self._undo,
            "/usage": self._usage,
            "/context": self._context,
            "/retry": self._retry,
            "/help": self._help,
        }

    def answer(self, line: str) -> Answer | None:
        """The answer to a line; None if it ends the conversation. Errors become answers."""
        name, *rest = line.split(maxsplit=1)
        if name in {"/quit", "/exit"}:
            return None
        if name not in self._known:
            return _error(f"unknown command {name}; /help lists the commands")
        try:
            return self._known[name](rest[0].strip() if rest else "")
        except AgentError as error:
            return _error(f"{API_ERRORS.get(error.code, 'no answer')} ({error})")
        except RetentiveError as error:
            return _error(str(error))

    def _memory(self, _rest: str) -> Answer:
        return Answer("\n".join(tree(list(self._session.store.memories()))))

    def _view(self, path: str) -> Answer:
        shown = path if path.startswith("/") else f"{ROOT}/{path}"
        reply = self._session.store.execute({"command": "view", "path": shown.rstrip("/") or ROOT})
        return Answer(reply.text, reply.is_error)

    def _diff(self, _rest: str) -> Answer:
        rows = list(_diffs(self._session.store, self._session.changes()))
        return Answer(diff=rows) if rows else Answer("No changes by Claude.")

    def _undo(self, which: str) -> Answer:
        if which not in {"", "all"}:
            return _error("use /undo or /undo all")
        outcome = self._session.undo_all() if which else self._session.undo_last()
        return Answer("Nothing to undo.") if outcome is None else _undone(outcome)

    def _usage(self, _rest: str) -> Answer:
        usages = [astuple(each) for each in self._session.spent]
        head = ("message", "replies", "input", "cache read", "cache written", "output", "total")
        rows = [(str(number), *(f"{value:,}" for value in values)) for number, values in enumerate(usages, 1)]
        sums = [f"{sum(column):,}" for column in zip(*usages, strict=True)] or ["0"] * (len(head) - 1)
        return Answer(_columns([head, *rows, ("all", *sums)]))

    def _context(self, _rest: str) -> Answer:
        context, cleared = self._counting.context, self._session.cleared
        edits = context.request()["edits"] if context is not None else []
        lines = [_setting(edit) for edit in edits] or ["Context editing is off (--no-context-editing)."]
        if cleared.replies:
            last = "; ".join(map(edited, cleared.edits))
            lines.append(f"The API edited the context of {cleared.replies:,} replies. Last: {last}.")
        if cleared.compactions:
            lines.append(f"Compactions: {cleared.compactions}.")
        count = self._counting.count(self._session.agent.messages)
        before = count.original_input_tokens
        more = f", {before:,} before clearing" if before not in {None, count.input_tokens} else ""
        lines.append(f"The next request has {count.input_tokens:,} tokens{more}.")
        return Answer("\n".join(lines))

    def _retry(self, _rest: str) -> Answer:
        if self._session.can_retry():
            return Answer(retries=True)
        return Answer("Nothing to send again.")

    def _help(self, _rest: str) -> Answer:
        width = max(map(len, HELP)) + 2
        return Answer("\n".join(f"{name:{width}}{text}" for name, text in HELP.items()))


def tree(memories: Sequence[Memory]) -> Iterator[str]:
    """Lines of a tree of directories and memories, each with its total size."""
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


def _diffs(store: MemoryStore, changes: Sequence[Version]) -> Iterator[DiffLine]:
    """Diffs of these versions, per memory. Versions without another write between them are one diff."""
    chosen = {version.id for version in changes}
    for memory_id in dict.fromkeys(version.memory_id for version in reversed(changes)):
        yield from _diffs_of_memory(store, memory_id, chosen)


def _diffs_of_memory(store: MemoryStore, memory_id: str, chosen: set[str]) -> Iterator[DiffLine]:
    before: Version | None = None
    last: Version | None = None
    for version in reversed(store.history.log(memory_id=memory_id)):
        if version.id in chosen:
            last = version
        else:
            if last is not None:
                yield from _diff(store, before, last)
            before, last = version, None
    if last is not None:
        yield from _diff(store, before, last)


def _diff(store: MemoryStore, old: Version | None, new: Version) -> Iterator[DiffLine]:
    old_path, old_text = _shown(store, old)
    new_path, new_text = _shown(store, new)
    if old_path != new_path and old_path and new_path:
        yield DiffLine("header", f"rename from {old_path}")
        yield DiffLine("header", f"rename to {new_path}")
    old_name, new_name = f"a{old_path}" if old_path else _NOWHERE, f"b{new_path}" if new_path else _NOWHERE
    rows = unified(old_text, new_text, old_name=old_name, new_name=new_name)
    if not rows and bool(old_path) != bool(new_path):  # an empty memory
        rows = [DiffLine("header", f"--- {old_name}"), DiffLine("header", f"+++ {new_name}")]
    yield from rows


def _shown(store: MemoryStore, version: Version | None) -> tuple[str, str]:
    """Path and text of a version; both empty for None, a deletion or a redacted version."""
    if version is None or version.operation == "deleted":
        return "", ""
    found, text = store.history.show(version.id)
    return found.path, text or ""


def _undone(outcome: RestoreOutcome) -> Answer:
    if outcome.conflicts:
        lines = ["nothing was undone.", *(f"{each.path}: {each.reason}." for each in outcome.conflicts)]
        return _error("\n".join(lines))
    proposed = ["This is a proposal until somebody accepts it."] if outcome.proposed else []
    lines = [f"{_DONE[step.what]}  {step.path}" for step in outcome.steps] + proposed
    return Answer("\n".join(lines) or "Nothing to do.")


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


def _setting(edit: Mapping[str, object]) -> str:
    """A context edit and its settings, on one line."""
    return f"{edit['type']}: {', '.join(f'{name} {_plain(value)}' for name, value in edit.items() if name != 'type')}"


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{value['value']:,} {value['type']}"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _error(text: str) -> Answer:
    return Answer(f"Error: {text}", is_error=True)
