"""Seeded streams of commands. A worker and its judge get the same commands from the same seed and tree."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.model import find_all
from support.oracle import Command, Outcome, Tree, below, following

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_MEMORIES = 24  # a writer with more memories deletes some first, so that trees stay small
MAX_CHARS = 90_000  # stays below the default limit of 102,400 bytes after any edit
MAX_DEPTH = 9  # moving a directory into another makes its paths deeper; the limit is 20 segments
SIZES = (0, 1, 17, 300, 1_000, 4_095, 4_096, 4_097, 12_000, 60_000)  # sizes around a page of 4,096 bytes
DIRECTORIES = ("", "/notes", "/notes/deep", "/plans", "/plans/old/very", "/.hidden")


@dataclass(frozen=True)
class Writer:
    """One stream of commands, in a directory of a memory store that no other writer changes."""

    store: str
    home: str
    seed: int


def commands(writer: Writer, tree: Tree) -> Iterator[tuple[Command, Tree]]:
    """Yield commands without end, each with the writer's tree after it."""
    rng = random.Random(writer.seed)  # random is not used for secrets here
    while True:
        command = next_command(rng, writer.home, tree)
        tree = following(Outcome(tree), command).tree
        yield command, tree


def next_command(rng: random.Random, home: str, tree: Tree) -> Command:
    """Return a command that must succeed in this tree."""
    paths = sorted(tree)
    if len(paths) < 3:
        return _create(rng, home, tree)
    if len(paths) > MAX_MEMORIES:
        return {"command": "delete", "path": _place(rng, home, paths)}
    draw = rng.random()
    if draw < 0.25:
        return _create(rng, home, tree)
    if draw < 0.50:
        return _replace(rng, home, tree)
    if draw < 0.70:
        return _insert(rng, home, tree)
    if draw < 0.85:
        return _rename(rng, home, tree)
    return {"command": "delete", "path": _place(rng, home, paths)}


def some_text(rng: random.Random, size: int) -> str:
    """Return a unique text of about this many bytes. Its lines have various lengths, and some are not ASCII."""
    parts: list[str] = []
    length = 0
    while length < size:
        line = f"{rng.getrandbits(64):016x} " * rng.randint(1, 6) + rng.choice(("", "é", "報告", "\r")) + "\n"
        parts.append(line)
        length += len(line.encode())
    text = "".join(parts)
    return text[:-1] if rng.random() < 0.3 else text


def _create(rng: random.Random, home: str, tree: Tree) -> Command:
    text = some_text(rng, rng.choice(SIZES))
    return {"command": "create", "path": _free(rng, home, tree), "file_text": text}


def _replace(rng: random.Random, home: str, tree: Tree) -> Command:
    path = rng.choice(sorted(tree))
    text = tree[path]
    start = rng.randrange(len(text)) if text else 0
    old = text[start : start + rng.randint(1, 40)]
    if not old or len(find_all(text, old)) != 1 or len(text) > MAX_CHARS // 2:
        return {"command": "delete", "path": path} if len(text) > MAX_CHARS // 2 else _insert(rng, home, tree)
    new = some_text(rng, rng.choice((0, 1, 30, 5_000)))
    return {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


def _insert(rng: random.Random, home: str, tree: Tree) -> Command:
    path = rng.choice(sorted(tree))
    text = tree[path]
    if len(text) > MAX_CHARS // 2:
        return {"command": "delete", "path": path}
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    return {
        "command": "insert",
        "path": path,
        "insert_line": rng.randint(0, lines),
        "insert_text": some_text(rng, rng.choice((0, 1, 30, 5_000))),
    }


def _rename(rng: random.Random, home: str, tree: Tree) -> Command:
    old = _place(rng, home, sorted(tree))
    if max(each.count("/") for each in below(tree, old)) > MAX_DEPTH:
        return {"command": "delete", "path": old}
    new = _free(rng, home, tree)
    while new.startswith(old + "/"):
        new = _free(rng, home, tree)
    return {"command": "rename", "old_path": old, "new_path": new}


def _place(rng: random.Random, home: str, paths: list[str]) -> str:
    """Return a memory or, one time in three, the directory above it, but never the writer's home."""
    path = rng.choice(paths)
    above = path.rpartition("/")[0]
    return above if above != home and rng.random() < 0.33 else path


def _free(rng: random.Random, home: str, tree: Tree) -> str:
    while True:
        path = f"{home}{rng.choice(DIRECTORIES)}/m{rng.randrange(1_000)}.md"
        if not below(tree, path):
            return path
