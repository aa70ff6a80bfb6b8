"""Whole characters: a lone surrogate is none, and no request can carry one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retentive.errors import InvalidInput


def check_text(what: str, text: object) -> None:
    """Raise `InvalidInput` unless `text` is one that can be sent."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be a text")
    if text != mended(text):
        raise InvalidInput(f"{what} is not text: it has a lone surrogate in it")


def mended(value: Any) -> Any:
    """`value`, of JSON, with U+FFFD for each lone surrogate; what two texts in a row split is whole again."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {mended(name): mended(item) for name, item in value.items()}
    return [mended(item) for item in value] if isinstance(value, list | tuple) else value
