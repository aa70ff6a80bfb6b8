"""Stored text for display. Control, bidirectional and invisible characters are escaped: they can deceive readers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from markupsafe import Markup, escape

Span = tuple[int, int]
_FILLERS = "\u115f\u1160\u3164\uffa0\u2800"
"""Characters that look like blanks, though Unicode counts them as letters or symbols."""
_RISKY = re.compile(r"[^\n\t -~]")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def is_hidden(char: str) -> bool:
    """Return whether a character is invisible or changes how others are shown."""
    return unicodedata.category(char) in _HIDDEN or char in _FILLERS or 0xFE00 <= ord(char) <= 0xFE0E


def plain(text: str) -> str:
    """The text with each hidden character replaced by its code point, such as `⟦U+202E⟧`."""
    return _RISKY.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧" if is_hidden(found[0]) else found[0], text)


def boxed(text: str) -> Markup:
    """The text as HTML, with each hidden character as a box."""
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
    """The text as HTML, with hidden characters as boxes, and with each span in an element."""
    found, at = Markup(""), 0
    for start, end in spans:
        found += boxed(text[at:start]) + Markup("<{0}>{1}</{0}>").format(tag, boxed(text[start:end]))
        at = end
    return found + boxed(text[at:])
