"""`chat`: a conversation with Claude, on a terminal or in a pipe. Claude uses a memory store as its memory."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from retentive.agent.context import Compact, ContextManagement, memory_context
from retentive.agent.conversation import MessageDict
from retentive.agent.errors import AgentError
from retentive.agent.prompts import LANGUAGES, system_prompt
from retentive.agent.turns import Budget
from retentive.cli import output
from retentive.cli.chat import conversations
from retentive.cli.chat.connection import LazyClient, connection, import_in_background
from retentive.cli.chat.conversations import UNSAVED, SavedChat
from retentive.cli.chat.lines import Lines, keyboard, piped
from retentive.cli.chat.screen import JsonLines, Screen
from retentive.cli.chat.session import Session
from retentive.cli.chat.slash_commands import Commands, ContextCounter, is_command
from retentive.cli.exits import FAILED, status_of
from retentive.cli.location import KEYS_VARIABLE, Location
from retentive.errors import InvalidInput
from retentive.frozen import dataclass
from retentive.locations import is_in_memory
from retentive.storage.contract import Actor, as_actor
from retentive.storage.disk import need_posix
from retentive.store import MemoryStore

if TYPE_CHECKING:
    from retentive.agent.loop import Agent

MODEL = "claude-sonnet-5-5"  # the same as in agent/loop.py, which is slow to import; a test compares the two


@output.command(json="Print each event as one JSON object on a line of its own.")
@click.argument("question", required=False)
@click.option("--continue", "continues", is_flag=True, help="Continue the last conversation with this memory store.")
@click.option("--conversation", metavar="NAME", help="Continue or begin the conversation with this name.")
@click.option("--no-save", is_flag=True, help="Do not save the conversation.")
@click.option("--model", metavar="NAME", default=MODEL, help="Model; it must support the memory tool.")
@click.option("--system", metavar="TEXT", default="", show_default=False, help="System prompt.")
@click.option(
    "--max-tokens",
    metavar="N",
    type=click.IntRange(min=1),
    default=Budget().max_tokens,
    help="Maximum number of tokens in one reply.",
)
@click.option("--no-context-editing", is_flag=True, help="Always send the whole conversation.")
@click.option("--compact", is_flag=True, help="Also let the API replace a conversation of 150,000 tokens by a summary.")
@click.option("--base-url", metavar="URL", envvar="ANTHROPIC_BASE_URL", show_envvar=True, help="Base URL of the API.")
@click.option(
    "--language",
    type=click.Choice(list(LANGUAGES)),
    default="en",
    help="Language of the note that asks Claude to keep its memory tidy.",
)
def chat(
    location: Location,
    question: str | None,
    *,
    continues: bool,
    conversation: str | None,
    no_save: bool,
    model: str,
    system: str,
    max_tokens: int,
    no_context_editing: bool,
    compact: bool,
    base_url: str | None,
    language: str,
) -> None:
    """Chat with Claude, which uses the memory store as its memory.

    Shows each memory call as it happens, and the diff of each change. /diff shows all changes of the conversation,
    /undo reverts the last one, and /help lists all commands. Ctrl-C interrupts an answer, and Ctrl-D ends the chat. A
    line that ends with a backslash continues on the next line. Changes are recorded with a new session as actor, or
    with the actor given by --actor. The conversation is saved for --continue, unless the memory store is encrypted.

    With QUESTION, prints the answer and ends; the status is 18 if the API failed. Without QUESTION, each line of piped
    standard input is a message, and the status is 1 if a message was not answered. Needs ANTHROPIC_API_KEY or
    --base-url. Creates the location and the memory store if they do not exist.
    """
    need_posix("`retentive chat`")
    if no_context_editing and compact:
        raise click.UsageError("--compact and --no-context-editing cannot be used together.")
    if continues and conversation is not None:
        raise click.UsageError("--continue and --conversation cannot be used together.")
    if question is not None and not question.strip():
        raise click.UsageError("QUESTION must not be empty.")
    as_json = output.as_json()
    screen = JsonLines() if as_json else Screen(only_answer=question is not None)
    settings = _Settings(model, system, language, max_tokens, None if no_context_editing else _context(compact=compact))
    with connection(base_url) as connected, location.created(sweep=True) as store:
        actor = as_actor(location.actor) or Actor("session", secrets.token_hex(8))
        with _saved(location, store, actor, conversation, continues=continues, no_save=no_save) as saved:
            if saved.actor and location.actor is None:
                actor = as_actor(saved.actor) or actor

            session = Session(partial(_new_agent, connected, store, actor, settings), store, actor, saved)
            prompt = system_prompt(system, language=language)
            commands = Commands(session, ContextCounter(connected.client, model, prompt, settings.context))
            on_keyboard = question is None and not as_json and _is_interactive()
            if question is None:
                screen.started(model, store.key or store.id, str(actor))
            lines: Lines = iter([question.strip()]) if question is not None else piped()
            if on_keyboard:
                lines = keyboard(commands.completions, import_in_background)
            status = _follow(lines, session, commands, screen, on_keyboard=on_keyboard)
            if on_keyboard:
                screen.ended(_hints(location, session))
    if status and not on_keyboard:
        raise click.exceptions.Exit(status if question is not None else FAILED)


@dataclass(frozen=True, slots=True)
class _Settings:
    """Settings of the agent, from the options of the command."""

    model: str
    system: str
    language: str
    max_tokens: int
    context: ContextManagement | None

    def options(self) -> dict[str, Any]:
        """Return the arguments for `Agent`."""
        given = {"model": self.model, "system": self.system, "language": self.language, "context": self.context}
        return {**given, "budget": Budget(max_tokens=self.max_tokens), "stream": True}


def _new_agent(
    connected: LazyClient, store: MemoryStore, actor: Actor, settings: _Settings, messages: list[MessageDict]
) -> Agent:
    from retentive.agent.loop import Agent  # noqa: PLC0415 - imports the SDK

    return Agent(connected.client(), memory=store, actor=actor, messages=messages, **settings.options())


def _is_interactive() -> bool:
    return output.on_terminal() and sys.stdin is not None and sys.stdin.isatty()


@contextmanager
def _saved(
    location: Location, store: MemoryStore, actor: Actor, name: str | None, *, continues: bool, no_save: bool
) -> Iterator[SavedChat]:
    """Context manager that opens a conversation: a saved one if the user wants to continue it, otherwise a new one.

    If the memory store is encrypted, the conversation is not saved, because its file would not be encrypted. Raises
    `InvalidInput` if the user wants to continue such a conversation.
    """
    is_encrypted = location.key_file is not None or bool(os.environ.get(KEYS_VARIABLE))
    if is_encrypted or no_save or is_in_memory(location.url):
        if continues or name is not None:
            reason = "the memory store is encrypted" if is_encrypted else "conversations with this store are not saved"
            raise InvalidInput(f"there is no saved conversation to continue: {reason}")
        yield UNSAVED
        return
    if continues:
        name = conversations.newest(store.id)
    with conversations.opened(store.id, name) as opened:
        yield opened


def _hints(location: Location, session: Session) -> list[str]:
    """Return hints: a command that reverts the changes of the conversation, and a command that continues it."""
    number, actor = len({version.revision for version in session.changes()}), session.actor
    hints = []
    if number:
        which = ["--session", actor.id] if actor.kind == "session" else ["--by", str(actor)]
        since = ["--since", session.started_at.isoformat()] if location.actor is not None else []
        command = _command(location, "undo", *which, *since)
        hints.append(f"{output.counted(number, 'change')} of the memory; revert with `{command}`.")
    if session.saved.path and session.messages:
        hints.append(f"Continue with `{_command(location, 'chat', '--conversation', session.saved.name)}`.")
    return hints


def _command(location: Location, *words: str) -> str:
    """Return a `retentive` command that the user can copy into the shell. Its arguments are `words`.

    The command uses the location of this chat: it repeats the options --at, --store and --keys if they were given when
    the chat was started. A URL with a password is replaced by `LOCATION`.
    """
    given = {"at": location.url if location.shown == location.url else "LOCATION"}
    given |= {"store": location.store_key, "keys": location.keys or ""}
    options = [word for name, value in given.items() if name in location.typed for word in (f"--{name}", value)]
    return shlex.join(["retentive", *options, *words])


def _follow(
    lines: Lines, session: Session, commands: Commands, screen: Screen | JsonLines, *, on_keyboard: bool
) -> int:
    """Answer each message and slash command in `lines`. Returns the exit status of the last failed message, or 0.

    On Ctrl-C, raises `KeyboardInterrupt` unless the input is a keyboard.
    """
    status = 0
    for line in lines:
        try:
            if isinstance(line, InvalidInput):
                screen.failed(line.code, str(line), retryable=False)
                status = status_of(line.code)
            elif not is_command(line):
                status = _send(line, session, screen) or status
            elif (answer := commands.answer(line)) is None:
                break
            elif answer.retries:
                status = _send(None, session, screen) or status
            else:
                screen.answered(line, answer)
        except KeyboardInterrupt:
            screen.interrupted()
            if not on_keyboard:
                raise
    return status


def _send(message: str | None, session: Session, screen: Screen | JsonLines) -> int:
    """Send a message and show the answer. If `message` is None, send the last message again.

    Returns 0 if the answer is complete, and otherwise an exit status.
    """
    screen.waiting()
    try:
        return 0 if session.run(message, screen.event, screen.show_diff) else FAILED
    except AgentError as error:
        screen.error(error)
        return status_of(error.code)
    finally:
        screen.settled()
        if session.saved.problem:
            screen.failed("not_saved", session.saved.problem, retryable=True)


def _context(*, compact: bool) -> ContextManagement:
    # In an agent, results of the memory tool are not cleared. Here it is the only tool, so nothing would be cleared.
    edits = memory_context(exclude_memory=False).edits
    return ContextManagement(*edits, Compact()) if compact else ContextManagement(*edits)
