"""Reading the messages of a conversation from a keyboard or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeAlias

from retentive.cli import output
from retentive.cli.parameters import decoded
from retentive.errors import InvalidInput

PROMPT = "> "


Lines: TypeAlias = Iterator[str | InvalidInput]
"""Messages, without blank lines, and for lines that are no valid message the reason."""


def keyboard() -> Lines:
    """Typed lines, until Ctrl-D. Ctrl-C discards the current line."""
    with suppress(ImportError):  # Python may be built without it; lines then have no history
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
