"""Finds the part of a text that an edit changed, and the part around it that must be examined again."""

from __future__ import annotations

from typing import TypeAlias

SameEnds: TypeAlias = tuple[int, int]
"""Numbers of characters that an edit did not change: at the start, and at the end. More characters may be unchanged."""
UNKNOWN: SameEnds = (0, 0)
_FIRST_STEP = 8
NEIGHBOURS = 500  # characters before and after the changed lines that are also examined, extended to whole lines
LONG_LINE = 2_000  # of a line with more characters before or after a change, only the nearest ones are examined


def changed(before: str, text: str, same: SameEnds = UNKNOWN) -> tuple[int, int, int]:
    """Return the start of the difference between two texts, its end in `text`, and its end in `before`."""
    most = min(len(before), len(text))
    start = _same_start(before, text, same[0], most)
    tail = _same_end(before, text, same[1], most - start)
    return start, len(text) - tail, len(before) - tail


def _same_start(one: str, other: str, known: int, most: int) -> int:
    """Return the length of the common beginning, at most `most`. The first `known` characters are not compared.

    The texts are compared in slices. The length of a slice is doubled until the slices differ, and then halved.
    """
    size, step = min(known, most), _FIRST_STEP
    while size + step <= most and one[size : size + step] == other[size : size + step]:
        size, step = size + step, step * 2
    while step := step >> 1:
        if size + step <= most and one[size : size + step] == other[size : size + step]:
            size += step
    return size


def _same_end(one: str, other: str, known: int, most: int) -> int:
    """Return the length of the common end, as `_same_start` does for the beginning."""
    size, step = min(known, most), _FIRST_STEP
    end, other_end = len(one) - size, len(other) - size
    while size + step <= most and one[end - step : end] == other[other_end - step : other_end]:
        size, end, other_end, step = size + step, end - step, other_end - step, step * 2
    while step := step >> 1:
        if size + step <= most and one[end - step : end] == other[other_end - step : other_end]:
            size, end, other_end = size + step, end - step, other_end - step
    return size


def around(text: str, start: int, end: int) -> tuple[str, int]:
    """Return the lines from `start` to `end` with the lines around them, and the position of this part in the text."""
    first = start_around(text, start)
    return text[first : end_around(text, end)], first


def start_around(text: str, start: int) -> int:
    """Return the position where the examination must begin for a change that begins at `start`.

    This position is the start of a line or, in a long line, follows a space. If base64 is cut at another position, it
    cannot be decoded, and the secret in it is saved.
    """
    line = text.rfind("\n", 0, start) + 1
    space = text.rfind(" ", line, start - LONG_LINE) if start - line > LONG_LINE else -1
    if space < 0:  # a line without spaces is examined whole
        return text.rfind("\n", 0, max(0, line - NEIGHBOURS)) + 1
    return max(line, text.rfind(" ", line, max(line, space - NEIGHBOURS)) + 1)  # with the words before a long token


def end_around(text: str, end: int) -> int:
    """Return the position where the examination must end for a change that ends at `end`.

    The position is chosen as in `start_around`. The text after the changed line is examined too, because a token can
    continue on the next line.
    """
    line = text.find("\n", end)
    line = len(text) if line < 0 else line
    space = text.find(" ", end + LONG_LINE, line)
    if space < 0:
        stop = text.find("\n", line + NEIGHBOURS)
        return len(text) if stop < 0 else stop
    stop = text.find(" ", space + NEIGHBOURS, line)
    return line if stop < 0 else stop
