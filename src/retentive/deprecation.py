"""Deprecations of the public interface, and the warnings about them.

`DEPRECATIONS` lists every part that a later version will remove. The library calls `warn` when a deprecated name,
parameter or setting is used. The command line and the server call `announce`. A test compares the list with
docs/compatibility.md and CHANGELOG.md. The test also fails if a listed part should have been removed in this
version or earlier.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from datetime import date
from typing import Literal, NamedTuple, TypeAlias

DeprecatedKind: TypeAlias = Literal["name", "parameter", "setting", "command", "option", "route"]


class Deprecation(NamedTuple):
    """A part of the public interface that will be removed.

    `name` is written as users write it: `MemoryTool`, `MemoryStore.read(old)`, `old_setting`, `log --old`, or
    `GET /v1/old/{id}`. `use` names the replacement. `since` is the version in which the part was deprecated, and `on`
    is the date of that version. `removed_in` is the version that removes the part.
    """

    kind: DeprecatedKind
    name: str
    use: str
    since: str
    on: date
    removed_in: str

    @property
    def sentence(self) -> str:
        """Text of the warning."""
        return f"{self.name} is deprecated and will be removed in {self.removed_in}; use {self.use}"


DEPRECATIONS: tuple[Deprecation, ...] = ()
_announced: set[Deprecation] = set()


def find(kind: DeprecatedKind, name: object) -> Deprecation | None:
    """Return the deprecation of a name. Returns None if the name is not deprecated."""
    return next((each for each in DEPRECATIONS if (each.kind, each.name) == (kind, name)), None)


def warn(kind: DeprecatedKind, *names: object) -> None:
    """Issue a `DeprecationWarning` for each of the names that is deprecated.

    The warning points to the line of the application that called this package.
    """
    for name in names if DEPRECATIONS else ():
        found = find(kind, name)
        if found is not None:
            warnings.warn(found.sentence, DeprecationWarning, stacklevel=_frames_of_package())


def _frames_of_package() -> int:
    """Return the `stacklevel` of the first frame outside of this package, as `warnings.warn` counts it."""
    frame, count = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "retentive":
        frame, count = frame.f_back, count + 1
    return count


def announce(kind: DeprecatedKind, name: str, say: Callable[[str], object]) -> None:
    """If a name is deprecated, call `say` with the text of the warning, once for each name in a process."""
    found = find(kind, name)
    if found is not None and found not in _announced:
        _announced.add(found)
        say(found.sentence)
