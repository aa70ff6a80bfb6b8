"""Plan: the files to write after a commit."""

from __future__ import annotations

from dataclasses import dataclass, field

from retentive.storage.contract import Change
from retentive.storage.files.tree import Mark


@dataclass(slots=True)
class Plan:
    """Last change of each path, and the mark of its file before the first; without a mark the file is examined."""

    changes: dict[str, Change] = field(default_factory=dict)
    expected: dict[str, Mark] = field(default_factory=dict)
    touched_twice: set[str] = field(default_factory=set)

    def add(self, path: str, change: Change) -> None:
        """Add a change of a path."""
        if path in self.changes:
            self.touched_twice.add(path)
        self.changes[path] = change

    def absorb(self, later: Plan) -> None:
        """Merge the plan of a later transaction of the same commit: its changes win, marks of this plan win."""
        self.touched_twice |= later.touched_twice | (self.changes.keys() & later.changes.keys())
        self.changes |= later.changes
        self.expected = later.expected | self.expected

    def moves(self) -> dict[str, str]:
        """New path -> old path of files touched only by one rename, which can be moved instead of rewritten."""
        moves: dict[str, str] = {}
        known = self.expected.keys() - self.touched_twice
        for path, change in self.changes.items():
            old = None if change.before is None else change.before.path
            is_rename = change.size_bytes is None and change.path == path and old not in {None, path}
            if is_rename and old is not None and self.changes.get(old) is change and old in known and path in known:
                moves[path] = old
        return moves
