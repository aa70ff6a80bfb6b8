"""Ratio of the time of each command in a large memory store to that in a small one, in the same location.

    python benchmarks/growth.py [--quick] [--json FILE] [--only NAME ...] [--memories N] [--versions N]

The location has three memory stores: a small one of 1,000 memories with one version each, one of many memories with one
version each, and one of 1,000 memories with many versions. Each directory has 100 memories of 1 KB, so that all stores
answer with texts and listings of the same size. A command runs in all three in turns, in changing order, so that other
load on the machine hits all of them; `ratio` is the median of the ratios of adjacent slices. The ratio of the processor
time of this process is less disturbed by other load, but leaves out the work of a database server.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter_ns, process_time_ns

import retentive
from candidates import create, edit, memory_text
from figures import Sheet, announce, duration, judged, parser, steps, surroundings, workplace, write_json
from places import checked, places
from retentive import MemoryStore, Retentive
from retentive.storage.contract import Transaction, create_or_update

AT_MOST = 1.3
STORES = ("small", "memories", "versions")
SMALL = 1_000
PER_DIRECTORY = 100
_BATCH = 500
_READ_ALL = """
import sys, retentive
with retentive.open(sys.argv[1], max_memories=0, max_store_bytes=0) as opened:
    store = opened.store(sys.argv[2])
    for path in ("/memories", "/memories/0000", "/memories/0000/00.md"):
        assert not store.execute({"command": "view", "path": path}).is_error
    assert store.versions(limit=100) and store.usage().memories
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Size of the large stores, and number of slices and of calls in each."""

    memories: int
    versions: int
    slices: int
    calls: int


SCALES = {
    "full": Scale(memories=100_000, versions=1_000_000, slices=30, calls=10),
    "quick": Scale(memories=10_000, versions=100_000, slices=15, calls=8),
    "tiny": Scale(memories=2_000, versions=2_000, slices=2, calls=1),
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

    def edit(self, draw: random.Random) -> None:
        """Edit a random memory of those that the filling left at their first state."""
        path = self.some_path(draw)
        done = self.edits.get(path, 0)
        checked(self.store, edit(path, done))
        self.edits[path] = done + 1

    def insert(self, draw: random.Random) -> None:
        """Insert a line at the top of a random memory."""
        command = {"command": "insert", "path": self.some_path(draw), "insert_line": 0, "insert_text": "A line."}
        checked(self.store, command)

    def create(self, draw: random.Random) -> None:
        """Create a memory in a random directory."""
        self.made += 1
        checked(self.store, create(f"{self._directory(draw)}/new-{self.made}.md", memory_text(self.made)))

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

    def view(self, draw: random.Random) -> None:
        """View a random memory."""
        checked(self.store, {"command": "view", "path": self.some_path(draw)})

    def listing(self, draw: random.Random) -> None:
        """View a random directory."""
        checked(self.store, {"command": "view", "path": self._directory(draw)})

    def root(self, draw: random.Random) -> None:
        """View the root."""
        checked(self.store, {"command": "view", "path": "/memories"})

    def log(self, draw: random.Random) -> None:
        """The newest 20 changes of the store."""
        assert self.store.history.log(limit=20)

    def log_of_one(self, draw: random.Random) -> None:
        """The newest change of a random memory: the small store has no others."""
        assert self.store.history.log(self.some_path(draw), limit=1)

    def usage(self, draw: random.Random) -> None:
        """Number and size of the memories."""
        assert self.store.usage().memories

    def _directory(self, draw: random.Random) -> str:
        return self.some_path(draw).rpartition("/")[0]


COMMANDS: dict[str, Callable[[Subject, random.Random], None]] = {
    "view": Subject.view,
    "view of a directory": Subject.listing,
    "view of the root": Subject.root,
    "str_replace": Subject.edit,
    "insert": Subject.insert,
    "create": Subject.create,
    "rename": Subject.rename,
    "delete": Subject.delete,
    "log": Subject.log,
    "log of one memory": Subject.log_of_one,
    "usage": Subject.usage,
}


def path_of(number: int) -> str:
    """Path of a memory: 100 in a directory."""
    return f"/memories/{number // PER_DIRECTORY:04}/{number % PER_DIRECTORY:02}.md"


def fill(store: MemoryStore, memories: int, versions: int, step: Callable[[str], None]) -> None:
    """Fill a store with `memories` memories and `versions` versions in total. The last version of each is its first."""
    texts = memory_text(0).encode(), memory_text(1).encode()
    rounds = versions // memories
    for start in range(0, rounds * memories, _BATCH):

        def work(tx: Transaction, start: int = start) -> None:
            for number in range(start, min(start + _BATCH, rounds * memories)):
                path, is_last = path_of(number % memories), (rounds - number // memories) % 2
                tx.record([create_or_update(tx.get(path).memory, path, texts[1 - is_last])], None)

        store._core.backend.write(store.id, work)
        step("filling")


def prepared(place: Retentive, scale: Scale, step: Callable[[str], None]) -> list[Subject]:
    """The filled stores, with memories for `delete`."""
    found = []
    sizes = {"small": (SMALL, SMALL), "memories": (scale.memories,) * 2, "versions": (SMALL, scale.versions)}
    for name, (memories, versions) in sizes.items():
        store = place.store(name)
        fill(store, memories, versions, step)
        for number in range(scale.slices * scale.calls + scale.calls):
            checked(store, create(f"/memories/gone/{number + 1}.md", memory_text(number)))
        found.append(Subject(store, memories))
    return found


def slices(
    command: Callable[[Subject, random.Random], None], subjects: Sequence[Subject], scale: Scale
) -> list[list[tuple[float, float]]]:
    """Elapsed and processor time of a call in each slice of each store, in milliseconds. The first slice warms up."""
    found: list[list[tuple[float, float]]] = [[] for _ in subjects]
    order = list(range(len(subjects)))
    for turn in range(scale.slices + 1):
        random.Random(turn).shuffle(order)
        for at in order:
            draw, times = random.Random(turn * 1_000), []
            used = process_time_ns()
            for _ in range(scale.calls):
                before = perf_counter_ns()
                command(subjects[at], draw)
                times.append(perf_counter_ns() - before)
            used = process_time_ns() - used
            if turn:
                found[at].append((median(times) / 1e6, used / scale.calls / 1e6))
    return found


def measured(
    name: str, subjects: Sequence[Subject], scale: Scale
) -> Iterator[tuple[tuple[str, ...], dict[str, object]]]:
    """Rows and records of one location."""
    for what, command in COMMANDS.items():
        for subject in subjects:
            subject.made = 0
        small, *large = slices(command, subjects, scale)
        base_ms = median(one for one, _ in small)
        for kind, taken in zip(STORES[1:], large, strict=True):
            ms = median(one for one, _ in taken)
            ratio = median(one / base for (one, _), (base, _) in zip(taken, small, strict=True))
            cpu_ratio = median(one / base for (_, one), (_, base) in zip(taken, small, strict=True) if base)
            verdict = judged(ratio, AT_MOST, at_most=True)
            row = (name, f"{what}, many {kind}", duration(base_ms), duration(ms), f"{ratio:.2f}", f"{cpu_ratio:.2f}")
            record = {"place": name, "what": what, "store": kind, "small_ms": base_ms, "ms": ms, "ratio": ratio}
            yield (*row, verdict), record | {"processor_ratio": cpu_ratio}


def peak_mib(url: str, key: str) -> float:
    """Peak memory of a process that views the root, a directory and a memory of a store, in MiB."""
    done = subprocess.run([sys.executable, "-c", _READ_ALL, url, key], check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


def main() -> None:
    """Measure, show, and write."""
    options = parser(__doc__)
    options.add_argument("--only", action="append", metavar="NAME", help="only these places")
    options.add_argument("--memories", type=int, metavar="N", help="memories of the store with many")
    options.add_argument("--versions", type=int, metavar="N", help="versions of the store with many")
    chosen = options.parse_args()
    size = SCALES[chosen.size]
    scale = Scale(
        memories=chosen.memories or size.memories,
        versions=chosen.versions or size.versions,
        slices=size.slices,
        calls=size.calls,
    )
    with workplace(chosen.dir) as folder:
        around = surroundings(folder)
        announce(around)
        rows: list[tuple[str, ...]] = []
        records: list[dict[str, object]] = []
        memory: list[tuple[str, ...]] = []
        with places(folder, {}, chosen.only or ("sqlite", "directory", "postgresql")) as found:
            batches = sum(-(-count // _BATCH) for count in (SMALL, scale.memories, scale.versions))
            with steps(len(found) * batches, "growth") as step:
                for name, url in found.items():
                    with retentive.open(url, max_memories=0, max_store_bytes=0, list_rows=1_000) as place:
                        for row, record in measured(name, prepared(place, scale, step), scale):
                            rows.append(row)
                            records.append(record)
                    memory.append((name, *(f"{peak_mib(url, key):.0f} MiB" for key in STORES)))
        title = f"{scale.memories:,} memories, or {scale.versions:,} versions, against {SMALL:,}"
        columns = ("place", "command", "p50, small", "p50, large", "ratio", "processor", f"at most {AT_MOST}")
        peaks = Sheet("Peak memory of a process that views", ("place", *STORES), memory, [])
        sheets = [Sheet(title, columns, rows, records), peaks]
        for each in sheets:
            each.show()
        if chosen.json is not None:
            write_json(chosen.json, "growth", chosen.size, around, sheets)


if __name__ == "__main__":
    main()
