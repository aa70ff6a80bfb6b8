"""Directories that are synchronised with one store, and the promises: both sides become equal, and no text is lost."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from retentive import MemoryStore, errors
from retentive.sync.session import SyncOptions, SyncReport, sync_once

NAMES = ("a.md", "b.md", "MEMORY.md", "notes/c.md", "notes/deep/d.md", "e.md")


class Crash(BaseException):
    """Stands for the end of the process at a call of the operating system or of SQLite."""


@dataclass
class Fuse:
    """Raises `Crash` at the n-th call that Python audits (open, rename, unlink, mkdir, SQLite) while it is lit."""

    left: int = 0

    def __call__(self, event: str, _: object) -> None:
        if self.left and event.startswith(("open", "os.", "sqlite3")):
            self.left -= 1
            if self.left == 0:
                raise Crash


FUSE = Fuse()
sys.addaudithook(FUSE)


@contextmanager
def crashing_after(calls: int) -> Iterator[None]:
    FUSE.left = calls
    try:
        yield
    except Crash:
        pass
    finally:
        FUSE.left = 0


@dataclass
class World:
    """A store and its directories. `written` has every text that a person or an agent saved."""

    store: MemoryStore
    directories: list[Path]
    states: Path
    clocks: list[float]
    written: set[str] = field(default_factory=set)

    def sync(self, number: int, *, confirmed: bool = False) -> SyncReport:
        given = SyncOptions(confirmed=confirmed, machine=f"m{number}", states=str(self.states / str(number)))
        return sync_once(self.store, str(self.directories[number]), given)

    def save(self, number: int, name: str, text: str) -> None:
        """Write a file as an editor does: in place, or to a temporary file that is renamed."""
        path = self.directories[number] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() or any(above.is_file() for above in path.parents):
            return
        self.written.add(text)
        if len(text) % 2:
            path.write_text(text)
        else:
            hidden = path.with_name(f".{path.name}.swp")
            hidden.write_text(text)
            hidden.rename(path)
        self.settle(number, path)

    def settle(self, number: int, path: Path) -> None:
        """Give a file an old time, by the clock of its machine, so that no test waits for it."""
        at = path.stat().st_mtime_ns + int((self.clocks[number] - 60) * 1e9)
        os.utime(path, ns=(at, at))

    def files(self, number: int) -> dict[str, str]:
        root = self.directories[number]
        found = (path for path in sorted(root.rglob("*")) if path.is_file() and not path.name.startswith("."))
        return {str(path.relative_to(root)): path.read_text() for path in found}

    def memories(self) -> dict[str, str]:
        return {each.path.removeprefix("/memories/"): self.store.read(each.path) for each in self.store.memories()}

    def history(self) -> set[str]:
        """Every text in the history of the store."""
        versions = (each for each in self.store.versions() if each.operation != "deleted")
        return {self.store.version_text(version.id) for version in versions}

    def converge(self) -> None:
        """Synchronise all directories until nothing changes."""
        for _ in range(12):
            reports = [self.sync(number, confirmed=True) for number in range(len(self.directories))]
            assert all(report.is_settled for report in reports), reports
            if not any(report.outcomes for report in reports):
                break
        else:
            raise AssertionError(reports)
        for number in range(len(self.directories)):
            assert self.files(number) == self.memories()


def act(world: World, chosen: random.Random, number: int) -> None:
    """One random act of a person in a directory, or of an agent in the store."""
    files, memories = sorted(world.files(number)), sorted(world.memories())
    kind = chosen.choice(
        ["save", "save", "edit", "delete", "rename", "store save", "store edit", "store delete", "move"]
    )
    text = "".join(
        f"line {chosen.randrange(1000)} {'x' * chosen.randrange(5)}\n" for _ in range(chosen.randrange(1, 6))
    )
    root = world.directories[number]
    if kind == "save":
        world.save(number, chosen.choice(NAMES), text)
    elif kind == "edit" and files:
        name = chosen.choice(files)
        world.save(number, name, _edited((root / name).read_text(), text, chosen))
    elif kind == "delete" and files:
        (root / chosen.choice(files)).unlink()
    elif kind == "rename" and files:
        target = root / f"moved-{chosen.randrange(4)}.md"
        if not target.exists():
            (root / chosen.choice(files)).rename(target)
    elif kind.startswith("store") or kind == "move":
        _act_in_store(world, chosen, kind, text, memories)


def _act_in_store(world: World, chosen: random.Random, kind: str, text: str, memories: list[str]) -> None:
    path = f"/memories/{chosen.choice(memories or list(NAMES))}"
    try:
        if kind == "store delete":
            world.store.delete(path)
        elif kind == "move":
            world.store.rename(path, f"/memories/in/{chosen.randrange(4)}.md")
        else:
            text = _edited(world.store.read(path), text, chosen) if kind == "store edit" else text
            world.store.write(f"/memories/{chosen.choice(NAMES)}" if kind == "store save" else path, text)
            world.written.add(text)
    except errors.RetentiveError:
        return  # there is no such memory, or a memory where a directory would be


def _edited(old: str, text: str, chosen: random.Random) -> str:
    lines = old.splitlines(keepends=True)
    at = chosen.randrange(len(lines) + 1)
    return "".join([*lines[:at], text.splitlines(keepends=True)[0], *lines[at + chosen.randrange(2) :]])
