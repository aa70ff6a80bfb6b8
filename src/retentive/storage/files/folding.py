"""Detects different paths that would have the same file on a file system that ignores case, Unicode form or joiners.

By default, the file systems of macOS ignore both.
"""

from __future__ import annotations

import unicodedata


class Spellings:
    """Exact spellings of the paths that are written but have no file yet.

    Names are compared by full case folding. Some file systems distinguish a few names that are equal by this
    comparison. A transaction cannot write two such names, although the file system would allow both.
    """

    def __init__(self) -> None:
        self._spelled: dict[str, str] = {}

    def clashes(self, path: str) -> bool:
        """Return True if a path, or a directory above it, was written before with a different spelling."""
        return any(self._spelled.get(_folded(name), name) != name for name in _names(path))

    def add(self, path: str) -> None:
        """Remember a path that was written."""
        for name in _names(path):
            self._spelled.setdefault(_folded(name), name)

    def remove(self, path: str) -> None:
        """Forget a path that was deleted or renamed."""
        self._spelled.pop(_folded(path), None)


def _names(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(3, len(parts) + 1)]  # parts[1] is `memories`


def _folded(name: str) -> str:
    plain = name.translate({0x200C: None, 0x200D: None})  # HFS+ ignores joiners
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", plain).casefold())
