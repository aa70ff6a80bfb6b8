"""Views of a text that undo disguises and escapes, and the strings of JSON documents.

Disguises are invisible characters, full-width forms, line wraps, URL-encoding and base64. Escapes are those of JSON and
of program code. A view converts positions back, so that a match in the view becomes a match in the original text.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64, a2b_qp
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter

Span = tuple[int, int]
_RANGES = "\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
_INVISIBLE, _VISIBLE = re.compile(f"[{_RANGES}]"), re.compile(f"[^{_RANGES}]+")
_WIDE = {0xFF01 + at: 0x21 + at for at in range(94) if chr(0x21 + at) not in "!(),;?[]{}"}
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}(?:[^\s\"'<>%]{0,200}+%[0-9A-Fa-f]{2})*+[^\s\"'<>%]{0,200}")
_UNENCODED = re.compile(r"[^\s\"'<>%]+")
_BASE64 = re.compile(r"([A-Za-z0-9+/_-]{24,})={0,2}")
_DISGUISED = re.compile(f"[{_RANGES}\uff01-\uff5e]")
_CONTROLS = bytes({*range(9), *range(14, 32), 127})
_LINE_BREAK = re.compile(r"[ \t]{0,3}\r?\n[ \t>|#*/]{0,12}")
MIN_ENCODED = 16  # characters; a shorter piece cannot contain a certain match
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*+"|-?\d[\d.eE+-]*')
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\[\"'\\/nrtbf]"
)
_CHARS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_ESCAPED = re.compile(r"\\[\"'\\nrtux]")
_NAME_END = re.compile(r'"[ \t\r\n]*:')
_LONGEST_ESCAPE = 12
_JOINT = "\n\0\n"  # between texts that are examined together: no value and no key goes on behind it


@dataclass(frozen=True, slots=True)
class View:
    """Text made of pieces of another text. `pieces` has the spans of each, in `text` and in the original.

    A piece with the same length in both is the same text. Of another piece, a match has the whole original. No match
    may cross a position in `joints`.
    """

    text: str
    pieces: list[tuple[int, int, int, int]]
    joints: list[int]

    def span(self, start: int, end: int) -> Span | None:
        """Return the span in the original that a span of `text` comes from. None if it crosses a joint."""
        joint = bisect_left(self.joints, start)
        if joint < len(self.joints) and self.joints[joint] < end:
            return None
        return self._origin(start)[0], self._origin(end - 1)[1]

    def _origin(self, position: int) -> Span:
        begin, end, first, last = self.pieces[bisect_right(self.pieces, position, key=itemgetter(0)) - 1]
        at = first + position - begin
        return (at, at + 1) if end - begin == last - first else (first, last)


def _view(pieces: Iterable[tuple[str, int, int]]) -> View:
    """Return the view of pieces, each with its span in the original. No match may cross a piece that is a joint."""
    texts, spans, joints = list[str](), list[tuple[int, int, int, int]](), list[int]()
    size = 0
    for text, start, end in pieces:
        if text == _JOINT:
            joints.append(size)
        texts.append(text)
        spans.append((size, size + len(text), start, end))
        size += len(text)
    return View("".join(texts), spans, joints)


def plain(text: str) -> tuple[str, View | None]:
    """Remove invisible characters and convert full-width forms to ASCII.

    Returns the new text and a view. If no characters were removed, positions are unchanged and the view is None.
    """
    if text.isascii() or not _DISGUISED.search(text):
        return text, None
    text = text.translate(_WIDE)
    if not _INVISIBLE.search(text):
        return text, None
    view = _view((match[0], *match.span()) for match in _VISIBLE.finditer(text))
    return view.text, view


def decoded(text: str) -> View | None:
    """Decode the URL-encoded pieces and the base64 of a text, each on its own line. None if nothing is encoded."""
    pieces = sorted([*_unquoted(text), *_from_base64(text)], key=itemgetter(1))
    return _view(each for piece in pieces for each in (piece, ("\n", piece[2], piece[2]))) if pieces else None


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
    for run in _BASE64.finditer(text):
        try:
            data = a2b_base64(run[1].replace("-", "+").replace("_", "/") + "=" * (-len(run[1]) % 4))
        except ValueError:
            continue
        if data.isascii() and data.translate(None, _CONTROLS) == data:
            yield data.decode(), *run.span()


def unwrapped(text: str, end: int) -> tuple[str, int]:
    """Return the text after the line break that splits a token at `end`, and the position of this text.

    The text is empty if there is no line break at `end`.
    """
    gap = _LINE_BREAK.match(text, end)
    return (text[gap.end() : gap.end() + 400].partition("\n")[0], gap.end()) if gap is not None else ("", end)


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """The strings and numbers of a JSON document or of JSON lines, as positions in its text without quotes."""

    text: str
    literals: list[Span]

    def inside(self, start: int, end: int) -> Iterator[Span]:
        """Yield the parts of a span that lie in strings and numbers. No part cuts an escape, or a number."""
        first = bisect_right(self.literals, (start, end)) - 1
        for begin, stop in self.literals[max(first, 0) :]:
            if begin >= end:
                break
            low, high = max(start, begin), min(end, stop)
            if low < high:
                yield (begin, stop) if self.is_number(begin) else _whole_escapes(self.text, begin, stop, low, high)

    def has_in_one(self, start: int, end: int) -> bool:
        """Return whether a span lies in one string or number."""
        last = bisect_right(self.literals, (start, len(self.text))) - 1
        return last >= 0 and end <= self.literals[last][1]

    def strings(self, least: int) -> list[Span]:
        """Return the strings of at least `least` characters."""
        return [span for span in self.literals if span[1] - span[0] >= least and not self.is_number(span[0])]

    def is_number(self, position: int) -> bool:
        """Return whether the literal that contains a position is a number."""
        begin, _ = self.literals[bisect_right(self.literals, (position, len(self.text))) - 1]
        return self.text[begin - 1 : begin] != '"'

    def is_key(self, position: int) -> bool:
        """Return whether the literal that contains a position is the name of a field."""
        _, stop = self.literals[bisect_right(self.literals, (position, len(self.text))) - 1]
        return _NAME_END.match(self.text, stop) is not None


def document(text: str) -> JsonDocument | None:
    """Return the strings and numbers of a JSON document, or of JSON lines. None for any other text."""
    if text.lstrip(" \t\r\n")[:1] not in {"{", "["}:
        return None
    lines = [line for line in text.split("\n") if line.strip()]
    if not _is_json(text) and not (
        len(lines) > 1 and all(line.lstrip()[0] in "{[" and _is_json(line) for line in lines)
    ):
        return None
    spans = (match.span() for match in _LITERAL.finditer(text))
    return JsonDocument(text, [(start + 1, end - 1) if text[start] == '"' else (start, end) for start, end in spans])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def escaped_lines(text: str) -> list[Span]:
    """Return the runs of lines that have an escape."""
    runs: list[Span] = []
    at = 0
    while (match := _ESCAPED.search(text, at)) is not None:
        begin, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end()) + 1
        at = end or len(text)
        if runs and runs[-1][1] == begin:
            begin = runs.pop()[0]
        runs.append((begin, at))
    return runs


def unescaped(text: str, parts: Iterable[Span]) -> View:
    """Undo the escapes in parts of a text, with a joint between two parts."""

    def pieces() -> Iterator[tuple[str, int, int]]:
        for number, (begin, stop) in enumerate(parts):
            if number:
                yield _JOINT, begin, begin
            at = begin
            for match in _ESCAPE.finditer(text, begin, stop):
                if at < match.start():
                    yield text[at : match.start()], at, match.start()
                yield _char(match[0]), *match.span()
                at = match.end()
            yield text[at:stop], at, stop

    return _view(pieces())


def _char(escape: str) -> str:
    if len(escape) == 12:
        return chr(0x10000 + ((int(escape[2:6], 16) & 0x3FF) << 10) + (int(escape[8:], 16) & 0x3FF))
    if escape[1] in "ux" and len(escape) > 2:
        return chr(int(escape[2:6], 16))
    return _CHARS.get(escape[1], escape[1])


def _whole_escapes(text: str, begin: int, stop: int, start: int, end: int) -> Span:
    at = max(begin, start - _LONGEST_ESCAPE)
    while at > begin and text[at - 1] == "\\":
        at -= 1
    for match in _ESCAPE.finditer(text, at, stop):
        if match.start() >= end:
            break
        if match.end() > start:
            start, end = min(start, match.start()), max(end, match.end())
    return start, end
