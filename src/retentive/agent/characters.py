"""Checks and repairs for lone surrogates. JSON requests are sent as UTF-8, which cannot encode them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retentive.errors import InvalidInput


def check_text(name: str, text: object) -> None:
    """Raise `InvalidInput` unless `text` is a string without lone surrogates. `name` is used in the message."""
    if not isinstance(text, str):
        raise InvalidInput(f"{name} must be a string")
    if text != replace_surrogates(text):
        raise InvalidInput(f"{name} contains a lone surrogate; pass valid Unicode text")


def replace_surrogates(value: Any) -> Any:
    """Return the JSON `value` with U+FFFD for each lone surrogate. Adjacent surrogate halves are joined."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {replace_surrogates(name): replace_surrogates(item) for name, item in value.items()}
    return [replace_surrogates(item) for item in value] if isinstance(value, list | tuple) else value
