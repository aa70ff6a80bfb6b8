"""Clients of the simulation: choice of store and command, and the expected memories."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import accumulate
from random import Random
from time import perf_counter_ns
from typing import TYPE_CHECKING

from candidates import Input, create, edit, memory_text, state

if TYPE_CHECKING:
    from retentive import MemoryStore, Retentive

SKEW = 1.1  # of Zipf's law over the stores: of 100,000 the first gets one command in eight
REOPENED = 0.05  # agents come and go: so often a client opens its store anew
CHECKED_STORES = 100
MIX = {
    "view": 50.0,
    "list": 10.0,  # a view of the root, with which every agent begins
    "str_replace": 15.0,
    "insert": 10.0,
    "create": 10.0,
    "delete": 2.5,
    "rename": 2.5,
}
"""How many of 100 commands are of each kind."""
OPEN = "open"
"""Getting a store by its key: timed like a command, but none."""

_WEIGHTS = list(accumulate(MIX.values()))
_NAMES = ("note", "moved")


def store_key(number: int) -> str:
    """Key of a store."""
    return f"agent-{number:07d}"


def path(number: int, name: str = _NAMES[0]) -> str:
    """Path of a memory; a rename switches between its two names."""
    return f"/memories/{name}-{number:04d}.md"


class Popularity:
    """Choice of the next store. Some stores are used often and most seldom, independent of their age."""

    def __init__(self, stores: int) -> None:
        self._stores = list(range(stores))
        Random(stores).shuffle(self._stores)
        self._weights = list(accumulate((rank + 1) ** -SKEW for rank in range(stores)))

    def pick(self, random: Random) -> int:
        """Number of the next store."""
        return random.choices(self._stores, cum_weights=self._weights)[0]


@dataclass(frozen=True, slots=True)
class Note:
    """State of one memory of a client: its path and its number of edits."""

    path: str
    edits: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """Command to send, and the state of memory `number` if it succeeds (None: deleted)."""

    kind: str
    command: Input
    number: int
    after: Note | None


@dataclass(slots=True)
class Slice:
    """Work of one client or of all clients in a slice."""

    times_ns: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    span_ns: int = 0

    def add(self, other: Slice) -> None:
        """Add the work of another client in the same slice."""
        for kind, times in other.times_ns.items():
            self.times_ns[kind] += times
        self.errors += other.errors
        self.span_ns = max(self.span_ns, other.span_ns)

    def commands(self) -> list[int]:
        """Times of all commands."""
        return [took for kind in MIX for took in self.times_ns[kind]]


@dataclass(frozen=True)
class Length:
    """Length of a slice: seconds, or a number of commands."""

    seconds: float
    commands: int | None = None

    def part(self, share: float) -> Length:
        """Fraction of this length, at least one command."""
        return Length(self.seconds * share, self.commands and math.ceil(self.commands * share))

    def reached(self, elapsed_ns: int, commands: int) -> bool:
        """True once the length is reached."""
        return elapsed_ns >= self.seconds * 1e9 if self.commands is None else commands >= self.commands


class Client:
    """Client of all stores of a location. It shares the stores with other clients and has its own memories in each.

    So it always knows what its commands must meet, and no reply is an error unless something is wrong.
    """

    def __init__(self, number: int, *, clients: int, memories: int) -> None:
        self._random = Random(number)
        self._own = range(number, 2 * max(memories, clients), clients)
        self._filled = memories
        self._stores: dict[int, MemoryStore] = {}
        self._notes: dict[int, dict[int, Note]] = {}
        self._written = 0

    def work(self, opened: Retentive, popular: Popularity, length: Length) -> Slice:
        """Send commands for this length."""
        done, sent = Slice(), 0
        began = before = perf_counter_ns()
        while not length.reached(before - began, sent):
            sent += 1
            number = popular.pick(self._random)
            store = self._open(opened, number, done)
            notes = self._known(number)
            step = self._plan(notes)
            start = perf_counter_ns()
            reply = store.execute(step.command)
            before = perf_counter_ns()
            done.times_ns[step.kind].append(before - start)
            if reply.is_error:
                done.errors[reply.code or "unnamed"] += 1
            elif step.after is not None:
                notes[step.number] = step.after
            else:
                notes.pop(step.number, None)
        done.span_ns = before - began
        return done

    def wrong(self, opened: Retentive) -> list[str]:
        """Memories that differ from their expected state, as `key path`, in the last stores changed."""
        found = []
        for number in list(self._notes)[:CHECKED_STORES]:
            store = opened.store(store_key(number))
            there = {memory.path for memory in store.memories()}
            mine = {path(own, name) for own in self._own for name in _NAMES}
            left = {note.path: note for note in self._known(number).values()}
            astray = (there & mine) ^ left.keys()
            changed = {at for at in left.keys() & there if state(left[at].edits) not in store.read(at)}
            found += [f"{store_key(number)} {at}" for at in sorted(astray | changed)]
        return found

    def _open(self, opened: Retentive, number: int, done: Slice) -> MemoryStore:
        store = self._stores.get(number)
        if store is None or self._random.random() < REOPENED:
            start = perf_counter_ns()
            store = opened.store(store_key(number))
            done.times_ns[OPEN].append(perf_counter_ns() - start)
            self._stores[number] = store
        return store

    def _known(self, number: int) -> dict[int, Note]:
        """Own memories in a store, by number."""
        if number not in self._notes:
            self._notes[number] = {own: Note(path(own)) for own in self._own if own < self._filled}
        return self._notes[number]

    def _plan(self, notes: dict[int, Note]) -> Step:
        kind = self._random.choices(list(MIX), cum_weights=_WEIGHTS)[0]
        if kind == "create" or not notes:
            return self._creation(notes)
        number = self._random.choice(list(notes))
        note = notes[number]
        command: Input = {"command": kind, "path": note.path}
        match kind:
            case "list":
                command, after = {"command": "view", "path": "/memories"}, note
            case "str_replace":
                command, after = edit(note.path, note.edits), replace(note, edits=note.edits + 1)
            case "insert":
                command, after = command | {"insert_line": 2, "insert_text": "noted\n"}, note
            case "delete":
                return Step(kind, command, number, None)
            case "rename":
                new = next(at for at in (path(number, name) for name in _NAMES) if at != note.path)
                command, after = {"command": kind, "old_path": note.path, "new_path": new}, replace(note, path=new)
            case _:
                after = note
        return Step(kind, command, number, after)

    def _creation(self, notes: dict[int, Note]) -> Step:
        """Command that creates a missing memory or replaces an existing one: the size of the stores is stable."""
        number = self._random.choice(self._own)
        at = notes[number].path if number in notes else path(number)
        self._written += 1
        return Step("create", create(at, memory_text(self._written)), number, Note(at))
