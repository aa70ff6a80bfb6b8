"""Merges two edits of one memory."""

from __future__ import annotations

import re

from retentive.values.diff import lines, merge
from retentive.values.paths import ROOT

INDEX = f"{ROOT}/MEMORY.md"
"""Path of the index of Claude Code's auto memory. The index has one line per memory."""
INDEX_LINES, INDEX_BYTES = 200, 25_000
"""Number of lines and bytes of the index that Claude Code loads."""
_MARK = "\ufeff"
_FRONT = re.compile(r"\A---\n(.*?\n)?---\n", re.DOTALL)
_KEPT_BY_CLIENT = re.compile(r"^([ \t]*)(modified|originSessionId):.*\n", re.MULTILINE)


def join(path: str, base: str | None, ours: str, theirs: str) -> str | None:
    """Merge the text of a file (`ours`) with the text of a memory (`theirs`). Return None if both changed one line.

    Both texts are edits of the text `base`. `base` is None if no earlier common text is known. In the index of Claude
    Code's auto memory (MEMORY.md), edits never conflict: all lines that either side added are kept. Every client
    rewrites the lines `modified` and `originSessionId` of the front matter. These two lines are taken from the later
    edit. Windows line endings and byte order marks are no difference: if only one side added or removed them, the
    result is as on this side.
    """
    merged = merge(base or "", *_with_later_front(ours, theirs))
    if merged is not None:
        return merged
    plain = _plain(base or ""), *_with_later_front(_plain(ours), _plain(theirs))
    merged = merge(*plain)
    if merged is None:
        if path != INDEX:
            return None
        merged = _union(*plain)
    has_mark, is_windows = _form(theirs if base is None or _form(base) == _form(ours) else ours)
    return _MARK * has_mark + (merged.replace("\n", "\r\n") if is_windows else merged)


def _plain(text: str) -> str:
    return text.removeprefix(_MARK).replace("\r\n", "\n")


def _form(text: str) -> tuple[bool, bool]:
    """Return whether a text begins with a byte order mark, and whether most of its lines end as on Windows."""
    return text.startswith(_MARK), text.count("\r\n") * 2 > text.count("\n")


def warnings(path: str, text: str) -> list[str]:
    """Return warnings if `path` is the index of Claude Code's auto memory and Claude Code does not load all of it."""
    count, size = len(lines(text)), len(text.encode())
    found = []
    if path == INDEX and count > INDEX_LINES:
        found.append(f"the file has {count} lines, but Claude Code loads the first {INDEX_LINES}")
    if path == INDEX and size > INDEX_BYTES:
        found.append(f"the file has {size:,} bytes, but Claude Code loads the first {INDEX_BYTES:,}")
    return found


def _union(base: str, ours: str, theirs: str) -> str:
    """Return the text of the memory, followed by the lines of the file that neither the memory nor the base has."""
    known = {line.removesuffix("\n") for line in (*lines(theirs), *lines(base))}
    added = [line for line in lines(ours) if line.removesuffix("\n") not in known]
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
    is_ours_later = found[0]["modified"].strip() > found[1]["modified"].strip()
    later, text, front = (found[0], theirs, fronts[1]) if is_ours_later else (found[1], ours, fronts[0])
    changed = _KEPT_BY_CLIENT.sub(lambda line: later.get(line[2], line[0]), front[0]) + text[front.end() :]
    return (ours, changed) if is_ours_later else (changed, theirs)
