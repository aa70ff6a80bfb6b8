"""Scene of the attacks: a memory directory next to private files that no command may read or change."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from anthropic.lib.tools import ToolError
from anyio.from_thread import start_blocking_portal

import retentive
from retentive import AsyncMemoryTool, MemoryStore, MemoryTool
from support.places import place_of

CANARY = "the canary sings outside"
OWN = {"memories", ".retentive", "stores"}
Call: TypeAlias = Callable[[object], str]


class Scene:
    """Location of a memory in `tmp`, surrounded by canary files. Every reply is checked for leaks."""

    def __init__(self, tmp: Path, backend: str = "directory") -> None:
        self.tmp = tmp
        self.backend = backend
        self.room = tmp / "room"
        self.root = self.room / "memory"
        self.memories = self.root / "memories"
        self.outside = tmp / "outside"
        self.place = place_of(backend, self.room)
        for directory in (self.outside / "d", self.room, tmp / "memoriesfoo", tmp / "memories"):
            directory.mkdir(parents=True)
        for name in ("outside/canary.txt", "outside/d/canary.txt", "room/canary.txt", "memoriesfoo/canary.txt"):
            (tmp / name).write_text(CANARY)
        self._before = self._surroundings()

    @contextmanager
    def opened(self) -> Iterator[MemoryStore]:
        """Open the default store."""
        with retentive.open(self.place) as opened:
            yield opened.store()

    @contextmanager
    def calling(self, kind: str = "sync", **options: str) -> Iterator[Call]:
        """Wrap `call` of the SDK tool in a function that returns the text of the reply or of the error."""
        if kind == "sync":
            tool = MemoryTool(self.place, **options)  # type: ignore[arg-type]  # options are texts here
            yield lambda command: self._checked(command, lambda: tool.call(command))
            tool.close()
            return
        waiting = AsyncMemoryTool(self.place, **options)  # type: ignore[arg-type]
        with start_blocking_portal() as portal:
            yield lambda command: self._checked(command, lambda: portal.call(waiting.call, command))
        waiting.close()

    def _checked(self, command: object, run: Callable[[], str]) -> str:
        """Return the reply after a check for canaries and real paths. Only ToolError is caught."""
        try:
            said = run()
        except ToolError as error:
            said = str(error.content)
            assert said.startswith(("Error: ", "The path ", "No replacement was performed", "File ")), said[:500]
        assert isinstance(said, str)
        self.check_reply(said, command)
        return said

    def check_reply(self, said: str, command: object) -> None:
        """Check that a reply has no canary, no internal file name, and no real path that the caller did not send."""
        assert CANARY not in said
        assert "Traceback" not in said
        shown = [name for name in (str(self.tmp), self.tmp.name, ".retentive", "memory.db") if name in said]
        assert not shown or [name for name in shown if name not in repr(command)] == [], said[:500]

    def check_outside(self) -> None:
        """Check that no file outside the memory changed or was created."""
        assert self._surroundings() == self._before

    def accept_outside(self) -> None:
        """Record the outside files as the expected state, after the test itself changed some of them."""
        self._before = self._surroundings()

    def _surroundings(self) -> dict[str, object]:
        found = {str(path.relative_to(self.tmp)): self._status(path) for path in _walk(self.tmp, self._is_own)}
        return dict(sorted(found.items()))

    def _is_own(self, path: Path) -> bool:
        if path.parent == self.root:
            return path.name in OWN
        return path.parent == self.room and (path.name.startswith("memory.db") or path == self.root)

    def _status(self, path: Path) -> object:
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            return "directory", stat.S_IMODE(status.st_mode)
        return path.read_bytes(), status.st_mode, status.st_ino, status.st_mtime_ns, status.st_nlink


def _walk(directory: Path, skip: Callable[[Path], bool]) -> Iterator[Path]:
    for path in directory.iterdir():
        if skip(path):
            continue
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path, skip)


def every_command(path: str, *, other: str = "/memories/other.txt") -> list[dict[str, object]]:
    """Return all six commands, with the path in each of their path fields."""
    return [
        {"command": "view", "path": path},
        {"command": "view", "path": path, "view_range": [1, 1]},
        {"command": "create", "path": path, "file_text": "planted"},
        {"command": "str_replace", "path": path, "old_str": "sings", "new_str": "is silent"},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "planted"},
        {"command": "rename", "old_path": path, "new_path": other},
        {"command": "rename", "old_path": "/memories/a.txt", "new_path": path},
        {"command": "rename", "path": path, "new_path": other},
        {"command": "delete", "path": path},
    ]


def listing(call: Call) -> list[str]:
    """Return the paths shown by a view of the root."""
    return [row.split("\t")[1] for row in call({"command": "view", "path": "/memories"}).split("\n")[2:]]
