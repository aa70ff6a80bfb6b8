"""TCP proxy that simulates network faults between a client and a server.

The faults of a connection depend only on the plan of the proxy and the number of the connection. The same seed
therefore gives the same faults. `proxy.done` counts the faults that occurred.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self

from faults.network.faults import NO_FAULTS, Fault, Plan

from .protocols import Protocol

HOST = "127.0.0.1"
MAX_SILENT = 40  # half-open connections to keep; a server accepts about 100 connections
_SEND_S = 10.0
_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: close by RST


class Link:
    """Connection of a client and its connection to the server. A thread carries the bytes of each direction."""

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        protocol: Protocol,
        plan: Plan,
        *,
        may: Callable[[Fault], bool],
    ) -> None:
        self.silent = False
        self._client, self._server = client, server
        self._protocol, self._plan, self._may = protocol, plan, may
        self._armed: Fault | None = None
        self._ended = threading.Event()
        self._open, self._lock = 2, threading.Lock()
        directions = ((client, self._from_client), (server, self._from_server))
        self.threads = [threading.Thread(target=self._carry, args=each, daemon=True) for each in directions]
        for thread in self.threads:
            thread.start()

    def order(self, action: Literal["reset", "silent"]) -> None:
        """Apply a fault to the connection immediately."""
        if action == "silent":
            self.silent = True
        else:
            self._end(at_once=True)

    def _carry(self, side: socket.socket, handle: Callable[[bytes], None]) -> None:
        """Carry the bytes from one side until it ends. On a silent connection, the other side stays open.

        The last thread closes the sockets: while one reads, its descriptor must not be used for another connection.
        """
        try:
            with suppress(OSError):
                while data := side.recv(65_536):
                    handle(data)
        finally:
            if not self.silent:
                self._end()
            with self._lock:
                self._open -= 1
                is_last = self._open == 0
            if is_last:
                self._client.close()
                self._server.close()
                if self._armed is not None:
                    self._plan.missed(self._armed)

    def _is_over(self) -> bool:
        return self.silent or self._ended.is_set()

    def _from_client(self, data: bytes) -> None:
        if self._is_over():
            return
        waited_for = self._plan.next
        self._protocol.flights = waited_for is not None and waited_for.between_flights
        for message in self._protocol.messages(data):
            fault = None
            if self._armed is None:
                fault = self._plan.due(commits=message.commits, flights=self._protocol.flights)
            if fault is not None and fault.moment == "before":
                self._act(fault)
            elif fault is not None:
                self._protocol.expect_answer()
                self._armed = fault
            if self._is_over():
                return
            self._server.sendall(message.data)

    def _from_server(self, data: bytes) -> None:
        fault = self._armed
        if fault is not None and (fault.at == "message" or self._protocol.answered(data)):
            self._armed = None
            self._act(fault)
        if not self._is_over():
            self._client.sendall(data)

    def _act(self, fault: Fault) -> None:
        self._plan.done()
        if not self._may(fault):
            return
        match fault.action:
            case "reset":
                self._end(at_once=True)
            case "close":
                self._end()
            case "silent":
                self.silent = True
            case "late":
                self._ended.wait(fault.seconds)

    def _end(self, *, at_once: bool = False) -> None:
        self._ended.set()
        for side in (self._client, self._server):
            with suppress(OSError):
                if at_once:
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                side.shutdown(socket.SHUT_RD)  # wakes the thread that reads, and sends nothing


class Proxy:
    """Proxy that forwards connections from a loopback port to `server_port`, with the faults of `plan`.

    Context manager.
    """

    def __init__(self, server_port: int, protocol: type[Protocol], plan: Plan = NO_FAULTS) -> None:
        self.server_port = server_port
        self.plan = plan
        self.down = False
        """If true, the proxy refuses connections."""
        self.at_most: int | None = None
        """Maximum number of faults, regardless of the plan."""
        self.done: Counter[str] = Counter()
        self.connections = self.refused = 0
        self.protocol = protocol
        self._links: list[Link] = []
        self._lock, self._counting = threading.Lock(), threading.Lock()
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def through(self, url: str) -> str:
        """URL of a server through this proxy."""
        return url.replace(f":{self.server_port}", f":{self.port}")

    def cut_all(self) -> None:
        """Reset all open connections."""
        for thread in [thread for link in self._order_all("reset") for thread in link.threads]:
            thread.join(_SEND_S)
        self._tidy()

    def silence_all(self) -> None:
        """Make all open connections silent."""
        self._order_all("silent")

    def heal(self) -> None:
        """Stop faults for new connections. A connection that is already open can still get its fault."""
        self.plan = NO_FAULTS
        self.down = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(_SEND_S)
        self._listener.close()
        self.cut_all()

    def _may(self, fault: Fault) -> bool:
        with self._counting:
            if self.at_most is not None and self.done.total() >= self.at_most:
                return False
            self.done[str(fault)] += 1
            return True

    def _order_all(self, action: Literal["reset", "silent"]) -> list[Link]:
        with self._lock:
            for link in self._links:
                link.order(action)
            return list(self._links)

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._tidy()
            self._connect(client)

    def reach(self) -> socket.socket:
        """Connect to the server."""
        server = socket.create_connection((HOST, self.server_port), timeout=_SEND_S)
        server.settimeout(None)
        return server

    def _connect(self, client: socket.socket) -> None:
        self.connections += 1
        try:
            if self.down:
                raise ConnectionRefusedError
            server = self.reach()
        except OSError:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            client.close()
            self.refused += 1
            return
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._links.append(Link(client, server, self.protocol(), self.plan.for_connection(), may=self._may))

    def _tidy(self) -> None:
        """Forget closed connections, and close the oldest of too many silent ones."""
        with self._lock:
            self._links = [link for link in self._links if any(thread.is_alive() for thread in link.threads)]
            silent = [link for link in self._links if link.silent]
            for link in silent[:-MAX_SILENT]:
                link.order("reset")
