"""The session of Claude Code in which a hook runs: the input of the hook, the plugin's settings, and saved state."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import IO

from retentive.cli.location import Location
from retentive.frozen import dataclass
from retentive.storage.disk import FILE_MODE, make_directory

MAX_INPUT_BYTES = 64 << 20  # the input of a hook after an edit includes the text of the edited file
MAX_LOG_BYTES = 256 << 10
MAX_AGE_S = 30 * 86_400.0
WAIT, WAIT_S = "RETENTIVE_HOOK_WAIT_S", 3.0
"""Environment variable with the time that a hook waits for the synchronisation and for the store, and its default."""
OPTION = "CLAUDE_PLUGIN_OPTION_"
"""Prefix of the environment variables in which Claude Code passes the settings of a plugin."""
DEFAULTS = {"LOCATION": "~/.retentive", "STORE": "claude-code"}
"""Defaults of the plugin's settings. They are repeated here, because Claude Code passes them to MCP servers only."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class HookSession:
    """Input of a hook: the id of the session, and the path of the edited file.

    `id` is empty unless the received session id is valid both as a file name and as an actor name. `file_path` is empty
    unless the event is an edit of a file.
    """

    id: str = ""
    file_path: str = ""


def read_session(stream: IO[bytes]) -> HookSession:
    """Parse the input of a hook. Returns an empty `HookSession` if the input is not the expected JSON."""
    try:
        given = json.loads(stream.read(MAX_INPUT_BYTES))
    except (ValueError, OSError):
        return HookSession()
    if not isinstance(given, dict):
        return HookSession()
    tool_input = given.get("tool_input")
    path = tool_input.get("file_path") if isinstance(tool_input, dict) else None
    return HookSession(as_id(given.get("session_id")), path if isinstance(path, str) else "")


def as_id(given: object) -> str:
    """Return `given` if it is a valid session id. Otherwise, return an empty string."""
    return given if isinstance(given, str) and _ID.fullmatch(given) else ""


def configured(location: Location, environment: Mapping[str, str], session_id: str) -> Location:
    """Return the location from the plugin's settings, with the session as actor.

    Options on the command line override the settings of the plugin.
    """
    at, store = (environment.get(f"{OPTION}{name}") or default for name, default in DEFAULTS.items())
    return replace(
        acting(location, session_id),
        url=location.url if "at" in location.typed else at,
        store_key=location.store_key if "store" in location.typed else store,
    )


def longest_wait_s(environment: Mapping[str, str]) -> float:
    """Return the number of seconds that a hook waits for the synchronisation and for the memory store."""
    given = environment.get(WAIT, "")
    return float(given) if re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", given) else WAIT_S


def acting(location: Location, session_id: str) -> Location:
    """Return the location with the session as its actor. If the location already has an actor, return it unchanged."""
    return location if location.actor or not session_id else replace(location, actor=f"session:{session_id}")


def directory_of(environment: Mapping[str, str]) -> str | None:
    """Return the directory to synchronise. Returns None if the user did not configure one.

    It comes from the settings of the plugin, or from `autoMemoryDirectory` in the user's settings of Claude Code. The
    settings of a project are not read, because a foreign repository could name a directory with private files.
    """
    given = environment.get(f"{OPTION}DIRECTORY") or _auto_memory_directory(environment)
    if not given:
        return None
    path = os.path.expanduser(given)
    return os.path.normpath(path) if os.path.isabs(path) else None


def _auto_memory_directory(environment: Mapping[str, str]) -> str | None:
    folder = environment.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    try:
        with open(os.path.join(folder, "settings.json"), encoding="utf-8") as file:
            settings = json.load(file)
    except (OSError, ValueError):
        return None
    found = settings.get("autoMemoryDirectory") if isinstance(settings, dict) else None
    return found if isinstance(found, str) else None


def is_below(path: str, directory: str) -> bool:
    """Return whether a path is in a directory. Symbolic links are resolved."""
    try:
        above = os.path.realpath(directory)
        return os.path.commonpath([above, os.path.realpath(path)]) == above
    except (OSError, ValueError):  # the path is not absolute or has a NUL character
        return False


def state_folder() -> str:
    """Return the folder for the log and the state of hooks. The folder is created if it does not exist."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    folder = os.path.join(home, "retentive", "hooks")
    make_directory(folder)
    return folder


def last_seen(session: HookSession) -> str | None:
    """Return the id of the newest version that the session has seen. Returns None if it is not known."""
    if not session.id:
        return None
    with suppress(OSError), open(_seen_file(session), encoding="utf-8") as file:
        return file.read(100)
    return None


def remember_seen(session: HookSession, version_id: str) -> None:
    """Save the id of the newest version that the session has seen."""
    if session.id:
        path = _seen_file(session)
        with _opened(f"{path}.new", os.O_TRUNC) as file:
            file.write(version_id)
        os.replace(f"{path}.new", path)


def forget_seen(session: HookSession) -> None:
    """Delete the saved id of the newest version that the session has seen."""
    if session.id:
        with suppress(FileNotFoundError):
            os.unlink(_seen_file(session))


def forget_old() -> None:
    """Delete saved ids that are older than `MAX_AGE_S`. They belong to sessions that did not end normally."""
    folder, oldest = state_folder(), time.time() - MAX_AGE_S
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):
            path = os.path.join(folder, name)
            if name.endswith(".seen") and os.stat(path).st_mtime < oldest:
                os.unlink(path)


def log(text: str) -> None:
    """Append a line to the log of hooks. Errors of the disk are ignored: a hook must not fail because of its log."""
    with suppress(OSError):
        path = os.path.join(state_folder(), "hook.log")
        with suppress(FileNotFoundError):
            if os.stat(path).st_size > MAX_LOG_BYTES:
                os.replace(path, f"{path}.1")
        line = text.replace("\n", " ").encode("ascii", "backslashreplace").decode()
        with _opened(path, os.O_APPEND) as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {line}\n")


def _seen_file(session: HookSession) -> str:
    return os.path.join(state_folder(), f"{session.id}.seen")


def _opened(path: str, flags: int) -> IO[str]:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | flags, FILE_MODE), "w", encoding="utf-8")
