"""Seeded streams of commands. A worker and its judge get the same commands from the same seed and tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from support.model import Model
from support.oracle import Command, Tree
from support.walk import Walk

MAX_MEMORIES = 24  # a writer with more memories deletes some, so that trees stay small
SIZES = (0, 1, 17, 300, 1_000, 4_095, 4_096, 4_097, 12_000, 60_000)  # around a page of 4,096 bytes


@dataclass(frozen=True)
class Writer:
    """One stream of commands, in a directory of a memory store that no other writer changes."""

    store: str
    home: str
    seed: int


class Stream(Walk):
    """Walk with longer texts, each of which is unique."""

    def text(self, most: int) -> str:
        """Return lines of various lengths, some of which are not ASCII."""
        size, parts = self.random.choice(SIZES if most > 4 else SIZES[:5]), list[str]()
        while sum(map(len, parts)) < size:
            word = f"{self.random.getrandbits(64):016x} "
            parts.append(word * self.random.randint(1, 6) + self.random.choice(("", "é", "報告", "\r")) + "\n")
        text = "".join(parts)
        return text[:-1] if self.random.random() < 0.3 else text

    def part_of(self, text: str) -> str:
        """Return a part that is mostly unique."""
        start = self.random.randint(0, len(text))
        return text[start : start + self.random.randint(1, 40)]


def commands(writer: Writer, tree: Tree) -> Iterator[tuple[Command, Tree]]:
    """Yield commands without end that change the tree, each with the writer's tree after it."""
    model = Model(tree=dict(tree))
    stream = Stream(writer.seed, model, writer.home)
    while True:
        before, command = dict(model.tree), stream.command()
        if len(before) > MAX_MEMORIES:
            command = {"command": "delete", "path": stream.random.choice(sorted(before))}
        paths = [str(value) for name, value in command.items() if name.endswith("path")]
        is_inside = all(path.startswith(f"{writer.home}/") for path in paths)
        if is_inside and not model.execute(command).is_error and model.tree != before:
            yield command, dict(model.tree)
