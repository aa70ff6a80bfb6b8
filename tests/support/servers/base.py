"""Base class of servers. A server has its own directory and ports, and it leaves nothing behind when it stops."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from .process import Process

HOST = "127.0.0.1"


class Server(ABC):
    """A real server on loopback, for tests. Use it in `with`, or call `start()`. It is not thread-safe."""

    name: ClassVar[str]
    user: ClassVar[str | None] = None
    """User to run the server as if the tests run as root, for servers that refuse to run as root."""

    def __init__(self) -> None:
        self.directory = Path()
        self.processes: list[Process] = []
        self._held_ports: list[socket.socket] = []

    @classmethod
    @abstractmethod
    def available(cls) -> str | None:
        """Return the reason why the server cannot run here ("postgresql is not installed"), or None."""

    @abstractmethod
    def launch(self) -> None:
        """Start the processes of the server in `self.directory`, and return when it is ready."""

    def start(self) -> None:
        """Start the server, and return when it is ready."""
        self.directory = Path(tempfile.mkdtemp(prefix=f"{self.name}-"))
        if self.user is not None and os.geteuid() == 0:
            shutil.chown(self.directory, self.user, self.user)
        try:
            self.launch()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and delete its files. Does nothing if it is not running."""
        while self.processes:
            self.processes.pop().stop()
        while self._held_ports:
            self._held_ports.pop().close()
        if self.directory != Path():
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = Path()

    def free_port(self) -> int:
        """Return a port chosen by the system, and reserve it until this server stops.

        A socket stays bound to the port and never listens. The server can still bind the port, but the system gives it
        to no other process. It also gives it to no outgoing connection while a killed node is down; such a connection
        could connect to itself.
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
    """Return a message that a package is not installed, or None. Debian puts some of the programs in /usr/sbin."""
    if all(find(program) for program in programs):
        return None
    return f"{package} is not installed"


@cache
def find(program: str) -> str | None:
    """Return the path of a program, or None."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")


def program(name: str) -> str:
    """Return the path of a program. Raises an error if it is missing."""
    path = find(name)
    if path is None:
        raise FileNotFoundError(name)
    return path


def accepts(port: int) -> bool:
    """Return whether a process listens on a loopback port."""
    with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False
