"""Ratio of the time of each command in a large memory store to that in a small one, in the same location.

    python benchmarks/growth.py [--quick] [--only NAME ...] [--memories N] [--versions N] [--stores N]

The location has a small memory store of 1,000 memories with one version each, one of many memories with one version
each, and one of 1,000 memories with many versions. Each directory has 100 memories of 1 KB, so that all stores answer
with texts and listings of the same size. The fourth column is the small store again, in a location of many stores. A
command runs in all of them in turns, in changing order, so that other load on the machine hits all; the ratio is the
median of the ratios of adjacent slices.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

import retentive
from candidates import create, edit, memory_text
from figures import duration, parser, report, table, workplace
from places import checked, places
from retentive import MemoryStore, Retentive
from retentive.storage.contract import Transaction, create_or_update

SMALL, PER_DIRECTORY, BATCH, CALLS = 1_000, 100, 500, 10
SIZES = {  # memories, versions, stores, slices
    "full": (100_000, 1_000_000, 100_000, 30),
    "quick": (10_000, 100_000, 10_000, 15),
    "tiny": (2_000, 2_000, 5, 2),
}


@dataclass
class Subject:
    """One memory store under measurement, with the numbers of the edits that it has seen."""

    store: MemoryStore
    memories: int
    edits: dict[str, int] = field(default_factory=dict)
    made: int = 0

    def some_path(self, draw: random.Random) -> str:
        """A random memory."""
        return path_of(draw.randrange(self.memories))

    def some_directory(self, draw: random.Random) -> str:
        """A random directory."""
        return self.some_path(draw).rpartition("/")[0]

    def edit(self, draw: random.Random) -> None:
        """Edit a random memory of those that the filling left at their first state."""
        path = self.some_path(draw)
        checked(self.store, edit(path, self.edits.get(path, 0)))
        self.edits[path] = self.edits.get(path, 0) + 1

    def create(self, draw: random.Random) -> None:
        """Create a memory in a random directory."""
        self.made += 1
        checked(self.store, create(f"{self.some_directory(draw)}/new-{self.made}.md", memory_text(self.made)))

    def rename(self, draw: random.Random) -> None:
        """Rename a memory, and rename it back in the next call."""
        pair = "/memories/0000/moved.md", "/memories/0000/01.md"
        old, new = pair if self.edits.get("moved") else pair[::-1]
        checked(self.store, {"command": "rename", "old_path": old, "new_path": new})
        self.edits["moved"] = 1 - self.edits.get("moved", 0)

    def delete(self, draw: random.Random) -> None:
        """Delete a memory that `create` would not name; it is made before the measurement."""
        self.made += 1
        checked(self.store, {"command": "delete", "path": f"/memories/gone/{self.made}.md"})

    def view(self, path: str) -> None:
        """View a memory or a directory."""
        checked(self.store, {"command": "view", "path": path})


COMMANDS: dict[str, Callable[[Subject, random.Random], object]] = {
    "view": lambda subject, draw: subject.view(subject.some_path(draw)),
    "view of a directory of 100": lambda subject, draw: subject.view(subject.some_directory(draw)),
    "view of the root": lambda subject, _: subject.view("/memories"),
    "str_replace": Subject.edit,
    "create": Subject.create,
    "rename": Subject.rename,
    "delete": Subject.delete,
    "log of the store": lambda subject, _: subject.store.history.log(limit=20),
    "log of one memory": lambda subject, draw: subject.store.history.log(subject.some_path(draw), limit=1),
}


def path_of(number: int) -> str:
    """Path of a memory: 100 in a directory."""
    return f"/memories/{number // PER_DIRECTORY:04}/{number % PER_DIRECTORY:02}.md"


def filled(store: MemoryStore, memories: int, versions: int, deletions: int) -> Subject:
    """A store of `memories` memories and `versions` versions in total. The last version of each is its first."""
    texts = memory_text(0).encode(), memory_text(1).encode()
    rounds = versions // memories
    for start in range(0, rounds * memories, BATCH):

        def work(tx: Transaction, start: int = start) -> None:
            for number in range(start, min(start + BATCH, rounds * memories)):
                path, is_last = path_of(number % memories), (rounds - number // memories) % 2
                tx.record([create_or_update(tx.get(path).memory, path, texts[1 - is_last])], None)

        store._core.backend.write(store.id, work)
    for number in range(deletions):
        checked(store, create(f"/memories/gone/{number + 1}.md", memory_text(number)))
    return Subject(store, memories)


def measured(subjects: list[Subject], slices: int) -> Iterator[tuple[str, ...]]:
    """Rows of one location: time in the small store, and ratios. The first slice warms up."""
    for what, command in COMMANDS.items():
        times: list[list[float]] = [[] for _ in subjects]
        for subject in subjects:
            subject.made = 0
        for turn in range(slices + 1):
            order = list(range(len(subjects)))
            random.Random(turn).shuffle(order)
            for at in order:
                draw, took = random.Random(turn * 1_000), []
                for _ in range(CALLS):
                    before = perf_counter_ns()
                    command(subjects[at], draw)
                    took.append(perf_counter_ns() - before)
                times[at] += [median(took) / 1e6] if turn else []
        small, *large = times
        ratios = [median(one / base for one, base in zip(each, small, strict=True)) for each in large]
        yield what, duration(median(small)), *(f"{ratio:.2f}" for ratio in ratios)


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--only", action="append", metavar="NAME", help="only these places")
    for name in ("memories", "versions", "stores"):
        options.add_argument(f"--{name}", type=int, metavar="N", help=f"{name} where there are many")
    chosen = options.parse_args()
    memories, versions, stores, slices = SIZES[chosen.size]
    memories, versions, stores = chosen.memories or memories, chosen.versions or versions, chosen.stores or stores
    sizes = {"small": (SMALL, SMALL), "memories": (memories, memories), "versions": (SMALL, versions)}
    limits: dict[str, Any] = {"max_memories": 0, "max_store_bytes": 0, "list_rows": 1_000}
    tables = []
    kinds = chosen.only or ("sqlite", "directory", "postgresql")

    def crowded(place: Retentive) -> MemoryStore:
        for number in range(stores):
            place.store(f"store-{number}").create("/memories/note.md", "A note.\n")
        return place.store("small")

    def roomy(folder: Path) -> Path:
        folder.mkdir()
        return folder

    with workplace(chosen.dir) as folder:
        (one, other) = (roomy(folder / name) for name in ("one", "many-stores"))
        with places(one, {}, kinds) as urls, places(other, {}, kinds) as others:
            for name, url in urls.items():
                with retentive.open(url, **limits) as place, retentive.open(others[name], **limits) as many:
                    deletions = (slices + 1) * CALLS
                    subjects = [filled(place.store(key), *size, deletions) for key, size in sizes.items()]
                    subjects.append(filled(crowded(many), SMALL, SMALL, deletions))
                    large = (f"{memories:,} memories", f"{versions:,} versions", f"{stores:,} stores")
                    columns = (f"{name}: command", f"small store of {SMALL:,}", *large)
                    tables.append(table(columns, list(measured(subjects, slices))))
    report(chosen, *tables)


if __name__ == "__main__":
    main()
