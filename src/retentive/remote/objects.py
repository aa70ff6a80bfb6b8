"""Converts arguments to what the server gets: paths, times and commands."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime

from retentive.errors import InvalidPath, Refused, error_of
from retentive.history.revisions import Revision
from retentive.remote.requests import JsonBody
from retentive.values.commands import Append, Clear, Command, Write, parse
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.replies import REPLIES


def parsed(path: str) -> MemoryPath:
    """Parse a path that the caller passed as an argument. Raises `InvalidPath`."""
    if not isinstance(path, str):
        raise InvalidPath(f"a path must be a string such as /memories/notes.md, not {type(path).__name__}")
    try:
        return MemoryPath.parse(path)
    except Refused as refusal:
        said = REPLIES.error(refusal.key, refusal.values)
        raise error_of(said.text, said.code) from None


def api_path(path: MemoryPath) -> str:
    """Return the path that the API uses: `/x` for `/memories/x`, and `/` for the root."""
    return path.text[len(ROOT) :] or "/"


def prefix(path: MemoryPath) -> str:
    """Return the prefix that all paths below a directory have in the API."""
    return path.text[len(ROOT) :] + "/"


def raw(command: Command | Clear) -> JsonBody:
    """Return a command as the input of a tool call."""
    if isinstance(command, Write | Append):
        return {"command": command.name, "path": command.path.written, "file_text": command.text}
    given = {each.name: getattr(command, each.name) for each in fields(command)}
    plain = {name: value.written if isinstance(value, MemoryPath) else value for name, value in given.items()}
    return {"command": command.name, **plain}


def time_text(at: datetime | None) -> str | None:
    """Return a time as text for the API. If `at` is None, return None."""
    return None if at is None else at.isoformat()


def moment_text(at: Revision) -> str:
    """Return a revision or a time as text for the API."""
    return at.base.isoformat() if isinstance(at.base, datetime) else at.text


def sendable(command: object) -> object:
    """Return a command in a form that can be sent as JSON. Raises `Refused` if the input of a model cannot be sent."""
    if isinstance(command, Command | Clear):
        return raw(command)
    try:
        json.dumps(command, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return raw(parse(command))
    return command
