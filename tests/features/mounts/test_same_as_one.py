"""Several stores as one tree give the same replies as one store with all memories, except for changes across stores."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import retentive
from retentive import MemoryStore, Mounts, Reply
from support.profiles import LONG, sized
from support.strategies import command_named, commands, plain_paths, texts, weighted

POINTS = ("/memories/a", "/memories/b/a", "/memories/a/b", "/memories/é/b/a b", "/memories/.github", "/memories/a b")
KEPT = ".keep"
"""Hidden memory without text in every store. It makes each mount point a directory in the single store too."""
LIMITS = st.fixed_dictionaries(
    {
        "view_chars": st.sampled_from([16_000, 0, 7]),
        "list_rows": st.sampled_from([1_000, 0, 3]),
        "create_overwrites": st.booleans(),
    }
)


class OneTree(RuleBasedStateMachine):
    """Mounts of two to four stores, and a single store with all their memories."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: Any = None
        self.known: list[str] = []

    @initialize(
        points=st.sets(st.sampled_from(POINTS), min_size=1, max_size=3),
        limits=LIMITS,
        files=st.dictionaries(plain_paths, texts, max_size=6),
    )
    def open(self, points: set[str], limits: dict[str, Any], files: dict[str, str]) -> None:
        self.opened = retentive.open("sqlite://", **limits)
        self.one: MemoryStore = self.opened.store("one")
        self.points = {"/memories", *points}
        self.mounts = Mounts({point: self.opened.store(point) for point in self.points})
        self.fixed = {above for point in self.points for above in _with_directories_above(point)}
        self.keep_points()
        for path, text in files.items():
            self.answer({"command": "create", "path": path, "file_text": text})

    @rule(data=st.data())
    def run_command(self, data: st.DataObject) -> None:
        self.answer(data.draw(commands(self.places()), label="command"))

    @rule(data=st.data())
    def create(self, data: st.DataObject) -> None:
        self.answer(data.draw(command_named("create", self.places()), label="command"))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def rename(self, data: st.DataObject) -> None:
        """Rename a memory or a directory to a path near a mount point."""
        known = st.sampled_from(self.known)
        new = st.tuples(st.sampled_from(sorted(self.fixed)), st.sampled_from(["", "/", "/c", "/c/a", "/c/"]))
        old = data.draw(weighted((2, known), (1, known.map(lambda path: path.rsplit("/", 1)[0]))))
        self.answer({"command": "rename", "old_path": old, "new_path": "".join(data.draw(new))})

    @rule(data=st.data())
    def view_a_directory_above(self, data: st.DataObject) -> None:
        self.answer({"command": "view", "path": data.draw(st.sampled_from(sorted(self.fixed)))})

    @rule()
    def clear(self) -> None:
        assert self.mounts.clear() == self.one.clear()
        self.keep_points()

    def keep_points(self) -> None:
        for point in self.points:
            kept = {"command": "create", "path": f"{point}/{KEPT}", "file_text": ""}
            assert self.mounts.execute(kept) == self.one.execute(kept)
        self.known = []

    def places(self) -> list[str]:
        return [*self.known, *(point + "/a" for point in self.points)]

    def answer(self, command: dict[str, object]) -> None:
        """Run a command on both and compare the replies. A few commands are refused only by the tree."""
        reply = self.mounts.execute(command)
        if not self.is_refused_at_a_border(command, reply):
            assert reply == self.one.execute(command), command
        found = {memory.path: self.mounts.read(memory.path) for memory in self.mounts.memories()}
        assert found == {memory.path: self.one.read(memory.path) for memory in self.one.memories()}
        assert list(found) == sorted(found)
        view = {"command": "view", "path": "/memories"}
        assert self.mounts.execute(view) == self.one.execute(view)
        self.known = [path for path in found if not path.endswith("/" + KEPT)]

    def is_refused_at_a_border(self, command: dict[str, object], reply: Reply) -> bool:
        """Return whether the tree refused the command because it crosses stores.

        The single store then undoes or skips it.
        """
        old, new = (str(command.get(name) or command.get("path")) for name in ("old_path", "new_path"))
        if reply.code == "root_protected":
            path = _canonical(old)
            assert path in self.fixed
            if path == "/memories":
                return False
            done = "deleted" if command["command"] == "delete" else "renamed"
            assert reply.text.startswith(f"Error: {old} cannot be {done}: a memory store is mounted at {path}")
            return True
        if reply.code == "across_mounts":
            assert self.mounts.store_of(old)[0].id != self.mounts.store_of(new)[0].id
            if not self.one.execute(command).is_error:
                undone = self.one.execute({"command": "rename", "old_path": new, "new_path": _canonical(old)})
                assert not undone.is_error
            return True
        if command["command"] == "rename" and reply.is_error and _canonical(new) in self.fixed:
            assert self.one.execute(command).is_error
            return True
        assert (
            _canonical(old) not in self.fixed - {"/memories"}
            or command["command"] not in {"delete", "rename"}
            or (reply.code == "invalid_path")
        )
        return False

    def teardown(self) -> None:
        if self.opened is not None:
            self.opened.close()


def _canonical(written: str) -> str:
    return "/".join(["/memories", *[name for name in written.split("/")[2:] if name]])


def _with_directories_above(point: str) -> set[str]:
    names = point.split("/")
    return {"/".join(names[:end]) for end in range(2, len(names) + 1)}


TestOneTree = pytest.mark.timeout(900)(OneTree.TestCase)
TestOneTree.settings = settings(max_examples=sized(quick=4, long=40, full=150), stateful_step_count=40 if LONG else 25)
