"""Views of a text that undo disguises: invisible characters, full-width forms, line wraps, URL-encoding, base64."""

from __future__ import annotations

import re
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]+"
)
_WIDE = {0xFF01 + at: 0x21 + at for at in range(94) if chr(0x21 + at) not in "!(),;?[]{}"}
_IS_WIDE = re.compile("[\uff01-\uff5e]")
_ENCODED = re.compile(r"(?:[^\s\"'<>%]{0,200}%[0-9A-Fa-f]{2})+[^\s\"'<>%]{0,200}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
MIN_ENCODED = 16  # characters; a shorter piece has no certain value


@dataclass(frozen=True, slots=True)
class View:
    """A text derived from another, with the way back: at `starts[n]` of the view begins `origins[n]` of the original.

    If `whole`, a find stands for the whole piece, because no part of the original is the value.
    """

    text: str
    starts: list[int]
    origins: list[int]
    ends: list[int]
    whole: bool = False

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original for a span of the view."""
        first, last = bisect_right(self.starts, start) - 1, bisect_right(self.starts, end - 1) - 1
        if self.whole:
            return self.origins[first], self.ends[last]
        return self.origins[first] + start - self.starts[first], self.origins[last] + end - self.starts[last]


def plain(text: str) -> tuple[str, View | None]:
    """The text without invisible characters and with ASCII for full-width forms; a view if positions change."""
    if text.isascii():
        return text, None
    if _IS_WIDE.search(text):
        text = text.translate(_WIDE)
    if not _INVISIBLE.search(text):
        return text, None
    view = View("", [], [], [])
    return _joined(view, _around(text, _INVISIBLE))


def _around(text: str, gaps: re.Pattern[str]) -> Iterator[tuple[str, int, int]]:
    at = 0
    for gap in gaps.finditer(text):
        yield text[at : gap.start()], at, gap.start()
        at = gap.end()
    yield text[at:], at, len(text)


def _joined(view: View, pieces: Iterator[tuple[str, int, int]]) -> tuple[str, View]:
    parts, size = [], 0
    for piece, start, end in pieces:
        view.starts.append(size)
        view.origins.append(start)
        view.ends.append(end)
        parts.append(piece)
        size += len(piece)
    text = "".join(parts)
    return text, View(text, view.starts, view.origins, view.ends, view.whole)


def decoded(text: str) -> View | None:
    """The URL-encoded and base64 pieces of a text, decoded, a line each; None if there are none."""
    pieces = sorted([*_unquoted(text), *_from_base64(text)], key=lambda piece: piece[1])
    return _joined(View("", [], [], [], whole=True), iter(pieces))[1] if pieces else None


def _unquoted(text: str) -> Iterator[tuple[str, int, int]]:
    if "%" not in text:
        return
    for run in _ENCODED.finditer(text):
        if run.end() - run.start() < MIN_ENCODED:
            continue
        yield (
            unquote_to_bytes(run[0].encode("utf-8", "replace")).decode("utf-8", "replace") + "\n",
            run.start(),
            run.end(),
        )


def _from_base64(text: str) -> Iterator[tuple[str, int, int]]:
    for run in _BASE64.finditer(text):
        body = run[0].rstrip("=")
        try:
            data = b64decode(body.replace("-", "+").replace("_", "/") + "=" * (-len(body) % 4))
        except ValueError:
            continue
        if data.isascii() and data.translate(None, _CONTROLS) == data:
            yield data.decode() + "\n", run.start(), run.end()


_CONTROLS = bytes({*range(9), *range(14, 32), 127})


def unwrapped(text: str, heads: Iterator[tuple[int, int]]) -> Iterator[View]:
    """Short views around values that a line break splits. `heads` are spans of their beginnings, up to the line end."""
    for start, end in heads:
        gap = re.compile(r"[ \t]{0,3}\r?\n[ \t>|#*/]{0,12}").match(text, end)
        if gap is None:
            continue
        tail = text[gap.end() : gap.end() + 400].partition("\n")[0]
        head = text[start:end]
        yield View(head + tail, [0, len(head)], [start, gap.end()], [end, gap.end() + len(tail)])
