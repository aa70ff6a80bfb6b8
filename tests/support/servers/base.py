"""Base of servers: programs that are started, watched until they are ready, and stopped with all their children.

A server has its own directory and ports, and it leaves nothing behind when it stops.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

DEADLINE_S = 60.0
_POLL_S = 0.02
_LOG_TAIL_CHARS = 3_000

# Stops the program and deletes its files if the test run dies first, which closes the pipe from the test run.
# A line on the pipe says that the program was stopped normally.
_GUARD = """
read -r _ && exit
kill -s "$1" -- "-$2"
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -s 0 -- "-$2" || break; sleep 1; done
kill -s KILL -- "-$2"
rm -rf -- "$3"
"""


class ServerFailed(Exception):
    """Raised if a server did not start or a request to it failed. The message has the end of its log."""


def poll(ready: Callable[[], bool], what: str, *, log: Path | None = None, deadline_s: float = DEADLINE_S) -> None:
    """Poll until `ready` returns true. Raises `ServerFailed` with the end of the log after the deadline."""
    end = time.monotonic() + deadline_s
    while not ready():
        if time.monotonic() > end:
            raise ServerFailed(f"{what}: not after {deadline_s:.0f} s{tail(log)}")
        time.sleep(_POLL_S)


def tail(log: Path | None) -> str:
    """Return the end of a log, to append to a message."""
    if log is None or not log.exists():
        return ""
    return f"\n--- {log.name} ---\n" + log.read_text(errors="replace")[-_LOG_TAIL_CHARS:]


def user_options(user: str | None) -> dict[str, str | list[str]]:
    """Return the `user` option of subprocess.

    Servers that refuse root run as their own user, other servers as the current one.
    """
    if user is None or os.geteuid() != 0:
        return {}
    return {"user": user, "group": user, "extra_groups": []}


def run(
    command: Sequence[str],
    *,
    user: str | None = None,
    cwd: Path | None = None,
    text: str = "",
    env: dict[str, str] | None = None,
) -> str:
    """Run a program that ends by itself, and return its output. Raises `ServerFailed` with the output if it failed."""
    try:
        done = subprocess.run(  # type: ignore[call-overload]
            command,
            cwd=cwd,
            env=env,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=DEADLINE_S,
            check=False,
            **user_options(user),
        )
    except subprocess.TimeoutExpired as error:
        raise ServerFailed(f"{command[0]}: not after {DEADLINE_S:.0f} s\n{error.output!r}") from None
    if done.returncode != 0:
        raise ServerFailed(f"{command[0]} ended with {done.returncode}\n{done.stdout[-_LOG_TAIL_CHARS:]}")
    return str(done.stdout)


class Process:
    """A program that runs until it is stopped. It has a process group of its own and writes its output to `log`.

    `stop_signal` stops the program and its children. SIGKILL is enough for a program without data.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        directory: Path,
        user: str | None = None,
        env: dict[str, str] | None = None,
        stop_signal: signal.Signals = signal.SIGKILL,
    ) -> None:
        self.name = Path(command[0]).name
        self.log = log
        self._stop_signal = stop_signal
        with log.open("ab") as output:
            self._child = subprocess.Popen(  # type: ignore[call-overload]
                command,
                cwd=directory,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **user_options(user),
            )
        self.pid: int = self._child.pid
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "sh", str(int(stop_signal)), str(self.pid), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def running(self) -> bool:
        """Return whether the program is running."""
        return self._child.poll() is None

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait until the program is ready.

        Raises `ServerFailed` with the end of its log if it ends first or is too slow.
        """

        def asked() -> bool:
            if not self.running():
                raise ServerFailed(f"{self.name} ended with {self._child.returncode}{tail(self.log)}")
            return ready()

        poll(asked, f"{self.name} is ready", log=self.log)

    def stop(self) -> None:
        """Stop the program and wait for its end. Does nothing if it has ended."""
        if self.running():
            self._signal_group(self._stop_signal)
            try:
                self._child.wait(timeout=DEADLINE_S / 6)
            except subprocess.TimeoutExpired:
                self.kill()
        self._signal_group(signal.SIGKILL)  # children that the program left running
        self._child.wait()
        self._dismiss_guard()

    def kill(self) -> None:
        """Kill the program and its process group with SIGKILL, like a power failure."""
        self._signal_group(signal.SIGKILL)
        self._child.wait()
        self._dismiss_guard()

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS reports EPERM for a group of zombies
            os.killpg(self.pid, number)

    def _dismiss_guard(self) -> None:
        if self._guard.returncode is None:
            self._guard.communicate(b"ended\n")


def descendants(pid: int) -> list[int]:
    """Return the descendants of a process. Each process of PostgreSQL has a process group of its own."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found = [pid]
    for each in found:
        found.extend(children.get(each, []))
    return found[1:]


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


class Cluster(Server):
    """A server of several programs by name, each of which can be killed and started again."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[str, Process] = {}

    def run_part(
        self,
        part: str,
        command: Sequence[str],
        *,
        env: dict[str, str] | None = None,
        stop_signal: signal.Signals = signal.SIGKILL,
    ) -> Process:
        """Start a program of the cluster, with a log of its own."""
        log = self.directory / f"{part}.log"
        process = Process(command, log=log, directory=self.directory, user=self.user, env=env, stop_signal=stop_signal)
        self.parts[part] = process
        self.processes.append(process)
        return process

    def kill(self, part: str) -> None:
        """Kill a program of the cluster with SIGKILL."""
        process = self.parts.pop(part)
        self.processes.remove(process)
        process.kill()


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
