"""Reads the messages of the user, from the keyboard or from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TypeAlias

from retentive.cli import output
from retentive.cli.parameters import decoded
from retentive.errors import InvalidInput, RetentiveError

PROMPT = "> "
CONTINUED = ". "
Lines: TypeAlias = Iterator[str | InvalidInput]
"""Iterator over messages that are not blank. For input that is not a valid message, it yields an error."""


def keyboard(completions: Callable[[str], list[str]], on_prompt: Callable[[], None]) -> Lines:
    """Yield messages from the keyboard, until Ctrl-D. Ctrl-C discards the current message.

    A line that ends with a backslash continues on the next line. Pasted text is one message. `completions` gets an
    incomplete line and returns the possible complete lines. `on_prompt` is called once, when the first prompt is shown.
    """
    try:  # Python may be built without readline; there is then no completion and no history of lines
        import readline  # noqa: PLC0415 - input() uses it after the import
    except ImportError:
        on_prompt()
    else:
        _configure(readline, completions, on_prompt)
    while True:
        try:
            message = _typed()
        except EOFError:
            output.write_line("")
            return
        except KeyboardInterrupt:
            output.write_line("\n(Ctrl-D or /quit ends)")
            continue
        except UnicodeDecodeError as error:
            yield InvalidInput(f"the message is not UTF-8 (byte {error.start + 1})")
            continue
        yield from _message(message.encode("utf-8", "surrogateescape"))


def piped() -> Lines:
    """Yield the lines of standard input as messages."""
    for line in sys.stdin.buffer if sys.stdin is not None else ():
        yield from _message(line)


def _typed() -> str:
    """Read and return a message of one or more lines.

    Ctrl-D on the first line raises `EOFError`. On a later line, it ends the message.
    """
    message = input(PROMPT)
    while message.endswith("\\"):
        try:
            message = f"{message[:-1]}\n{input(CONTINUED)}"
        except EOFError:
            output.write_line("")
            return message[:-1]
    return message


def _message(line: bytes) -> Lines:
    try:
        if text := decoded(line).strip():
            yield text
    except InvalidInput as error:
        yield error


def _configure(readline: ModuleType, completions: Callable[[str], list[str]], on_prompt: Callable[[], None]) -> None:
    found: list[str] = []

    def complete(line: str, number: int) -> str | None:
        if number == 0:
            try:
                found[:] = completions(line)
            except RetentiveError:
                found.clear()
        return found[number] if number < len(found) else None

    def prompted() -> None:
        readline.set_pre_input_hook(None)
        on_prompt()

    readline.set_completer_delims("")
    readline.set_completer(complete)
    if "libedit" in (readline.__doc__ or ""):  # as on macOS; libedit does not support bracketed paste
        readline.parse_and_bind("bind ^I rl_complete")
    else:
        readline.parse_and_bind("tab: complete")
        readline.parse_and_bind("set enable-bracketed-paste on")
    readline.set_pre_input_hook(prompted)
