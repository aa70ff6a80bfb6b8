"""Trees of several memory stores for tests of commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import retentive
from retentive import MemoryStore, Mounts, Reply, Retentive

HEADER = "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and node_modules:"


@dataclass
class Tree:
    """Mounts with the stores by mount point, and all replies so far."""

    mounts: Mounts
    stores: Mapping[str, MemoryStore]
    replies: list[Reply] = field(default_factory=list)

    def run(self, command: str, *values: object, **fields: object) -> str:
        """Run a command and return the text of the reply. Fields are given by name or in the order of the protocol."""
        given = {"command": command, **dict(zip(_FIELDS[command], values, strict=False)), **fields}
        reply = self.mounts.execute(given)
        self.replies.append(reply)
        return reply.text

    @property
    def code(self) -> str | None:
        """Return the code of the last reply, after checking that exactly the error replies have a code."""
        assert self.replies[-1].is_error == (self.replies[-1].code is not None)
        return self.replies[-1].code

    def view(self, path: str) -> list[str]:
        """Return the rows of the view of a directory. The header is checked."""
        header, *rows = self.run("view", path).split("\n")
        assert header == HEADER.format(path.rstrip("/"))
        return rows

    def texts(self, point: str) -> dict[str, str]:
        """Return the texts of a store, by the paths in the store."""
        store = self.stores[point]
        return {memory.path: store.read(memory.path) for memory in store.memories()}


_FIELDS = {
    "view": ("path", "view_range"),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}


@contextmanager
def tree(*points: str, read_only: tuple[str, ...] = (), **options: object) -> Iterator[Tree]:
    """Create a tree with a store at `/memories` and at each of the points. All stores are in one location in memory."""
    with retentive.open("sqlite://", **options) as opened:  # type: ignore[arg-type]
        yield tree_in(opened, *points, read_only=read_only)


def tree_in(opened: Retentive, *points: str, read_only: tuple[str, ...] = ()) -> Tree:
    stores = {point: opened.store(point) for point in ("/memories", *points)}
    given = {point: store.read_only() if point in read_only else store for point, store in stores.items()}
    return Tree(Mounts(given), stores)
