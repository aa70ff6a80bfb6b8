"""Linearizability checker: one order of the commands must explain every reply and respect real time.

The algorithm follows Wing and Gong ("Testing and Verifying Concurrent Objects", 1993) and Lowe ("Testing for
Linearizability", 2017). It walks over the calls and returns in time order. It keeps every possible configuration, which
is a state of the memory store and the set of pending commands that already took effect. A command takes effect only
when its return requires it. Equal configurations are merged. If no configuration is left, no order explains the
replies.

Commands with unknown outcomes stay pending to the end, so a history with many of them has too many configurations. Then
a second search goes depth first: it follows one configuration to the end of the history before it tries the next. It
finds an order soon if there is one, but it cannot say where a history fails.

The functions are pure, without clock or I/O. The sequential specification is the reference model of the memory tool.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from support.model import Model, canonical
from support.shape import Expected, InvalidCommand, read_shape
from support.targets import Answer

State: TypeAlias = tuple[tuple[str, str], ...]  # path and text of every memory, sorted by path
Command: TypeAlias = Mapping[str, object]
Alike: TypeAlias = Callable[[Command, Expected, Answer], bool]
Configuration: TypeAlias = tuple[State, int]  # bit n is set if the pending operation n took effect

EMPTY: State = ()
MAX_CONFIGURATIONS = 20_000  # about 20 MB; histories of 16 clients need less than 10,000
MAX_VISITS = 200_000  # configurations of one pass of the second search, about 200 MB
NOTHING_DONE = (
    "Error: The memory store is unavailable",
    "Error: The memory store is full",
    "Error: Permission denied: ",
)


class UndecidedError(Exception):
    """Raised if a history has more possible configurations than the checker can keep, so that no result is known."""


@dataclass(frozen=True, eq=False)
class Operation:
    """A command with its reply and the times of its call and its return, by one clock.

    The reply None is an unknown outcome.
    """

    client: str
    command: Command
    called: int
    returned: int = 0
    answer: Answer | None = None

    @cached_property
    def known(self) -> bool:
        """True if the outcome is known.

        A command with an unknown outcome took effect at any time after its call, or never.
        """
        return self.answer is not None and not self.answer.unknown

    @property
    def did_nothing(self) -> bool:
        """True if the reply shows that the storage did not run the command. Such a reply is valid at any position."""
        return self.answer is not None and self.answer.is_error and self.answer.text.startswith(NOTHING_DONE)

    @property
    def harmless(self) -> bool:
        """True if the command changed nothing. A linearizable history stays linearizable without it."""
        return self.command.get("command") == "view" or (
            self.known and self.answer is not None and self.answer.is_error
        )


@dataclass(frozen=True)
class Failure:
    """A failed search: from the only possible `state`, no order of `operations` explains the reply of the last one.

    All operations that returned before it can still be explained. `expected` has the replies that would fit.
    """

    state: State
    operations: Sequence[Operation]
    expected: Sequence[str]

    def __str__(self) -> str:
        """Return the operations in the order of their calls, with the times of call and return in nanoseconds."""
        rows = [
            f"{each.called}-{each.returned} {each.client}: {each.command} -> {each.answer}" for each in self.operations
        ]
        heads = "Not linearizable: no order explains the last reply.", f"Memories before: {dict(self.state)}"
        return "\n".join([*heads, *rows, f"It should have been one of: {self.expected}"])


def why_not(history: Sequence[Operation], *, alike: Alike | None = None) -> str:
    """Return an explanation, or an empty text if the history is linearizable."""
    failure = find_failure(history, alike=alike or exactly)
    return "" if failure is None else str(failure)


def exactly(_command: Command, expected: Expected, answer: Answer) -> bool:
    """Return whether the reply equals the reply of the specification, byte for byte."""
    return expected.fits(answer.text, is_error=answer.is_error)


def find_failure(history: Sequence[Operation], *, alike: Alike = exactly) -> Failure | None:
    """Return None if the history is linearizable from an empty store. Raises `UndecidedError`."""
    for part in independent(history):
        try:
            failure = Search(part, alike=alike).run()
        except UndecidedError:
            if not Search(part, alike=alike).has_order():
                raise
        else:
            if failure:
                return failure
    return None


# -- independent parts -------------------------------------------------------------------------------------------


def touched(command: Command) -> frozenset[str]:
    """Return the names below the root that a command reads or changes.

    `""` stands for the root, which includes all names.
    """
    try:
        _, values = read_shape(command)
    except InvalidCommand:
        return frozenset()
    paths = [canonical(str(value)) for key, value in values.items() if key.endswith("path")]
    return frozenset("/".join(path.split("/")[2:3]) for path in paths if path is not None)


def independent(history: Sequence[Operation]) -> list[list[Operation]]:
    """Split the history into parts without common names. It is linearizable if and only if each part is.

    A listing, a directory or a memory depends on one name directly below the root. A rename depends on two such names.
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
    """Search through the configurations of one history. The initial memories are those of `start`."""

    history: Sequence[Operation]
    start: State = EMPTY
    alike: Alike = exactly
    limit: int = MAX_CONFIGURATIONS
    _steps: dict[int, dict[State, State | None]] = field(default_factory=dict)  # of pending operations, by state
    _reached: set[Configuration] = field(default_factory=set)
    _gave_up: bool = False

    def run(self) -> Failure | None:
        """Return None if some order explains all replies."""
        possible: set[Configuration] = {(self.start, 0)}
        certain, under_way = (self.start, 0), list[int]()
        since: list[int] = []  # operations called since the last certain configuration, or pending at that time
        for _, returns, number in self._moments():
            if not returns:
                under_way.append(number)
                since.append(number)
                self._steps[number] = {}
                possible = {self._absorb(state, done, [number]) for state, done in possible}
                continue
            possible = set(self._after_return(number, possible, under_way))
            if not possible:
                return self._failure(certain, since, number)
            under_way.remove(number)
            del self._steps[number]
            if len(possible) == 1:
                (certain,) = possible
                since = list(under_way)
        return None

    def has_order(self, *, visits: int = MAX_VISITS) -> bool:
        """Return True if some order explains all replies. Searches depth first. Raises `UndecidedError`.

        A wrong choice can make a later step very wide. The search first gives up such steps early, to try other choices
        before, and then searches again with a higher limit.
        """
        for limit in (100, 1_000, self.limit):
            search = Search(self.history, self.start, self.alike, limit)
            if search._is_explained(visits):
                return True
            if not search._gave_up:
                return False
        raise UndecidedError(f"over {visits:,} configurations in all, or {self.limit:,} at once")

    def _is_explained(self, visits: int) -> bool:
        moments = self._moments()
        under_way: list[list[int]] = [[]]  # numbers of the pending operations before each moment
        for _, returns, number in moments:
            now = under_way[-1]
            under_way.append([each for each in now if each != number] if returns else [*now, number])
        self._steps = {number: {} for number in range(len(self.operations))}
        visited = set[tuple[int, Configuration]]()
        ways = [iter([(self.start, 0)])]  # configurations not tried yet: after no moment, after the first, and so on
        while ways and len(visited) < visits:
            at = len(ways) - 1
            try:
                configuration = next(ways[-1], None)
            except UndecidedError:
                self._gave_up, configuration = True, None
            if configuration is None:
                ways.pop()
            elif at == len(moments):
                return True
            elif (at, configuration) not in visited:
                visited.add((at, configuration))
                ways.append(self._after(*moments[at][1:], configuration, under_way[at]))
        self._gave_up = self._gave_up or bool(ways)
        return False

    def _after(
        self, returns: bool, number: int, configuration: Configuration, under_way: list[int]
    ) -> Iterator[Configuration]:
        if returns:
            return self._after_return(number, {configuration}, [number, *under_way])
        return iter([self._absorb(*configuration, [number])])

    @cached_property
    def operations(self) -> list[Operation]:
        """The history without commands that have no effect.

        These are views with unknown outcomes, and commands that the storage rejected.
        """
        return [each for each in self.history if not (each.did_nothing or (each.harmless and not each.known))]

    def _moments(self) -> list[tuple[int, bool, int]]:
        """Return all calls and known returns in time order. At equal times, calls come first."""
        calls = [(each.called, False, number) for number, each in enumerate(self.operations)]
        returns = [(each.returned, True, number) for number, each in enumerate(self.operations) if each.known]
        return sorted(calls + returns)

    def _after_return(self, number: int, possible: set[Configuration], under_way: list[int]) -> Iterator[Configuration]:
        """Yield the configurations after operation `number`, which may take effect after other pending operations.

        The first ones are those in which the fewest pending operations took effect.
        """
        bit = 1 << number
        todo, self._reached = deque(possible), (reached := set(possible))
        while todo:
            state, done = todo.popleft()
            if done & bit:
                yield state, done ^ bit
                continue
            for each in under_way:
                after = None if done >> each & 1 else self._step(each, state)
                if after is None or after is state:  # matching operations that change nothing are already included
                    continue
                following = self._absorb(after, done | 1 << each, under_way)
                if following not in reached:
                    reached.add(following)
                    todo.append(following)
            if len(reached) > self.limit:
                raise UndecidedError(f"over {self.limit:,} configurations at once")

    def _absorb(self, state: State, done: int, under_way: Sequence[int]) -> Configuration:
        """Add all operations that match this state and change nothing. They can take effect now as well as later."""
        for each in under_way:
            if not done >> each & 1 and self.operations[each].known and self._step(each, state) is state:
                done |= 1 << each
        return state, done

    def _step(self, number: int, state: State) -> State | None:
        """Return the state after an operation, or None if the reply does not fit.

        An unchanged state is the same object.
        """
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
        operations = [self.operations[each] for each in since if each != number and not done >> each & 1]
        last = self.operations[number]
        reached = sorted({state for state, done in self._reached if not done >> number & 1})
        answers = [Model(tree=dict(state)).execute(last.command) for state in reached]
        expected = dict.fromkeys(answer.text or f"{answer.start}..." for answer in answers)
        return Failure(state, [*operations, last], list(expected))
