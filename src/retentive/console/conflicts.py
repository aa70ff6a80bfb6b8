"""Conflicts between two edits of a memory: the conflicting places, and the text that results from the choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from markupsafe import Markup

from retentive.console.differences import shown
from retentive.values.diff import MergePart

Pick: TypeAlias = Literal["mine", "theirs", "both"]
PICKS: Mapping[str, Pick] = {"mine": "mine", "theirs": "theirs", "both": "both"}


@dataclass(frozen=True, slots=True)
class ChoicePlace:
    """One conflicting place: its lines in the person's own text (`mine`) and in the other text (`theirs`).

    Words that differ are marked. `line` is the number of the first line in the person's own text. `pick` is the current
    choice.
    """

    line: int
    mine: tuple[Markup, ...]
    theirs: tuple[Markup, ...]
    pick: Pick


def chosen(parts: Sequence[MergePart], picks: Sequence[str]) -> str:
    """Return the merged text with the picked side of each conflicting place.

    Without a valid pick, the person's own side is used.
    """
    left = iter(picks)
    return "".join(part.ours if part.line is None else _picked(part, next(left, "mine")) for part in parts)


def _picked(part: MergePart, pick: str) -> str:
    if pick == "both" and part.theirs and part.ours:
        return part.theirs.removesuffix("\n") + "\n" + part.ours
    if pick == "both":
        return part.theirs + part.ours
    return part.theirs if pick == "theirs" else part.ours


def places(parts: Sequence[MergePart], picks: Sequence[str]) -> list[ChoicePlace]:
    """Return the conflicting places, each with its pick."""
    left = iter(picks)
    found = list[ChoicePlace]()
    for part in parts:
        if part.line is not None:
            rows = shown("", part.theirs, part.ours).rows
            mine = tuple(row.html for row in rows if row.kind != "removed")
            theirs = tuple(row.html for row in rows if row.kind != "added")
            found.append(ChoicePlace(part.line + 1, mine, theirs, PICKS.get(next(left, ""), "mine")))
    return found
