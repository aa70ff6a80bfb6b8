"""The `memory` argument of an agent: a location, a `MemoryStore`, `Mounts`, or any object with `execute`."""

from __future__ import annotations

import os
from collections.abc import Callable

from retentive import opening
from retentive.errors import InvalidInput
from retentive.integrations.function_tool import SupportsExecute


def open_memory(memory: SupportsExecute | str | os.PathLike[str]) -> tuple[SupportsExecute, Callable[[], None]]:
    """Open `memory` if it is a location. Returns the memory and a function that closes it if it was opened here.

    Raises `InvalidInput` and the errors of storage.
    """
    if isinstance(memory, str | os.PathLike):
        connection = opening.open(memory)
        return connection.store(), connection.close
    check_memory(memory, "a location (a directory, sqlite:///...), ")
    return memory, lambda: None


def check_memory(memory: object, alternatives: str = "") -> None:
    """Raise `InvalidInput` for an object without `execute`. `alternatives` is added to the message."""
    if not callable(getattr(memory, "execute", None)):
        raise InvalidInput(f"memory must be {alternatives}a MemoryStore, or an object with an `execute` method")
