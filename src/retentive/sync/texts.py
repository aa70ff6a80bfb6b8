"""Merges two edits of one memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from retentive.values.diff import lines, merge
from retentive.values.paths import ROOT

INDEX = f"{ROOT}/MEMORY.md"
"""Path of the index of Claude Code's auto memory. The index has one line per memory."""
INDEX_LINES, INDEX_BYTES = 200, 25_000
"""Number of lines and bytes of the index that Claude Code loads."""
_MARK = "\ufeff"
_FRONT = re.compile(r"\A---\n(.*?\n)?---\n", re.DOTALL)
_KEPT_BY_CLIENT = re.compile(r"^([ \t]*)(modified|originSessionId):.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Joined:
    """Result of a merge.

    `is_conflict` is True if both sides changed the same lines. In this case `text` is the text of the memory, and the
    caller must keep the text of the file in a copy.
    """

    text: str
    is_conflict: bool = False


def join(path: str, base: str | None, ours: str, theirs: str) -> Joined:
    """Merge the text of a file (`ours`) with the text of a memory (`theirs`).

    Both texts are edits of the text `base`. `base` is None if no earlier common text is known. If the edits conflict,
    the result is the text of the memory. In the index of Claude Code's auto memory (MEMORY.md), edits never conflict:
    all lines that either side added are kept. Every client rewrites the lines `modified` and `originSessionId` of the
    front matter. These two lines are taken from the later edit. Windows line endings and byte order marks are no
    difference: if only one side added or removed them, the result is as on this side.
    """
    merged = merge(base or "", *_with_later_front(ours, theirs))
    if merged is not None:
        return Joined(merged)
    plain = _plain(base or ""), *_with_later_front(_plain(ours), _plain(theirs))
    merged = merge(*plain)
    if merged is None and path != INDEX:
        return Joined(theirs, is_conflict=True)
    text = _union(*plain) if merged is None else merged
    is_same = base is None or _form(base) == _form(ours)
    return Joined(_in_form(text, *_form(theirs if is_same else ours)))


def _plain(text: str) -> str:
    return text.removeprefix(_MARK).replace("\r\n", "\n")


def _form(text: str) -> tuple[bool, bool]:
    """Return whether a text begins with a byte order mark, and whether most of its lines end as on Windows."""
    return text.startswith(_MARK), text.count("\r\n") * 2 > text.count("\n")


def _in_form(text: str, has_mark: bool, is_windows: bool) -> str:
    return _MARK * has_mark + (text.replace("\n", "\r\n") if is_windows else text)


def warnings(path: str, text: str) -> list[str]:
    """Return warnings if `path` is the index of Claude Code's auto memory and Claude Code does not load all of it."""
    if path != INDEX:
        return []
    count, size = len(lines(text)), len(text.encode())
    found = (
        [f"the file has {count} lines, but Claude Code loads the first {INDEX_LINES}"] if count > INDEX_LINES else []
    )
    if size > INDEX_BYTES:
        found.append(f"the file has {size:,} bytes, but Claude Code loads the first {INDEX_BYTES:,}")
    return found


def _union(base: str, ours: str, theirs: str) -> str:
    """Return the text of the memory, followed by the lines of the file that neither the memory nor the base has."""
    known = {*lines(theirs), *lines(base)} | {line.removesuffix("\n") for line in (*lines(theirs), *lines(base))}
    added = [line for line in lines(ours) if line not in known and line.removesuffix("\n") not in known]
    start = theirs if not theirs or theirs.endswith("\n") or not added else theirs + "\n"
    return start + "".join(added)


def _with_later_front(ours: str, theirs: str) -> tuple[str, str]:
    """Copy the front matter lines `modified` and `originSessionId` from the later to the earlier edit. Return both."""
    fronts = _FRONT.match(ours), _FRONT.match(theirs)
    if fronts[0] is None or fronts[1] is None:
        return ours, theirs
    found = [{key[2]: key[0] for key in _KEPT_BY_CLIENT.finditer(front[0])} for front in fronts if front is not None]
    if "modified" not in found[0] or "modified" not in found[1]:
        return ours, theirs
    values = [each["modified"].strip() for each in found]
    later, text, front = (found[0], theirs, fronts[1]) if values[0] > values[1] else (found[1], ours, fronts[0])
    changed = _KEPT_BY_CLIENT.sub(lambda line: later.get(line[2], line[0]), front[0]) + text[front.end() :]
    return (ours, changed) if values[0] > values[1] else (changed, theirs)
