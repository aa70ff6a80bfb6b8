"""Last common state of a directory and a memory store. Each pair has its own JSON file.

The file has hashes and ids but no texts. It is outside the directory. A marker file in the directory identifies the
JSON file. If the marker is missing, the directory may be unmounted or replaced, so missing files do not count as
deleted.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from retentive.errors import InvalidInput, Unavailable
from retentive.storage.disk import FILE_MODE, make_directory
from retentive.storage.lock_file import LockFile
from retentive.sync.folder import MARKER, Folder, Stamp
from retentive.sync.plan import Base, Side

FORMAT = 1
DAY_S = 86_400.0


@dataclass(slots=True)
class SyncState:
    """Last common state of a directory and a memory store.

    `token` is the name of the state file. It is stored in the marker file `.retentive-sync` of the directory. `bases`
    maps each path to its last common state. `offered` contains the files that were sent for review: it maps their
    paths to the sha256 of their texts. `removed` has the times of the deletions on each side that nobody confirmed,
    in seconds since 1970. `mounts` has the ids of the mounted stores, by their mount points. `saves` counts the
    times that the state was saved. The marker file has the same number.
    """

    token: str
    store_id: str
    directory: str
    bases: dict[str, Base] = field(default_factory=dict)
    offered: dict[str, str] = field(default_factory=dict)
    removed: dict[Side, list[float]] = field(default_factory=dict)
    mounts: dict[str, str] = field(default_factory=dict)
    saves: int = 0

    def removed_today(self) -> dict[Side, int]:
        """Return the number of deletions on each side within the last day. Older ones are forgotten."""
        oldest = time.time() - DAY_S
        self.removed = {side: [at for at in times if at > oldest] for side, times in self.removed.items()}
        return {side: len(times) for side, times in self.removed.items()}


def state_folder(environment: Mapping[str, str]) -> str:
    """Return the default folder for state files."""
    home = environment.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "retentive", "sync")


@contextmanager
def opened_state(
    folder: Folder, store_id: str, states: str, *, confirmed: bool, dry: bool = False
) -> Iterator[tuple[SyncState, bool]]:
    """Yield the state of a directory and a memory store, while a lock keeps other processes from synchronising them.

    Also yield whether the directory is an older copy of itself, such as a backup that was restored. In this case, the
    state has no common state. If `dry` is True, nothing is locked or written. `states` is the folder for the state
    files. Raises `InvalidInput` if the directory was synchronised before, but its marker file is missing. If
    `confirmed` is True, such a directory counts as new, without an error. Raises `Unavailable` if another process has
    the lock.
    """
    directory = os.path.realpath(folder.path)
    marked, _ = _mark(folder)
    found = None if marked is None else _load(states, marked)
    if marked is None and not confirmed and any(each.directory == directory for each in _all(states, store_id)):
        raise InvalidInput(
            f"the directory was synchronised before, but its file {MARKER} is missing; check that the directory is"
            " mounted and was not replaced. With --confirm-deletes, the directory is synchronised as a new one, and"
            " nothing is deleted"
        )
    token = None  # the marker was written for another store, on another machine, or in a directory that still exists
    if found is not None and found.store_id == store_id:
        is_copy = found.directory != directory and os.path.exists(os.path.join(found.directory, MARKER))
        token = None if is_copy else marked
    with ExitStack() as stack:
        state = SyncState(token or secrets.token_hex(8), store_id, directory)
        if not dry:
            make_directory(states)
            lock = LockFile(os.path.join(states, f"{state.token}.lock"))
            stack.callback(lock.close)
            if not lock.try_to_acquire():
                raise Unavailable("another process is synchronising this directory")
        state = _load(states, state.token) or state
        state.directory = directory
        is_older = token is not None and _mark(folder)[1] < state.saves
        if is_older:
            state.bases, state.offered = {}, {}
        if token is None and not dry:
            save(state, states, folder)
            os.utime(os.path.join(states, f"{state.token}.json"), (0, 0))  # no round has ended
            for old in [each for each in _all(states, store_id) if each.directory == directory]:
                for name in (f"{old.token}.json", f"{old.token}.lock") if old.token != state.token else ():
                    Path(states, name).unlink(missing_ok=True)
        yield state, is_older


def save(state: SyncState, states: str, folder: Folder) -> None:
    """Write the state atomically. A crash leaves either the old state or the new one.

    The marker is written first: it may be one save ahead, but only an older copy of the directory has one behind.
    """
    state.saves += 1
    folder.mark(json.dumps({"sync": state.token, "saves": state.saves}).encode())
    path = os.path.join(states, f"{state.token}.json")
    descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump({"format": FORMAT, **asdict(state)}, file)
        file.flush()
        os.fsync(descriptor)
    os.replace(f"{path}.new", path)


def last_round(state: SyncState, states: str) -> tuple[datetime | None, bool]:
    """Return when a round last ended, and whether a process synchronises the directory now.

    The time is that of the state file: each round sets it at its end, and a long round also when it saves.
    """
    path = os.path.join(states, state.token)
    try:
        ended = os.stat(f"{path}.json").st_mtime
        lock = LockFile(f"{path}.lock", flags=os.O_RDONLY)
    except FileNotFoundError:
        return None, False
    with closing(lock):
        return datetime.fromtimestamp(ended, UTC) if ended else None, not lock.try_to_acquire(shared=True)


def directories_of(states: str, store_id: str) -> list[str]:
    """Return the directories that this machine synchronises with a memory store, those that exist."""
    found = (each for each in _all(states) if store_id in {each.store_id, *each.mounts.values()})
    return [each.directory for each in found if os.path.isdir(each.directory)]


def _mark(folder: Folder) -> tuple[str | None, int]:
    """Return the token and the number of saves in the marker. The token is None if there is no valid marker."""
    try:
        found = json.loads(folder.content(MARKER) or b"{}")
        token, saves = found["sync"], int(found["saves"])
    except (ValueError, KeyError, TypeError):
        return None, 0
    return (token, saves) if isinstance(token, str) and token.isalnum() else (None, 0)


def _load(states: str, token: str) -> SyncState | None:
    """Return the state in the state file that `token` names, or None if the file is missing or cannot be read."""
    try:
        with open(os.path.join(states, f"{token}.json"), encoding="utf-8") as file:
            kept = json.load(file)
        if kept.pop("format") != FORMAT:
            return None
        for path, each in kept["bases"].items():
            stamp = None if each["stamp"] is None else Stamp(**each["stamp"])
            kept["bases"][path] = Base(**{**each, "stamp": stamp})
        return SyncState(**kept)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _all(states: str, store_id: str | None = None) -> Iterator[SyncState]:
    for name in os.listdir(states) if os.path.isdir(states) else ():
        found = _load(states, name.removesuffix(".json")) if name.endswith(".json") else None
        if found is not None and store_id in {found.store_id, None}:
            yield found
