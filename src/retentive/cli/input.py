"""Texts that a person gives: as an argument, through a pipe, or in a file."""

from __future__ import annotations

import sys

import click

from retentive.errors import InvalidInput


def text_or_stdin(given: str | None) -> str:
    """The argument if there is one, else all of standard input. Raises `UsageError` if that is a keyboard."""
    if given is not None:
        return given
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("Missing argument 'TEXT'; give it, or pipe the text in.")
    return decoded(sys.stdin.buffer.read())


def text_of_file(name: str) -> str:
    """The text in the file of this name, `-` for standard input. Raises `UsageError` if it cannot be read."""
    if name == "-":
        return text_or_stdin(None)
    try:
        with open(name, "rb") as file:
            return decoded(file.read())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"{name!r}: {why}") from None


def decoded(data: bytes) -> str:
    """The text that these bytes are. Raises `InvalidInput` for what no memory can hold."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the text is not UTF-8 (byte {error.start + 1} of {len(data)})") from None
    if "\0" in text:
        raise InvalidInput(f"the text holds a NUL character (at position {text.index(chr(0))})")
    return text
