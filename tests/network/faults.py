"""Faults of connections, and when they come: once on each connection, or one after the other over all of them."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Action: TypeAlias = Literal["reset", "close", "silent", "late"]
At: TypeAlias = Literal["message", "commit"]
Moment: TypeAlias = Literal["before", "answer"]
ACTIONS: tuple[Action, ...] = ("reset", "close", "silent", "late")
MOMENTS: tuple[Moment, ...] = ("before", "answer")
EVENTS: tuple[At, ...] = ("message", "commit")


@dataclass(frozen=True)
class Fault:
    """One fault, at the client's n-th message or n-th commit.

    `before`: the server never gets it. `answer`: the server did it, and the client does not hear so.
    `reset` is a RST to both sides, `close` a FIN; `silent`: from then on nothing gets through, and nobody is told;
    `late`: it gets there after `seconds`, whether or not the client still waits.
    """

    at: At
    number: int
    moment: Moment
    action: Action
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.action}, {self.moment} {self.at}"

    @property
    def between_flights(self) -> bool:
        """A path goes silent or slow between messages that are sent together; a reset may cut them apart."""
        return self.action in ("silent", "late")


class Plan(ABC):
    """Decides for each message of a client whether a fault is due. Connections ask from threads of their own."""

    def for_connection(self) -> Plan:
        """The plan that one new connection asks."""
        return self

    @property
    @abstractmethod
    def next(self) -> Fault | None:
        """The fault that the plan waits for."""

    @abstractmethod
    def due(self, *, commits: bool, flights: bool) -> Fault | None:
        """The fault to do at this message, or with `flights` at these messages sent together."""

    @abstractmethod
    def done(self) -> None:
        """Note that a fault that was due was done."""

    @abstractmethod
    def missed(self, fault: Fault) -> None:
        """Take back a fault that was due: its connection ended before the answer came."""


class Once(Plan):
    """One fault, once on each connection; or none."""

    def __init__(self, fault: Fault | None) -> None:
        self._fault = fault
        self._left = fault.number if fault else 0

    def for_connection(self) -> Plan:
        return Once(self._fault)

    @property
    def next(self) -> Fault | None:
        return self._fault if self._left > 0 else None

    def due(self, *, commits: bool, flights: bool) -> Fault | None:
        fault = self.next
        if fault is None or (fault.at == "commit" and not commits):
            return None
        self._left -= 1
        return fault if self._left == 0 else None

    def done(self) -> None:
        """Nothing to note: a connection meets its fault once."""

    def missed(self, fault: Fault) -> None:
        """Nothing to take back: the connection it was for has ended."""


class InTurn(Plan):
    """Faults in a fixed order. Each counts the messages of all connections since the one before it.

    How a client spreads its work over connections is up to the scheduler. This plan does not depend on it: as long as
    clients go on, every fault is met.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = list(faults)
        self._under_way = 0
        self._seen = 0
        self._lock = threading.Lock()

    @property
    def pending(self) -> bool:
        """True until the last fault was done."""
        with self._lock:
            return bool(self._faults) or self._under_way > 0

    @property
    def next(self) -> Fault | None:
        with self._lock:
            return self._faults[0] if self._faults else None

    def due(self, *, commits: bool, flights: bool) -> Fault | None:
        with self._lock:
            if not self._faults:
                return None
            fault = self._faults[0]
            if (fault.at == "commit" and not commits) or (fault.between_flights and not flights):
                return None
            self._seen += 1
            if self._seen < fault.number:
                return None
            self._seen = 0
            self._under_way += 1
            return self._faults.pop(0)

    def done(self) -> None:
        with self._lock:
            self._under_way -= 1

    def missed(self, fault: Fault) -> None:
        with self._lock:
            self._under_way -= 1
            self._faults.insert(0, fault)


NO_FAULTS = Once(None)


def every_kind(seed: int, *, messages: int, commits: int, late_s: float, times: int = 1) -> list[Fault]:
    """All kinds of faults so many times each, in an order and with gaps that follow from the seed.

    Gaps are at most so many messages or commits. The late ones are up to `late_s` late.
    """
    rng = random.Random(seed)
    kinds = [(at, moment, action) for at in EVENTS for moment in MOMENTS for action in ACTIONS] * times
    rng.shuffle(kinds)
    most = {"message": messages, "commit": commits}
    return [
        Fault(at, rng.randint(1, most[at]), moment, action, rng.choice((late_s, rng.uniform(0, late_s / 4))))
        for at, moment, action in kinds
    ]
