"""Temporary files: new files before their rename, and replaced files before their removal.

A text is written to a temporary file, which is then exchanged with the target. The replaced file is checked once more
before it is removed. Reusing it for the next text would save a file creation but is unsafe: after a power cut the old
name can refer to it again, now with the text of another memory.
"""

from __future__ import annotations

import os
from contextlib import suppress

from retentive.storage.disk import FILE_MODE

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """Private directory on the same file system as the memories, open as `directory`. Not thread-safe."""

    def __init__(self, directory: int) -> None:
        self.directory = directory
        self._made = 0

    def write(self, data: bytes) -> str:
        """Write `data` to a new file; returns its name. The caller discards the file. Raises OSError."""
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
        """Unused file name."""
        self._made += 1
        return f"{os.getpid()}-{id(self):x}-{self._made}"

    def discard(self, name: str) -> None:
        """Remove a file if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.directory)

    def clean(self) -> None:
        """Remove all files, including those of other processes."""
        for name in os.listdir(self.directory):
            self.discard(name)

    def close(self) -> None:
        """Close the directory."""
        with suppress(OSError):
            os.close(self.directory)
