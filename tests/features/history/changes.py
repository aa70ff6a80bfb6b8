"""Changes of memories through the tool, and the versions they create."""

from __future__ import annotations

from typing import Any

from retentive import MemoryStore

A, B, C = "/memories/a", "/memories/b", "/memories/d/c"


def run(store: MemoryStore, command: str, actor: str | None = None, **fields: Any) -> str:
    """Run a command, and return the version that it created."""
    reply = store.execute({"command": command, **fields}, actor=actor)
    assert not reply.is_error, reply.text
    return store.versions(limit=1)[0].id


def create(store: MemoryStore, path: str, text: str, actor: str | None = None) -> str:
    return run(store, "create", actor, path=path, file_text=text)


def replace(store: MemoryStore, path: str, old: str, new: str, actor: str | None = None) -> str:
    return run(store, "str_replace", actor, path=path, old_str=old, new_str=new)
