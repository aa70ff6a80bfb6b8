"""Helpers for the tests of encrypted memory stores."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from retentive import MemoryStore, Retentive
from retentive.storage.sealed.backend import SealedBackend

LASTING = ["sqlite", "directory"]
PATIENCE_S = 60.0
A = "/memories/a.md"


def create(store: MemoryStore, path: str, text: str) -> None:
    reply = store.execute({"command": "create", "path": path, "file_text": text})
    assert not reply.is_error, reply


def sealed(opened: Retentive) -> SealedBackend:
    assert isinstance(opened.backend, SealedBackend)
    return opened.backend


def at_rest(directory: Path) -> bytes:
    """Return the bytes of all files except the key files."""
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.suffix != ".json")


def together(works: list[Callable[[], object]]) -> None:
    """Run all functions concurrently. If any function fails, raise the first error."""
    errors: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    for error in errors:
        raise error
