"""Edits from many threads under faults, and the verification of the stored result.

Every edit writes a unique token. The current texts and the versions therefore show whether an edit was applied, how
often, and whether a later command lost it.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import retentive
from retentive import MemoryStore, Retentive

EDITS_OF_A_MEMORY = 20  # per worker and memory, so that texts stay small
CLEAR = {None, "unavailable", "outcome_unknown"}
"""Reply codes that are allowed during faults: success, no change, or an unknown outcome."""
LAST_LINE = "end of the list\n"


@dataclass(frozen=True)
class EditOutcome:
    """Outcome of one edit: the reply, the start and the duration."""

    token: str
    path: str
    code: str | None
    text: str
    began: float
    took_s: float


@dataclass
class Load:
    """Load of `workers` threads with `count` edits each. Worker n uses `opened[n]`, modulo the length of `opened`."""

    opened: Sequence[Retentive]
    workers: int
    count: int
    name: str = "t"
    outcomes: list[EditOutcome] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)
    go_on: Callable[[], bool] = lambda: True
    """Called before each edit. A worker ends early when it returns false."""

    def run(self, *, deadline_s: float) -> None:
        """Run all edits. Raises `AssertionError` if a thread hangs."""
        stores = [each.store() for each in self.opened]
        threads = [
            threading.Thread(target=self._work, args=(stores[worker % len(stores)], worker), daemon=True)
            for worker in range(self.workers)
        ]
        for thread in threads:
            thread.start()
        end = time.monotonic() + deadline_s
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0))
        assert not any(thread.is_alive() for thread in threads), f"a thread hangs, after {len(self.outcomes)} edits"

    def _work(self, store: MemoryStore, worker: int) -> None:
        try:
            for number in range(self.count):
                if not self.go_on():
                    return
                self.outcomes.append(edit(store, self.name, worker, number))
        except BaseException:  # an error of a driver or a bug, which the test reports
            self.raised.append(traceback.format_exc())

    @property
    def codes(self) -> Counter[str | None]:
        """Number of replies by code."""
        return Counter(each.code for each in self.outcomes)

    @property
    def slowest_s(self) -> float:
        """Duration of the slowest call."""
        return max((each.took_s for each in self.outcomes), default=0.0)

    def memories(self) -> set[str]:
        """Paths of the shared memories."""
        return {shared_path(self.name, number) for number in range(self.count)}


def prepare(place: str, load: Load) -> None:
    """Create the shared memories through a direct connection to the server."""
    with retentive.open(place) as opened:
        make_memories(opened.store(), load)


def make_memories(store: MemoryStore, load: Load) -> None:
    """Create the shared memories."""
    for path in sorted(load.memories()):
        reply = store.execute({"command": "create", "path": path, "file_text": LAST_LINE})
        assert not reply.is_error, reply.text


def shared_path(name: str, number: int) -> str:
    """Return the path of the shared memory for edits with this number."""
    return f"/memories/{name}/shared/{number // EDITS_OF_A_MEMORY}.md"


def edit(store: MemoryStore, name: str, worker: int, number: int) -> EditOutcome:
    """Run one edit: create a memory, or add a line to a shared one with insert or str_replace."""
    token = f"{name}-{worker}-{number};"
    shared = shared_path(name, number)
    own = f"/memories/{name}/own/{worker}/{number}.md"
    commands: tuple[dict[str, object], ...] = (
        {"command": "insert", "path": shared, "insert_line": 0, "insert_text": token},
        {"command": "create", "path": own, "file_text": token},
        {"command": "str_replace", "path": shared, "old_str": LAST_LINE, "new_str": f"{token}\n{LAST_LINE}"},
    )
    command = commands[number % 3]
    began = time.monotonic()
    reply = store.execute(command)
    return EditOutcome(token, str(command["path"]), reply.code, reply.text, began, time.monotonic() - began)


# -- verification ---------------------------------------------------------------------------------------------------


def judge(place: str, load: Load) -> list[str]:
    """Return the problems, read through a direct connection to the server."""
    with retentive.open(place) as opened:
        return faults(opened.store(), load)


def faults(store: MemoryStore, load: Load) -> list[str]:
    """Compare the stored edits with the replies, and return the problems."""
    problems: list[str] = []
    stored = Counter[str]()
    for path in load.memories() | {outcome.path for outcome in load.outcomes}:
        tokens, version_problems = history_of(store, path)
        stored.update(tokens)
        problems += version_problems
    for outcome in load.outcomes:
        problems += count_problems(outcome, stored.pop(outcome.token, 0))
    problems += [f"{token} is stored, but no worker wrote it" for token in stored]
    problems += [
        f"{outcome.token} got the reply {outcome.text}" for outcome in load.outcomes if outcome.code not in CLEAR
    ]
    return [f"raised: {error}" for error in load.raised] + problems


def count_problems(outcome: EditOutcome, times: int) -> Iterator[str]:
    """Yield the problems if a text contains the edit this many times."""
    if times > 1:
        yield f"{outcome.token} was applied {times} times"
    if outcome.code is None and times == 0:
        yield f"{outcome.token} was acknowledged and is lost"
    if outcome.code == "unavailable" and times:
        yield f"{outcome.token} got the reply unavailable, but is stored"


def history_of(store: MemoryStore, path: str) -> tuple[Counter[str], list[str]]:
    """Return the current tokens, and problems in the versions: each version must add one token and remove none."""
    before, wrong = Counter[str](), []
    versions = list(store.versions(path=path))
    for version in reversed(versions):
        text = store.version_text(version.id)
        after = tokens_in(text)
        added, gone = after - before, before - after
        first = version.operation == "created" and LAST_LINE in text
        if gone or added.total() != (0 if first else 1):
            wrong.append(f"version {version.revision} of {path} adds {dict(added)} and loses {dict(gone)}")
        before = after
    if versions and tokens_in(store.read(path)) != before:
        wrong.append(f"the present text of {path} is not that of its newest version")
    return before, wrong


def tokens_in(text: str) -> Counter[str]:
    """Count the tokens in a text."""
    return Counter(line for line in text.splitlines() if line.endswith(";"))
