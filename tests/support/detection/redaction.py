"""Redaction of a text by a detector alone, as the guards do it."""

from __future__ import annotations

from typing import Any


def redact(text: str, detector: Any) -> tuple[str, list[str]]:
    """Return the text with markers, and the kinds of the removed values."""
    finds = detector.find(text)
    for find in reversed(finds):
        text = f"{text[: find.start]}[REDACTED:{find.kind}]{text[find.end :]}"
    return text, [find.kind for find in finds]
