"""Synchronises a directory with a memory store, once or continuously."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from retentive.errors import InvalidInput, NotFound, PermissionDenied, RetentiveError
from retentive.mounts import StoreOrMounts, log_of, store_at, stores_of
from retentive.storage.disk import expanded
from retentive.sync.apply import SyncBecame, SyncOutcome, SyncRound
from retentive.sync.folder import ASIDE, MARKER, NEW, SETTLE_S, Folder, is_ignored, name_of, refuse_nested
from retentive.sync.plan import ONE_STORE, Base, Files, Memories, Places, alike, plan
from retentive.sync.state import SyncState, opened_state, save, state_folder
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
_COPY = re.compile(r"\.conflict-[A-Za-z0-9-]+-[0-9a-f]{8}(?:\.|\Z)")
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
    stores. It was read in the last round, right before the memories were listed. `settings` are those of each
    store, by the mount points in `places`. `foreign` has the ids of memories whose paths now belong to another
    store. `in_step` is the number of paths for which the last round had nothing to do, and `copies` lists the
    conflict copies that it found in the directory.
    """

    folder: Folder
    store: StoreOrMounts
    state: SyncState
    settings: Mapping[str, Settings]
    options: SyncOptions
    places: Places = ONE_STORE
    is_older: bool = False
    foreign: frozenset[str] = frozenset()
    newest: str = ""
    in_step: int = 0
    copies: tuple[str, ...] = ()

    def run(self, progress: Callable[[int], None] = lambda _: None) -> SyncReport:
        """Run rounds until nothing is left to do, and return the outcomes.

        After each round, `progress` is called with the number of outcomes so far. Raises `RetentiveError` if the store
        is unreachable.
        """
        before = [SyncOutcome(ROOT, "warning", "", _OLDER)] if self.is_older else []
        self.is_older, is_settled = False, False
        found: dict[tuple[str, ...], SyncOutcome] = {}
        for _ in range(MOST_ROUNDS):
            waiting, outcomes, acted = self._round()
            if self.options.dry_run:  # it plans again; nothing was done
                found = {}
            found = {key: each for key, each in found.items() if each.became not in _TRIED_AGAIN}
            found |= {_key(each): each for each in (*before, *outcomes)}
            progress(len(found))
            is_settled = not acted and not waiting
            if is_settled:
                break
            if not acted:
                time.sleep(SETTLE_S)
        if not self.options.dry_run:
            with suppress(FileNotFoundError):
                os.utime(os.path.join(self.options.states, f"{self.state.token}.json"))  # see `last_round`
        why = "the file changes all the time, or cannot be read"
        found |= {_key(each): each for each in [SyncOutcome(path, "waits", "", why) for path in waiting]}
        return SyncReport(tuple(sorted(found.values(), key=lambda each: (each.path, each.became))), is_settled)

    def _round(self) -> tuple[set[str], list[SyncOutcome], bool]:
        """Run one round. Return the waiting paths, the outcomes, and whether another round may find more to do."""
        bases, options = self.state.bases, self.options
        self.newest = newest_version(self.store)
        ignored = (*options.ignored, *self.folder.patterns())
        listed = {memory.path: memory for memory in self.store.memories()}
        known = {path: (base.local_sha256, base.stamp) for path, base in bases.items()}
        most_bytes = max(each.max_memory_bytes or sys.maxsize for each in self.settings.values())  # 0 is no limit
        scan = self.folder.scan(known, {*bases, *listed}, ignored, most_bytes)
        listed = {path: memory for path, memory in listed.items() if not is_ignored(name_of(path), ignored)}
        clash = alike(bases, scan.files, listed, self.places)
        folded = {path.casefold() for path in clash}  # a file with another spelling is not missing
        spelled = {path for path in bases if path not in scan.files and path.casefold() in folded}
        left_out = frozenset({*scan.skipped, *scan.waiting, *clash, *spelled})
        files = {path: file for path, file in scan.files.items() if not _is_in(path, left_out)}
        memories = {path: memory for path, memory in listed.items() if not _is_in(path, left_out)}
        considered = {path: base for path, base in bases.items() if not _is_in(path, left_out)}
        steps = plan(
            considered,
            files,
            memories,
            self._deleted(considered, files, memories),
            removed=self.state.removed_today(),
            confirmed=options.confirmed,
            restoring=options.restoring,
            places=self.places,
        )
        self.in_step = len(considered.keys() - {step.path for step in steps if step.act != "adopt"})
        self.copies = tuple(sorted(path for path in files if _COPY.search(path)))
        work = SyncRound(
            self.folder, self.store, self.state, self.settings, options.machine, files, memories, self.places,
            confirmed=options.confirmed, dry=options.dry_run,
        )  # fmt: skip
        before = (dict(bases), dict(self.state.offered))
        saved = partial(save, self.state, options.states, self.folder)
        try:
            work.run(steps, saved)
        finally:
            if before != (self.state.bases, self.state.offered) and not options.dry_run:
                saved()
        acted = any(each.became not in {"held", "refused", "proposed"} for each in work.outcomes)
        skipped = scan.skipped | dict.fromkeys(clash, "another path differs only in upper and lower case")
        outcomes = [*(SyncOutcome(path, "skipped", "", why) for path, why in skipped.items()), *work.outcomes]
        return scan.waiting, outcomes, acted and not options.dry_run

    def _deleted(self, bases: Mapping[str, Base], files: Files, memories: Memories) -> Iterator[str]:
        """Yield the ids of memories that are missing because they were deleted, according to the history.

        Other memories may be missing because the store was restored from an older backup. Their ids are not yielded.
        Those of another store, which is not mounted there any more, count as deleted.
        """
        present = {memory.id for memory in memories.values()}
        for path, base in bases.items():
            if path in files and path not in memories and base.memory_id not in present:
                versions = store_at(self.store, path)[0].versions(memory_id=base.memory_id, limit=1)
                if base.memory_id in self.foreign or (versions and versions[0].operation == "deleted"):
                    yield base.memory_id


