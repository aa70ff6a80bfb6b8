"""`read_only`, `allow_write` and `review` hold for every operation that changes memories or their history.

The operations are found in the code. One without a case in the table fails the first test.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive import MemoryStore, Mounts, Retentive
from retentive.engine.guard import Guard
from retentive.engine.operation import Operation, Plan, Write
from retentive.errors import PermissionDenied, ReadOnly, RetentiveError
from retentive.storage.contract import Change, Moved, Snapshot
from retentive.storage.sealed.keys import KeyRing
from retentive.transfer.import_files import Import
from retentive.transfer.sources import DirectorySource
from retentive.values.paths import MemoryPath
from retentive.values.records import Invocation
from support.command_line import here
from support.modules import import_all

A, B, GONE, MARKED = "/memories/a.md", "/memories/d/b.md", "/memories/gone.md", "/memories/marked.md"
BOB = "user:bob"
DAY = 86_400.0
SECRET = "the key is AKIAQ3EGVSNB6RTKX2ZP"


class Scene:
    """A memory store with some history: changed, deleted and marked memories, and a proposal."""

    def __init__(self, directory: Path) -> None:
        self.now = 1_800_000_000.0
        self.at = f"sqlite:///{directory}/memory.db"
        self.place = retentive.open(self.at, actor=BOB, clock=lambda: self.now, sweep=False)
        store = self.store = self.place.store()
        store.change_settings({"sensitive": "off", "review": ["session:*"], "keep_versions": 1})
        for path, text in ((A, "one\n"), (B, "one\n"), (GONE, SECRET), (MARKED, SECRET)):
            self.run("create", path=path, file_text=text)
        self.run("str_replace", path=A, old_str="one", new_str="two")
        self.run("insert", path=MARKED, insert_line=0, insert_text="more")
        self.run("delete", path=GONE)
        self.run("create", actor="session:s", path="/memories/p", file_text="proposed")
        self.newest, self.oldest = (version.id for version in store.versions(A))
        self.proposal = store.review.pending()[0].id
        self.files = directory / "files"
        self.files.mkdir()
        (self.files / "f.md").write_text("imported")
        self.now += 60 * DAY

    def run(self, command: str, *, actor: str | None = None, **fields: object) -> None:
        reply = self.store.execute({"command": command, **fields}, actor=actor)
        assert not reply.is_error, reply

    def state(self) -> object:
        """Every memory and version with its text; None if the store is gone."""

        def work(snapshot: Any) -> object:
            memories = list(snapshot.list("/memories", texts=True))
            return memories, [snapshot.version(version.id) for version in snapshot.versions()]

        with suppress(RetentiveError):
            return self.store._core.read(work)
        return None


Act = Callable[[Scene], object]


def command(name: str, **fields: object) -> Act:
    return lambda scene: scene.store.execute({"command": name, **fields})


ACTS: Mapping[str, Act] = {
    "RunCommand create": command("create", path="/memories/new", file_text="x"),
    "RunCommand str_replace": command("str_replace", path=A, old_str="two", new_str="2"),
    "RunCommand insert": command("insert", path=A, insert_line=0, insert_text="zero"),
    "RunCommand delete": command("delete", path="/memories/d"),
    "RunCommand rename": command("rename", old_path="/memories/d", new_path="/memories/e"),
    "RunCommand clear": lambda scene: scene.store.clear(),
    "ClearPart": lambda scene: Mounts({"/memories": scene.store}).clear(),
    "RunCommand write": lambda scene: scene.store.write(A, "saved", if_version=scene.newest),
    "RunCommand append": lambda scene: scene.store.append(A, "more"),
    "UpdateMemory": lambda scene: scene.store.by_id.update(scene.store.load(A)[0].id, text="saved", path="/memories/n"),
    "Batch": lambda scene: scene.store.batch([{"command": "create", "path": "/memories/new", "file_text": "x"}]),
    "DeleteMemory": lambda scene: scene.store.by_id.delete(scene.store.load(A)[0].id),
    "Restore a memory": lambda scene: scene.store.history.restore(A, scene.oldest),
    "Restore a directory": lambda scene: scene.store.history.restore("/memories", scene.oldest, mode="force"),
    "Restore, deleted": lambda scene: scene.store.history.undo(scene.store.versions(GONE)[0].id),
    "Undo a change": lambda scene: scene.store.history.undo(scene.newest),
    "Undo an actor": lambda scene: scene.store.history.undo_by(BOB, mode="force"),
    "Redact a version": lambda scene: scene.store.history.redact([scene.oldest]),
    "Redact all of a path": lambda scene: scene.store.history.redact(all_of="/memories"),
    "Redact, deleted": lambda scene: scene.store.history.redact(all_of=GONE),
    "Erase a memory": lambda scene: scene.store.history.erase(B),
    "Erase, deleted": lambda scene: scene.store.history.erase(memory_id=scene.store.versions(GONE)[0].memory_id),
    "EraseStore": lambda scene: scene.place.erase("default"),
    "RedactFound": lambda scene: scene.store.scan(redact=True),
    "RedactFound with history": lambda scene: scene.store.scan(redact=True, history=True),
    "Decide": lambda scene: scene.store.review.accept([scene.proposal], actor=BOB),
    "Sweep": lambda scene: scene.store.sweep(accept_clock=True),
    "ImportFiles": lambda scene: list(Import(scene.store, under="/memories/in").run(DirectorySource(str(scene.files)))),
}
RULES: Mapping[str, Mapping[str, object]] = {
    "read_only": {"read_only": True},
    "read_only_paths": {"read_only_paths": ["/memories/**"]},
    "allow_write": {"allow_write": {"*": ["/memories/elsewhere"]}},
    "review": {"review": ["*"]},
}
OF_JOBS = {"allow_write", "review"}  # documented: these rules do not limit the jobs of retentive
EXEMPT = {
    "Sweep": OF_JOBS,
    "ImportFiles": OF_JOBS,
}
NO_CASE = {
    "ChangeSettings": "changes no memory, and must be able to take a rule back",
    "ChangeQuarantine": "changes a setting and no memory; must be possible during an attack",
    "ChangeProperties": "changes the description of the store and no memory",
    "ArchiveStore": "changes no memory; it only forbids further changes",
    "Confirm": "records the decision of a person and changes no memory",
}


def limited() -> list[tuple[str, str]]:
    """Each case with each rule that limits it."""
    return [(name, rule) for name in ACTS for rule in RULES if rule not in EXEMPT.get(name, ())]


def operations() -> Iterator[str]:
    """Names of the concrete operations that write."""
    import_all()
    kinds: list[type[Operation[Any]]] = [*Write.__subclasses__()]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if not inspect.isabstract(kind) and kind.__module__.startswith("retentive."):
            yield kind.__name__


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    with made.place:
        yield made


def test_every_operation_has_a_case() -> None:
    tested = {name.partition(",")[0].split()[0] for name in ACTS}
    assert set(operations()) == tested | NO_CASE.keys()


@pytest.mark.parametrize("name", ACTS)
def test_without_a_rule_an_operation_changes_something(name: str, scene: Scene) -> None:
    """Each case changes the scene, so the next test can fail."""
    before = scene.state()
    ACTS[name](scene)
    assert scene.state() != before


@pytest.mark.parametrize(("name", "rule"), limited())
def test_with_a_rule_an_operation_changes_nothing(name: str, rule: str, scene: Scene) -> None:
    """An actor under the rule changes neither memories nor versions."""
    scene.store.change_settings(RULES[rule])
    before = scene.state()
    with suppress(RetentiveError):
        ACTS[name](scene)
    assert before == scene.state()


@dataclass(frozen=True, slots=True)
class Unchecked(Write[None]):
    """An operation that changes memories without asking first whether its actor may."""

    act: str
    name = "unchecked"

    def paths(self) -> tuple[str, ...]:
        return (A,)

    def decide(self, view: Snapshot, guard: Guard) -> Plan[None]:
        return Plan(None, self.changes(view, guard))

    def changes(self, view: Snapshot, guard: Guard) -> Sequence[Change]:
        entry = view.get(A)
        assert entry.memory is not None
        match self.act:
            case "put":
                return guard.put(view, entry, MemoryPath.parse(A), "other").changes
            case "delete":
                return guard.delete(view, [entry.memory])
            case "move to a protected path":
                elsewhere = view.get(B).memory
                assert elsewhere is not None
                return guard.move(view, [Moved(elsewhere, f"{A}.md")])
            case _:
                return guard.move(view, [Moved(entry.memory, "/memories/d/moved.md")])


ACTS_OF_UNCHECKED = ("put", "delete", "move", "move to a protected path")
OF_A: Mapping[str, Mapping[str, object]] = {
    "none": {},
    "read_only": {"read_only": True},
    "read_only_paths": {"read_only_paths": [f"{A}*"]},
    "allow_write": {"allow_write": {"*": ["/memories/d/**"]}},
    "quarantine": {"quarantine": ["job:planted"]},
}


@pytest.mark.parametrize("rule", OF_A)
@pytest.mark.parametrize("act", ACTS_OF_UNCHECKED)
def test_the_writer_itself_refuses_what_a_rule_forbids(act: str, rule: str, scene: Scene) -> None:
    """A new operation cannot forget the rules."""
    scene.run("str_replace", path=A, old_str="two", new_str="three", actor="job:planted")
    scene.store.change_settings(OF_A[rule])
    before = scene.state()
    outcome = scene.store._core.run(Unchecked(act), Invocation(None))
    is_free = rule == "none" or (rule, act) == ("quarantine", "move to a protected path")
    assert (outcome.error is None) == is_free
    assert (scene.state() != before) == is_free


def test_the_erasure_of_a_store_names_the_rule(scene: Scene) -> None:
    """This includes a rule that only this process pins, and the read-only path of a deleted memory."""
    with retentive.open(scene.at, read_only=True) as pinned, pytest.raises(ReadOnly):
        pinned.erase("default")
    scene.store.change_settings({"read_only_paths": [GONE]})
    with pytest.raises(ReadOnly, match="read-only"):
        scene.place.erase("default")
    assert here(scene.at, "erase", "--whole-store", "--store", "default", "--yes").exit_code == 9
    scene.store.change_settings({"read_only_paths": None, "review": [BOB]})
    with pytest.raises(PermissionDenied, match="need review"):
        scene.place.erase("default")
    scene.store.change_settings({"review": None})
    assert not scene.place.erase("default").pending


def names_of(place: Retentive) -> list[str | None]:
    return [info.key for info in place.stores()]


def test_an_encrypted_store_is_erased_without_its_keys_only_if_no_rule_can_forbid_it(tmp_path: Path) -> None:
    """Without keys nobody can read the settings, which may forbid the erasure."""
    keys, at = KeyRing.new(), f"sqlite:///{tmp_path}/m.db"
    with retentive.open(at, keys=keys) as place:
        plain: MemoryStore = place.store("plain")
        ruled: MemoryStore = place.store("ruled")
        ruled.change_settings({"max_memories": 5})
        assert plain.id != ruled.id
    with retentive.open(at) as place:
        place.erase("plain")
        with pytest.raises(RetentiveError, match="keys"):
            place.erase("ruled")
        assert names_of(place) == ["ruled"]
    with retentive.open(at, keys=keys) as place:
        place.erase("ruled")
        assert names_of(place) == []
