"""What an agent takes as its memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from commonplace import opening
from commonplace.backends.base import Actor
from commonplace.errors import InvalidInput
from commonplace.replies import Reply


@runtime_checkable
class Memory(Protocol):
    """Anything that answers commands: a `MemoryStore`, several as one tree, or one's own."""

    def execute(self, command: object, *, actor: Actor | str | None = None) -> Reply:
        """As `MemoryStore.execute`: never raises for what a model sent."""


Place: TypeAlias = "str | os.PathLike[str]"


def opened(memory: Memory | Place) -> tuple[Memory, Callable[[], None]]:
    """The memory meant, and what closes it if it was opened here. Raises `InvalidInput` and the errors of storage."""
    if isinstance(memory, str | os.PathLike):
        place = opening.open(memory)
        return place.store(), place.close
    if not isinstance(memory, Memory):
        raise InvalidInput("memory must be a place (a directory, sqlite:///...), a MemoryStore, or have `execute`")
    return memory, lambda: None
