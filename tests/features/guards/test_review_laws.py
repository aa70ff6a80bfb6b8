"""An actor under review gets the same replies as without review. Other actors see none of its changes."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from retentive import MemoryStore, Reply, Retentive, Usage
from retentive.engine.pending import with_own_proposals
from retentive.review.session import DecisionOutcome
from retentive.storage.contract import Actor
from retentive.values.paths import ancestors
from support.commands import tree
from support.places import opened
from support.profiles import LONG, sized
from support.strategies import command_named, commands, plain_paths, texts

S1, ANN = "session:s1", "user:ann"
NOTE = "\nNote: This change awaits review by a person. Until then only you see it."
LIMITS = st.fixed_dictionaries(
    {
        "view_chars": st.sampled_from([16_000, 7]),
        "max_memory_bytes": st.sampled_from([102_400, 30]),
        "max_memories": st.sampled_from([10_000, 5]),
        "max_store_bytes": st.sampled_from([268_435_456, 100]),
        "create_overwrites": st.booleans(),
    }
)


def seen(store: MemoryStore, who: str) -> tuple[dict[str, str], Usage]:
    """Check that all read operations of an actor agree, and return the texts and the usage."""

    def work(snapshot: Any) -> tuple[dict[str, str], Usage]:
        walked = [memory for memory, _ in snapshot.list("/memories")]
        assert [memory for memory, _ in snapshot.list("/memories", texts=True)] == walked
        assert all(one.path < other.path for one, other in pairwise(walked))
        for memory in walked:
            look = snapshot.get(memory.path)
            assert (look.memory, len(look.data)) == (memory, memory.size_bytes)
            assert snapshot.find(memory.id) == memory
            above = memory.path.rpartition("/")[0]
            assert above == "/memories" or snapshot.get(above).below
            assert snapshot.get(f"{memory.path}/x").above == memory.path
        usage = Usage(len(walked), sum(each.size_bytes for each in walked))
        assert snapshot.state.usage == usage
        return {memory.path: data.decode() for memory, data in snapshot.list("/memories", texts=True)}, usage

    core = store._core
    return core.read(lambda found: work(with_own_proposals(found, core.settings_of(found), Actor.parse(who))))


class Reviewed(RuleBasedStateMachine):
    """Stores with review and one store without review that run the same commands."""

    backends = ("memory", "directory") if LONG else ("memory",)

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="retentive-")
        self.places: list[Retentive] = []

    @initialize(limits=LIMITS, files=st.dictionaries(plain_paths, texts, max_size=6))
    def open_all(self, limits: dict[str, Any], files: dict[str, str]) -> None:
        self.limits = limits
        self.stores = [self.open(backend, review=["session:*"]) for backend in self.backends]
        self.plain = self.open("memory")
        for path, text in files.items():
            for store in (*self.stores, self.plain):
                store.execute({"command": "create", "path": path, "file_text": text}, actor=ANN)
        self.trees = [tree(self.plain)]  # the present state, followed by the state after each proposal

    def open(self, backend: str, **options: Any) -> MemoryStore:
        place = opened(backend, Path(self.directory.name), **(self.limits | options))
        self.places.append(place)
        return place.store()

    def run(self, command: object) -> None:
        before = len(list(self.plain.versions()))
        expected = self.plain.execute(command, actor=S1)
        changed = len(list(self.plain.versions())) > before
        if changed:
            self.trees.append(tree(self.plain))
        text = expected.text + NOTE if changed else expected.text
        for store in self.stores:
            assert store.execute(command, actor=S1) == Reply(text, expected.is_error, expected.code)

    @rule(data=st.data())
    def run_command(self, data: st.DataObject) -> None:
        self.run(data.draw(commands(list(self.trees[-1])), label="command"))

    @rule(data=st.data())
    def create(self, data: st.DataObject) -> None:
        self.run(data.draw(command_named("create", list(self.trees[-1])), label="command"))

    @precondition(lambda self: self.trees[-1])
    @rule(data=st.data())
    def rename(self, data: st.DataObject) -> None:
        self.run(data.draw(command_named("rename", list(self.trees[-1])), label="command"))

    @precondition(lambda self: any(self.trees[-1].values()))
    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(path for path, text in self.trees[-1].items() if text)))
        self.run({"command": "str_replace", "path": path, "old_str": self.trees[-1][path], "new_str": "x\ny"})

    @precondition(lambda self: self.trees[-1])
    @rule()
    def clear(self) -> None:
        for store in self.stores:
            assert store.clear(actor=S1).text == "All memory cleared" + NOTE
        self.plain.clear(actor=S1)
        self.trees.append({})

    @precondition(lambda self: len(self.trees) > 1)
    @rule(data=st.data())
    def accept_the_first(self, data: st.DataObject) -> None:
        """Accept the first proposals.

        The actor sees the same state as before, and the others see the accepted changes.
        """
        count = data.draw(st.integers(1, len(self.trees) - 1))
        for store in self.stores:
            ids = tuple(each.id for each in store.review.pending())[:count]
            assert store.review.accept(reversed(ids), actor=ANN) == DecisionOutcome(done=ids)
        del self.trees[:count]
        self.check()

    @precondition(lambda self: len(self.trees) > 1)
    @rule(data=st.data())
    def refuse_the_last(self, data: st.DataObject) -> None:
        """Refuse the last proposals. The actor sees the state before them."""
        count = data.draw(st.integers(1, len(self.trees) - 1))
        for store in self.stores:
            ids = [each.id for each in store.review.pending()][-count:]
            assert set(store.review.refuse(ids, actor=ANN).done) == set(ids)
        del self.trees[-count:]
        self.plain = self.open("memory", max_memories=0, max_memory_bytes=0, max_store_bytes=0)
        for path, text in self.trees[-1].items():
            self.plain.execute({"command": "create", "path": path, "file_text": text}, actor=ANN)
        self.plain = MemoryStore(self.plain._core.backend, self.plain._core.info, pins=self.limits)
        self.check()

    def check(self) -> None:
        known = {place for path in {*self.trees[0], *self.trees[-1]} for place in (path, *ancestors(path))}
        views = [{"command": "view", "path": path} for path in ("/memories", *sorted(known))]
        for store in self.stores:
            assert len(store.review.pending()) == len(self.trees) - 1
            assert seen(store, S1)[0] == self.trees[-1]
            assert seen(store, "session:s2")[0] == tree(store) == self.trees[0]
            assert [store.execute(each, actor=S1) for each in views] == [self.plain.execute(each) for each in views]

    def teardown(self) -> None:
        try:
            if hasattr(self, "trees"):
                self.check()
                for store in self.stores:
                    store.review.accept([each.id for each in store.review.pending()], actor=ANN)
                    assert tree(store) == tree(self.plain) == self.trees[-1]
        finally:
            for place in self.places:
                place.close()
            self.directory.cleanup()


TestReviewed = Reviewed.TestCase
TestReviewed.settings = settings(max_examples=sized(quick=4, long=40, full=100), stateful_step_count=40 if LONG else 20)
