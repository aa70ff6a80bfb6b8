"""Edits that can be told apart, made by many threads through faults; and what must stand of them afterwards.

Every edit writes a token that nothing else writes. So it can be seen in the present texts and in every version whether
an edit was made, how often, and whether it was lost again.
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

EDITS_OF_A_MEMORY = 20  # of each worker; then the next memory, so that texts stay small
CLEAR = {None, "unavailable", "outcome_unknown"}
"""What a client may be told while the way to the server is bad: done, not done, or look before you try again."""
LAST_LINE = "end of the list\n"


@dataclass(frozen=True)
class Told:
    """One edit, what its client was told, and how long that took."""

    token: str
    path: str
    code: str | None
    text: str
    began: float
    took_s: float


@dataclass
class Load:
    """`workers` threads, `count` edits each. They share `opened`, worker n using the n-th in turn."""

    opened: Sequence[Retentive]
    workers: int
    count: int
    name: str = "t"
    told: list[Told] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)
    go_on: Callable[[], bool] = lambda: True
    """Asked before each edit; when it says no, a worker ends early."""

    def run(self, *, deadline_s: float) -> None:
        """Make all edits. Raises `AssertionError` if a thread did not end."""
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
        assert not any(thread.is_alive() for thread in threads), f"a thread hangs, after {len(self.told)} edits"

    def _work(self, store: MemoryStore, worker: int) -> None:
        try:
            for number in range(self.count):
                if not self.go_on():
                    return
                self.told.append(edit(store, self.name, worker, number))
        except BaseException:  # a driver's error, or a bug: for the test to see
            self.raised.append(traceback.format_exc())

    @property
    def codes(self) -> Counter[str | None]:
        """How often each answer was given."""
        return Counter(each.code for each in self.told)

    @property
    def slowest_s(self) -> float:
        """How long the longest call took."""
        return max((each.took_s for each in self.told), default=0.0)

    def memories(self) -> set[str]:
        """The paths of what the workers share."""
        return {shared_path(self.name, number) for number in range(self.count)}


def prepare(place: str, load: Load) -> None:
    """Make the memories that the workers share, straight at the server."""
    with retentive.open(place) as opened:
        make_memories(opened.store(), load)


def make_memories(store: MemoryStore, load: Load) -> None:
    """Make the memories that the workers share."""
    for path in sorted(load.memories()):
        reply = store.execute({"command": "create", "path": path, "file_text": LAST_LINE})
        assert not reply.is_error, reply.text


def shared_path(name: str, number: int) -> str:
    """The memory that edits of this number go to."""
    return f"/memories/{name}/shared/{number // EDITS_OF_A_MEMORY}.md"


def edit(store: MemoryStore, name: str, worker: int, number: int) -> Told:
    """One edit: a memory of its own, or a line put into a shared one, by insert or by str_replace."""
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
    return Told(token, str(command["path"]), reply.code, reply.text, began, time.monotonic() - began)


# -- the judge ---------------------------------------------------------------------------------------------------


def judge(place: str, load: Load) -> list[str]:
    """What is wrong, looking straight at the server."""
    with retentive.open(place) as opened:
        return faults(opened.store(), load)


def faults(store: MemoryStore, load: Load) -> list[str]:
    """What is wrong in what stands there, after what was told; empty if nothing."""
    found: list[str] = []
    standing = Counter[str]()
    for path in load.memories() | {each.path for each in load.told}:
        tokens, wrong = history_of(store, path)
        standing.update(tokens)
        found += wrong
    for each in load.told:
        found += wrong_count(each, standing.pop(each.token, 0))
    found += [f"{token} stands there, and nobody wrote it" for token in standing]
    found += [f"{each.token} was told {each.text}" for each in load.told if each.code not in CLEAR]
    return [f"raised: {each}" for each in load.raised] + found


def wrong_count(told: Told, times: int) -> Iterator[str]:
    """What is wrong if an edit stands there so many times."""
    if times > 1:
        yield f"{told.token} was applied {times} times"
    if told.code is None and times == 0:
        yield f"{told.token} was acknowledged and is lost"
    if told.code == "unavailable" and times:
        yield f"{told.token} was told unavailable, and stands there"


def history_of(store: MemoryStore, path: str) -> tuple[Counter[str], list[str]]:
    """The tokens in the present text of a memory, and what is wrong in its versions: each adds one, none takes any."""
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
    if versions and tokens_in(store.text(path)) != before:
        wrong.append(f"the present text of {path} is not that of its newest version")
    return before, wrong


def tokens_in(text: str) -> Counter[str]:
    """The tokens in a text, with how often each stands there."""
    return Counter(line for line in text.splitlines() if line.endswith(";"))
