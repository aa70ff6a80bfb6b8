"""Memory tools under comparison. Each has its own folder and is called as a tool runner calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Input = dict[str, object]
Call = Callable[[Input], object]
SDK = "sdk"
CANDIDATES = (SDK, "sqlite", "directory")


@contextmanager
def candidate(name: str, folder: Path, **limits: Any) -> Iterator[Call]:
    """The call of a tool on a folder. The limits are those of `retentive.MemoryTool`; the SDK's tool has none."""
    if name == SDK:
        from anthropic.tools import BetaLocalFilesystemMemoryTool

        yield BetaLocalFilesystemMemoryTool(str(folder)).call
        return
    from retentive import MemoryTool

    tool = MemoryTool(str(folder) if name == "directory" else f"sqlite:///{folder.resolve()}/memory.db", **limits)
    try:
        yield tool.call
    finally:
        tool.close()


def memory_text(number: int, *, size_bytes: int = 1024) -> str:
    """Text of exactly `size_bytes` in lines of 64 bytes; its state line is 0."""
    head = f"# Memory {number}\n{state(0)}\n"
    filler = "The customer asked for a refund and was told what the policy is\n"
    return (head + filler * (size_bytes // len(filler) + 1))[: size_bytes - 1] + "\n"


def state(edits: int) -> str:
    """Line of a memory that an edit replaces. Each memory contains it once."""
    return f"state: {edits:08d}"


def edit(path: str, edits: int) -> Input:
    """Next edit of the memory at `path` after `edits` edits."""
    return {"command": "str_replace", "path": path, "old_str": state(edits), "new_str": state(edits + 1)}


def create(path: str, text: str) -> Input:
    """Command that creates a memory."""
    return {"command": "create", "path": path, "file_text": text}
