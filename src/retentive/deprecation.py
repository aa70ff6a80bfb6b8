"""Deprecations: parts of the public interface that a later version removes, and warnings about their use.

`DEPRECATIONS` is the only list. Python code calls `warn` at the use of a name, parameter or setting; the command line
and the server call `announce`. A test compares the list with docs/compatibility.md and CHANGELOG.md, and fails in the
version that removes an entry.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeAlias

DeprecatedKind: TypeAlias = Literal["name", "parameter", "setting", "command", "option", "route"]


@dataclass(frozen=True, slots=True)
class Deprecation:
    """A part of the public interface that will be removed.

    `name` is as users write it: `MemoryTool`, `MemoryStore.read(old)`, `old_setting`, `log --old`, or
    `GET /v1/old/{id}`. `since` is the version that deprecated it, on the date `on`.
    """

    kind: DeprecatedKind
    name: str
    use: str
    since: str
    on: date
    removed_in: str

    @property
    def sentence(self) -> str:
        """The warning."""
        return f"{self.name} is deprecated and will be removed in {self.removed_in}; use {self.use}"


DEPRECATIONS: tuple[Deprecation, ...] = ()
_announced: set[Deprecation] = set()


def find(kind: DeprecatedKind, name: object) -> Deprecation | None:
    """Return the deprecation of a name; None if the name is not deprecated."""
    return next((each for each in DEPRECATIONS if (each.kind, each.name) == (kind, name)), None)


def warn(kind: DeprecatedKind, *names: object) -> None:
    """Issue a `DeprecationWarning` for each deprecated name. The warning points to the line outside of this package."""
    for name in names if DEPRECATIONS else ():
        found = find(kind, name)
        if found is not None:
            warnings.warn(found.sentence, DeprecationWarning, stacklevel=_frames_of_package())


def _frames_of_package() -> int:
    """Number of frames from the caller to the first one outside of this package, as `warnings.warn` counts them."""
    frame, count = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "retentive":
        frame, count = frame.f_back, count + 1
    return count


def announce(kind: DeprecatedKind, name: str, say: Callable[[str], object]) -> None:
    """If the name is deprecated, pass the warning to `say`, once in each process."""
    found = find(kind, name)
    if found is not None and found not in _announced:
        _announced.add(found)
        say(found.sentence)
