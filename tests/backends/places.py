"""Where each backend rests in a test. A new backend is picked up by every test when it gets a line here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

PLACES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda directory: f"sqlite:///{directory}/memory.db",
    "directory": lambda directory: f"{directory}/memory",
    "memory": lambda _: "sqlite://",
}
LASTING = [name for name in PLACES if name != "memory"]
"""Those whose memories are there again after closing and opening."""


def place_of(backend: str, directory: Path) -> str:
    """The place of a backend inside a directory that belongs to the test."""
    return PLACES[backend](directory)
