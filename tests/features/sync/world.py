"""Directories that are synchronised with one store, and the promises: both sides become equal, and no text is lost."""

from __future__ import annotations

import os
import random
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import retentive
from retentive import MemoryStore, Mounts, errors
from retentive.sync.session import SyncOptions, SyncReport, opened, watch

NAMES = ("a.md", "b.md", "MEMORY.md", "notes/c.md", "notes/deep/d.md", "e.md")


class Crash(BaseException):
    """Stands for an interrupt at a call of the operating system or of SQLite."""


@dataclass
class Fuse:
    """Calls `effect` at the n-th call that Python audits (open, rename, unlink, mkdir, SQLite), once."""

    left: int = 0
    events: tuple[str, ...] = ()
    effect: Callable[[], None] = lambda: None

    def __call__(self, event: str, _: object) -> None:
        if self.left and event.startswith(self.events):
            self.left -= 1
            if self.left == 0:
                self.effect()


FUSE = Fuse()
sys.addaudithook(FUSE)
FILES = ("open", "os.")
FILES_AND_SQLITE = (*FILES, "sqlite3")


@contextmanager
def after_calls(calls: int, effect: Callable[[], None], events: tuple[str, ...] = FILES_AND_SQLITE) -> Iterator[None]:
    """Call `effect` in the middle of what the block does."""
    FUSE.left, FUSE.events, FUSE.effect = calls, events, effect
    try:
        yield
    finally:
        FUSE.left = 0


def interrupt() -> None:
    raise Crash


@contextmanager
def interrupted_after(calls: int) -> Iterator[None]:
    with suppress(Crash), after_calls(calls, interrupt):
        yield


def killed_after(calls: int, world: World, number: int, *, confirmed: bool) -> bool:
    """True if a process that synchronised a directory was killed at a call; it can end before that call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: the child uses none of them
        process = os.fork()
    if process == 0:
        _synchronise_until_killed(calls, world, number, confirmed=confirmed)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert status in {0, -signal.SIGKILL}, status
    return status != 0


def _synchronise_until_killed(calls: int, world: World, number: int, *, confirmed: bool) -> NoReturn:
    """The child: opens the store by itself, and never returns to the code of its parent."""
    try:
        with retentive.open(world.location) as opened:
            world.store = opened.store()
            with after_calls(calls, lambda: os.kill(os.getpid(), signal.SIGKILL)):
                world.sync(number, confirmed=confirmed)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


@dataclass
class World:
    """A store and its directories. `written` has every text that a person or an agent saved."""

    store: MemoryStore
    directories: list[Path]
    states: Path
    clocks: list[float]
    location: str = "sqlite://"
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


def sync_once(store: MemoryStore | Mounts, directory: str, options: SyncOptions) -> SyncReport:
    with opened(store, directory, options) as session:
        return session.run()


def replaced_unseen(world: World, number: int, before: dict[str, str]) -> None:
    """Texts that a person replaced or deleted before any synchronisation saw them are not ours to keep."""
    after = world.files(number)
    kept = world.history() | {text for each in range(len(world.directories)) for text in world.files(each).values()}
    for name, text in before.items():
        if after.get(name) != text and text not in kept:
            world.written.discard(text)


def act_and_note(world: World, chosen: random.Random, number: int) -> None:
    """One random act; what it replaced before a synchronisation saw it is expected no longer."""
    before = world.files(number)
    act(world, chosen, number)
    replaced_unseen(world, number, before)


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


def sync_tree(memory: MemoryStore | Mounts, directory: Path, **options: bool) -> dict[str, tuple[str, str]]:
    """Synchronise a directory, and return what became of each path, with the side that was changed."""
    return _told(sync_once(memory, str(directory), _options(directory, **options)))


def watched(memory: Mounts, directory: Path, hints: Iterator[bool]) -> list[dict[str, tuple[str, str]]]:
    """Watch a directory until `hints` ends, and return what became of the paths each time."""
    reports: list[SyncReport] = []
    with opened(memory, str(directory), _options(directory)) as session:
        watch(session, hints, reports.append)
    return list(map(_told, reports))


def _options(directory: Path, **options: bool) -> SyncOptions:
    return SyncOptions(machine="m", states=str(directory.parent / "states"), **options)  # type: ignore[arg-type]


def _told(report: SyncReport) -> dict[str, tuple[str, str]]:
    return {each.path.removeprefix("/memories/"): (each.became, each.side) for each in report.outcomes}
