"""Checks of arguments, and replacement of lone surrogates.

A lone surrogate cannot be encoded as UTF-8, so a request must not contain one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from retentive.errors import InvalidInput


def check_text(name: str, text: object) -> None:
    """Raise `InvalidInput` unless `text` is a string without lone surrogates. The message uses `name` for the text."""
    if not isinstance(text, str):
        raise InvalidInput(f"{name} must be a string")
    if text != replace_surrogates(text):
        raise InvalidInput(f"{name} contains a lone surrogate; pass valid Unicode text")


def check_list(value: object, message: str) -> list[Any]:
    """Return the items of a list or another iterable.

    Raises `InvalidInput` with the text `message` if `value` is a string or a dict, or if it is not iterable.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidInput(message)
    return list(value)


def check_at_least(minimum: int, name: str, value: object) -> None:
    """Raise `InvalidInput` unless `value` is an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise InvalidInput(f"{name} must be an integer of at least {minimum:,}")


def replace_surrogates(value: Any) -> Any:
    """Return a copy of a JSON value in which no string contains a surrogate.

    Lone surrogates become U+FFFD. Pairs of surrogates become the character that they encode.
    """
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {replace_surrogates(name): replace_surrogates(item) for name, item in value.items()}
    return [replace_surrogates(item) for item in value] if isinstance(value, list | tuple) else value
