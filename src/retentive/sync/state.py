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
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from retentive.errors import InvalidInput, Unavailable
from retentive.storage.disk import FILE_MODE, make_directory
from retentive.storage.lock_file import LockFile
from retentive.sync.files import Stamp
from retentive.sync.folder import IGNORE, LOCATION, MARKER, Folder, is_ignored, nested

FORMAT = 1
DAY_S = 86_400.0
Side: TypeAlias = Literal["store", "directory"]


@dataclass(frozen=True, slots=True)
class Base:
    """State of the memory and the file at one path after their last synchronisation.

    `sha256` is the hash of the memory, and `local_sha256` is the hash of the file. The hashes differ if a guard changed
    the text when it was written to the store. `stamp` is None if the file must be read again.
    """

    version_id: str
    memory_id: str
    sha256: str
    local_sha256: str
    stamp: Stamp | None = None


@dataclass(slots=True)
class SyncState:
    """Last common state of a directory and a memory store.

    `token` is the name of the state file. It is stored in the marker file `.retentive-sync` of the directory. `bases`
    maps each path to its last common state. `offered` contains the files that were sent for review: it maps their paths
    to the sha256 of their texts. `removed` has the times of the deletions on each side that nobody confirmed, in
    seconds since 1970. `saves` counts the times that the state was saved. The marker file has the same number.
    """

    token: str
    store_id: str
    directory: str
    bases: dict[str, Base] = field(default_factory=dict)
    offered: dict[str, str] = field(default_factory=dict)
    removed: dict[Side, list[float]] = field(default_factory=dict)
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


def refuse_nested(folder: Folder, ignored: tuple[str, ...], location: str | None) -> None:
    """Raise `InvalidInput` if a synchronised directory and a location, or two such directories, lie in one another.

    `location` is the directory or the SQLite database that has the memory store, if it is on this machine.
    """
    real = Path(os.path.realpath(folder.path))
    if location is not None:
        names = ("memories", ".retentive") if not os.path.isfile(location) else ("",)
        for own in (Path(os.path.realpath(os.path.join(location, name))) for name in names):
            if own.is_relative_to(real) and not is_ignored(str(own.relative_to(real)), ignored):
                raise InvalidInput(nested(str(own.relative_to(real)), is_location=True))
            if real.is_relative_to(own):
                raise InvalidInput("the directory belongs to the memory store itself; choose another one")
    below = real
    for above in real.parents:
        if below.name == "memories" and (above / LOCATION).exists():
            raise InvalidInput("the directory belongs to a location with memories; choose another one")
        if (above / MARKER).exists() and not _leaves_out(above, str(real.relative_to(above))):
            raise InvalidInput(
                f"the directory {os.path.relpath(above, real)!r} above it is synchronised too, so its files would be"
                f" copied without end; move it, or leave it out in the file {IGNORE} there"
            )
        below = above


def _leaves_out(directory: Path, name: str) -> bool:
    with suppress(OSError), closing(Folder(str(directory))) as folder:
        return is_ignored(name, folder.patterns())
    return False


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
    if not dry:
        make_directory(states)
    directory = os.path.realpath(folder.path)
    token = _token(folder, states, store_id, directory)
    if token is None:
        if not confirmed and any(each.directory == directory for each in _all(states, store_id)):
            raise InvalidInput(
                f"the directory was synchronised before, but its file {MARKER} is missing; check that the directory is"
                " mounted and was not replaced. With --confirm-deletes, the directory is synchronised as a new one, and"
                " nothing is deleted"
            )
        token = secrets.token_hex(8)
    if dry:
        yield _current(folder, states, token, store_id, directory)
        return
    lock = LockFile(os.path.join(states, f"{token}.lock"))
    try:
        if not lock.try_to_acquire():
            raise Unavailable("another process is synchronising this directory")
        state, is_older = _current(folder, states, token, store_id, directory)
        if token != _mark(folder)[0]:
            save(state, states, folder)
            for old in list(_all(states, store_id)):
                if old.directory == directory and old.token != token:
                    for name in (f"{old.token}.json", f"{old.token}.lock"):
                        Path(states, name).unlink(missing_ok=True)
        yield state, is_older
    finally:
        lock.close()


def saved_state(folder: Folder, states: str, store_id: str) -> tuple[SyncState | None, float | None]:
    """Return the saved state, and the time when it was saved, in seconds since 1970. Takes no lock.

    Return None for both if no state was saved for this directory and memory store.
    """
    token, _ = _mark(folder)
    found = None if token is None else _load(states, token)
    if found is None or found.store_id != store_id:
        return None, None
    return found, os.stat(os.path.join(states, f"{found.token}.json")).st_mtime


def _current(folder: Folder, states: str, token: str, store_id: str, directory: str) -> tuple[SyncState, bool]:
    state = _load(states, token) or SyncState(token, store_id, directory)
    state.directory = directory
    marked, saves = _mark(folder)
    is_older = token == marked and saves < state.saves
    if is_older:
        state.bases, state.offered = {}, {}
    return state, is_older


def save(state: SyncState, states: str, folder: Folder) -> None:
    """Write the state atomically. A crash leaves either the old state or the new one.

    The marker is written first: it may be one save ahead, but only an older copy of the directory has one behind.
    """
    state.saves += 1
    folder.mark(json.dumps({"sync": state.token, "saves": state.saves}).encode())
    kept = {"format": FORMAT, **asdict(state)}
    path = os.path.join(states, f"{state.token}.json")
    descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(kept, file)
        file.flush()
        os.fsync(descriptor)
    os.replace(f"{path}.new", path)


def _token(folder: Folder, states: str, store_id: str, directory: str) -> str | None:
    """Return the token that names the state file, or None if the directory has no marker.

    Return a new token if the state file that the marker names is missing, belongs to another memory store, or belongs
    to another directory that still exists.
    """
    token, _ = _mark(folder)
    if token is None:
        return None
    found = _load(states, token)
    if found is None or found.store_id != store_id:
        return secrets.token_hex(8)  # the marker was written for another store or on another machine
    if found.directory != directory and os.path.exists(os.path.join(found.directory, MARKER)):
        return secrets.token_hex(8)
    return token


def _mark(folder: Folder) -> tuple[str | None, int]:
    """Return the token and the number of saves in the marker. The token is None if there is no valid marker."""
    try:
        found = json.loads(folder.marker() or b"{}")
    except ValueError:
        found = None
    token, saves = (found.get("sync"), found.get("saves")) if isinstance(found, dict) else (None, 0)
    is_token = isinstance(token, str) and token.isalnum()
    return token if is_token else None, saves if isinstance(saves, int) else 0


def _load(states: str, token: str) -> SyncState | None:
    """Return the state in the state file that `token` names, or None if the file is missing or cannot be read."""
    try:
        with open(os.path.join(states, f"{token}.json"), encoding="utf-8") as file:
            kept = json.load(file)
        if kept.pop("format") != FORMAT:
            return None
        bases = kept.pop("bases")
        stamps = {path: None if each["stamp"] is None else Stamp(**each.pop("stamp")) for path, each in bases.items()}
        return SyncState(**kept, bases={path: Base(**{**each, "stamp": stamps[path]}) for path, each in bases.items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _all(states: str, store_id: str) -> Iterator[SyncState]:
    for name in os.listdir(states) if os.path.isdir(states) else ():
        found = _load(states, name.removesuffix(".json")) if name.endswith(".json") else None
        if found is not None and found.store_id == store_id:
            yield found
