"""Opens subdirectories without following symbolic links. Paths are opened one component at a time."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from retentive.storage.disk import DIRECTORY_MODE

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OpenedDirectory:
    """Context manager that opens a subdirectory and yields its file descriptor. Raises OSError.

    `base` is the descriptor of a directory, and `names` are the components of the path below it. With `make`, missing
    directories are created. This is a class, because a generator context manager takes twice the time.
    """

    __slots__ = ("_base", "_descriptor", "_make", "_names")

    def __init__(self, base: int, names: Sequence[str], *, make: bool = False) -> None:
        self._base = self._descriptor = base
        self._names = names
        self._make = make

    def __enter__(self) -> int:
        base = self._base
        try:
            for name in self._names:
                above = self._descriptor
                self._descriptor = _open_directory(name, above, make=self._make)
                if above != base:
                    os.close(above)
        except BaseException:
            self._close()
            raise
        return self._descriptor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, self._base
        if descriptor != self._base:
            os.close(descriptor)


def _open_directory(name: str, above: int, *, make: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=above)
    except FileNotFoundError:
        if not make:
            raise
    except OSError as error:
        if error.errno == errno.ELOOP:  # for a link, macOS reports ELOOP and Linux ENOTDIR
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        raise
    with suppress(FileExistsError):
        os.mkdir(name, DIRECTORY_MODE, dir_fd=above)
    return os.open(name, _DIRECTORY, dir_fd=above)
