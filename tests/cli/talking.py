"""A terminal for `retentive chat`, and a server on the way to the scripted Claude that halts within an answer."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .running import RETENTIVE, environment

DEADLINE_S = 60.0
CTRL_C, CTRL_D = "\x03", "\x04"
_OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
_PASTE = re.compile(r"\x1b\[\?2004[hl]\r?")
"""What readline says to a terminal around each line it reads."""


class Terminal:
    """What a person sees of a process, and types."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self.process = process
        self.shown = ""
        self._ours = ours
        self._data = b""
        self._at = 0

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def expect(self, text: str) -> str:
        """Wait until `text` shows after what was expected before; all between the two."""
        deadline = time.monotonic() + DEADLINE_S
        while (found := self.shown.find(text, self._at)) < 0:
            assert self._read(deadline), f"{text!r} did not show in:\n{self.shown[self._at :]}"
        between, self._at = self.shown[self._at : found], found + len(text)
        return between

    def end(self) -> int:
        """Read to the end; the status of the process."""
        deadline = time.monotonic() + DEADLINE_S
        while self._read(deadline):
            pass
        return self.process.wait(DEADLINE_S)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        try:
            more = os.read(self._ours, 65_536) if ready else b""
        except OSError:  # Linux says EIO when the other side is closed
            more = b""
        self._data += more
        self.shown = _PASTE.sub("", self._data.decode(errors="replace"))
        return bool(more)


@contextmanager
def terminal(directory: Path, *arguments: str, **variables: str) -> Iterator[Terminal]:
    """`retentive` on a terminal of its own, killed if it is still there in the end."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", _OWN_TERMINAL, RETENTIVE, *arguments]
    env = environment(directory, variables)
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory, env=env, start_new_session=True
    ) as process:
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            process.kill()
            os.close(ours)


class Halting:
    """A way to the API on which the n-th answer halts behind the event that holds a text, until the client has gone.

    Or it `closes` right behind the text, within the event.
    """

    def __init__(self, url: str, *, request: int, behind: bytes, closes: bool = False) -> None:
        self.url = ""
        self.halted = threading.Event()
        self._to = url
        self._request = request
        self._behind = behind
        self._closes = closes
        self._requests = 0

    @contextmanager
    def serving(self) -> Iterator[Halting]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                answer(self)

            def log_message(self, *_given: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_address[1]}"
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        data = handler.rfile.read(int(handler.headers["content-length"]))
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in _HOP_BY_HOP}
        request = urllib.request.Request(self._to + handler.path, data, headers)
        try:
            answer = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            body = answer.read()
        handler.send_response(answer.status)
        handler.send_header("content-type", answer.headers["content-type"])
        handler.end_headers()
        self._requests += 1
        if self._requests != self._request:
            handler.wfile.write(body)
            return
        if self._closes:
            handler.wfile.write(body[: body.index(self._behind) + len(self._behind)])
            return
        handler.wfile.write(body[: body.index(b"\n\n", body.index(self._behind)) + 2])
        handler.wfile.flush()
        self.halted.set()
        handler.connection.settimeout(DEADLINE_S)
        handler.connection.recv(1)  # nothing comes until the client closes


_HOP_BY_HOP = {"host", "connection", "content-length", "accept-encoding"}
