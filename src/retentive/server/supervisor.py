"""Starts the worker processes of the server, replaces dead ones, and stops them gracefully."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

CHECK_S = 0.5
RESTART_S = 1.0
"""Minimum time between two starts of a worker.

Without it, a worker could restart constantly if the database is down.
"""
Progress = Callable[[str], None]
STOPPING = "Stopping: new connections are refused, and the requests that have begun are finished."


class OneProcess(uvicorn.Server):
    """Server that runs in this process, without workers."""

    def __init__(self, config: uvicorn.Config, on_progress: Progress) -> None:
        super().__init__(config)
        self._on_progress = on_progress

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the server. Report when the stop begins and when it ends."""
        self._on_progress(STOPPING)
        await super().shutdown(sockets)
        self._on_progress("Stopped.")


class Supervisor(Multiprocess):
    """Parent process of the workers. SIGTERM and SIGINT stop the server; SIGHUP replaces the workers one by one.

    Unlike its base class, it reacts to signals at once, and closes the listening socket before it waits for the
    workers.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], on_progress: Progress) -> None:
        super().__init__(config, sockets)
        self._on_progress = on_progress
        self._woken, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self._started_at: dict[int, float] = {}

    def run(self) -> None:
        """Run the workers until a signal stops the server."""
        for index in range(self.processes_num):
            self.processes.append(self._started(index))
        while not self.should_exit.is_set():
            self._wait()
            self.handle_signals()
            if not self.should_exit.is_set():
                self.keep_subprocess_alive()
        self._on_progress(STOPPING)
        for each in self.sockets:
            each.close()  # the workers close theirs too; then the system refuses new connections
        self.terminate_all()
        self.join_all()
        self._on_progress("Stopped.")

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have ended. The base class would also end workers that are too busy to answer it."""
        for index, worker in enumerate(self.processes):
            if worker.process.is_alive() or time.monotonic() < self._started_at[index] + RESTART_S:
                continue
            worker.join()
            self._on_progress(f"Worker {worker.pid} ended {_reason(worker.exitcode)}.")
            if worker.exitcode == STARTUP_FAILURE:
                self.should_exit.set()
                return
            self.processes[index] = self._started(index)

    def _wait(self) -> None:
        """Wait at most `CHECK_S` for a signal or for the end of a worker."""
        alive = [worker.process.sentinel for worker in self.processes if worker.process.is_alive()]
        readable: Sequence[int] = select.select([self._woken, *alive], [], [], CHECK_S)[0]
        if self._woken in readable:
            os.read(self._woken, 100)

    def _started(self, index: int) -> Process:
        worker = Process(self.config, self.sockets)
        worker.start()
        self._started_at[index] = time.monotonic()
        self._on_progress(f"Worker {worker.pid} started.")
        return worker


def _reason(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with status {code}"


def end_with_parent() -> None:
    """Stop this worker gracefully when its parent process dies. Otherwise it would run forever and hold the port."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="retentive-parent", daemon=True).start()
