r"""Pure functions to view and edit the text of a memory, and to check texts and names.

Lines end only at `\n`. A final `\n` ends the last line and does not start another line. An edit changes no byte outside
the edited part.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from retentive.errors import Damaged, InvalidInput, Phrase, Refused
from retentive.values.paths import visible

MAX_LINES = 999_999  # the line-number column has six digits
MAX_LINES_NAMED = 100
CONTEXT_LINES = 2
MAX_NAME_CHARS = 255


TextPage: TypeAlias = tuple[str, Phrase | None]
"""Result of a view: numbered lines, and a notice if lines were left out."""


def count_lines(text: str) -> int:
    """Return the number of lines: 2 for `a\\nb\\n` and for `a\\nb`, 0 for the empty text."""
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def adds_lines(before: bytes, after: bytes) -> bool:
    """Return whether `after` is longer than `before`, and has all its lines, unchanged and in the same order.

    A newline at the end of a text is not part of its last line.
    """
    rows = iter(after.removesuffix(b"\n").split(b"\n"))
    kept = not before or all(row in rows for row in before.removesuffix(b"\n").split(b"\n"))
    return kept and len(after) > len(before)


def view(data: bytes, view_range: tuple[int, int] | None, *, max_chars: int) -> TextPage:
    """Return the numbered lines in `view_range`, limited to `max_chars` characters (0 = no limit).

    `view_range` is the first and the last line. A last line of -1 means the end of the text. Raises `Refused` for an
    invalid range and `UnicodeDecodeError` for bytes that are not UTF-8.
    """
    text = data.decode()
    rows = text.removesuffix("\n").split("\n")
    lines = len(rows)
    if lines > MAX_LINES:
        raise Refused("too_many_lines")
    if not text:
        return "", None
    first, last = view_range or (1, -1)
    if not (1 <= first <= lines) or (last < first and last != -1):
        raise Refused("bad_view_range", view_range=f"[{first}, {last}]", lines=lines)
    end = lines if last == -1 else min(last, lines)
    wanted = "\n".join(rows[first - 1 : end]) + ("\n" if end < lines or text.endswith("\n") else "")
    if max_chars == 0 or len(wanted) <= max_chars or (view_range is not None and first == last):
        return numbered(wanted, first), None
    cut = wanted.rfind("\n", 0, max_chars)
    if cut == -1 and wanted[max_chars] == "\n":
        cut = max_chars  # a first line with exactly max_chars characters is shown in full
    if cut == -1:
        rest = Phrase("line_cut_rest", {"next": first + 1, "end": last}) if first < end else ""
        values = {"line": first, "lines": lines, "length": len(rows[first - 1]), "shown": max_chars, "rest": rest}
        return numbered(wanted[:max_chars], first), Phrase("line_cut", values)
    shown_end = first + wanted.count("\n", 0, cut)
    page = numbered(wanted[: cut + 1], first)
    if shown_end == end:
        return page, None
    values = {"first": first, "last": shown_end, "lines": lines, "next": shown_end + 1, "end": last}
    return page, Phrase("page_cut", values)


def numbered(text: str, first: int) -> str:
    """Format the lines of a text, each after its line number (right-aligned to 6 characters) and a tab."""
    lines = text.removesuffix("\n").split("\n")
    return "\n".join([f"{number:6d}\t{line}" for number, line in enumerate(lines, first)])


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
    before = "".join([row + "\n" for row in whole.split("\n")[:line]])
    return before + _with_final_newline(inserted) + whole[len(before) :]


def _with_final_newline(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def is_text(data: bytes) -> bool:
    """Return whether bytes can be the text of a memory: UTF-8 without NUL."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


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
    is_sealed = seal is not None and not sha256
    if isinstance(data, bytes) and (is_sealed or hashlib.sha256(data).hexdigest() == sha256):
        return data
    raise Damaged(f"the text of {visible(name)} is missing or differs from its recorded hash")


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def plain_name(what: str, text: str) -> str:
    """Return `text` if it is a valid name: 1 to 255 characters without control characters. Raises `InvalidInput`."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be a string, not {type(text).__name__}")
    if not 1 <= len(text) <= MAX_NAME_CHARS:
        raise InvalidInput(f"{what} must have 1 to {MAX_NAME_CHARS} characters, not {len(text)}")
    if any(unicodedata.category(char) in {"Cc", "Cs"} for char in text):
        raise InvalidInput(f"{what} must not contain control characters or lone surrogates")
    return text
