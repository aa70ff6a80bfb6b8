"""Contract of an adapter, and the description of the system that it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, kw_only=True)
class System:
    """A system under test, its packages, and its promises."""

    name: str
    adapter: str
    distribution: str = ""
    """Package of this project's environment."""
    packages: tuple[str, ...] = ()
    """Requirements from PyPI, for an environment of its own. The first one gives the version."""
    npm: tuple[str, ...] = ()
    python: tuple[int, int] = (3, 11)
    server: str = ""
    """`postgresql` if it needs one."""
    durable: str
    history: str
    precondition: str
    is_shared: bool = True
    """A second process can open the store while the first has it open."""


class Store(ABC):
    """An open store of notes. Keys are `directory/name`. Threads share it. Failed operations raise.

    The defaults are for systems without the operation: they read, and write the whole note.
    """

    @abstractmethod
    def create(self, key: str, text: str) -> None:
        """Add a note."""

    @abstractmethod
    def read(self, key: str) -> str | None:
        """Text of a note; None if it does not exist."""

    @abstractmethod
    def replace(self, key: str, text: str) -> None:
        """Replace the text of a note."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove a note."""

    @abstractmethod
    def names(self) -> list[str]:
        """Keys of all notes."""

    @abstractmethod
    def close(self) -> None:
        """Release the store, so that another process can open it."""

    def fill(self, notes: Mapping[str, str]) -> None:
        """Add the first notes, unmeasured."""
        for key, text in notes.items():
            self.create(key, text)

    def append(self, key: str, line: str) -> None:
        """Add a line at the end of a note."""
        self.replace(key, self.text(key).rstrip("\n") + f"\n{line}\n")

    def rename(self, old: str, new: str) -> None:
        """Give a note another key."""
        self.create(new, self.text(old))
        self.delete(old)

    def page(self, key: str, first: int, last: int) -> list[str]:
        """Lines `first` to `last` of a note, counted from 1."""
        return self.text(key).split("\n")[first - 1 : last]

    def amend(self, key: str, change: Callable[[str], str]) -> bool:
        """Read, change and write a note. False if it was changed in between and nothing was written."""
        self.replace(key, change(self.text(key)))
        return True

    def text(self, key: str) -> str:
        """Text of a note that must exist."""
        found = self.read(key)
        if found is None:
            raise LookupError(key)
        return found
