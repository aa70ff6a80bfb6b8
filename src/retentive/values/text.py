r"""Pure functions to view and edit the text of a memory.

Lines end only at `\n`. A final `\n` ends the last line and does not start another line. An edit changes no byte outside
the edited part.
"""

from __future__ import annotations

import hashlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from operator import add
from typing import AnyStr, cast

from retentive.errors import Damaged, Phrase, Refused
from retentive.values.paths import visible

MAX_LINES = 999_999  # the line-number column has six digits
MAX_LINES_NAMED = 100
CONTEXT_LINES = 2
_MAX_CHAR_BYTES = 4  # most bytes of a character in UTF-8
_KEPT_FROM_BYTES = 1 << 16  # smaller texts are not cached, because hashing them takes under 50 us
_MAX_KEPT_BYTES = 16 << 20
_CHUNKS = 1 << 16, 1 << 12, 1 << 9
_NUMBERS_KEPT = 250
_NEAR = 1_000  # up to this distance, searching line by line is faster than counting newlines in chunks


@dataclass(frozen=True, slots=True)
class TextPage:
    """Result of a view: numbered lines, and a notice if lines were left out."""

    numbered: str
    notice: Phrase | None = None


def count_lines(text: AnyStr) -> int:
    """Return the number of lines: 2 for `a\\nb\\n` and for `a\\nb`, 0 for the empty text."""
    newline = _newline(text)
    return text.count(newline) + (1 if text and not text.endswith(newline) else 0)


def view(data: bytes, view_range: tuple[int, int] | None, *, max_chars: int) -> TextPage:
    """Return the numbered lines in `view_range`, limited to `max_chars` characters (0 = no limit).

    `view_range` is the first and the last line. A last line of -1 means the end of the text. `data` is bytes, so that
    only the visible part of a large text is decoded. Raises `Refused` for an invalid range and `UnicodeDecodeError` for
    bytes that are not UTF-8.
    """
    lines = count_lines(data)
    if lines > MAX_LINES:
        raise Refused("too_many_lines")
    if not data:
        return TextPage("")
    first, last = view_range or (1, -1)
    if not (1 <= first <= lines) or (last < first and last != -1):
        raise Refused("bad_view_range", view_range=f"[{first}, {last}]", lines=lines)
    if view_range is None and (max_chars == 0 or len(data) <= max_chars):  # the usual case: all of a short text
        return TextPage(numbered(data.decode(), 1))
    end = lines if last == -1 else min(last, lines)
    start = line_start(data, first, lines)
    stop = line_start(data, end + 1, lines, after=(first, start))
    if max_chars == 0 or (view_range is not None and first == last):
        return TextPage(numbered(data[start:stop].decode(), first))
    head = _first_chars(data, start, stop, max_chars + 1)
    if len(head) <= max_chars:
        return TextPage(numbered(head, first))
    cut = head.rfind("\n", 0, max_chars)
    if cut == -1 and head[max_chars] == "\n":
        cut = max_chars  # a first line with exactly max_chars characters is shown in full
    if cut == -1:
        return _cut_line(data[start:stop], head[:max_chars], (first, end, last, lines))
    shown_end = first + head.count("\n", 0, cut)
    page = numbered(head[: cut + 1], first)
    if shown_end == end:
        return TextPage(page)
    values = {"first": first, "last": shown_end, "lines": lines, "next": shown_end + 1, "end": last}
    return TextPage(page, Phrase("page_cut", values))


def _cut_line(data: bytes, shown: str, lines: tuple[int, int, int, int]) -> TextPage:
    first, end, asked_end, total = lines
    length = len(data.split(b"\n", 1)[0].decode())
    rest = Phrase("line_cut_rest", {"next": first + 1, "end": asked_end}) if first < end else ""
    values = {"line": first, "lines": total, "length": length, "shown": len(shown), "rest": rest}
    return TextPage(numbered(shown, first), Phrase("line_cut", values))


def _first_chars(data: bytes, start: int, stop: int, count: int) -> str:
    """Return the first `count` characters of `data[start:stop]`, or all characters if there are fewer."""
    end = min(stop, start + count * _MAX_CHAR_BYTES)
    while end < stop and data[end] & 0xC0 == 0x80:  # do not split a character
        end += 1
    return data[start:end].decode()[:count]


def numbered(text: str, first: int) -> str:
    """Format the lines of a text, each after its line number (right-aligned to 6 characters) and a tab."""
    lines = text.removesuffix("\n").split("\n")
    last = first + len(lines) - 1
    if last <= _NUMBERS_KEPT:
        return "\n".join(map(add, _numbers()[first - 1 : last], lines))
    return "\n".join([f"{number:6d}\t{line}" for number, line in enumerate(lines, first)])


@cache
def _numbers() -> tuple[str, ...]:
    return tuple([f"{number:6d}\t" for number in range(1, _NUMBERS_KEPT + 1)])


def replace(text: str, old: str, new: str) -> tuple[str, int]:
    """Replace the only occurrence of `old`. Returns the new text and the position of the replacement.

    Raises `Refused` if `old` is empty, does not occur, or occurs more than once.
    """
    if not old:
        raise Refused("empty_old_str")
    at = text.find(old)
    if at == -1:
        windows = old.replace("\r\n", "\n").replace("\n", "\r\n")
        raise Refused("no_match", old_str=old, would_match_windows_lines="\n" in old and windows in text)
    if text.find(old, at + 1) != -1:  # searched from the next character, because overlapping occurrences count
        numbers = [str(line) for line in islice(lines_with(text, old), MAX_LINES_NAMED + 1)]
        numbers[MAX_LINES_NAMED:] = ["..."] if len(numbers) > MAX_LINES_NAMED else []
        raise Refused("many_matches", old_str=old, line_numbers=", ".join(numbers))
    return text[:at] + new + text[at + len(old) :], at


