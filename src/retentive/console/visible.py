"""Stored text for display. Invisible, control and bidirectional characters are shown, because they can deceive."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from markupsafe import Markup, escape

Span = tuple[int, int]
_FILLERS = "\u115f\u1160\u3164\uffa0\u2800"
"""Characters that look like spaces, although Unicode counts them as letters or symbols."""
_RISKY = re.compile(r"[^\n\t -~]")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def is_hidden(char: str) -> bool:
    """Return whether a character is invisible, or changes the display of other characters."""
    return unicodedata.category(char) in _HIDDEN or char in _FILLERS or 0xFE00 <= ord(char) <= 0xFE0E


def plain(text: str) -> str:
    """Replace each hidden character by its code point, such as `⟦U+202E⟧`."""
    return _RISKY.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧" if is_hidden(found[0]) else found[0], text)


def boxed(text: str) -> Markup:
    """Return the text as HTML. Each hidden character becomes a box with its code point."""
    return Markup("").join(_pieces(text))


def _pieces(text: str) -> list[Markup]:
    found, at = list[Markup](), 0
    for match in _RISKY.finditer(text):
        if is_hidden(match[0]):
            found += [escape(text[at : match.start()]), _box(match[0])]
            at = match.end()
    return [*found, escape(text[at:])]


def _box(char: str) -> Markup:
    name = unicodedata.name(char, "control character").lower()
    return Markup('<span class="box" title="{}">U+{:04X}</span>').format(name, ord(char))


def marked(text: str, spans: Sequence[Span], tag: str = "mark") -> Markup:
    """Return the same HTML as `boxed`, with each span inside an element such as `<mark>`."""
    found, at = Markup(""), 0
    for start, end in spans:
        found += boxed(text[at:start]) + Markup("<{0}>{1}</{0}>").format(tag, boxed(text[start:end]))
        at = end
    return found + boxed(text[at:])
