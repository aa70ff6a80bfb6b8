"""The slash commands of `retentive chat`: looking at the memory, the changes, the costs; undoing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from retentive.agent.applied import TokenCount, token_count
from retentive.agent.context import ContextManagement
from retentive.agent.errors import AgentError
from retentive.cli.chat.screen import SAID, edited
from retentive.cli.chat.session import Session
from retentive.errors import RetentiveError
from retentive.history.apply import Outcome
from retentive.integrations.messages import TOOL
from retentive.storage.contract import Memory, Version
from retentive.store import MemoryStore
from retentive.values.diff import DiffLine, unified
from retentive.values.listing import human_size
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from anthropic import Anthropic

HELP: Mapping[str, str] = {
    "/memory": "the memory as a tree, with sizes",
    "/view PATH": "a memory or directory, as Claude sees it",
    "/diff": "what Claude changed in this conversation",
    "/undo": "take back its last change; /undo all: all of them, in one step",
    "/usage": "tokens so far, for each message",
    "/context": "how the context is managed, its tokens, and what was cleared",
    "/retry": "ask again where no answer came",
    "/help": "this",
    "/quit": "end (Ctrl-D)",
}
_COMMAND = re.compile(r"/[a-z]+(?:\s.*)?", re.DOTALL)
_DONE = {"deleted": "deleted", "moved": "moved", "made": "made again", "changed": "set back"}
_NOWHERE = "/dev/null"
_NEXT = {"role": "user", "content": "?"}  # some models take no conversation that ends with the assistant


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a slash command: a text and lines of a diff to show, or that Claude is to be asked again."""

    text: str = ""
    is_error: bool = False
    diff: Sequence[DiffLine] = ()
    retries: bool = False


@dataclass(frozen=True, slots=True)
class ContextCounter:
    """What goes along with each request of a conversation, and counting it by the API."""

    client: Anthropic
    model: str
    system: str
    context: ContextManagement | None

    def count(self, messages: Sequence[Mapping[str, Any]]) -> TokenCount:
        """The tokens of the next request, with a short message in it. Raises `AgentError`."""
        from retentive.agent import sdk  # noqa: PLC0415 - imports the SDK

        fields: dict[str, Any] = {"model": self.model, "messages": [*messages, _NEXT], "tools": [TOOL]}
        if self.system:
            fields["system"] = self.system
        if self.context is not None:
            fields |= {"context_management": self.context.request(), "betas": self.context.betas}
        with sdk.api_errors():
            return token_count(self.client.beta.messages.count_tokens(**fields))


def is_command(line: str) -> bool:
    """Whether a line is a slash command, known or not; one that begins with a path is a message."""
    return _COMMAND.fullmatch(line) is not None


class Commands:
    """The slash commands, on one conversation."""

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
        """What comes of a line; None if it ends the conversation. Raises nothing that is meant for people."""
        name, *rest = line.split(maxsplit=1)
        if name in {"/quit", "/exit"}:
            return None
        if name not in self._known:
            return _error(f"there is no {name}; /help tells what there is")
        try:
            return self._known[name](rest[0].strip() if rest else "")
        except AgentError as error:
            return _error(f"{SAID.get(error.code, 'no answer')} ({error})")
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
        return Answer(diff=rows) if rows else Answer("Claude changed nothing that stands.")

    def _undo(self, which: str) -> Answer:
        if which not in {"", "all"}:
            return _error("it is /undo or /undo all")
        outcome = self._session.undo_all() if which else self._session.undo_last()
        return Answer("There is nothing to undo.") if outcome is None else _told(outcome)

    def _usage(self, _rest: str) -> Answer:
        spent = [astuple(each) for each in self._session.spent]
        head = ("message", "replies", "input", "cache read", "cache written", "output", "total")
        rows = [(str(number), *(f"{value:,}" for value in values)) for number, values in enumerate(spent, 1)]
        sums = [f"{sum(column):,}" for column in zip(*spent, strict=True)] or ["0"] * (len(head) - 1)
        return Answer(_columns([head, *rows, ("all", *sums)]))

    def _context(self, _rest: str) -> Answer:
        context, cleared = self._counting.context, self._session.cleared
        edits = context.request()["edits"] if context is not None else []
        lines = [_setting(edit) for edit in edits] or ["Nothing is cleared (--no-context-editing)."]
        if cleared.replies:
            what = "; ".join(map(edited, cleared.edits))
            lines.append(f"For {cleared.replies:,} of the replies the API left something out. Last: {what}.")
        if cleared.compactions:
            lines.append(f"Summaries that took the place of the conversation: {cleared.compactions}.")
        count = self._counting.count(self._session.agent.messages)
        before = count.original_input_tokens
        more = f", {before:,} before clearing" if before not in {None, count.input_tokens} else ""
        lines.append(f"The next request has {count.input_tokens:,} tokens{more}.")
        return Answer("\n".join(lines))

    def _retry(self, _rest: str) -> Answer:
        if self._session.can_retry():
            return Answer(retries=True)
        return Answer("There is nothing to ask again; say something.")

    def _help(self, _rest: str) -> Answer:
        width = max(map(len, HELP)) + 2
        return Answer("\n".join(f"{name:{width}}{text}" for name, text in HELP.items()))


def tree(memories: Sequence[Memory]) -> Iterator[str]:
    """Directories and memories below each other, each with its size; of a directory that of all in it."""
    sizes: dict[str, int] = {ROOT: 0}
    for memory in memories:
        parts = memory.path.split("/")
        for end in range(2, len(parts)):
            above = "/".join(parts[:end])
            sizes[above] = sizes.get(above, 0) + memory.size_bytes
    rows = {f"{path}/": size for path, size in sizes.items()}
    rows |= {memory.path: memory.size_bytes for memory in memories}
    for path in sorted(rows, key=str.encode):
        depth = path.rstrip("/").count("/") - 1
        name = path if depth == 0 else "  " * depth + path.rstrip("/").rpartition("/")[2] + "/" * path.endswith("/")
        yield f"{human_size(rows[path]):>7}  {name}"


def _diffs(store: MemoryStore, changes: Sequence[Version]) -> Iterator[DiffLine]:
    """Memory by memory what these versions did; those between which nobody else wrote are one change."""
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
    """Path and text of a version; both empty for none, a deletion, or what was redacted."""
    if version is None or version.operation == "deleted":
        return "", ""
    found, text = store.history.show(version.id)
    return found.path, text or ""


def _told(outcome: Outcome) -> Answer:
    if outcome.conflicts:
        lines = ["nothing was undone.", *(f"{each.path}: {each.reason}." for each in outcome.conflicts)]
        return _error("\n".join(lines))
    waits = ["This awaits review."] if outcome.proposed else []
    lines = [f"{_DONE[step.what]}  {step.path}" for step in outcome.steps] + waits
    return Answer("\n".join(lines) or "Nothing is to be done: all is as it was.")


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


def _setting(edit: Mapping[str, object]) -> str:
    """An edit of the context as it was asked for, on one line."""
    return f"{edit['type']}: {', '.join(f'{name} {_plain(value)}' for name, value in edit.items() if name != 'type')}"


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{value['value']:,} {value['type']}"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _error(text: str) -> Answer:
    return Answer(f"Error: {text}", is_error=True)
