"""Base class of servers: a directory and ports of its own, a start, and a stop that leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from .process import Process

HOST = "127.0.0.1"


class Server(ABC):
    """A real server on loopback, for tests. Use in `with` or call `start()`; not safe for several threads."""

    name: ClassVar[str]
    user: ClassVar[str | None] = None
    """Whom it runs as if the tests run as root, where the server refuses to be root."""

    def __init__(self) -> None:
        self.directory = Path()
        self.processes: list[Process] = []
        self._held_ports: list[socket.socket] = []

    @classmethod
    @abstractmethod
    def available(cls) -> str | None:
        """The reason why it cannot run here ("postgresql is not installed"), or None."""

    @abstractmethod
    def launch(self) -> None:
        """Start its processes in `self.directory`; return when it is ready."""

    def start(self) -> None:
        """Start it, and return when it is ready."""
        self.directory = Path(tempfile.mkdtemp(prefix=f"{self.name}-"))
        if self.user is not None and os.geteuid() == 0:
            shutil.chown(self.directory, self.user, self.user)
        try:
            self.launch()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it and delete its files; does nothing if it is not running."""
        while self.processes:
            self.processes.pop().stop()
        while self._held_ports:
            self._held_ports.pop().close()
        if self.directory != Path():
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = Path()

    def free_port(self) -> int:
        """A port chosen by the system, reserved until this server stops.

        A socket stays bound to it and never listens. The server can still bind it, but the system gives it to no
        other process, nor to an outgoing connection while a killed node is down (which could connect to itself).
        """
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, 0))
        self._held_ports.append(held)
        return int(held.getsockname()[1])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def missing(package: str, *programs: str) -> str | None:
    """A message that a package is not installed, if a program of it is missing; Debian puts some in /usr/sbin."""
    if all(find(program) for program in programs):
        return None
    return f"{package} is not installed"


def find(program: str) -> str | None:
    """The path of a program, or None."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")


def program(name: str) -> str:
    """The path of a program; raises if it is missing."""
    path = find(name)
    if path is None:
        raise FileNotFoundError(name)
    return path


def accepts(port: int) -> bool:
    """True if a process listens on a port of loopback."""
    with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False
