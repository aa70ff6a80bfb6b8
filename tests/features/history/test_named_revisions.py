"""Names of revisions in a store: the change or the moment that each of them means."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from retentive import MemoryStore
from retentive.errors import InvalidInput, NotFound
from retentive.history.differences import Compare, Differences
from retentive.history.log import LogFilter
from retentive.history.revisions import as_revision
from retentive.store import core_of

from .changes import A, B, C, create, replace, run

D = "/memories/d"


@pytest.fixture
def story(store: MemoryStore) -> MemoryStore:
    """A store with six changes: r1 and r4 of A, r2 and r3 below a directory, r5 its rename, r6 its deletion."""
    create(store, A, "one", "user:ann")
    create(store, C, "c", "session:s1")
    create(store, f"{D}/e", "e", "session:s1")
    replace(store, A, "one", "two", "session:s1")
    run(store, "rename", "user:ann", old_path=D, new_path=B)
    run(store, "delete", "user:ann", path=B)
    return store


def changes(store: MemoryStore, revision: str, path: str | None = None) -> list[tuple[str, int]]:
    """The named change, with the number of its versions."""
    return [(each.id, len(each.versions)) for each in store.history.differences(path, change=revision).changes]


@pytest.mark.parametrize(
    ("revision", "path", "expected"),
    [
        ("HEAD", None, "r6"),
        ("HEAD~2", None, "r4"),
        ("@", None, "r6"),
        ("HEAD^", None, "r5"),
        ("@~^", None, "r4"),
        ("HEAD~0", None, "r6"),
        ("@{2099-01-01}", None, "r6"),
        ("HEAD@{2099-01-01}", A, "r4"),
        ("HEAD", A, "r4"),
        ("HEAD~1", A, "r1"),
        ("HEAD", f"{B}/c", "r6"),
        ("HEAD~2", f"{B}/c", "r2"),
        ("HEAD", D, "r5"),
        ("HEAD~1", D, "r3"),
        ("HEAD", B, "r6"),
        ("HEAD~1", B, "r5"),
        ("r3", None, "r3"),
        ("2099-01-01", None, "r6"),
    ],
)
def test_heads_of_a_memory_a_directory_and_the_store(
    story: MemoryStore, revision: str, path: str | None, expected: str
) -> None:
    assert [each for each, _ in changes(story, revision, path)] == [expected]


def test_moments(story: MemoryStore) -> None:
    """A name of the past works wherever a moment does, and means the state after the whole change."""
    history = story.history
    assert [history.text_at(A, each)[1] for each in ("HEAD", "HEAD~1", "r1", "r4")] == ["two", "one", "one", "two"]
    assert history.text_at(C, "r4")[1] == "c"
    assert [step.path for step in history.restore(A, "HEAD~1", dry_run=True).steps] == [A]
    assert {step.path for step in history.restore("/memories", "HEAD~1", dry_run=True).steps} == {f"{B}/c", f"{B}/e"}
    assert history.undo(change="r4", dry_run=True).steps[0].path == A
    assert history.undo(change="HEAD~1", path=A, dry_run=True).conflicts[0].path == A
    assert [each.id for each in history.undo(change="HEAD", dry_run=True).undone] == ["r6"]


@pytest.mark.parametrize(
    ("revision", "path", "message"),
    [
        ("r99", None, "there is no change r99 in the memory store; the newest change is r6"),
        ("r0", None, "the change r0 has no versions"),
        ("HEAD~6", None, "HEAD~6 is before the history of the memory store, whose oldest change is r1"),
        ("HEAD~2", A, f"HEAD~2 is before the history of {A}, whose oldest change is r1"),
        ("HEAD", "/memories/none", "/memories/none has no changes"),
        ("r1", C, f"r1 did not change {C}"),
        ("2001-01-01", None, "2001-01-01 is before the history of the memory store"),
    ],
)
def test_names_of_nothing(story: MemoryStore, revision: str, path: str | None, message: str) -> None:
    with pytest.raises(NotFound) as raised:
        changes(story, revision, path)
    assert message in str(raised.value)


def test_an_empty_store_has_no_changes(store: MemoryStore) -> None:
    with pytest.raises(NotFound, match="the memory store has no changes"):
        changes(store, "HEAD")
    with pytest.raises(NotFound, match="the store has no changes"):
        changes(store, "r1")


def test_one_version_is_meant(story: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match=r"r6 has 2 versions, such as memver_.*; specify a version id or a path"):
        story.history.show("r6")
    assert story.history.show("r5", f"{B}/c")[0].path == f"{B}/c"
    with pytest.raises(InvalidInput, match="is a time; specify a change instead, such as r1234 or HEAD"):
        story.history.undo(change="2h")


# -- differences ------------------------------------------------------------------------------------------------------


def pairs(found: Differences) -> list[tuple[str | None, str | None]]:
    return [(each.old.path if each.old else None, each.new.path if each.new else None) for each in found.found]


def texts(found: Differences) -> list[tuple[str | None, str | None]]:
    return [(each.old_text, each.new_text) for each in found.found]


def test_differences_between_states(story: MemoryStore) -> None:
    differences = story.history.differences
    assert pairs(differences(since="r4", until="r5")) == [(C, f"{B}/c"), (f"{D}/e", f"{B}/e")]
    assert pairs(differences(D, since="r4", until="r5")) == [(C, f"{B}/c"), (f"{D}/e", f"{B}/e")]
    assert pairs(differences(since="r1", until="r6")) == [(A, A)]
    assert pairs(differences(since="HEAD~2")) == [(C, None), (f"{D}/e", None)]
    assert texts(differences(A, since="HEAD~1", until="HEAD")) == [("one", "two")]
    assert pairs(differences(since=story.history.log()[-1].created_at - timedelta(days=1))) == [(None, A)]
    with pytest.raises(NotFound, match="neither of the compared states has a memory at or below /memories/none"):
        differences("/memories/none", since="r1")


def test_differences_of_a_session(story: MemoryStore) -> None:
    """Changes of others in between are no part of them; consecutive changes of a memory are one difference."""
    replace(story, A, "two", "three", "session:s1")
    replace(story, A, "three", "four", "user:ann")
    replace(story, A, "four", "five", "session:s1")
    found = story.history.differences(only=LogFilter(session="s1"))
    assert pairs(found) == [(None, C), (None, f"{D}/e"), (A, A), (A, A)]
    assert texts(found)[2:] == [("one", "three"), ("four", "five")]
    assert [change.id for change in found.changes] == ["r9", "r7", "r4", "r3", "r2"]
    assert texts(story.history.differences(A, since="r7", only=LogFilter(session="s1"))) == [("four", "five")]
    assert texts(story.history.differences(since="r4", until="r8", only=LogFilter(session="s1"))) == [("two", "three")]


def test_limits_of_differences_say_what_they_leave_out(store: MemoryStore) -> None:
    for number in range(6):
        store.create(f"/memories/{number}", "x", actor="session:a" if number % 2 else "session:b")
    store.write("/memories/5", "y", actor="session:a")
    newest = store.history.log()
    compared = partial(Compare, only=LogFilter(actor="session:a"))

    def found(operation: Compare) -> tuple[list[str], int, str | None]:
        made = operation.run(core_of(store))
        return [each.path for each in made.found], made.more, None if made.unread is None else made.unread.path

    assert found(compared()) == (["/memories/1", "/memories/3", "/memories/5"], 0, None)
    assert found(compared(limit=2)) == (["/memories/1", "/memories/3"], 1, None)
    assert found(compared(most_read=3)) == (["/memories/5"], 0, "/memories/3")
    until = as_revision(newest[3].id)
    assert found(compared(until=until, most_read=3)) == (["/memories/1", "/memories/3"], 0, "/memories/0")
    assert found(compared(most_read=7)) == found(compared())
    assert found(Compare(only=LogFilter(since=newest[1].created_at), most_read=2))[2] is None


def test_hidden_memories_are_left_out(story: MemoryStore) -> None:
    """Their paths and texts are in no difference; a version that is named by its id is shown, as by `show`."""
    newest = replace(story, A, "two", "three", "session:bad")
    story.change_settings({"quarantine": ["session:bad"]})
    for found in (
        story.history.differences(since="r1"),
        story.history.differences(change="HEAD"),
        story.history.differences(only=LogFilter(session="bad")),
    ):
        assert (found.found, found.hidden) == ((), 1)
    assert texts(story.history.differences(change=newest)) == [("two", "three")]
    story.change_settings({"quarantine": []})
    assert story.history.differences(since="r1").hidden == 0
