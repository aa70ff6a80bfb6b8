"""`retentive chat`: a conversation with Claude, which uses a memory store, on a terminal or in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from retentive.agent.context import Compact, ContextManagement, memory_context
from retentive.agent.errors import AgentError
from retentive.agent.prompts import LANGUAGES, system_prompt
from retentive.agent.turns import Budget
from retentive.cli import output
from retentive.cli.chat.screen import JsonLines, Screen
from retentive.cli.chat.session import Session
from retentive.cli.chat.slash_commands import Commands, ContextCounter, is_command
from retentive.cli.exits import FAILED
from retentive.cli.location import Location
from retentive.cli.parameters import decoded
from retentive.errors import InvalidInput

if TYPE_CHECKING:
    from anthropic import Anthropic

MODEL = "claude-sonnet-5-5"  # the same as in agent/chat.py, which is slow to import; a test compares the two
PROMPT = "> "
_NO_KEY = (
    "no API key: set ANTHROPIC_API_KEY, or specify another endpoint with --base-url.\n"
    "`retentive demo` needs no key: it shows an agent with a memory, and a scripted Claude."
)
Lines: TypeAlias = Iterator[str | InvalidInput]
"""Messages without blank lines. For a line that is not a valid message, the reason."""


@output.command(json="Print each event as one JSON object on a line of its own.")
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
    *,
    model: str,
    system: str,
    max_tokens: int,
    no_context_editing: bool,
    compact: bool,
    base_url: str | None,
    language: str,
) -> None:
    """Chat with Claude, which uses the memory store as its memory.

    Shows each memory call as it happens. /diff shows the changes of the conversation, /undo reverts them, /help lists
    all commands. Ctrl-C interrupts an answer, Ctrl-D ends the chat. The actor of the changes is a new session, or
    --actor.

    In a pipe each line of standard input is a message, and the status is 1 if a message was not answered. Needs
    ANTHROPIC_API_KEY or --base-url. Creates the location and the memory store if they do not exist.
    """
    if no_context_editing and compact:
        raise click.UsageError("--compact and --no-context-editing exclude each other.")
    context = None if no_context_editing else _context(compact=compact)
    as_json = output.as_json()
    screen = JsonLines() if as_json else Screen()
    with _client(base_url) as client, location.created(sweep=True) as store:
        from retentive.agent.loop import Agent  # noqa: PLC0415 - imports the SDK

        options: Any = {"model": model, "system": system, "language": language, "context": context}
        budget = Budget(max_tokens=max_tokens)
        session = Session(
            Agent(client, memory=store, actor=location.actor, budget=budget, stream=True, **options), store
        )
        counting = ContextCounter(client, model, system_prompt(system, language=language), context)
        screen.started(model, store.key or store.id, str(session.actor))
        on_keyboard = not as_json and output.on_terminal() and sys.stdin is not None and sys.stdin.isatty()
        lines = keyboard() if on_keyboard else piped()
        is_complete = _follow(lines, session, Commands(session, counting), screen, on_keyboard=on_keyboard)
        screen.ended(session)
    if not (is_complete or on_keyboard):
        raise click.exceptions.Exit(FAILED)


def _follow(
    lines: Lines, session: Session, commands: Commands, screen: Screen | JsonLines, *, on_keyboard: bool
) -> bool:
    """Answer all lines. True if every message got an answer.

    Raises `KeyboardInterrupt` on Ctrl-C, if the input is not a keyboard.
    """
    is_complete = True
    for line in lines:
        try:
            if isinstance(line, InvalidInput):
                screen.failed(line.code, str(line), retryable=False)
                is_complete = False
            elif not is_command(line):
                is_complete &= _send(line, session, screen)
            elif (answer := commands.answer(line)) is None:
                break
            elif answer.retries:
                is_complete &= _send(None, session, screen)
            else:
                screen.answered(line, answer)
        except KeyboardInterrupt:
            screen.interrupted()
            if not on_keyboard:
                raise
    return is_complete


def _send(message: str | None, session: Session, screen: Screen | JsonLines) -> bool:
    """Send a message, or None to send the last one again, and show the answer. True if the answer is complete."""
    try:
        return session.run(message, screen.event)
    except AgentError as error:
        screen.error(error)
        return False


def _context(*, compact: bool) -> ContextManagement:
    # The memory is the only tool in this conversation. If it were excluded, as in an agent, nothing could be cleared.
    edits = memory_context(exclude_memory=False).edits
    return ContextManagement(*edits, Compact()) if compact else ContextManagement(*edits)


@contextmanager
def _client(base_url: str | None) -> Iterator[Anthropic]:
    """Create a client of the SDK. Raises `InvalidInput` if there are no credentials."""
    try:
        from retentive.agent import sdk  # noqa: PLC0415 - slow to import
    except ImportError as error:
        raise click.ClickException(str(error).replace("Agent", "the conversation")) from None
    from anthropic import Anthropic  # noqa: PLC0415 - as above

    with sdk.api_errors():
        client = Anthropic(base_url=base_url)
    with client:
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            if base_url is None:
                raise InvalidInput(_NO_KEY)
            client.api_key = "none"  # the SDK sends no request without a key
        yield client


def keyboard() -> Lines:
    """Lines from the keyboard, until Ctrl-D. Ctrl-C discards the current line."""
    with suppress(ImportError):  # Python may be built without readline; input then has no history of lines
        import readline  # noqa: F401, PLC0415 - input() uses it after the import
    while True:
        try:
            line = input(PROMPT)
        except EOFError:
            output.write_line("")
            return
        except KeyboardInterrupt:
            output.write_line("\n(Ctrl-D or /quit ends)")
            continue
        except UnicodeDecodeError as error:
            yield InvalidInput(f"the message is not UTF-8 (byte {error.start + 1})")
            continue
        yield from _message(line.encode("utf-8", "surrogateescape"))


def piped() -> Lines:
    """The lines of standard input."""
    for line in sys.stdin.buffer if sys.stdin is not None else ():
        yield from _message(line)


def _message(line: bytes) -> Lines:
    try:
        if text := decoded(line).strip():
            yield text
    except InvalidInput as error:
        yield error
