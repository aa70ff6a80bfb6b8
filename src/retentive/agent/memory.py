"""What an agent takes as its memory: a place, a `MemoryStore`, several as one tree, or one's own."""

from __future__ import annotations

import os
from collections.abc import Callable

from retentive import opening
from retentive.errors import InvalidInput
from retentive.integrations.function_tool import Executes


def opened(memory: Executes | str | os.PathLike[str]) -> tuple[Executes, Callable[[], None]]:
    """The memory meant, and what closes it if it was opened here. Raises `InvalidInput` and the errors of storage."""
    if isinstance(memory, str | os.PathLike):
        place = opening.open(memory)
        return place.store(), place.close
    check_executes(memory, "a place (a directory, sqlite:///...), ")
    return memory, lambda: None


def check_executes(memory: object, more: str = "") -> None:
    """Raise `InvalidInput` for what answers no commands. `more` is what else is taken."""
    if not callable(getattr(memory, "execute", None)):
        raise InvalidInput(f"memory must be {more}a MemoryStore, or have `execute`")
