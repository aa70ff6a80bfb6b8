"""Settings of the Claude Code plugin, the project of a session, and files with the log and the state of hooks."""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit

from retentive.cli.location import Location
from retentive.cli.parameters import MOUNTS
from retentive.storage.disk import FILE_MODE, make_directory
from retentive.values.mounting import mounts_in

MAX_LOG_BYTES = 256 << 10
WAIT, WAIT_S = "RETENTIVE_HOOK_WAIT_S", 3.0
"""Environment variable with the time that a hook waits for the synchronisation and for the store, and its default."""
OPTION = "CLAUDE_PLUGIN_OPTION_"
"""Prefix of the environment variables in which Claude Code passes the settings of a plugin."""
DEFAULTS = {"LOCATION": "~/.retentive", "STORE": "claude-code"}
"""Defaults of the plugin's settings. They are repeated here, because Claude Code passes them to MCP servers only."""
MAX_RECALL_TOKENS = 2_000  # the text has at most 6,000 characters, which Claude Code does not truncate
MAX_SLUG_CHARS = 200  # Claude Code shortens longer names of projects in a way that is not documented
_SCP = re.compile(r"(?:[^@/]+@)?([^:/]{2,}):(?!//)(.+)")  # one letter is a drive of Windows
_ANY_CASE = frozenset({"github.com", "gitlab.com", "bitbucket.org"})
_ALTERNATIVE = re.compile(r"^(?:alt)?ssh\.(?=(?:github|gitlab|dev\.azure)\.com|bitbucket\.org)")  # hosts for port 443
_NOT_SHARED = {"", "localhost", "127.0.0.1", "::1"}
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def as_id(given: object) -> str:
    """Return `given` if it is valid as a session id, a file name and an actor name. Otherwise, return ""."""
    return given if isinstance(given, str) and _ID.fullmatch(given) else ""


def acting(location: Location, session_id: str) -> Location:
    """Return the location with the mounts of the settings, and the session as its actor if it has none yet.

    Raises `InvalidInput` for invalid mounts.
    """
    given = next((os.environ[name] for name in MOUNTS if os.environ.get(name)), "")
    actor = location.actor or (f"session:{session_id}" if session_id else None)
    return replace(location, mounts=mounts_in(given.split()), actor=actor)


def configured(location: Location, session_id: str, project_key: str = "") -> Location:
    """Return the location from the plugin's settings, with the session as actor.

    Options on the command line override the settings of the plugin. A project has a memory store of its own.
    """
    at, store = (os.environ.get(f"{OPTION}{name}") or default for name, default in DEFAULTS.items())
    return replace(
        acting(location, session_id),
        url=location.url if "at" in location.typed else at,
        store_key=location.store_key if "store" in location.typed else project_key or store,
    )


def shares_projects() -> bool:
    """Return whether the user wants to share the memory of each project."""
    return os.environ.get(f"{OPTION}PROJECTS", "").strip().lower() in {"true", "1", "yes", "on"}


def _number(variable: str, default: float, most: float) -> float:
    """Return the number in an environment variable, from 0 to `most`, or `default` for anything else."""
    try:
        found = float(os.environ[variable])
    except (KeyError, ValueError):
        return default
    return min(found, most) if found >= 0 else default


def recall_tokens() -> int:
    """Return how many tokens of memory lines the user wants with each prompt and subagent; 0 for none."""
    return int(_number(f"{OPTION}RECALL", 0, MAX_RECALL_TOKENS))