@contextmanager
def opened(store: StoreOrMounts, directory: str, options: SyncOptions | None = None) -> Iterator[SyncSession]:
    """Open a directory, and yield a session that synchronises it with a memory store, or with mounts.

    Raises `InvalidInput`, `NotFound` or `PermissionDenied` if the directory cannot be synchronised, and `Unavailable`
    if another process is synchronising it.
    """
    given = options or SyncOptions()
    states = given.states or state_folder(os.environ)
    with opened_folder(directory) as folder:
        if Path(os.path.realpath(states)).is_relative_to(os.path.realpath(folder.path)):
            raise InvalidInput("the folder for the state files must not be inside the synchronised directory")
        chosen = replace(given, machine=given.machine or machine_name(), states=states)
        refuse_nested(folder, given.ignored, given.location)
        stores = stores_of(store)
        settings = {point: each.settings() for point, each in stores.items()}
        read_only = (point for point, each in settings.items() if each.read_only and len(stores) > 1)
        places = Places(tuple(stores), frozenset(read_only))
        ids = {point: each.id for point, each in stores.items()}
        with opened_state(folder, ids[ROOT], states, confirmed=given.confirmed, dry=given.dry_run) as (state, is_older):
            foreign = _foreign(state, places, ids, is_allowed=given.confirmed or given.dry_run)
            if not given.dry_run:
                folder.clean(lambda sha256: any(each.sha256 == sha256 for each in log_of(store, limit=MOST_LOOKED_AT)))
            yield SyncSession(folder, store, state, settings, chosen, places, is_older, foreign)


def _foreign(state: SyncState, places: Places, ids: Mapping[str, str], *, is_allowed: bool) -> frozenset[str]:
    """Return the ids of those memories in the state whose paths now belong to another store. Remember the mounts.

    Raises `InvalidInput` if there are any and `is_allowed` is False: their files would be removed or go elsewhere.
    """
    before = {ROOT: state.store_id, **state.mounts}
    then = Places(tuple(before))
    moved = {path: base for path, base in state.bases.items() if before[then.of(path)] != ids[places.of(path)]}
    if moved and not is_allowed:
        raise InvalidInput(
            f"files such as {min(moved)} belong to another memory store than before, because the mounts differ; use the"
            " same mounts as before, or --confirm-deletes, which removes those of them that are unchanged"
        )
    state.mounts = {point: store_id for point, store_id in ids.items() if point != ROOT}
    return frozenset(base.memory_id for base in moved.values())


def check_directory(directory: str, options: SyncOptions) -> None:
    """Raise `InvalidInput` if the directory and a location, or another synchronised directory, lie in one another."""
    with opened_folder(directory) as folder:
        refuse_nested(folder, options.ignored, options.location)


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


def watch(session: SyncSession, hints: Iterable[bool], report: Callable[[SyncReport], None]) -> None:
    """Synchronise repeatedly until `hints` ends. Pass the result of each synchronisation to `report`.

    `hints` yields every second, and True if it noticed that a file changed. It may miss changes, so this function also
    compares the sizes, times and inodes of the files regularly. Such a comparison takes a hundredth of the time of a
    round. If the store cannot be reached, `report` gets the error, and the function tries again.
    """
    newest, files, looked, full = "", None, 0.0, float("-inf")
    for is_hinted in chain([True], hints):
        now = time.monotonic()
        is_due = is_hinted or now - looked >= RESCAN_S
        looked = now if is_due else looked
        try:
            stamps = session.folder.stamps(session.options.ignored) if is_due else files
            if is_due:  # unlike `versions`, this also looks for edits by hand in the files of a directory
                log_of(session.store, limit=1)
            if (newest_version(session.store), stamps) != (newest, files) or now - full >= FULL_ROUND_S:
                done = session.run()
                report(done)
                newest, files, full = session.newest, stamps if done.is_settled else None, now
        except RetentiveError as error:
            if not error.retryable:
                raise
            report(SyncReport((SyncOutcome(ROOT, "waits", "store", str(error)),)))


def hints(path: str) -> Iterator[bool]:
    """Yield every `POLL_S` seconds, and earlier if a file changes: True if one may have changed.

    Detects no changes if the package `watchfiles` is not installed or the system refuses to watch so many directories,
    and misses some, for example on a network file system or after the directory was renamed.
    """
    ours, has_begun = (NEW, ASIDE, MARKER), False
    with suppress(ModuleNotFoundError, OSError, RuntimeError):  # the last is the one of watchfiles
        from watchfiles import watch as changes_below  # noqa: PLC0415 - an extra, and only needed here

        # Without `watch_filter`, changes that it leaves out would keep this generator from yielding.
        for changes in changes_below(
            path, watch_filter=None, debounce=200, rust_timeout=int(POLL_S * 1_000), yield_on_timeout=True
        ):
            # What changed before the watch began was not noticed, so the first hint is True.
            yield not has_begun or any(not name.rpartition("/")[2].startswith(ours) for _, name in changes)
            has_begun = True
    while True:
        time.sleep(POLL_S)
        yield False


def newest_version(store: StoreOrMounts) -> str:
    """Return the ids of the newest versions of all stores. Those of a store without versions are left out."""
    return " ".join(version.id for each in stores_of(store).values() for version in each.versions(limit=1))


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
