"""Names of actors, stores, keys and sessions."""

from __future__ import annotations

import unicodedata

from retentive.errors import InvalidInput

MAX_NAME_CHARS = 255


def plain_name(what: str, text: str) -> str:
    """Return `text` if it is a valid name: 1 to 255 characters without control characters. Raises `InvalidInput`."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be a string, not {type(text).__name__}")
    if not 1 <= len(text) <= MAX_NAME_CHARS:
        raise InvalidInput(f"{what} must have 1 to {MAX_NAME_CHARS} characters, not {len(text)}")
    if any(unicodedata.category(char) in {"Cc", "Cs"} for char in text):
        raise InvalidInput(f"{what} must not contain control characters or lone surrogates")
    return text
