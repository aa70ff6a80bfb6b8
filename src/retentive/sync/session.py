"""Synchronises a directory with a memory store, once or continuously, and reports what changed since then."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from retentive.errors import InvalidInput, NotFound, PermissionDenied, RetentiveError
from retentive.storage.contract import Memory
from retentive.storage.disk import expanded
from retentive.store import MemoryStore
from retentive.sync.apply import SyncBecame, SyncOutcome, SyncRound
from retentive.sync.files import FolderScan, LocalFile, Stamp
from retentive.sync.folder import ASIDE, MARKER, NEW, SETTLE_S, Folder, is_ignored
from retentive.sync.plan import alike, plan, respelled
from retentive.sync.state import Base, SyncState, opened_state, refuse_nested, save, saved_state, state_folder
from retentive.values.paths import ROOT
from retentive.values.settings import Settings

MOST_ROUNDS = 20
"""Maximum number of rounds in one call.

Many rounds happen only while other programs keep changing files or memories.
"""
_TRIED_AGAIN: frozenset[SyncBecame] = frozenset({"waits", "refused"})
"""Outcomes of a step that the next round plans again. Only the outcome of the last round counts."""
_OLDER = (
    "the directory is an older copy of itself, as after a restored backup: both sides were united, and nothing was"
    " deleted"
)
MOST_LOOKED_AT = 10_000
MOST_WAITS = 3
"""Maximum number of further scans while files change, each after `SETTLE_S`."""
_CONFLICT = re.compile(r"\.conflict-[A-Za-z0-9-]+-[0-9a-f]{8,64}(?:\.|\Z)")
RESCAN_S, POLL_S = 30.0, 1.0
"""Seconds between two comparisons of the stamps of files, and between two checks for a new version in the store."""
FULL_ROUND_S = 600.0
"""Seconds after which a round runs even if no change was found. An erased or expired memory leaves no newer version."""


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """Options of a synchronisation.

    `ignored` contains patterns in addition to those in the ignore file. `confirmed` carries out the changes that are
    held for a person, and `restoring` undoes them. `dry_run` reports the steps without applying them. `machine` is used
    in the names of conflict copies. `states` is the folder for the state files. `location` is the directory or the
    database file that has the memory store, if it is on this machine.
    """

    ignored: tuple[str, ...] = ()
    confirmed: bool = False
    dry_run: bool = False
    machine: str = ""
    states: str = ""
    restoring: bool = False
    location: str | None = None


@dataclass(frozen=True, slots=True)
class SyncReport:
    """Result of a synchronisation: its outcomes, sorted by path.

    `is_settled` is False if files or memories still changed in the last round.
    """

    outcomes: tuple[SyncOutcome, ...]
    is_settled: bool = True

    @property
    def needs_attention(self) -> bool:
        """True if something was not synchronised, or if a person must merge a conflict."""
        unsolved = {"conflict", "held", "refused", "skipped", "waits"}
        return not self.is_settled or any(outcome.became in unsolved for outcome in self.outcomes)


@dataclass
class SyncSession:
    """Synchronisation of a directory with a memory store. The function `opened` creates a session.

    `is_older` is True if the directory is an older copy of itself. `newest` is the id of the newest version in the
    store. It was read in the last round, right before the memories were listed.
    """

    folder: Folder
    store: MemoryStore
    state: SyncState
    settings: Settings
    options: SyncOptions
    states: str
    is_older: bool = False
    newest: str = ""

    def run(self, progress: Callable[[int], None] = lambda _: None) -> SyncReport:
        """Run rounds until nothing is left to do, and return the outcomes.

        After each round, `progress` is called with the number of outcomes so far. Raises `RetentiveError` if the store
        is unreachable.
        """
        found: dict[tuple[str, ...], SyncOutcome] = {}
        if self.is_older:
            found[("",)] = SyncOutcome(ROOT, "warning", "", _OLDER)
            self.is_older = False
        before = dict(found)
        for _ in range(MOST_ROUNDS):
            scan, outcomes, acted = self._round(dry=self.options.dry_run)
            found = {key: each for key, each in found.items() if each.became not in _TRIED_AGAIN}
            found = dict(before) if self.options.dry_run else found  # a dry run plans again; nothing was done
            found |= {_key(each): each for each in outcomes}
            progress(len(found))
            if not acted and not scan.waiting:
                return self._report(found)
            if not acted:
                time.sleep(SETTLE_S)
        why = "the file changes all the time, or cannot be read"
        waits = [SyncOutcome(path, "waits", "", why) for path in scan.waiting]
        return self._report(found | {_key(each): each for each in waits}, is_settled=False)

    def _report(self, found: Mapping[tuple[str, ...], SyncOutcome], *, is_settled: bool = True) -> SyncReport:
        return SyncReport(tuple(sorted(found.values(), key=lambda each: (each.path, each.became))), is_settled)

    def _round(self, *, dry: bool) -> tuple[FolderScan, list[SyncOutcome], bool]:
        """Run one round. Return the scan, the outcomes, and whether another round may find more to do.

        If `dry` is True, nothing is changed.
        """
        bases = self.state.bases
        ignored = (*self.options.ignored, *self.folder.patterns())
        known = {path: (base.local_sha256, base.stamp) for path, base in bases.items()}
        scan = self.folder.scan(known, ignored, self.settings.max_memory_bytes)
        self.newest = newest_version(self.store)
        memories = {
            memory.path: memory
            for memory in self.store.memories()
            if not is_ignored(memory.path.removeprefix(f"{ROOT}/"), ignored)
        }
        scan = scan.without_editor_files({*bases, *memories})
        clash = alike({*scan.files, *memories} - respelled(bases, scan.files, memories), bases)
        folded = {path.casefold() for path in clash}  # a file with another spelling is not missing
        spelled = {path for path in bases if path not in scan.files and path.casefold() in folded}
        left_out = frozenset({*scan.skipped, *scan.waiting, *clash, *spelled})
        files = {path: file for path, file in scan.files.items() if not _is_in(path, left_out)}
        memories = {path: memory for path, memory in memories.items() if not _is_in(path, left_out)}
        considered = {path: base for path, base in bases.items() if not _is_in(path, left_out)}
        steps = plan(
            considered,
            files,
            memories,
            self._deleted(considered, files, memories),
            removed=self.state.removed_today(),
            confirmed=self.options.confirmed,
            restoring=self.options.restoring,
        )
        outcomes = [SyncOutcome(path, "skipped", "", why) for path, why in scan.skipped.items()]
        outcomes += [
            SyncOutcome(path, "skipped", "", "another path differs only in upper and lower case") for path in clash
        ]
        work = SyncRound(
            self.folder, self.store, self.state, self.settings, self.options.machine, files, memories,
            confirmed=self.options.confirmed,
        )  # fmt: skip
        if dry:
            work.preview(steps)
            return scan, [*outcomes, *work.outcomes], False
        before = (dict(self.state.bases), dict(self.state.offered))
        saved = partial(save, self.state, self.states, self.folder)
        try:
            work.run(steps, saved)
        finally:
            if before != (self.state.bases, self.state.offered):
                saved()
        is_acting = any(each.became not in {"held", "refused", "proposed"} for each in work.outcomes)
        return scan, [*outcomes, *work.outcomes], is_acting

    def _deleted(
        self, bases: Mapping[str, object], files: Mapping[str, LocalFile], memories: Mapping[str, Memory]
    ) -> Iterator[str]:
        """Yield the ids of memories that are missing because they were deleted, according to the history.

        Other memories may be missing because the store was restored from an older backup. Their ids are not yielded.
        """
        present = {memory.id for memory in memories.values()}
        for path in bases:
            if path in files and path not in memories:
                memory_id = self.state.bases[path].memory_id
                versions = [] if memory_id in present else self.store.versions(memory_id=memory_id, limit=1)
                if versions and versions[0].operation == "deleted":
                    yield memory_id


@contextmanager
def opened(store: MemoryStore, directory: str, options: SyncOptions | None = None) -> Iterator[SyncSession]:
    """Open a directory, and yield a session that synchronises it with a memory store.

    Raises `InvalidInput`, `NotFound` or `PermissionDenied` if the directory cannot be synchronised, and `Unavailable`
    if another process is synchronising it.
    """
    given = options or SyncOptions()
    states = given.states or state_folder(os.environ)
    with opened_folder(directory) as folder:
        if Path(os.path.realpath(states)).is_relative_to(os.path.realpath(folder.path)):
            raise InvalidInput("the folder for the state files must not be inside the synchronised directory")
        chosen = replace(given, machine=given.machine or machine_name(), states=states)
        refuse_nested(folder, (*given.ignored, *folder.patterns()), given.location)
        with opened_state(folder, store.id, states, confirmed=given.confirmed, dry=given.dry_run) as (state, is_older):
            session = SyncSession(folder, store, state, store.settings(), chosen, states, is_older)
            if not given.dry_run:
                folder.clean(lambda sha256: any(each.sha256 == sha256 for each in store.versions(limit=MOST_LOOKED_AT)))
            yield session


def check_directory(directory: str, options: SyncOptions) -> None:
    """Raise `InvalidInput` if the directory and a location, or another synchronised directory, lie in one another."""
    with opened_folder(directory) as folder:
        refuse_nested(folder, (*options.ignored, *folder.patterns()), options.location)


@contextmanager
def opened_folder(directory: str) -> Iterator[Folder]:
    """Open the directory, yield it, and close it at the end.

    Raises `NotFound` if the directory does not exist, `InvalidInput` if it is a file, and `PermissionDenied` if it
    cannot be read.
    """
    try:
        folder = Folder(expanded(directory))
    except FileNotFoundError:
        raise NotFound("the directory does not exist; create it first") from None
    except NotADirectoryError:
        raise InvalidInput("the path is a file; only a directory can be synchronised") from None
    except OSError:
        raise PermissionDenied("the directory cannot be read") from None
    try:
        yield folder
    finally:
        folder.close()


def sync_once(store: MemoryStore, directory: str, options: SyncOptions | None = None) -> SyncReport:
    """Make a directory and a memory store the same, apart from differences that the returned report lists.

    After a crash, call this function again.
    """
    with opened(store, directory, options) as session:
        return session.run()


def watch(session: SyncSession, hints: Callable[[float], bool], report: Callable[[SyncReport], None]) -> None:
    """Synchronise repeatedly until `hints` raises an exception. Pass the result of each synchronisation to `report`.

    `hints` waits for a number of seconds, and returns True if it noticed that a file changed. It may miss changes, so
    this function also compares the sizes, times and inodes of the files regularly. Such a comparison takes a hundredth
    of the time of a round. If the store cannot be reached, `report` gets the error, and the function tries again.
    """
    newest, files, looked, full = "", None, float("-inf"), float("-inf")
    while True:
        now = time.monotonic()
        is_due = now - looked >= RESCAN_S
        try:
            stamps = session.folder.stamps(session.options.ignored) if is_due else files
            if is_due:  # unlike `versions`, this also looks for edits by hand in the files of a directory
                session.store.history.log(limit=1)
            if (newest_version(session.store), stamps) != (newest, files) or now - full >= FULL_ROUND_S:
                done = session.run()
                report(done)
                newest, files, full = session.newest, stamps if done.is_settled else None, now
            looked = now if is_due else looked
        except RetentiveError as error:
            if not error.retryable:
                raise
            report(SyncReport((SyncOutcome(ROOT, "waits", "store", str(error)),)))
        if hints(POLL_S):
            looked = float("-inf")


class Hints:
    """Waits for changes of files in a directory. Detects no changes if the package `watchfiles` is not installed.

    Some changes are not detected, for example on a network file system or after the directory was renamed.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._changed, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for a change. Return whether a file has changed since the last call."""
        found = self._changed.wait(seconds)
        self._changed.clear()
        return found

    def _watch(self) -> None:
        try:
            from watchfiles import watch  # noqa: PLC0415 - an extra, and only needed here
        except ModuleNotFoundError:
            return
        begun = False
        for changes in watch(
            self._path,
            stop_event=self._ended,
            debounce=200,
            rust_timeout=500,
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            if not begun:  # changes made before this moment were not noticed, so the caller must scan now
                begun = True
                self._changed.set()
            if any(not path.rpartition("/")[2].startswith((NEW, ASIDE, MARKER)) for _, path in changes):
                self._changed.set()


def newest_version(store: MemoryStore) -> str:
    """Return the id of the newest version in a memory store, or "" if it has no versions."""
    versions = store.versions(limit=1)
    return versions[0].id if versions else ""


def machine_name() -> str:
    """Return the name of this machine, in a form that is safe in file names."""
    name = "".join(each if each.isalnum() and each.isascii() else "-" for each in socket.gethostname())
    return name.strip("-")[:40] or "machine"


def _is_in(path: str, left_out: frozenset[str]) -> bool:
    """Return whether a path, or a directory above it, is in `left_out`."""
    while path and path not in left_out:
        path = path.rpartition("/")[0]
    return path != ""


def _key(outcome: SyncOutcome) -> tuple[str, ...]:
    """Return the key of an outcome. A later outcome with the same key replaces an earlier outcome.

    Two different warnings never have the same key.
    """
    return outcome.path, outcome.became, outcome.side, outcome.why if outcome.became == "warning" else ""


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """Changes on both sides since the last common state. All paths are sorted.

    `synchronised_at` is the time when a synchronisation last changed something. It is None if there was no
    synchronisation. `files` is the number of files that were the same on both sides at that time. `here` lists the
    files that were created, changed or deleted since then. `store` lists the memories that were created, changed or
    deleted since then. `awaiting_review` lists files that were sent for review. `conflicts` lists conflict copies that
    still exist.
    """

    synchronised_at: datetime | None
    files: int
    here: tuple[str, ...]
    store: tuple[str, ...]
    awaiting_review: tuple[str, ...]
    conflicts: tuple[str, ...]


def sync_status(store: MemoryStore, directory: str, options: SyncOptions) -> SyncStatus:
    """Compare a directory and a memory store with their last common state. Changes nothing.

    Raises `InvalidInput`, `NotFound` or `PermissionDenied`.
    """
    settings = store.settings()
    with opened_folder(directory) as folder:
        states = options.states or state_folder(os.environ)
        state, at = saved_state(folder, states, store.id)
        ignored = (*options.ignored, *folder.patterns())
        bases: Mapping[str, Base] = {} if state is None else state.bases
        known = {path: (base.local_sha256, base.stamp) for path, base in bases.items()}
        found = _settled_scan(folder, known, ignored, settings.max_memory_bytes)
    there = {memory.path: memory.version_id for memory in store.memories()}
    found = found.without_editor_files({*bases, *there})
    here = {path: file.sha256 for path, file in found.files.items()}
    left_out = {*found.skipped, *found.waiting}
    return SyncStatus(
        None if at is None else datetime.fromtimestamp(at, UTC),
        len(bases),
        _differing({path: base.local_sha256 for path, base in bases.items()}, here, ignored, left_out),
        _differing({path: base.version_id for path, base in bases.items()}, there, ignored, left_out),
        tuple(sorted({} if state is None else state.offered)),
        tuple(sorted(path for path in here if _CONFLICT.search(path))),
    )


def _settled_scan(
    folder: Folder, known: Mapping[str, tuple[str, Stamp | None]], ignored: tuple[str, ...], most_bytes: int
) -> FolderScan:
    """Scan the directory. If files have just changed, wait until they are complete, and scan again."""
    found = folder.scan(known, ignored, most_bytes)
    for _ in range(MOST_WAITS):
        if not found.waiting:
            break
        time.sleep(SETTLE_S)
        found = folder.scan(known, ignored, most_bytes)
    return found


def _differing(
    old: Mapping[str, str], new: Mapping[str, str], ignored: tuple[str, ...], left_out: set[str]
) -> tuple[str, ...]:
    """Return the paths whose values in `old` and `new` differ, except for paths that are not synchronised."""
    changed = (path for path in sorted({*old, *new} - left_out) if old.get(path) != new.get(path))
    return tuple(path for path in changed if not is_ignored(path.removeprefix(f"{ROOT}/"), ignored))
