"""Files on their way to a name, and files that lost theirs.

A text is written to a file here, and then swapped with the one that has the name; that one is looked at once more
before it is removed. To keep it as a spare for the next text would save making a file, but is not safe: after a power
cut the old name can lead to it again, with another memory's text in it.
"""

from __future__ import annotations

import os
from contextlib import suppress

from retentive.storage.disk import FILE_MODE

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """A private directory on the file system of the memories, open as `directory`. For one thread at a time."""

    def __init__(self, directory: int) -> None:
        self.directory = directory
        self._made = 0

    def write(self, data: bytes) -> str:
        """The name of a new file that holds `data`; to be discarded by the caller. Raises OSError."""
        name = self.new_name()
        descriptor = os.open(name, _NEW, FILE_MODE, dir_fd=self.directory)
        try:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            finally:
                os.close(descriptor)
        except OSError:
            self.discard(name)
            raise
        return name

    def new_name(self) -> str:
        """A name nothing here has."""
        self._made += 1
        return f"{os.getpid()}-{id(self):x}-{self._made}"

    def discard(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.directory)

    def clean(self) -> None:
        """Remove everything, also what others left here."""
        for name in os.listdir(self.directory):
            self.discard(name)

    def close(self) -> None:
        """Let go of the directory."""
        with suppress(OSError):
            os.close(self.directory)
