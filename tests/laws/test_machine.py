"""All backends and the model, driven by the same commands, answer alike, byte for byte."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from backends.places import EVERYWHERE, LOCAL, opened
from commonplace import Commonplace, MemoryStore, Usage

from .model import Model
from .strategies import broken_commands, command_named, commands, plain_paths, texts

LONG = os.environ.get("CI") == "true"
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


class LocalBackends(RuleBasedStateMachine):
    """One memory store on every backend of this machine, and the model."""

    backends = LOCAL

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="commonplace-")
        self.opened: dict[str, Commonplace] = {}
        self.stores: dict[str, MemoryStore] = {}
        self.model = Model()

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
        self.execute(data.draw(broken_commands(list(self.model.tree)), label="command"))

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

    @precondition(lambda self: self.model.tree)
    @rule(data=st.data())
    def close_and_open(self, data: st.DataObject) -> None:
        backend = data.draw(st.sampled_from([name for name in self.backends if name != "memory"]), label="backend")
        self.opened[backend].close()
        self.open_one(backend)

    def execute(self, command: object) -> None:
        """Every backend replies what the model expects, and all the same."""
        expected = self.model.execute(command)
        replies = {backend: store.execute(command) for backend, store in self.stores.items()}
        for backend, reply in replies.items():
            assert expected.fits(reply.text, is_error=reply.is_error), (backend, command, expected, reply)
        assert len(set(replies.values())) == 1, (command, replies)

    def teardown(self) -> None:
        try:
            for backend in self.stores:
                self.check_state(backend)
        finally:
            for opened in self.opened.values():
                opened.close()
            self.directory.cleanup()

    def check_state(self, backend: str) -> None:
        """The tree is the model's, usage its size, and every change is one version."""
        store, tree = self.stores[backend], self.model.tree
        assert {memory.path: store.text(memory.path) for memory in store.memories()} == tree
        sizes = [len(text.encode()) for text in tree.values()]
        assert store.usage() == Usage(len(tree), sum(sizes))
        assert len(list(store.versions())) == self.model.changes


class AllBackends(LocalBackends):
    """On every backend there is, bare, sealed, and with sealed paths."""

    backends = EVERYWHERE


TestLocalBackends = pytest.mark.timeout(1_800)(LocalBackends.TestCase)
TestAllBackends = pytest.mark.timeout(1_800)(AllBackends.TestCase)
TestAllBackends.settings = settings(max_examples=30 if LONG else 3, stateful_step_count=40 if LONG else 20)
