"""TCP proxy that simulates network faults between a client and a server.

The faults of a connection depend only on the plan of the proxy and the number of the connection. The same seed
therefore gives the same faults. `proxy.done` counts the faults that occurred.
"""

from __future__ import annotations

import selectors
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


class Link(threading.Thread):
    """Connection of a client and its connection to the server, served by a thread."""

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        protocol: Protocol,
        plan: Plan,
        *,
        may: Callable[[Fault], bool],
    ) -> None:
        super().__init__(daemon=True)
        self.silent = False
        self._may = may
        self._sides = {client: server, server: client}
        self._client = client
        self._protocol = protocol
        self._plan = plan
        self._armed: Fault | None = None
        self._ordered: Literal["reset", "silent"] | None = None
        self._bell, self._ring = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for side in (client, server, self._bell):
            self._selector.register(side, selectors.EVENT_READ)
            side.settimeout(_SEND_S)

    def order(self, action: Literal["reset", "silent"]) -> None:
        """Apply a fault to the connection immediately."""
        self._ordered = action
        with suppress(OSError):
            self._ring.send(b"!")

    def run(self) -> None:
        try:
            while self._sides:
                for key, _ in self._selector.select():
                    self._hear(key.fileobj)
        finally:
            self._end()
            if self._armed is not None:
                self._plan.missed(self._armed)
            self._selector.close()
            self._bell.close()
            self._ring.close()

    def _hear(self, side: object) -> None:
        if side is self._bell:
            self._bell.recv(64)
            self._obey()
        elif isinstance(side, socket.socket) and side in self._sides:
            self._carry(side)

    def _obey(self) -> None:
        if self._ordered == "silent":
            self.silent = True
        elif self._ordered == "reset":
            self._end(at_once=True)

    def _carry(self, side: socket.socket) -> None:
        try:
            data = side.recv(65_536)
        except OSError:
            data = b""
        if not data:
            self._close_side(side)
        elif self.silent:
            return
        elif side is self._client:
            self._from_client(data)
        else:
            self._from_server(data)

    def _close_side(self, side: socket.socket) -> None:
        """Handle the end of one side. On a silent connection, the other side stays open."""
        if not self.silent:
            self._end()
            return
        self._selector.unregister(side)
        del self._sides[side]
        side.close()

    def _from_client(self, data: bytes) -> None:
        server = self._sides[self._client]
        waited_for = self._plan.next
        self._protocol.flights = waited_for is not None and waited_for.between_flights
        for message in self._protocol.messages(data):
            if not self._sides or self.silent:
                return
            fault = None
            if self._armed is None:
                fault = self._plan.due(commits=message.commits, flights=self._protocol.flights)
            if fault is not None and fault.moment == "before":
                self._act(fault)
            elif fault is not None:
                self._protocol.expect_answer()
                self._armed = fault
            if self._sides and not self.silent:
                self._send(server, message.data)

    def _from_server(self, data: bytes) -> None:
        fault = self._armed
        if fault is not None and (fault.at == "message" or self._protocol.answered(data)):
            self._armed = None
            self._act(fault)
        if self._sides and not self.silent:
            self._send(self._client, data)

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
                self._bell.settimeout(max(fault.seconds, 0.001))
                with suppress(TimeoutError):
                    self._bell.recv(64)
                    self._obey()

    def _send(self, side: socket.socket, data: bytes) -> None:
        try:
            side.sendall(data)
        except OSError:
            if side is not self._client:  # a read detects that the client has closed the connection
                self._end()

    def _end(self, *, at_once: bool = False) -> None:
        for side in list(self._sides):
            if at_once:
                with suppress(OSError):
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self._selector.unregister(side)
            side.close()
        self._sides.clear()


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
        for link in self._order_all("reset"):
            link.join(_SEND_S)
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
        return socket.create_connection((HOST, self.server_port), timeout=_SEND_S)

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
        link = Link(client, server, self.protocol(), self.plan.for_connection(), may=self._may)
        with self._lock:
            self._links.append(link)
            link.start()

    def _tidy(self) -> None:
        """Forget closed connections, and close the oldest of too many silent ones."""
        with self._lock:
            self._links = [link for link in self._links if link.is_alive() or link.ident is None]
            silent = [link for link in self._links if link.silent]
            for link in silent[:-MAX_SILENT]:
                link.order("reset")
