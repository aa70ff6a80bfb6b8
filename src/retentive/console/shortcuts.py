"""Keyboard shortcuts of the console. The help on the pages and in docs/console.md is generated from this table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shortcut:
    """Keys with a description of their actions. A key activates a visible link or button, or moves the focus."""

    keys: tuple[str, ...]
    meaning: str


SHORTCUTS = (
    Shortcut(("/",), "search"),
    Shortcut(("t",), "go to a path"),
    Shortcut(("g s", "g m", "g a", "g r"), "stores, memories, activity, review"),
    Shortcut(("j", "k"), "next and previous row"),
    Shortcut(("o",), "open the row"),
    Shortcut(("x",), "select the proposal"),
    Shortcut(("a", "r"), "accept and refuse the shown proposal"),
    Shortcut(("e", "b", "h"), "edit, blame and history of the memory"),
    Shortcut(("p",), "the version before the change of the line, in blame"),
    Shortcut(("[", "]"), "older and newer change, version or page"),
    Shortcut(("y",), "permanent link of the shown version"),
    Shortcut(("u",), "preview of an undo"),
    Shortcut(("?",), "this list"),
)


def as_table() -> str:
    """Return the table for the documentation, as Markdown."""
    rows = (f"| {' '.join(f'`{key}`' for key in each.keys)} | {each.meaning} |" for each in SHORTCUTS)
    return "\n".join(["| keys | |", "| --- | --- |", *rows])
