"""Differences between two texts as rows for a page, with the changed words marked, and the places of a conflict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

from markupsafe import Markup

from retentive.console.rendering import marked
from retentive.history.differences import MemoryDifference
from retentive.values import diff
from retentive.values.diff import MergePart

MAX_ROWS = 2_000
"""Maximum number of rows that a page shows for one memory."""
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a difference. `kind` is `context`, `removed`, `added` or `fold`. A `fold` replaces unchanged lines."""

    kind: str
    html: Markup
    old: int | None = None
    new: int | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """Difference of one memory, as a page shows it. `is_cut` is true if rows beyond `MAX_ROWS` are left out."""

    path: str
    rows: tuple[TableRow, ...]
    new_id: str = ""
    memory_id: str = ""
    note: str = ""
    is_cut: bool = False

    def pairs(self, split: bool) -> list[tuple[TableRow | None, TableRow | None]]:
        """Return pairs of rows for a view of both texts side by side; without `split`, each row as the first."""
        if not split:
            return [(row, None) for row in self.rows]
        found = list[tuple[TableRow | None, TableRow | None]]()
        for _, group in groupby(self.rows, key=lambda row: row.kind in {"removed", "added"}):
            rows = list(group)  # unchanged rows are on both sides
            old, new = ([row for row in rows if row.kind != other] for other in ("added", "removed"))
            found += zip_longest(old, new)
        return found


def shown(path: str, old: str | None, new: str | None, *, note: str = "") -> Shown:
    """Return the difference between two texts, as rows for a page. A text that is None does not exist."""
    rows = tuple(_rows(diff.unified(old, new, old_name="old", new_name="new")))
    return Shown(path, rows[:MAX_ROWS], note=note, is_cut=len(rows) > MAX_ROWS)


def of_memory(found: MemoryDifference) -> Shown:
    """Return the difference between two versions of a memory."""
    old, new = found.old, found.new
    note, known = found.reason, new or old or found.gone
    if not note and old is None:
        note = "created" if new is not None else "created and deleted again"
    elif not note and old is not None and new is not None and new.path != old.path:
        note = f"renamed from {old.path}"
    text = shown(found.path, found.old_text, found.new_text, note=note)
    return replace(text, new_id=new.id if new else "", memory_id=known.memory_id if known else "")


def _rows(lines: Iterable[diff.DiffLine]) -> Iterator[TableRow]:
    old = new = 1
    for line in lines:
        if line.kind == "hunk":
            found = _HUNK.match(line.text)
            assert found is not None
            start = int(found[1]) + (found[2] == "0")
            if start > old:
                count = start - old
                yield TableRow("fold", Markup("{} unchanged line{}").format(count, "s" if count > 1 else ""))
            old, new = start, int(found[3]) + (found[4] == "0")
        elif line.kind != "header":
            html = marked(line.text, line.marks, "b")
            if not line.newline:
                html += Markup(' <i class="box">no newline at the end</i>')
            is_old, is_new = line.kind != "added", line.kind != "removed"
            yield TableRow(line.kind, html, old if is_old else None, new if is_new else None)
            old, new = old + is_old, new + is_new


def decided(parts: Sequence[MergePart], picks: Sequence[str]) -> tuple[str, list[dict[str, object]]]:
    """Return the merged text with the picked side of each conflicting place, and these places for a page.

    Without a valid pick, it is the person's own side. `line` is the number of the first line in the person's own text,
    `mine` and `theirs` are the lines of both sides, with their differences marked.
    """
    left, text, found = iter(picks), "", list[dict[str, object]]()
    for part in parts:
        pick = "mine" if part.line is None else next(left, "")
        pick = pick if pick in {"theirs", "both"} else "mine"
        texts = {"mine": [part.ours], "theirs": [part.theirs], "both": [part.theirs, part.ours]}[pick]
        if all(texts) and pick == "both":
            texts[0] = part.theirs.removesuffix("\n") + "\n"
        text += "".join(texts)
        if part.line is not None:
            rows = shown("", part.theirs, part.ours).rows
            mine, theirs = ([row.html for row in rows if row.kind != other] for other in ("removed", "added"))
            found.append({"line": part.line + 1, "mine": mine, "theirs": theirs, "pick": pick})
    return text, found
