"""`read_only`, `allow_write` and `review` hold for every operation that changes memories or their history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import retentive
from retentive import Retentive
from retentive.engine.guard import Guard
from retentive.engine.operation import Plan, Write
from retentive.errors import PermissionDenied, ReadOnly, RetentiveError
from retentive.storage.contract import Change, Moved, Snapshot
from retentive.storage.sealed.keys import KeyRing
from retentive.values.paths import MemoryPath
from retentive.values.records import Invocation
from support.command_line import here
from support.modules import operations

from .table import ANN, GONE, OPERATIONS, A, B, Scene, state_of

CHANGES = {name: case for name, case in OPERATIONS.items() if case.changes}
RULES: Mapping[str, Mapping[str, object]] = {
    "none": {},
    "read_only": {"read_only": True},
    "read_only_paths": {"read_only_paths": ["/memories/**"]},
    "allow_write": {"allow_write": {"*": ["/memories/elsewhere"]}},
    "review": {"review": ["*"]},
}
REMOVALS = {"delete", "clear", "redact", "erase", "sweep"}  # allowed in an archived store
OF_ACTORS = {"allow_write", "review"}  # documented: these rules do not limit the jobs of retentive
NO_CHANGE = {
    "settings": "changes no memory, and must be able to take a rule back",
    "trust.quarantine": "changes a setting and no memory; must be possible during an attack",
    "trust.release": "changes a setting and no memory",
    "store.archive": "changes no memory",
    "store.update": "changes the description of the store or archives it, and changes no memory",
    "trust.confirm": "records the decision of a person and changes no memory",
    "verify": "records what was found and changes no memory",
    "review.refuse": "removes proposals and changes no memory",
    "erase.store": "has its own test",
    "promote": "only proposes; guards/test_promotion.py",
}


def test_every_operation_that_changes_memories_is_tested() -> None:
    assert operations("Write") - NO_CHANGE.keys() == {name.partition(",")[0] for name in CHANGES}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", CHANGES)
def test_with_a_rule_an_operation_changes_nothing(name: str, rule: str, scene: Scene) -> None:
    """An actor under the rule changes neither memories nor versions. Without a rule, it does."""
    case = CHANGES[name]
    scene.store.change_settings(RULES[rule])
    before = state_of(scene.store)
    said = ""
    try:
        case(scene, scene.store)
    except RetentiveError as error:
        said = str(error)
    assert "." not in str(case.name) or str(case.name) not in said  # what the log calls it means nothing to a user
    is_free = rule == "none" or (rule in OF_ACTORS and case.actor.startswith("job:"))
    assert (state_of(scene.store) != before) == is_free


@pytest.mark.parametrize("name", CHANGES)
def test_an_archived_store_allows_removals_only(name: str, scene: Scene) -> None:
    """Everything else is refused, also if it would change nothing, and reads work."""
    scene.place.archive_store(scene.store.id)
    before = state_of(scene.store)
    code = None
    try:
        CHANGES[name](scene, scene.store)
    except RetentiveError as error:
        code = error.code
    assert (state_of(scene.store) != before) == (CHANGES[name].name in REMOVALS)
    assert code in ({None} if CHANGES[name].name in REMOVALS else {None, "archived"})
    assert scene.store.view()


def unchecked(act: str) -> Write[None]:
    """An operation that changes memories without asking first whether its actor may."""

    def changes(view: Snapshot, guard: Guard) -> Sequence[Change]:
        entry, elsewhere = view.get(A), view.get(B).memory
        assert entry.memory is not None
        assert elsewhere is not None
        match act:
            case "put":
                return guard.put(view, entry, MemoryPath.parse(A), "other").changes
            case "delete":
                return guard.delete(view, [entry.memory])
            case "move to a protected path":
                return guard.move(view, [Moved(elsewhere, f"{A}.md")])
            case _:
                return guard.move(view, [Moved(entry.memory, "/memories/d/moved.md")])

    return Write("unchecked", lambda view, guard: Plan(None, changes(view, guard)), MemoryPath.known(A))


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
    before = state_of(scene.store)
    outcome = scene.store._core.run(unchecked(act), Invocation(None))
    is_free = rule == "none" or (rule, act) == ("quarantine", "move to a protected path")
    assert (outcome.error is None) == is_free
    assert (state_of(scene.store) != before) == is_free


def test_the_erasure_of_a_store_names_the_rule(scene: Scene) -> None:
    """This includes a rule that only this process pins, and the read-only path of a deleted memory."""
    with retentive.open(scene.at, read_only=True) as pinned, pytest.raises(ReadOnly):
        pinned.erase("default")
    scene.store.change_settings({"read_only_paths": [GONE]})
    with pytest.raises(ReadOnly, match="read-only"):
        scene.place.erase("default")
    assert here(scene.at, "erase", "--whole-store", "--store", "default", "--yes").exit_code == 9
    scene.store.change_settings({"read_only_paths": None, "review": [ANN]})
    with pytest.raises(PermissionDenied, match="need review"):
        scene.place.erase("default")
    scene.store.change_settings({"review": None})
    assert not scene.place.erase("default").pending


def names_of(place: Retentive) -> list[str | None]:
    return [info.key for info in place.stores()]


def test_an_encrypted_store_is_not_erased_without_its_keys(tmp_path: Path) -> None:
    """Without keys nobody can read the settings, which may forbid the erasure."""
    keys, at = KeyRing.new(), f"sqlite:///{tmp_path}/m.db"
    with retentive.open(at, keys=keys) as place:
        place.store("ruled")
    with retentive.open(at) as place:
        with pytest.raises(RetentiveError, match="key"):
            place.erase("ruled")
        assert names_of(place) == ["ruled"]
    with retentive.open(at, keys=keys) as place:
        place.erase("ruled")
        assert names_of(place) == []
