"""Whether a recorded concurrent history is linearizable: one order explains every reply and keeps to the clock.

After Wing and Gong ("Testing and Verifying Concurrent Objects", 1993) and Lowe ("Testing for Linearizability", 2017):
walk over the calls and returns in time, keep every configuration that is still possible (a state of the memory store,
and which of the commands under way have already taken effect), and let a command take effect only when its return
forces it. Configurations that are equal are looked at once. None left: no order explains the replies.

Pure: no clock, no I/O. The sequential memory store is the model of the laws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from faults.targets import Answer
from laws.model import Model, canonical
from laws.shape import Expected, Wrong, read_shape

State: TypeAlias = tuple[tuple[str, str], ...]  # path and text of every memory, sorted by path
Command: TypeAlias = Mapping[str, object]
Alike: TypeAlias = Callable[[Command, Expected, Answer], bool]
Configuration: TypeAlias = tuple[State, int]  # the integer has bit n if operation n, still under way, took effect

EMPTY: State = ()
MAX_CONFIGURATIONS = 200_000  # some 200 MB; histories of 16 clients stay below 10,000
NOTHING_DONE = (
    "Error: The memory store is unavailable",
    "Error: The memory store is full",
    "Error: Permission denied: ",
)


class UndecidedError(Exception):
    """More configurations are possible at once than the checker keeps."""


@dataclass(frozen=True, eq=False)
class Operation:
    """A command, when it was called and returned (any one clock), and its reply; without a reply, nobody knows."""

    client: str
    command: Command
    called: int
    returned: int = 0
    answer: Answer | None = None

    @cached_property
    def known(self) -> bool:
        """Whether its outcome is. If not, it took effect at any time after its call, or never will."""
        return self.answer is not None and not self.answer.unknown

    @property
    def did_nothing(self) -> bool:
        """Whether the reply says that storage did nothing, so that it fits anywhere."""
        return self.answer is not None and self.answer.is_error and self.answer.text.startswith(NOTHING_DONE)

    @property
    def harmless(self) -> bool:
        """Whether it cannot have changed anything, so that a history without it is explained all the more easily."""
        return self.command.get("command") == "view" or (
            self.known and self.answer is not None and self.answer.is_error
        )


@dataclass(frozen=True)
class Failure:
    """Where the search ended: `before` led to `state` and no other, and from there `operations` have no order.

    `last` is the one whose reply does not fit, when all others that returned before it do.
    """

    before: Sequence[Operation]
    state: State
    operations: Sequence[Operation]
    last: Operation
    reached: Sequence[State]  # the states in which `last` could have taken effect, had it got another reply


def exactly(_command: Command, expected: Expected, answer: Answer) -> bool:
    """The reply is what the specification says, byte for byte."""
    return expected.fits(answer.text, is_error=answer.is_error)


def find_failure(history: Sequence[Operation], *, alike: Alike = exactly) -> Failure | None:
    """None if the history is linearizable, begun with an empty memory store. Raises `UndecidedError`."""
    for part in independent(history):
        if failure := Search(part, alike=alike).run():
            return failure
    return None


# -- parts that can be judged apart ------------------------------------------------------------------------------


def touched(command: Command) -> frozenset[str]:
    """The names below the root that a command looks at or changes; `""` is the root, which is all of them."""
    try:
        _, values = read_shape(command)
    except Wrong:
        return frozenset()
    paths = [canonical(str(value)) for key, value in values.items() if key.endswith("path")]
    return frozenset("/".join(path.split("/")[2:3]) for path in paths if path is not None)


def independent(history: Sequence[Operation]) -> list[list[Operation]]:
    """The history in parts that share no name below the root: it is linearizable if and only if each part is.

    Listings, directories and memories above a path couple only what lies below one name; renames couple two.
    """
    groups: list[tuple[frozenset[str], list[Operation]]] = []
    for operation in history:
        names = touched(operation.command)
        if "" in names:
            return [list(history)]
        joined = [group for group in groups if group[0] & names]
        groups = [group for group in groups if not group[0] & names]
        members = [member for group in joined for member in group[1]]
        groups.append((names.union(*(group[0] for group in joined)), [*members, operation]))
    return [members for _, members in groups]


# -- the search --------------------------------------------------------------------------------------------------


@dataclass
class Search:
    """One search through the configurations of one history, begun with the memories of `start`."""

    history: Sequence[Operation]
    start: State = EMPTY
    alike: Alike = exactly
    limit: int = MAX_CONFIGURATIONS
    _steps: dict[int, dict[State, State | None]] = field(default_factory=dict)  # of operations under way
    _reached: set[Configuration] = field(default_factory=set)

    def run(self) -> Failure | None:
        """None if some order explains all replies."""
        # An unknown view and a command that storage turned away say nothing and do nothing.
        self.operations = [
            each for each in self.history if not (each.did_nothing or (each.harmless and not each.known))
        ]
        possible: set[Configuration] = {(self.start, 0)}
        certain, under_way = (self.start, 0), list[int]()
        since: list[int] = []  # what was under way when the configuration was last certain, or came later
        for _, returns, number in self._moments():
            if not returns:
                under_way.append(number)
                since.append(number)
                self._steps[number] = {}
                possible = {self._absorb(state, done, [number]) for state, done in possible}
                continue
            possible = self._through(number, possible, under_way)
            if not possible:
                return self._failure(certain, since, number)
            under_way.remove(number)
            del self._steps[number]
            if len(possible) == 1:
                (certain,) = possible
                since = list(under_way)
        return None

    def _moments(self) -> list[tuple[int, bool, int]]:
        """Every call and every known return in time; at the same time, calls first."""
        calls = [(each.called, False, number) for number, each in enumerate(self.operations)]
        returns = [(each.returned, True, number) for number, each in enumerate(self.operations) if each.known]
        return sorted(calls + returns)

    def _through(self, number: int, possible: set[Configuration], under_way: list[int]) -> set[Configuration]:
        """The configurations after operation `number` returned: it took effect, perhaps after others under way."""
        bit = 1 << number
        found: set[Configuration] = set()
        todo, self._reached = list(possible), set(possible)
        while todo:
            state, done = todo.pop()
            if done & bit:
                found.add((state, done ^ bit))
                continue
            for each in under_way:
                after = None if done >> each & 1 else self._step(each, state)
                if after is None or after is state:  # what fits and changes nothing was absorbed
                    continue
                following = self._absorb(after, done | 1 << each, under_way)
                if following not in self._reached:
                    self._reached.add(following)
                    todo.append(following)
            if len(self._reached) > self.limit:
                raise UndecidedError(f"over {self.limit:,} configurations at once")
        return found

    def _absorb(self, state: State, done: int, under_way: list[int]) -> Configuration:
        """With all that fits here and changes nothing: it may as well take effect now as later."""
        for each in under_way:
            if not done >> each & 1 and self.operations[each].known and self._step(each, state) is state:
                done |= 1 << each
        return state, done

    def _step(self, number: int, state: State) -> State | None:
        """The state after an operation, the very same object if nothing changed; None if its reply was another."""
        steps = self._steps[number]
        if state not in steps:
            steps[state] = self._run(self.operations[number], state)
        after = steps[state]
        return state if after == state else after

    def _run(self, operation: Operation, state: State) -> State | None:
        model = Model(tree=dict(state))
        expected = model.execute(operation.command)
        if operation.known and operation.answer and not self.alike(operation.command, expected, operation.answer):
            return None
        return tuple(sorted(model.tree.items())) if model.changes else state

    def _failure(self, certain: Configuration, since: list[int], number: int) -> Failure:
        state, done = certain
        last = self.operations[number]
        operations = [self.operations[each] for each in since if not done >> each & 1]
        before = [each for each in self.operations if each.called <= last.returned and each not in operations]
        reached = sorted({state for state, done in self._reached if not done >> number & 1})
        return Failure(before, state, operations, last, reached)
