"""Views of a text that undo disguises: invisible characters, full-width forms, line wraps, URL-encoding, base64.

A view converts positions back, so that a match in the view becomes a match in the original text.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, a2b_qp
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

_RANGES = "\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
_INVISIBLE, _VISIBLE = re.compile(f"[{_RANGES}]"), re.compile(f"[^{_RANGES}]+")
_WIDE = {0xFF01 + at: 0x21 + at for at in range(94) if chr(0x21 + at) not in "!(),;?[]{}"}
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}(?:[^\s\"'<>%]{0,200}+%[0-9A-Fa-f]{2})*+[^\s\"'<>%]{0,200}")
_UNENCODED = re.compile(r"[^\s\"'<>%]+")
_IS_BASE64 = bytes(
    0x61 if chr(at).isascii() and (chr(at).isalnum() or chr(at) in "+/_-") else 0x20 for at in range(256)
)
_LONG = b"a" * 24  # 24 characters of base64 in a text that was translated with `_IS_BASE64`
_PADDING = re.compile("={0,2}")
_DISGUISED = re.compile(f"[{_RANGES}\uff01-\uff5e]")
_CONTROLS = bytes({*range(9), *range(14, 32), 127})
_LINE_BREAK = re.compile(r"[ \t]{0,3}\r?\n[ \t>|#*/]{0,12}")
MIN_ENCODED = 16  # characters; a shorter piece cannot contain a certain match


@dataclass(frozen=True, slots=True)
class Stripped:
    """A text without its invisible characters. `origins` has the position of each of its characters in the original."""

    text: str
    origins: list[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original that corresponds to a span of `text`."""
        return self.origins[start], self.origins[end - 1] + 1


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded pieces of a text, each on its own line.

    Piece n starts at `starts[n]` in `text`. Its encoded form is at `spans[n]` in the original.
    """

    text: str
    starts: list[int]
    spans: list[tuple[int, int]]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of all encoded pieces that a match touches, as positions in the original."""
        first, last = (bisect_right(self.starts, at) - 1 for at in (start, end - 1))
        return self.spans[first][0], self.spans[last][1]


def plain(text: str) -> tuple[str, Stripped | None]:
    """Remove invisible characters and convert full-width forms to ASCII.

    Returns the new text and a view. If no characters were removed, positions are unchanged and the view is None.
    """
    if text.isascii() or not _DISGUISED.search(text):
        return text, None
    text = text.translate(_WIDE)
    if not _INVISIBLE.search(text):
        return text, None
    origins = [at for match in _VISIBLE.finditer(text) for at in range(*match.span())]
    view = Stripped("".join(_VISIBLE.findall(text)), origins)
    return view.text, view


def decoded(text: str) -> Decoded | None:
    """Decode the URL-encoded pieces and the base64 of a text. Returns None if nothing is encoded."""
    pieces = sorted([*_unquoted(text), *_from_base64(text)], key=itemgetter(1))
    if not pieces:
        return None
    starts = list(accumulate((len(piece) + 1 for piece, _, _ in pieces), initial=0))
    return Decoded("\n".join(piece for piece, _, _ in pieces), starts, [(start, end) for _, start, end in pieces])


def _unquoted(text: str) -> Iterator[tuple[str, int, int]]:
    first = text.find("%")
    for run in _ENCODED.finditer(text, first) if first >= 0 else ():
        start, end = run.span()
        if _UNENCODED.match(text, start - 1) and start:
            start -= len(_UNENCODED.match(text[max(0, start - 200) : start][::-1])[0])  # type: ignore[index] # as above
        if end - start >= MIN_ENCODED:
            # Quoted-printable differs only in the escape character, and its decoder is written in C.
            data = text[start:end].replace("=", "%3D").replace("%", "=").encode("utf-8", "replace")
            yield a2b_qp(data).decode("utf-8", "replace"), start, end


def _from_base64(text: str) -> Iterator[tuple[str, int, int]]:
    for start, end in _base64_runs(text):
        body = text[start:end]
        try:
            data = a2b_base64(body.replace("-", "+").replace("_", "/") + "=" * (-len(body) % 4))
        except ValueError:
            continue
        if data.isascii() and data.translate(None, _CONTROLS) == data:
            yield data.decode(), start, end + len(_PADDING.match(text, end)[0])  # type: ignore[index] # it may be empty


def _base64_runs(text: str) -> Iterator[tuple[int, int]]:
    """Runs of at least 24 characters of base64. A search with `re` would be slow."""
    marks = text.encode("latin-1", "replace").translate(_IS_BASE64)  # one byte for each character
    start = marks.find(_LONG)
    while start >= 0:
        end = marks.find(b" ", start)
        end = len(marks) if end < 0 else end
        yield start, end
        start = marks.find(_LONG, end)


def unwrapped(text: str, end: int) -> tuple[str, int]:
    """Return the text after the line break that splits a token at `end`, and the position of this text.

    The text is empty if there is no line break at `end`.
    """
    gap = _LINE_BREAK.match(text, end)
    return (text[gap.end() : gap.end() + 400].partition("\n")[0], gap.end()) if gap is not None else ("", end)