def place_of(cwd: str) -> tuple[str, str | None]:
    """Return the key of the project's memory store, or "", and the directory to synchronise, or None.

    One directory for all projects comes from the settings of the plugin, or from `autoMemoryDirectory` in the user's
    settings of Claude Code. The settings of a project are not read, because a foreign repository could name a directory
    with private files. Without such a directory, the memory of the project in `cwd` is shared if the user asked for it
    and the project has a Git remote that other machines can reach. Nothing is shared by default: a foreign repository
    can come with the remote of another project, and would read its memory.
    """
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    given = os.environ.get(f"{OPTION}DIRECTORY")
    with suppress(OSError, ValueError):
        if not given:
            with open(os.path.join(folder, "settings.json"), encoding="utf-8") as file:
                settings = json.load(file)
            given = settings.get("autoMemoryDirectory") if isinstance(settings, dict) else None
    if isinstance(given, str) and given:
        path = os.path.expanduser(given)
        if os.path.isabs(path):
            return "", os.path.normpath(path)
    if not shares_projects() or not os.path.isabs(cwd):
        return "", None
    names = _git(cwd, "remote").split()
    name = "origin" if "origin" in names else names[0] if len(names) == 1 else ""
    key = remote_key(_git(cwd, "remote", "get-url", name)) if name else ""
    common = _git(cwd, "rev-parse", "--path-format=absolute", "--git-common-dir")  # the same for all worktrees
    root = os.path.dirname(common) if os.path.basename(common) == ".git" else _git(cwd, "rev-parse", "--show-toplevel")
    slug = re.sub(r"[^A-Za-z0-9]", "-", root)
    if not key or not 0 < len(slug) <= MAX_SLUG_CHARS:
        return "", None
    if os.environ.get("CLAUDE_CONFIG_DIR"):
        slug = os.environ.get("CLAUDE_CODE_PROJECT_DIR_NAME") or slug
    return key, os.path.join(folder, "projects", slug, "memory")


def remote_key(url: str) -> str:
    """Return the key of the memory store for the URL of a Git remote, such as `github.com/owner/repository`.

    All forms of the URL of one repository (SSH, HTTPS, with a user, a password or a port) have the same key. Return ""
    for a repository on this machine, which others cannot name.
    """
    form = None if "://" in url else _SCP.fullmatch(url)
    try:
        parts = urlsplit(url if form is None else f"ssh://{form[1]}/{form[2]}")
        host = parts.hostname or ""
    except ValueError:
        return ""
    if parts.scheme not in {"ssh", "https", "http", "git", "git+ssh", "ssh+git"} or host in _NOT_SHARED:
        return ""
    host = _ALTERNATIVE.sub("", host)
    path = "/".join(filter(None, unquote(parts.path).split("/"))).removesuffix(".git")
    if host == "dev.azure.com":
        path = path.removeprefix("v3/").replace("/_git/", "/")
    key = f"{host}/{path.lower() if host in _ANY_CASE else path}"
    return key if path and len(key) <= 255 and key.isprintable() else ""


def _git(cwd: str, *arguments: str) -> str:
    """Return what `git` prints, without the newline. Return "" if it fails, or is not installed."""
    command = ["git", "-C", cwd, *arguments]  # as the user's shell would find it
    try:
        done = subprocess.run(  # noqa: S603 - no shell  # nosec B607
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def longest_wait_s() -> float:
    """Return the number of seconds that a hook waits for the synchronisation and for the memory store."""
    return _number(WAIT, WAIT_S, 3_600)


def state_file(name: str, *, of: str = "") -> Path:
    """Return a file for the log and the state of hooks. `of` is a text, such as a URL, that it belongs to.

    The folder is created if needed.
    """
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    folder = os.path.join(home, "retentive", "hooks")
    make_directory(folder)
    return Path(folder, sha256(of.encode(errors="surrogateescape")).hexdigest()[:16] + name if of else name)


def read_state(file: Path) -> str | None:
    """Return the text of a state file, or None if there is none."""
    with suppress(OSError):
        return file.read_text("utf-8")
    return None


def write_state(file: Path, text: str | None) -> None:
    """Replace the text of a state file at once, or delete the file if `text` is None."""
    if text is None:
        file.unlink(missing_ok=True)
        return
    new = file.with_name(f"{file.name}.new")
    new.touch(FILE_MODE)
    new.write_text(text, "utf-8")
    new.replace(file)


def log(text: str) -> None:
    """Append a line to the log of hooks. Errors of the disk are ignored: a hook must not fail because of its log."""
    with suppress(OSError):
        file = state_file("hook.log")
        if file.exists() and file.stat().st_size > MAX_LOG_BYTES:
            file.replace(f"{file}.1")
        file.touch(FILE_MODE)
        line = text.replace("\n", " ").encode("ascii", "backslashreplace").decode()
        with file.open("a") as lines:
            lines.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {line}\n")
