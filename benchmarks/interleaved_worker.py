"""The process that `interleaved.py` starts for a source tree: it runs slices of cases with the package of that tree."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING

import peers

if TYPE_CHECKING:
    from candidates import Input

PLACES = {"sqlite": "sqlite:///{}/memory.db", "directory": "{}/memory"}
NAMES = {name: name for name in ("create", "view", "str_replace", "insert", "rename", "delete")}
NAMES |= {"list": "list-1000", "range": "range-of-900000"}
CASES = {name: next(case for case in peers.CASES if case.name == peer) for name, peer in NAMES.items()}
REPEATS = 5  # of a case that has one command a slice
Request = tuple[str, str, int]
"""A case, a place, and the running number of the slice over all rounds."""
Execute = Callable[["Input"], object]


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is measured."""

    memories: int
    lines: int
    calls: int
    slices: int
    rounds: int

    def with_rounds(self, rounds: int | None) -> Size:
        """The same with another number of rounds."""
        return replace(self, rounds=rounds or self.rounds)

    def to_json(self) -> dict[str, int]:
        """The keyword arguments of this size."""
        return asdict(self)

    @property
    def scale(self) -> peers.Scale:
        """As the cases of `peers.py` take it; a store that shrinks has enough for all slices of all rounds."""
        return peers.Scale(
            memories=self.memories,
            listing=0,
            lines=self.lines,
            large_bytes=0,
            rounds=self.rounds * (self.slices + 1) - 1,
            calls=self.calls,
            slow_rounds=0,
        )


class Stores:
    """The stores of one tree, opened at their first use in this process and filled at their first use ever."""

    def __init__(self, package: str, folder: Path, size: Size, stack: ExitStack, *, processor: bool) -> None:
        self._open = importlib.import_module(package).open
        self._folder = folder
        self._scale = size.scale
        self._stack = stack
        self._now = process_time_ns if processor else perf_counter_ns
        self._opened: dict[tuple[str, str], Execute] = {}

    def run(self, name: str, place: str, slice_: int) -> list[int]:
        """The times of the calls of one slice in nanoseconds. Raises `ValueError` if a command is refused."""
        case = CASES[name]
        execute = self._opened.get((case.store, place)) or self._store(case.store, place)
        commands = case.commands(self._scale, slice_) * (REPEATS if case.slow else 1)
        os.sync()
        times, replies, now = [], [], self._now
        for command in commands:
            start = now()
            reply = execute(command)
            times.append(now() - start)
            replies.append(reply)
        refused = [getattr(reply, "text", "") for reply in replies if getattr(reply, "is_error", True)]
        if refused:
            raise ValueError(f"{name} on {place}: {refused[0]}")
        return times

    def _store(self, contents: str, place: str) -> Execute:
        folder = self._folder / place / contents
        new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        opened = self._stack.enter_context(self._open(PLACES[place].format(folder.resolve()), max_memory_bytes=0))
        execute: Execute = opened.store().execute
        for command in peers.CONTENTS[contents](self._scale) if new else ():
            execute(command)
        self._opened[contents, place] = execute
        return execute


def main() -> None:
    """Answer requests, a JSON line each, until stdin ends."""
    settings = json.loads(sys.argv[1])
    with ExitStack() as stack:
        stores = Stores(
            settings["package"],
            Path(settings["folder"]),
            Size(**settings["size"]),
            stack,
            processor=settings["processor"],
        )
        for line in sys.stdin:
            print(json.dumps(stores.run(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
