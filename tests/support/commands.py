"""Commands of the tool as raw dicts, and functions that run them."""

from __future__ import annotations

from typing import Any

from retentive import MemoryStore, Reply

A = "/memories/a"

Raw = dict[str, Any]


def view(path: str = A, **values: Any) -> Raw:
    return {"command": "view", "path": path, **values}


def create(path: str = A, text: str = "one\ntwo\n") -> Raw:
    return {"command": "create", "path": path, "file_text": text}


def edit(old: str, new: str = "", path: str = A) -> Raw:
    return {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


def insert(line: int, text: str = "x", path: str = A) -> Raw:
    return {"command": "insert", "path": path, "insert_line": line, "insert_text": text}


def delete(path: str = A) -> Raw:
    return {"command": "delete", "path": path}


def rename(old: str, new: str) -> Raw:
    return {"command": "rename", "old_path": old, "new_path": new}


def run(store: MemoryStore, command: Raw, actor: str | None = None) -> Reply:
    """Run a command that must succeed, and return its reply."""
    reply = store.execute(command, actor=actor)
    assert not reply.is_error, reply.text
    return reply


def tree(store: MemoryStore) -> dict[str, str]:
    """Return the text of every memory by its path."""
    return {memory.path: store.read(memory.path) for memory in store.memories()}
