"""Histories of a few steps."""

from __future__ import annotations

from retentive import MemoryStore

Steps = list[tuple[str, ...]]


def steps(store: MemoryStore, given: Steps) -> None:
    for name, path, *rest in given:
        if name == "edit":
            held = store.load(path)[0]
            store.write(path, rest[0], if_version=held.version_id)
        else:
            fields = {"create": "file_text", "rename": "new_path"}
            command = {"command": name, "old_path" if name == "rename" else "path": path}
            store.execute(command | ({fields[name]: rest[0]} if rest else {})).raise_for_error()
