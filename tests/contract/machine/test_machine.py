"""State machine that runs the same commands on all backends and on the model. Their replies must be identical."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from retentive import InvalidInput, MemoryStore, Retentive, Usage, Version
from retentive.history.plan import Mode, RestoreOutcome
from retentive.history.revisions import past_of
from retentive.storage.contract import Snapshot
from support.model import Model
from support.places import ALL_LOCAL, COMPARED, opened
from support.profiles import LONG, sized
from support.strategies import command_named, commands, invalid_commands, plain_paths, texts

LIMITS = st.fixed_dictionaries(
    {
        "view_chars": st.sampled_from([16_000, 16_000, 0, 1, 7, 20]),
        "list_rows": st.sampled_from([1_000, 0, 1, 3]),
        "max_memory_bytes": st.sampled_from([102_400, 0, 30]),
        "max_memories": st.sampled_from([10_000, 10_000, 0, 5]),
        "max_store_bytes": st.sampled_from([268_435_456, 268_435_456, 0, 100]),
        "create_overwrites": st.booleans(),
    }
)


class Moment(NamedTuple):
    """State of the tree, and the newest version on each backend at that moment."""

    tree: dict[str, str]
    newest: dict[str, str]


class LocalBackends(RuleBasedStateMachine):
    """State machine with one memory store on every local backend, and the model."""

    backends = ALL_LOCAL

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="retentive-")
        self.opened: dict[str, Retentive] = {}
        self.stores: dict[str, MemoryStore] = {}
        self.model = Model()
        self.moments: list[Moment] = []  # after each change

    @initialize(limits=LIMITS, files=st.dictionaries(plain_paths, texts, max_size=6))
    def open_all(self, limits: dict[str, Any], files: dict[str, str]) -> None:
        self.limits = limits
        self.model = Model(**limits)
        for backend in self.backends:
            self.open_one(backend)
        for path, text in files.items():
            self.execute({"command": "create", "path": path, "file_text": text})

    def open_one(self, backend: str) -> None:
        self.opened[backend] = opened(backend, Path(self.directory.name), **self.limits)
        self.stores[backend] = self.opened[backend].store()

    @rule(data=st.data())
    def run_command(self, data: st.DataObject) -> None:
        self.execute(data.draw(commands(list(self.model.tree)), label="command"))

    @rule(data=st.data())
    def create(self, data: st.DataObject) -> None:
        self.execute(data.draw(command_named("create", list(self.model.tree)), label="command"))

    @precondition(lambda self: self.model.tree)
    @rule(data=st.data())
    def run_broken_command(self, data: st.DataObject) -> None:
        self.execute(data.draw(invalid_commands(list(self.model.tree)), label="command"))

    @precondition(lambda self: any(self.model.tree.values()))
    @rule(data=st.data())
    def edit_what_is_there(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(path for path, text in self.model.tree.items() if text)))
        text = self.model.tree[path]
        start = data.draw(st.integers(0, len(text) - 1))
        old = text[start : start + data.draw(st.integers(1, 4))]
        new = data.draw(st.sampled_from(["", old, "X", "X\nY\n", "\n", text]))
        self.execute({"command": "str_replace", "path": path, "old_str": old, "new_str": new})

    @precondition(lambda self: self.model.tree)
    @rule(data=st.data())
    def view_what_is_there(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.model.tree)))
        lines = self.model.tree[path].count("\n") + 1
        first = data.draw(st.integers(1, lines))
        last = data.draw(st.integers(first, lines + 1) | st.just(-1))
        self.execute({"command": "view", "path": path, "view_range": [first, last]})

    @precondition(lambda self: len(self.model.tree) > 3)
    @rule()
    def clear(self) -> None:
        replies = {backend: store.clear() for backend, store in self.stores.items()}
        assert {reply.text for reply in replies.values()} == {"All memory cleared"}
        self.model.changes += len(self.model.tree)
        self.model.tree.clear()
        self.remember()

    @precondition(lambda self: self.model.tree)
    @rule(data=st.data())
    def close_and_open(self, data: st.DataObject) -> None:
        backend = data.draw(st.sampled_from([name for name in self.backends if name != "memory"]), label="backend")
        self.opened[backend].close()
        self.open_one(backend)

    def execute(self, command: object) -> None:
        """Run a command on every backend, and check that each reply is the reply of the model."""
        changes = self.model.changes
        expected = self.model.execute(command)
        replies = {backend: store.execute(command) for backend, store in self.stores.items()}
        for backend, reply in replies.items():
            assert expected.fits(reply.text, is_error=reply.is_error), (backend, command, expected, reply)
        assert len(set(replies.values())) == 1, (command, replies)
        if self.model.changes != changes:
            self.remember()

    def remember(self) -> None:
        newest = {backend: store.versions(limit=1)[0].id for backend, store in self.stores.items()}
        self.moments.append(Moment(dict(self.model.tree), newest))

    @precondition(lambda self: self.moments)
    @rule(data=st.data())
    def pack(self, data: st.DataObject) -> None:
        """Sweep one store: its superseded texts are packed, and no answer changes."""
        self.stores[data.draw(st.sampled_from(self.backends), label="backend")].sweep()

    @precondition(lambda self: self.moments)
    @rule(data=st.data())
    def restore_all(self, data: st.DataObject) -> None:
        moment = data.draw(st.sampled_from(self.moments), label="moment")
        self.go_to(moment.tree, lambda store, name: store.history.restore("/memories", moment.newest[name]))

    @precondition(lambda self: len(self.moments) > 1)
    @rule()
    def undo_the_last_change(self) -> None:
        last, before = self.moments[-1], self.moments[-2]
        self.go_to(before.tree, lambda store, name: store.history.undo(last.newest[name]))

    @precondition(lambda self: len(self.moments) > 1)
    @rule(data=st.data(), mode=st.sampled_from(["refuse", "merge", "force", "partial"]))
    def undo_an_old_change(self, data: st.DataObject, mode: Any) -> None:
        """Undo an earlier change on every backend, and check that the results agree."""
        moment = data.draw(st.sampled_from(self.moments), label="moment")
        found = {backend: undone(store, moment.newest[backend], mode) for backend, store in self.stores.items()}
        assert len({repr(one) for one in found.values()}) == 1, found
        trees = [tree_of(store) for store in self.stores.values()]
        assert all(tree == trees[0] for tree in trees)
        if trees[0] != self.model.tree:
            self.went_to(trees[0])

    @precondition(lambda self: self.moments)
    @rule(data=st.data())
    def see_what_was(self, data: st.DataObject) -> None:
        moment = data.draw(st.sampled_from(self.moments), label="moment")
        for backend, store in self.stores.items():
            assert tree_at(store, moment.newest[backend]) == moment.tree, backend

    @rule(query=st.sampled_from(["a", "X", "é", "memories -a", '"a b"']))
    def search(self, query: str) -> None:
        found = {
            tuple((hit.path, hit.lines, hit.snippets) for hit in store.search(query, limit=None).hits)
            for store in self.stores.values()
        }
        assert len(found) == 1, found

    def go_to(self, tree: dict[str, str], go: Callable[[MemoryStore, str], RestoreOutcome]) -> None:
        for backend, store in self.stores.items():
            outcome = go(store, backend)
            assert outcome.done, (backend, outcome)
            assert tree_of(store) == tree, backend
        if tree != self.model.tree:
            self.went_to(tree)

    def went_to(self, tree: dict[str, str]) -> None:
        self.model.tree = dict(tree)
        counts = {len(list(store.versions())) for store in self.stores.values()}
        assert len(counts) == 1
        self.model.changes = counts.pop()
        self.remember()

    def teardown(self) -> None:
        try:
            for backend in self.stores:
                self.check_state(backend)
        finally:
            for opened in self.opened.values():
                opened.close()
            self.directory.cleanup()

    def check_state(self, backend: str) -> None:
        """Check the tree and the usage against the model, and that every change added one version."""
        store, tree = self.stores[backend], self.model.tree
        assert {memory.path: store.read(memory.path) for memory in store.memories()} == tree
        sizes = [len(text.encode()) for text in tree.values()]
        assert store.usage() == Usage(len(tree), sum(sizes))
        versions = list(store.versions())
        assert len(versions) == self.model.changes
        assert [version.id for version in versions] == sorted((version.id for version in versions), reverse=True)
        assert rebuilt_tree(store, versions) == tree


def rebuilt_tree(store: MemoryStore, versions: Sequence[Version]) -> dict[str, str]:
    """Rebuild the tree from the versions alone, which are given newest first."""
    newest = {version.memory_id: version for version in reversed(versions)}
    return {one.path: store.version_text(one.id) for one in newest.values() if one.operation != "deleted"}


def tree_of(store: MemoryStore) -> dict[str, str]:
    return {memory.path: store.read(memory.path) for memory in store.memories()}


def tree_at(store: MemoryStore, version: str) -> dict[str, str]:
    def work(found: Snapshot) -> dict[str, str]:
        return {
            memory.path: (data or b"").decode()
            for memory, data in past_of(found, version).list("/memories", texts=True)
        }

    return store._core.read(work)


def undone(store: MemoryStore, version: str, mode: Mode) -> object:
    try:
        outcome = store.history.undo(version, mode=mode)
    except InvalidInput as refused:  # refused because of a limit
        return str(refused)
    steps = [(step.what, step.path) for step in outcome.steps]
    return steps, [(conflict.path, conflict.reason) for conflict in outcome.conflicts]


class AllBackends(LocalBackends):
    """State machine with every backend: bare and encrypted."""

    backends = COMPARED


TestLocalBackends = pytest.mark.timeout(1_800)(LocalBackends.TestCase)
TestLocalBackends.settings = settings(
    max_examples=sized(quick=5, long=40, full=200), stateful_step_count=60 if LONG else 30
)
TestAllBackends = pytest.mark.timeout(1_800)(AllBackends.TestCase)
TestAllBackends.settings = settings(
    max_examples=sized(quick=2, long=6, full=20), stateful_step_count=40 if LONG else 20
)
