"""Saved conversations. Each is a JSON file, which is replaced atomically and is on disk before a memory call runs.

The files are in `$XDG_STATE_HOME/retentive/conversations`, in a directory for each memory store. Only their owner can
read them. They contain everything that the user and Claude wrote or read, even values that the memory store redacts.
Of the conversations that the user did not name, only the newest `KEPT` are kept.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from retentive.agent.conversation import MessageDict, parse_messages
from retentive.errors import InvalidInput, NotFound
from retentive.storage.disk import CLOSE_ON_EXEC, FILE_MODE, expanded, make_directory, os_error, sync_directory

if sys.platform != "win32":  # `retentive chat` is refused on Windows
    import fcntl

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SUFFIX = ".json"
KEPT = 50
_UNNAMED = re.compile(r"chat-[0-9a-f]{12}\.json")


@dataclass(slots=True)
class SavedChat:
    """Conversation and the path of its file. If `path` is empty, the conversation is not saved.

    `undone` has the revisions that the user undid. `problem` is the reason why the conversation could not be saved, or
    an empty string.
    """

    path: str = ""
    messages: list[MessageDict] = field(default_factory=list)
    actor: str = ""
    started_at: datetime | None = None
    undone: Sequence[int] = ()
    problem: str = ""

    @property
    def name(self) -> str:
        """Name of the conversation, for the option --conversation."""
        return os.path.basename(self.path).removesuffix(_SUFFIX)

    def save(
        self, messages: Sequence[MessageDict], *, actor: str, started_at: datetime, undone: Collection[int]
    ) -> None:
        """Replace the file and sync it to disk. If that fails, set `problem` to the error; the chat then continues."""
        if not self.path:
            return
        saved = {"actor": actor, "started_at": started_at.isoformat(), "undone": sorted(undone), "messages": messages}
        new = f"{self.path}.new"
        try:
            with open(new, "wb", opener=_owner_only) as file:
                file.write(json.dumps(saved).encode("ascii"))
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.path)
            sync_directory(os.path.dirname(self.path))
            self.problem = ""
        except OSError as error:
            self.problem = f"the conversation could not be saved: {error.strerror}"


UNSAVED = SavedChat()


@contextmanager
def opened(store_id: str, name: str | None) -> Iterator[SavedChat]:
    """Context manager that opens and locks the conversation with this name.

    If no conversation has this name, a new one begins. If `name` is None, a new conversation begins with a random name,
    and the oldest conversations with random names are deleted. Raises `InvalidInput` for an invalid name, for a damaged
    file, and if the conversation is open in another process.
    """
    is_unnamed = name is None
    name = f"chat-{secrets.token_hex(6)}" if name is None else name
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            "the name of a conversation must start with a letter or digit, and have at most 64 letters, digits, '.', "
            "'_' and '-'"
        )
    directory = _directory(store_id)
    try:
        make_directory(directory)
        path = os.path.join(directory, f"{name}{_SUFFIX}")
        lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | CLOSE_ON_EXEC, FILE_MODE)
    except OSError as error:
        raise os_error(error) from None
    try:
        _lock(lock, name)
        if is_unnamed:
            _prune(directory)
        yield _loaded(path, name)
    finally:
        os.close(lock)


def newest(store_id: str) -> str:
    """Return the name of the conversation that was saved last. Raises `NotFound` if no conversation is saved."""
    with suppress(OSError):
        files = [entry for entry in os.scandir(_directory(store_id)) if entry.name.endswith(_SUFFIX)]
        if files:
            return max(files, key=lambda entry: entry.stat().st_mtime_ns).name.removesuffix(_SUFFIX)
    raise NotFound("there is no saved conversation with this memory store")


def _directory(store_id: str) -> str:
    state = os.environ.get("XDG_STATE_HOME") or expanded("~/.local/state")
    return os.path.join(state, "retentive", "conversations", store_id)


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags | CLOSE_ON_EXEC, FILE_MODE)


def _lock(descriptor: int, name: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InvalidInput(f"the conversation {name} is open in another process") from None
    if not os.fstat(descriptor).st_nlink:
        raise InvalidInput(f"another process has just deleted the conversation {name}")


def _prune(directory: str) -> None:
    """Delete the oldest conversations with random names, except those that are open in another process."""
    with suppress(OSError):
        unnamed = [entry for entry in os.scandir(directory) if _UNNAMED.fullmatch(entry.name)]
        for entry in sorted(unnamed, key=lambda entry: entry.stat().st_mtime_ns)[: max(0, len(unnamed) - KEPT + 1)]:
            with open(f"{entry.path}.lock", "ab", opener=_owner_only) as lock, suppress(InvalidInput):
                _lock(lock.fileno(), entry.name)
                os.unlink(entry.path)
                os.unlink(lock.name)


def _loaded(path: str, name: str) -> SavedChat:
    try:
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
        started_at = datetime.fromisoformat(found["started_at"])
        undone = [int(revision) for revision in found["undone"]]
        return SavedChat(path, parse_messages(found["messages"]), str(found["actor"]), started_at, undone)
    except FileNotFoundError:
        return SavedChat(path)
    except (OSError, ValueError, LookupError, TypeError, InvalidInput):
        raise InvalidInput(f"the saved conversation {name} cannot be read: {path}") from None
