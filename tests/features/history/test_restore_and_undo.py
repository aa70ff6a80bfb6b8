"""Restores and undos on every backend."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from retentive import Actor, InvalidInput, MemoryStore, NotFound
from retentive.errors import ReadOnly, RetentiveError, SensitiveValue, TooLarge
from retentive.history.plan import Mode, RestoreOutcome
from retentive.history.revisions import past_of
from retentive.storage.contract import Created, Snapshot
from support.commands import tree
from support.model import Model
from support.places import EVERYWHERE, opened
from support.profiles import LONG
from support.walk import Walk

from .changes import A, B, C, create, replace, run


@pytest.fixture(params=EVERYWHERE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStore]:
    with opened(str(request.param), tmp_path) as place:
        yield place.store()


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[MemoryStore]:
    """Store on the fastest backend, for rules that are the same on every backend."""
    with opened("memory", tmp_path) as place:
        yield place.store()


def tree_at(store: MemoryStore, version: str) -> dict[str, str]:
    def work(found: Snapshot) -> dict[str, str]:
        return {
            memory.path: (data or b"").decode()
            for memory, data in past_of(found, version).list("/memories", texts=True)
        }

    return store._core.read(work)


def done(outcome: RestoreOutcome) -> list[tuple[str, str]]:
    assert outcome.conflicts == ()
    assert outcome.done
    return [(step.what, step.path) for step in outcome.steps]


def refused(outcome: RestoreOutcome) -> list[tuple[str, str]]:
    assert not outcome.done
    return [(conflict.path, conflict.reason) for conflict in outcome.conflicts]


# -- laws --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2) if LONG else [0])
def test_every_moment_can_be_read_and_restored(store: MemoryStore, seed: int) -> None:
    """After random commands, the tree at each version can be read. Restoring a version gives that tree again."""
    moments = walked(store, seed, commands=25 if LONG else 12)
    ids = {memory.path: memory.id for memory in store.memories()}
    assert len(ids) > 1
    for version, then in moments:
        assert tree_at(store, version) == then
    chosen = random.Random(seed).sample(moments, 4)
    for version, then in chosen:
        store.history.restore("/memories", version)
        assert tree(store) == then
    at_last, then = moments[-1]
    store.history.restore("/memories", at_last)
    assert tree(store) == then
    assert {memory.path: memory.id for memory in store.memories()} == ids


@pytest.mark.parametrize("seed", range(3, 5) if LONG else [3])
def test_undoing_all_changes_one_by_one_gives_the_first_tree(store: MemoryStore, seed: int) -> None:
    """The changes are undone from the last to the first.

    Each undo gives the tree before its change and can be undone.
    """
    create(store, A, "first\n")
    moments = [("", tree(store)), *walked(store, seed, commands=15 if LONG else 8, first=tree(store))]
    for (version, after), (_, before) in reversed(list(zip(moments[1:], moments, strict=False))):
        assert tree(store) == after
        done(store.history.undo(version))
        assert tree(store) == before
        again = store.versions(limit=1)[0].id
        done(store.history.undo(again))
        assert tree(store) == after
        done(store.history.undo(version, mode="merge"))
        assert tree(store) == before


@pytest.mark.parametrize("seed", range(7, 9) if LONG else [8])
def test_undoing_a_whole_session_gives_the_first_tree(store: MemoryStore, seed: int) -> None:
    """The undo is one change. No other actor has changed anything in between."""
    create(store, A, "first\n", "user:ann")
    create(store, C, "second\n", "user:ann")
    before, ids = tree(store), sorted(memory.id for memory in store.memories())
    walked(store, seed, commands=25 if LONG else 15, first=before, actor="session:s1")
    assert tree(store) != before
    outcome = store.history.undo_by("session:s1", actor="user:ann")
    assert outcome.done
    assert tree(store) == before
    assert sorted(memory.id for memory in store.memories()) == ids
    revisions = {version.revision for version in store.versions(limit=len(outcome.steps))}
    assert len(revisions) == 1
    assert store.versions(limit=1)[0].actor == Actor("user", "ann")


def walked(
    store: MemoryStore, seed: int, *, commands: int, first: dict[str, str] | None = None, actor: str | None = None
) -> list[tuple[str, dict[str, str]]]:
    """Run random commands, and return the last version of each change with the tree after the change."""
    model = Model()
    model.tree.update(first or {})
    walk = Walk(seed, model)
    moments: list[tuple[str, dict[str, str]]] = []
    revision = store._core.read(lambda found: found.state.revision)
    while len(moments) < commands:
        command = walk.command()
        model.execute(command)
        store.execute(command, actor=actor)
        now = store._core.read(lambda found: found.state.revision)
        if now != revision:
            moments.append((store.versions(limit=1)[0].id, tree(store)))
            revision = now
    return moments


# -- restoring ---------------------------------------------------------------------------------------------------


def test_a_memory_gets_its_text_back(store: MemoryStore) -> None:
    """The memory stays at its present path. The new version names the actor of the restore."""
    first = create(store, A, "one")
    replace(store, A, "one", "two")
    run(store, "rename", old_path=A, new_path=B)
    assert done(store.history.restore(B, first, actor="user:ann")) == [("changed", B)]
    assert tree(store) == {B: "one"}
    assert [version.actor for version in store.versions(limit=1)] == [Actor("user", "ann")]
    assert done(store.history.restore(B, first)) == []


def test_a_deleted_memory_comes_back_with_its_history(store: MemoryStore) -> None:
    """The restored memory has the id and the creation time of the deleted one."""
    create(store, C, "one")
    before = store.load(C)[0]
    second = replace(store, C, "one", "two")
    run(store, "delete", path="/memories/d")
    assert done(store.history.restore(C, second)) == [("made", C)]
    after, text = store.load(C)
    assert (text, after.id, after.created_at) == ("two", before.id, before.created_at)
    assert len(store.history.log(C)) == 4


@pytest.mark.parametrize("settings", [
    {}, {"read_only": True}, {"read_only_paths": [A]}, {"allow_write": {"session:*": ["/memories"]}},
    {"max_memories": 1}, {"max_memory_bytes": 2}, {"max_store_bytes": 3},
    {"review": ["user:*"]}, {"sensitive": "reject"},
])  # fmt: skip
def test_a_dry_run_answers_as_the_run(store: MemoryStore, settings: dict[str, object]) -> None:
    """Also what a guard, a limit or a review says. It changes nothing."""
    store.change_settings({"sensitive": "off"})
    store.write(A, "key sk-ant-api03-" + "a1B2" * 23 + "AA\n" if "sensitive" in settings else "first\n")
    store.write(A, "2\n")
    store.write(B, "b\n")
    at = store.versions(path=A)[-1].id
    store.delete(A)
    store.change_settings(settings)
    store = store.acting_as("user:u")
    before = [version.id for version in store.versions()], tree(store)
    for name, arguments in (("restore", (A, at)), ("undo", ("HEAD",)), ("undo_by", ("*",))):
        call = getattr(store.history, name)
        said: list[object] = []
        for dry_run in (True, False):
            try:
                said.append(dataclasses.replace(call(*arguments, dry_run=dry_run), dry_run=False))
            except RetentiveError as error:
                said.append((type(error), str(error)))
            assert not dry_run or ([version.id for version in store.versions()], tree(store)) == before
        assert said[0] == said[1]
        if before != ([version.id for version in store.versions()], tree(store)):
            break


def test_a_directory_is_restored(store: MemoryStore) -> None:
    """Newer memories are deleted. Changed, deleted and moved memories are restored. All others stay."""
    create(store, "/memories/d/kept", "kept")
    create(store, "/memories/d/changed", "old")
    create(store, "/memories/d/deleted", "deleted")
    create(store, "/memories/d/moved", "moved")
    create(store, "/memories/dx", "old")
    then = run(store, "create", path="/memories/came", file_text="came")
    at = store.versions(limit=1)[0].created_at
    replace(store, "/memories/d/changed", "old", "new")
    run(store, "delete", path="/memories/d/deleted")
    run(store, "rename", old_path="/memories/d/moved", new_path="/memories/away")
    run(store, "rename", old_path="/memories/came", new_path="/memories/d/came")
    create(store, "/memories/d/new", "new")
    replace(store, "/memories/dx", "old", "new")
    expected = {
        "/memories/came": "came",
        "/memories/d/changed": "old",
        "/memories/d/deleted": "deleted",
        "/memories/d/kept": "kept",
        "/memories/d/moved": "moved",
        "/memories/dx": "new",
    }
    planned = store.history.restore("/memories/d", at, dry_run=True)
    assert planned.dry_run
    assert len(tree(store)) == 6
    done(store.history.restore("/memories/d", then))
    assert tree(store) == expected
    assert len({version.revision for version in store.versions(limit=len(planned.steps))}) == 1


def test_memories_that_swapped_paths_swap_back(store: MemoryStore) -> None:
    """The paths of two or three memories were swapped, or a file became a directory."""
    create(store, A, "a")
    create(store, B, "b")
    create(store, C, "c")
    then = create(store, "/memories/x", "x")
    for old, new in ((A, "/memories/t"), (B, A), (C, B), ("/memories/t", C)):
        run(store, "rename", old_path=old, new_path=new)
    run(store, "rename", old_path="/memories/x", new_path="/memories/t")
    run(store, "rename", old_path="/memories/t", new_path="/memories/x/y")
    before = tree(store)
    ids = {text: store.load(path)[0].id for path, text in before.items()}
    now = store.versions(limit=1)[0].id
    assert store.history.restore("/memories", then).done
    assert tree(store) == {A: "a", B: "b", C: "c", "/memories/x": "x"}
    assert {text: store.load(path)[0].id for path, text in tree(store).items()} == ids
    assert store.history.restore("/memories", now).done
    assert tree(store) == before


def test_an_unknown_moment_is_refused(quick: MemoryStore) -> None:
    """The error contains the reason."""
    create(quick, A, "one")
    early = datetime(2001, 1, 1, tzinfo=UTC)
    assert done(quick.history.restore("/memories", early)) == [("deleted", A)]
    with pytest.raises(NotFound, match="or below /memories/d at that"):
        quick.history.restore("/memories/d", early)
    create(quick, B, "two")
    with pytest.raises(NotFound, match="or below /memories/b at that"):
        quick.history.restore(B, early)
    with pytest.raises(NotFound):
        quick.history.restore(B, "memver_unknown")
    with pytest.raises(InvalidInput, match="zone"):
        quick.history.restore(B, datetime(2026, 1, 1))
    assert tree(quick) == {B: "two"}
    assert quick.history.restore("/memories", datetime.now(UTC) + timedelta(days=1)).steps == ()


def test_guards_apply_to_restored_texts(quick: MemoryStore) -> None:
    """The guards are read-only paths, size limits and sensitive values. They apply as for every write."""
    quick.change_settings({"sensitive": "off"})
    first = create(quick, A, "the key is AKIAQ3EGVSNB6RTKX2ZP and stays\n")
    replace(quick, A, "AKIAQ3EGVSNB6RTKX2ZP", "gone")
    quick.change_settings({"sensitive": "reject"})
    with pytest.raises(SensitiveValue, match="sensitive values"):
        quick.history.restore(A, first)
    quick.change_settings({"sensitive": "redact"})
    outcome = quick.history.restore(A, first)
    assert [(each.path, each.reason) for each in outcome.left] == [
        (A, "a guard removed sensitive values from the restored text")
    ]
    assert not outcome.done
    assert tree(quick)[A] == "the key is [REDACTED:aws_access_key_id] and stays\n"
    large = create(quick, B, "x" * 30)
    run(quick, "delete", path=B)
    quick.change_settings({"max_memory_bytes": 20})
    with pytest.raises(TooLarge, match="limit"):
        quick.history.restore(B, large)
    quick.change_settings({"read_only_paths": [A]})
    with pytest.raises(ReadOnly, match=f"^{A} is read-only$"):
        quick.history.restore("/memories", first)


def test_a_redacted_text_elsewhere_is_no_conflict(quick: MemoryStore) -> None:
    gone = create(quick, "/memories/elsewhere", "gone")
    then = create(quick, "/memories/d/a", "one")
    replace(quick, "/memories/d/a", "one", "1")
    run(quick, "delete", path="/memories/elsewhere")
    quick.history.redact([gone])
    assert done(quick.history.restore("/memories/d", then)) == [("changed", "/memories/d/a")]
    assert tree(quick) == {"/memories/d/a": "one"}


def test_a_redacted_text_cannot_be_restored(store: MemoryStore) -> None:
    """Without `force`, nothing changes. `force` restores the other memories and reports the redacted ones."""
    first = create(store, A, "one")
    gone = create(store, "/memories/d/gone", "gone")
    create(store, B, "two")
    then = create(store, C, "three")
    replace(store, A, "one", "1", "session:s")
    last = replace(store, B, "two", "2", "session:s")
    run(store, "delete", path="/memories/d/gone")
    store.history.redact([first, gone])
    before, told = tree(store), "the version that the memory had at that time was redacted"
    asked: list[Callable[[Mode], RestoreOutcome]] = [
        lambda mode: store.history.restore("/memories", then, mode=mode),
        lambda mode: store.history.restore("/memories/d", then, mode=mode),
        lambda mode: store.history.undo_by("session:s", mode=mode),
    ]
    conflicts = [refused(ask("refuse")) for ask in asked]
    assert conflicts[:2] == [[(A, told), ("/memories/d/gone", told)], [("/memories/d/gone", told)]]
    assert conflicts[2] == [(A, "the previous version was redacted")]
    assert refused(asked[1]("force")) == conflicts[1]  # no other memory to restore
    assert tree(store) == before
    outcome = asked[0]("force")
    assert (outcome.done, outcome.conflicts) == (False, ())
    assert [(each.path, each.reason) for each in outcome.left] == conflicts[0]
    assert tree(store) == {**before, B: "two"}
    store.history.undo(store.versions(limit=1)[0].id)
    assert [each.path for each in asked[2]("force").left] == [A]
    assert tree(store) == {**before, B: "two"}
    assert store.history.show(last)[1] == "2"


# -- undoing -----------------------------------------------------------------------------------------------------


def test_a_change_of_many_memories_is_undone_whole(store: MemoryStore) -> None:
    """The change deleted or renamed a directory. Any version of the change can be given."""
    for number in range(5):
        create(store, f"/memories/d/{number}", str(number))
    before = tree(store)
    run(store, "rename", old_path="/memories/d", new_path="/memories/e")
    some = list(store.versions(limit=3))[2].id
    assert len(done(store.history.undo(some))) == 5
    assert tree(store) == before
    run(store, "delete", path="/memories/d")
    assert len(done(store.history.undo(store.versions(limit=1)[0].id))) == 5
    assert tree(store) == before
    with pytest.raises(NotFound):
        store.history.undo("memver_unknown")


def test_undo_conflicts_with_newer_changes(store: MemoryStore) -> None:
    """Without `merge`, nothing changes, not even the other memories. A merge undoes the change line by line."""
    lines = "".join(f"line {number}\n" for number in range(9))
    create(store, A, lines, "user:ann")
    create(store, B, "other\n", "user:ann")
    replace(store, A, "line 1\n", "LINE 1\n", "session:s")
    replace(store, B, "other", "OTHER", "session:s")
    replace(store, A, "line 7\n", "line seven\n", "user:ann")
    now = tree(store)
    assert refused(store.history.undo_by("session:s")) == [(A, "a later change modified the text")]
    assert tree(store) == now
    assert done(store.history.undo_by("session:s", mode="merge")) == [("changed", A), ("changed", B)]
    assert tree(store) == {A: lines.replace("line 7", "line seven"), B: "other\n"}


def test_a_partial_undo_leaves_what_has_a_conflict(store: MemoryStore) -> None:
    """The rest is undone as one change, merged by line; `left` has the reasons. If nothing can be done, nothing is."""
    create(store, A, "one\nx\ntwo\n", "user:ann")
    create(store, B, "one\nx\ntwo\n", "user:ann")
    for path in (A, B):
        replace(store, path, "one", "1", "session:s")
    create(store, C, "new", "session:s")
    replace(store, A, "two", "2", "user:ann")
    replace(store, B, "1", "I", "user:ann")
    assert refused(store.history.undo_by("session:s", mode="partial", dry_run=True)) == []
    outcome = store.history.undo_by("session:s", mode="partial")
    assert [(step.what, step.path) for step in outcome.steps] == [("changed", A), ("deleted", C)]
    assert [(each.path, each.reason) for each in outcome.left] == [
        (B, "a later change modified the same lines (from line 1)")
    ]
    assert (outcome.done, outcome.conflicts) == (False, ())
    assert tree(store) == {A: "one\nx\n2\n", B: "I\nx\ntwo\n"}
    newest = store.history.changes()[0]
    assert (len(newest.versions), newest.cause) == (2, "partial undo of 3 changes, r3 to r5")
    before = tree(store)
    again = store.history.undo(store.versions(B)[1].id, mode="partial")
    assert refused(again) == [(B, "a later change modified the same lines (from line 1)")]
    assert tree(store) == before
    store.history.undo(newest.id, mode="partial")
    assert store.history.changes()[0].cause == f"undo of r{newest.number}"  # nothing was left


def test_a_partial_undo_leaves_what_others_are_in_the_way_of(quick: MemoryStore) -> None:
    """A memory that stays may be in the way of another one, which then stays too."""
    create(quick, A, "a", "user:ann")
    create(quick, B, "b", "user:ann")
    run(quick, "rename", "session:s", old_path=A, new_path=C)
    run(quick, "rename", "session:s", old_path=B, new_path=A)
    create(quick, B, "in the way", "user:ann")
    create(quick, "/memories/e", "e", "session:s")
    assert len(refused(quick.history.undo_by("session:s"))) == 1
    outcome = quick.history.undo_by("session:s", mode="partial")
    assert [(step.what, step.path) for step in outcome.steps] == [("deleted", "/memories/e")]
    assert sorted(each.path for each in outcome.left) == [A, B]
    assert tree(quick) == {A: "b", B: "in the way", C: "a"}


def test_changes_of_the_same_lines_are_not_merged(quick: MemoryStore) -> None:
    """The conflict names the line. `force` also undoes the newer change."""
    create(quick, A, "one\ntwo\n", "user:ann")
    change = replace(quick, A, "two", "2", "session:s")
    replace(quick, A, "2", "II", "user:ann")
    assert refused(quick.history.undo(change, mode="merge")) == [
        (A, "a later change modified the same lines (from line 2)")
    ]
    assert tree(quick) == {A: "one\nII\n"}
    assert done(quick.history.undo(change, mode="force")) == [("changed", A)]
    assert tree(quick) == {A: "one\ntwo\n"}


def test_undo_conflicts_with_later_renames_and_deletions(quick: MemoryStore) -> None:
    """A rename can be undone after a newer edit. A created memory is kept if other actors changed it."""
    created = create(quick, A, "one", "session:s")
    moved = run(quick, "rename", "session:s", old_path=A, new_path=B)
    replace(quick, B, "one", "two", "user:ann")
    assert done(quick.history.undo(moved)) == [("moved", A)]
    assert tree(quick) == {A: "two"}
    assert refused(quick.history.undo(created)) == [(A, "a later change modified the memory")]
    run(quick, "delete", "user:ann", path=A)
    assert done(quick.history.undo(created)) == []
    edited = list(quick.history.log(memory_id=quick.history.log()[0].memory_id))[2].id
    assert refused(quick.history.undo(edited)) == [(A, "a later change deleted the memory")]


def test_undoing_a_session_since_a_time(quick: MemoryStore) -> None:
    """The changes of the session before that time stay."""
    create(quick, A, "one", "session:s")
    create(quick, B, "two", "session:s")
    since = quick.load(B)[0].created_at
    create(quick, C, "three", "session:other")
    assert done(quick.history.undo_by("session:s", since=since)) == [("deleted", B)]
    assert sorted(tree(quick)) == [A, C]
    with pytest.raises(NotFound):
        quick.history.undo_by("session:nobody")


@pytest.mark.parametrize(("first", "there"), [(A, A), (A, f"{A}/below"), (f"{A}/below", A)])
def test_two_memories_do_not_return_to_one_path(store: MemoryStore, first: str, there: str) -> None:
    """Two memories at one path, or one below the other, are a conflict. `force` restores the older memory."""
    create(store, first, "first", "user:ann")
    create(store, B, "second", "user:ann")
    run(store, "rename", "session:s", old_path=first, new_path=C)
    run(store, "rename", "user:ann", old_path=B, new_path=there)
    run(store, "rename", "session:s", old_path=there, new_path="/memories/e")
    before = tree(store)
    assert refused(store.history.undo_by("session:s")) == [
        (there, "another memory is restored at, above or below this path")
    ]
    assert tree(store) == before
    outcome = store.history.undo_by("session:s", mode="force")
    assert done(outcome) == [("moved", first), ("deleted", "/memories/e")]
    assert tree(store) == {first: "first"}
    assert store.usage().memories == 1


def test_undoing_a_change_keeps_an_external_edit_before_it(tmp_path: Path) -> None:
    """The command that found the edit recorded it together with its own change. The undo keeps the edit."""
    with opened("directory", tmp_path) as place:
        store = place.store()
        create(store, A, "one\ntwo\n")
        (Path(str(store.directory())) / "a").write_text("one by hand\ntwo\n")
        change = replace(store, A, "two", "2", "session:s")
        assert [str(version.actor) for version in store.history.log(limit=2)] == ["session:s", "job:external"]
        assert done(store.history.undo(change)) == [("changed", A)]
        assert tree(store) == {A: "one by hand\ntwo\n"}


def test_a_path_restores_the_memory_it_had_then(quick: MemoryStore) -> None:
    """A newer memory at the path or below it is a conflict. Only `force` deletes the newer memory."""
    first = create(quick, A, "first")
    run(quick, "delete", path=A)
    create(quick, A, "second")
    assert refused(quick.history.restore(A, first)) == [(A, f"the memory {A} blocks this path")]
    assert done(quick.history.restore(A, first, mode="force")) == [("deleted", A), ("made", A)]
    assert tree(quick) == {A: "first"}
    run(quick, "delete", path=A)
    below = create(quick, f"{A}/x", "third")
    assert refused(quick.history.restore(A, first)) == [(A, f"the memory {A}/x blocks this path")]
    assert tree(quick) == {f"{A}/x": "third"}
    assert done(quick.history.restore(A, first, mode="force")) == [("made", A), ("deleted", f"{A}/x")]
    assert refused(quick.history.restore(A, below)) == [(f"{A}/x", f"the memory {A} blocks this path")]
    assert done(quick.history.restore(A, below, mode="force")) == [("deleted", A), ("made", f"{A}/x")]
    assert tree(quick) == {f"{A}/x": "third"}
    before = quick.history.log()[-1].created_at - timedelta(days=1)
    with pytest.raises(NotFound):
        quick.history.restore(f"{A}/x", before)


def test_conflicts_of_an_undo_have_reasons(quick: MemoryStore) -> None:
    """The reasons are a later rename, a later creation and a redaction. `force` also undoes the changes of others."""
    create(quick, A, "one")
    moved = run(quick, "rename", "session:s", old_path=A, new_path=B)
    run(quick, "rename", "user:ann", old_path=B, new_path=C)
    assert refused(quick.history.undo(moved)) == [(C, "a later change renamed the memory")]
    assert done(quick.history.undo(moved, mode="force")) == []
    assert list(tree(quick)) == [C]
    gone = run(quick, "delete", "session:s", path=C)
    assert done(quick.history.undo(gone, actor="user:ann")) == [("made", C)]
    changed = replace(quick, C, "one", "two", "user:ann")
    assert refused(quick.history.undo(gone)) == [(C, "a later change recreated the memory")]
    assert tree(quick) == {C: "two"}
    replace(quick, C, "two", "three")
    quick.history.redact([changed])
    assert refused(quick.history.undo(changed)) == [(C, "the version to undo was redacted")]


def test_intermediate_states_of_a_restore_exceed_no_limit(quick: MemoryStore) -> None:
    """Texts that become shorter are written first, and deletions come before creations."""
    create(quick, A, "a" * 20)
    create(quick, B, "b" * 30)
    then = quick.history.log()[0].id
    replace(quick, A, "a" * 20, "c" * 30)
    replace(quick, B, "b" * 30, "d" * 20)
    other = quick.history.log()[0].id
    quick.change_settings({"max_store_bytes": 50, "max_memories": 2})
    for moment, sizes in ((then, [20, 30]), (other, [30, 20]), (then, [20, 30])):
        done(quick.history.restore("/memories", moment))
        assert [len(text) for text in tree(quick).values()] == sizes
    quick.clear()
    create(quick, C, "e" * 50)
    done(quick.history.restore("/memories", then))
    assert sorted(tree(quick)) == [A, B]


def test_nothing_is_restored_to_a_reserved_path(quick: MemoryStore) -> None:
    """Such a version can come from before the name was reserved. Other programs would run what it holds."""
    hook = "/memories/.git/hooks/post-checkout"
    quick._core.backend.write(quick.id, lambda tx: tx.record([Created(hook, b"#!/bin/sh\n")], None))
    create(quick, A, "one")
    quick.clear()
    with pytest.raises(InvalidInput, match=r"Invalid path /memories/\.git/hooks/post-checkout: \.git is reserved"):
        quick.undo("HEAD")
    assert tree(quick) == {}
    assert done(quick.history.restore(A, "HEAD~1")) == [("made", A)]