def lines_with(text: str, wanted: str) -> Iterator[int]:
    """Yield the number of each line in which an occurrence of `wanted` begins. The first line is 1."""
    line, counted, at = 1, 0, text.find(wanted)
    while at != -1:
        line += text.count("\n", counted, at)
        counted = at
        yield line
        newline = text.find("\n", at)
        at = -1 if newline == -1 else text.find(wanted, newline + 1)


def snippet(text: str, at: int, length: int, *, max_chars: int) -> str | None:
    """Return the lines of the new part of a text, and two lines before and after it, all with line numbers.

    The new part has `length` characters and starts at `at`. Returns None if the text is empty, or if these lines have
    more than `max_chars` characters in total.
    """
    if not text:
        return None
    at = min(at, len(text) - 1)  # at the end of the text, the last line is shown
    before = text.rfind("\n", 0, at)
    first, start = text.count("\n", 0, before) + 2 if before >= 0 else 1, before + 1
    for _ in range(min(CONTEXT_LINES, first - 1)):
        first, start = first - 1, text.rfind("\n", 0, start - 1) + 1
    stop = at + max(length - 1, 0)
    for _ in range(CONTEXT_LINES + 1):
        stop = text.find("\n", stop) + 1
        if stop == 0:
            stop = len(text)
            break
    if max_chars and stop - start > max_chars:
        return None
    return numbered(text[start:stop], first)


def insert(text: str, line: int, inserted: str) -> str:
    """Insert `inserted` as separate lines after line `line` (0 = at the top) and return the new text.

    Raises `Refused` if `line` is out of range.
    """
    lines = count_lines(text)
    if not 0 <= line <= lines:
        raise Refused("bad_insert_line", insert_line=str(line), lines=lines)
    whole = _with_final_newline(text) if text else ""
    at = line_start(whole, line + 1, lines)
    return whole[:at] + _with_final_newline(inserted) + whole[at:]


def _with_final_newline(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def line_start(text: AnyStr, line: int, lines: int, *, after: tuple[int, int] = (1, 0)) -> int:
    """Return the position at which line `line` starts. The first line is 1, and `lines` is the number of lines.

    If `line` is `lines` + 1, return the end of the text. `after` is the number and the position of an earlier line. The
    search starts there.
    """
    skip, at = line - after[0], after[1]  # number of newlines to skip, and the position after them
    if skip == 0:
        return at
    if line > lines:
        return len(text)
    newline = _newline(text)
    if lines - line < min(_NEAR, skip):
        at = len(text) - text.endswith(newline)
        for _ in range(lines - line + 1):
            at = text.rfind(newline, 0, at)
        return at + 1
    for size in _CHUNKS if skip > _NEAR else ():
        while (count := text.count(newline, at, at + size)) < skip:
            skip -= count
            at += size
    for _ in range(skip):
        at = text.find(newline, at) + 1
    return at


def _newline(text: AnyStr) -> AnyStr:
    return cast("AnyStr", {bytes: b"\n", str: "\n"}[type(text)])


def is_text(data: bytes) -> bool:
    """Return whether bytes can be the text of a memory: UTF-8 without NUL."""
    return TextCheck().accepts(data, final=True)


class TextCheck:
    """Check that bytes can be the text of a memory. The bytes are passed and decoded in chunks."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")()

    def accepts(self, chunk: bytes, *, final: bool = False) -> bool:
        """Check the next chunk. Return False if no valid text starts with the chunks so far.

        `final` is True for the last chunk.
        """
        try:
            self._decoder.decode(chunk, final)
        except UnicodeDecodeError:
            return False
        return b"\0" not in chunk


def decoded(data: bytes | None, *, path: str | None = None) -> str:
    """Decode a stored text. Raises `Damaged` if it is not UTF-8; the message contains `path`, if given."""
    try:
        return (data or b"").decode()
    except UnicodeDecodeError:
        raise Damaged(f"{'a stored text' if path is None else f'the text of {visible(path)}'} is not UTF-8") from None


def verified(data: object, sha256: str | None, seal: bytes | None, name: str) -> bytes:
    """Return the stored bytes `data` of a text if they match the hash of its version. This takes about 1 us per KB.

    An encrypted text is returned without a check, because the encryption layer authenticates it. Raises `Damaged` if
    the bytes are missing or differ. The message contains `name`, a path or an id.
    """
    if isinstance(data, bytes):
        if sha256 and len(data) >= _KEPT_FROM_BYTES:
            if _large_texts.matches(data, sha256):
                return data
        elif hashlib.sha256(data).hexdigest() == sha256:
            return data
        if seal is not None and not sha256:
            return data
    raise Damaged(f"the text of {visible(name)} is missing or differs from its recorded hash")


class _LargeTexts:
    """Cache of large texts that recently matched their hash. Threads may share it.

    A comparison with the cached bytes takes a tenth of the time of a hash. It detects damage just as reliably.
    """

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}

    def matches(self, data: bytes, sha256: str) -> bool:
        known = self._known.get(sha256)
        if known is not None:
            return known == data
        if hashlib.sha256(data).hexdigest() != sha256:
            return False
        kept = {**self._known, sha256: data}
        while sum(map(len, kept.values())) > _MAX_KEPT_BYTES:
            del kept[next(iter(kept))]
        self._known = kept
        return True


_large_texts = _LargeTexts()
