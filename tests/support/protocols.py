"""Parsers for client messages of PostgreSQL, MariaDB and S3. They detect commits."""

from __future__ import annotations

import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

_UNTYPED = {80877102, 80877103, 80877104}  # requests for cancel, TLS and GSS; after the last two, startup follows
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Message:
    """One or several messages of a client that were sent together.

    `commits`: the response confirms a durable change.
    """

    data: bytes
    commits: bool = False


class Protocol(ABC):
    """Splits the bytes of one connection into messages.

    A flight is a group of messages that the client sends together, without waiting for a response. With `flights`, a
    flight counts as one message. A silent fault loses whole flights; a reset can occur anywhere.
    """

    def __init__(self) -> None:
        self.flights = False
        self._flight = Message(b"")
        self._sent = b""
        self._answered = b""

    def messages(self, data: bytes) -> Iterator[Message]:
        """Return the messages that are complete after the client sent these bytes."""
        self._sent += data
        while (length := self.next_length(self._sent)) and len(self._sent) >= length:
            message, self._sent = self._sent[:length], self._sent[length:]
            flight = Message(self._flight.data + message, self.commits(message) or self._flight.commits)
            last = not self.flights or self.ends_flight(message)
            self._flight = Message(b"") if last else flight
            if last:
                yield flight

    def expect_answer(self) -> None:
        """Wait for the response to a commit from now on."""
        self._answered = b""

    def answered(self, data: bytes) -> bool:
        """Return whether these bytes from the server complete the response to the commit."""
        self._answered += data
        return self.holds_answer(self._answered)

    @abstractmethod
    def next_length(self, data: bytes) -> int:
        """Return the length of the first message in bytes, or 0 if its length is not known yet."""

    @abstractmethod
    def commits(self, message: bytes) -> bool:
        """Return whether a message commits."""

    def ends_flight(self, _message: bytes) -> bool:
        """Return whether the client waits for a response after this message."""
        return True

    def holds_answer(self, data: bytes) -> bool:
        """Return whether the bytes since a commit contain its response."""
        return bool(data)


class Postgresql(Protocol):
    """PostgreSQL protocol version 3. A commit is the Execute of a statement `COMMIT`, or a simple Query."""

    def __init__(self) -> None:
        super().__init__()
        self._started = False
        self._statements: dict[bytes, bool] = {}
        self._portals: dict[bytes, bool] = {}

    def next_length(self, data: bytes) -> int:
        head = 1 if self._started else 0
        return head + int(struct.unpack_from("!I", data, head)[0]) if len(data) >= head + 4 else 0

    def commits(self, message: bytes) -> bool:
        if not self._started:
            self._started = struct.unpack_from("!I", message, 4)[0] not in _UNTYPED
            return False
        kind, body = message[:1], message[5:]
        first, _, rest = body.partition(b"\0")
        match kind:
            case b"P":  # Parse: statement, text
                self._statements[first] = _is_commit(rest.partition(b"\0")[0])
            case b"B":  # Bind: portal, statement
                self._portals[first] = self._statements.get(rest.partition(b"\0")[0], False)
            case b"E":  # Execute: portal
                return self._portals.get(first, False)
            case b"Q":  # Query: text
                return _is_commit(first)
        return False

    def ends_flight(self, message: bytes) -> bool:
        return message[:1] not in {b"P", b"B", b"D", b"E", b"C"}

    def holds_answer(self, data: bytes) -> bool:
        return any(tag in data for tag in (b"COMMIT\0", b"ROLLBACK\0", b"SERROR\0", b"SFATAL\0"))


class Mariadb(Protocol):
    """MySQL protocol. Commands start with packet number 0. Command 3 is COM_QUERY, whose last statement may commit."""

    def next_length(self, data: bytes) -> int:
        return 4 + int.from_bytes(data[:3], "little") if len(data) >= 4 else 0

    def commits(self, message: bytes) -> bool:
        return message[3:5] == b"\0\3" and _is_commit(message[-8:].rpartition(b";")[2])

    def holds_answer(self, data: bytes) -> bool:
        """Return whether the bytes contain an error, or an OK that no other result follows."""
        at = 0
        while length := self.next_length(data[at:]):
            packet = data[at + 4 : at + length]
            if packet[:1] == b"\xff" or (packet[:1] == b"\0" and not _more_follows(packet)):
                return True
            at += length
        return False


class S3(Protocol):
    """S3 over HTTP/1.1. A commit is the write of a new or replaced root object."""

    def next_length(self, data: bytes) -> int:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return 0
        given = _LENGTH.search(data, 0, end)
        return end + 4 + (int(given[1]) if given else 0)

    def commits(self, message: bytes) -> bool:
        line = message.partition(b"\r\n")[0]
        return line.startswith(b"PUT ") and b"/manifests/" in line


def _more_follows(ok: bytes) -> bool:
    """Return whether an OK packet announces more results. Its flags follow two length-encoded integers."""
    at = 1
    for _ in range(2):
        at += {0xFC: 3, 0xFD: 4, 0xFE: 9}.get(ok[at], 1)
    return bool(ok[at] & 8)


def _is_commit(statement: bytes) -> bool:
    return statement.strip(b" \t\r\n;\0").upper() == b"COMMIT"
