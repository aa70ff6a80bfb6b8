"""Network faults and their schedules: one per connection, or a sequence over all connections."""

from __future__ import annotations

import random
import threading
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
    """Fault of a connection, at the n-th message or the n-th commit of its client.

    `before`: the server never receives the message. `answer`: the server executes the message, but the client gets no
    response. `reset` sends an RST to both sides, and `close` a FIN. `silent`: no more bytes pass, and both sides stay
    open. `late`: the message arrives after `seconds`, whether or not the client still waits.
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
        """True for silent and late faults, which apply to messages sent together as a whole. A reset can split them."""
        return self.action in ("silent", "late")


class Plan:
    """Faults in a fixed order, each counted from the previous fault over the messages of all connections.

    The order does not depend on the way in which a client spreads its work over connections, which the scheduler
    decides. Every fault occurs if the clients send enough messages.
    """

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = list(faults)
        self._under_way = 0
        self._seen = 0
        self._lock = threading.Lock()

    def for_connection(self) -> Plan:
        """Return the plan of a new connection."""
        return self

    @property
    def pending(self) -> bool:
        """True until the last fault has occurred."""
        with self._lock:
            return bool(self._faults) or self._under_way > 0

    @property
    def next(self) -> Fault | None:
        """The next fault that has not occurred yet."""
        with self._lock:
            return self._faults[0] if self._faults else None

    def due(self, *, commits: bool, flights: bool) -> Fault | None:
        """Return the fault for this message or, if `flights` is true, for these messages that were sent together."""
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
        """Record that a due fault occurred."""
        with self._lock:
            self._under_way -= 1

    def missed(self, fault: Fault) -> None:
        """Make a due fault pending again: its connection ended before the response."""
        with self._lock:
            self._under_way -= 1
            self._faults.insert(0, fault)


class Once(Plan):
    """One fault that occurs once on each connection."""

    def __init__(self, fault: Fault) -> None:
        super().__init__([fault])

    def for_connection(self) -> Plan:
        return Plan(self._faults)


NO_FAULTS = Plan()


def every_kind(seed: int, *, messages: int, commits: int, late_s: float, times: int = 1) -> list[Fault]:
    """Return `times` faults of every kind, in an order and with gaps that depend on the seed.

    A gap is at most `messages` messages or `commits` commits. Late messages are delayed by at most `late_s`.
    """
    rng = random.Random(seed)
    kinds = [(at, moment, action) for at in EVENTS for moment in MOMENTS for action in ACTIONS] * times
    rng.shuffle(kinds)
    most = {"message": messages, "commit": commits}
    return [
        Fault(at, rng.randint(1, most[at]), moment, action, rng.choice((late_s, rng.uniform(0, late_s / 4))))
        for at, moment, action in kinds
    ]
