r"""Pure edits and views of a memory's text.

Lines end at `\n` and nowhere else; a final `\n` ends the last line and starts no other. Nothing here touches a
byte it was not asked to touch.
"""

from __future__ import annotations

from dataclasses import dataclass

from commonplace.errors import Phrase, Refused

MAX_LINES = 999_999  # six digits is what the line-number column of the tool holds
MAX_LINES_NAMED = 100
CONTEXT_LINES = 2
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Page:
    """What a view shows: numbered lines, and a notice if some were left out."""

    numbered: str
    notice: Phrase | None = None


def count_lines(text: str) -> int:
    """The number of lines: 2 for `a\\nb\\n` and for `a\\nb`, 0 for the empty text."""
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def view(text: str, view_range: tuple[int, int] | None, *, max_chars: int) -> Page:
    """The lines of `text` in `view_range` (both included, -1 = to the end), at most `max_chars` of them (0 = all)."""
    lines = count_lines(text)
    if lines > MAX_LINES:
        raise Refused("too_many_lines")
    if not text:
        return Page("")
    first, last = view_range or (1, -1)
    if not (1 <= first <= lines) or (last < first and last != -1):
        raise Refused("bad_view_range", view_range=f"[{first}, {last}]", lines=lines)
    end = lines if last == -1 else min(last, lines)
    start = line_start(text, first)
    stop = line_end(text, end, lines)
    if max_chars == 0 or stop - start <= max_chars or (view_range is not None and first == last):
        return Page(numbered(text[start:stop], first))
    return _cut_page(text, (start, stop), (first, end, last, lines), max_chars)


def _cut_page(text: str, span: tuple[int, int], lines: tuple[int, int, int, int], max_chars: int) -> Page:
    start, stop = span
    first, end, asked_end, total = lines
    cut = text.rfind("\n", start, start + max_chars)
    if cut == -1 and text[start + max_chars] == "\n":
        cut = start + max_chars  # a first line of exactly max_chars is shown whole: there is nothing of it to cut
    if cut == -1:
        newline = text.find("\n", start, stop)
        length = (stop if newline == -1 else newline) - start
        rest = Phrase("line_cut_rest", {"next": first + 1, "end": asked_end}) if first < end else ""
        values = {"line": first, "lines": total, "length": length, "shown": max_chars, "rest": rest}
        return Page(numbered(text[start : start + max_chars], first), Phrase("line_cut", values))
    shown_end = first + text.count("\n", start, cut)
    if shown_end == end:
        return Page(numbered(text[start : cut + 1], first))
    values = {"first": first, "last": shown_end, "lines": total, "next": shown_end + 1, "end": asked_end}
    return Page(numbered(text[start : cut + 1], first), Phrase("page_cut", values))


def numbered(text: str, first: int) -> str:
    """The lines of `text`, each behind its number right-aligned to 6 characters and a tab."""
    lines = text.removesuffix("\n").split("\n")
    return "\n".join([f"{number:6d}\t{line}" for number, line in enumerate(lines, first)])


def replace(text: str, old: str, new: str) -> tuple[str, int]:
    """`text` with its only occurrence of `old` replaced, and where it stood. Raises `Refused` unless there is one."""
    if not old:
        raise Refused("empty_old_str")
    at = text.find(old)
    if at == -1:
        raise Refused("no_match", old_str=old)
    if text.find(old, at + 1) != -1:  # + 1, not + len(old): overlapping finds count
        raise Refused("many_matches", old_str=old, line_numbers=_match_lines(text, old, at))
    return text[:at] + new + text[at + len(old) :], at


def _match_lines(text: str, old: str, at: int) -> str:
    found: list[str] = []
    line, counted = 1, 0
    while at != -1:
        if len(found) == MAX_LINES_NAMED:
            return ", ".join(found) + ", ..."
        line += text.count("\n", counted, at)
        counted = at
        found.append(str(line))
        newline = text.find("\n", at)
        # The next line that matters is the next one a find starts on; all other finds on this line name it again.
        at = -1 if newline == -1 else text.find(old, newline + 1)
    return ", ".join(found)


def snippet(text: str, at: int, length: int, *, max_chars: int) -> str | None:
    """The numbered lines around `length` characters put in at `at`, or None if there is nothing fit to show."""
    lines = count_lines(text)
    if not lines:
        return None
    first = min(text.count("\n", 0, at) + 1, lines)
    last = first + text.count("\n", at, at + max(length - 1, 0))
    first, last = max(first - CONTEXT_LINES, 1), min(last + CONTEXT_LINES, lines)
    start, stop = line_start(text, first), line_end(text, last, lines)
    if max_chars and stop - start > max_chars:
        return None
    return numbered(text[start:stop], first)


def insert(text: str, line: int, inserted: str) -> str:
    """`text` with `inserted` as lines of its own after line `line` (0 = at the top)."""
    lines = count_lines(text)
    if not 0 <= line <= lines:
        raise Refused("bad_insert_line", insert_line=str(line), lines=lines)
    whole = _ended(text) if text else ""
    at = line_start(whole, line + 1)
    return whole[:at] + _ended(inserted) + whole[at:]


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def line_start(text: str, line: int) -> int:
    """Where line `line` (from 1) starts; the end of the text for the line after the last."""
    skip = line - 1  # newlines before it
    at = 0
    while skip:
        count = text.count("\n", at, at + _CHUNK)
        if count >= skip:
            break
        skip -= count
        at += _CHUNK
        if at >= len(text):
            return len(text)
    for _ in range(skip):
        at = text.find("\n", at) + 1
    return at


def line_end(text: str, line: int, lines: int) -> int:
    """Where line `line` ends, its `\\n` included."""
    return len(text) if line >= lines else line_start(text, line + 1)
