"""Explains why a memory is read-only, for people at the shell. Models do not get this explanation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress

from retentive.engine.guard import setting_against
from retentive.errors import RetentiveError
from retentive.store import MemoryStore, core_of
from retentive.values.settings import Settings

_HIDDEN = "A hidden memory is there: `retentive trust list` shows it, and `retentive trust release` ends a quarantine."


def explanation(store: MemoryStore, paths: Iterable[str] = ()) -> str:
    """Return a sentence that names two things: the setting that forbids a change, and the command that changes it.

    Call this if the actor of the store is not allowed to change some memories at or below the paths. The sentence is
    about the first of these memories. The paths must be canonical. Without paths, all memories of the store are
    considered.
    """
    core, settings = core_of(store), store.settings()
    for path in paths or ("/memories",):
        for each in (*_below(store, path), path):
            if name := setting_against(settings, core.actor, each):
                return _text(name, settings, each, str(core.actor or "an actor without a name"))
    return _HIDDEN


def _below(store: MemoryStore, path: str) -> list[str]:
    with suppress(RetentiveError):
        return [memory.path for memory in store.memories(path)]
    return []


def _text(name: str, settings: Settings, path: str, actor: str) -> str:
    if name == "read_only":
        return (
            "The setting read_only makes the memory store read-only; `retentive settings set read_only=false` ends it."
        )
    if name == "read_only_paths":
        value = json.dumps(settings.read_only_paths)
        return f"The setting read_only_paths is {value}; `retentive settings set 'read_only_paths=[...]'` changes it."
    return (
        f"The setting allow_write does not let {actor} change {path}; `retentive settings set 'allow_write={{...}}'`"
        " changes it."
    )
