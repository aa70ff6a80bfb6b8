"""Reads of the history: log, show, diff, blame, and memories at a moment in the past."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from retentive import Actor, InvalidInput, Memory, MemoryStore, NotFound
from retentive.history.differences import Differences
from retentive.history.revisions import past_of
from retentive.values.diff import as_text
from support.places import opened

from .changes import A, B, C, create, replace, run


def test_the_log_follows_renames_and_takes_filters(store: MemoryStore) -> None:
    """The filters are memory, directory, actor, time and operation."""
    create(store, A, "one", "session:s1")
    create(store, C, "c", "user:ann")
    replace(store, A, "one", "two", "session:s2")
    run(store, "rename", "user:ann", old_path=A, new_path=B)
    run(store, "delete", "session:s1", path=C)
    every = list(store.versions())
    log = store.history.log
    assert log() == every
    assert log(B) == [every[1], every[2], every[4]]
    assert log(memory_id=every[1].memory_id) == log(B)
    assert log("/memories/d") == log(C) == [every[0], every[3]]
    assert log(A) == log(B)  # no memory has this path now, so this finds the last memory that had it
    assert log("/memories") == every
    assert log(actor="session:*") == [every[0], every[2], every[4]]
    assert log(actor="user:ann", limit=1) == [every[1]]
    assert log(operation="created") == [every[3], every[4]]
    assert log(since=every[2].created_at) == every[:3]
    assert log(until=every[2].created_at) == every[2:]
    assert log(since=every[3].created_at, until=every[1].created_at, operation="modified") == [every[1], every[2]]
    assert log("/memories/nothing") == []
    with pytest.raises(InvalidInput, match="one of created, modified, deleted"):
        log(operation="renamed")  # type: ignore[arg-type]


def sides(found: Differences) -> list[tuple[str | None, str | None, str | None, str | None]]:
    pairs = [[None if side is None else side.id for side in (each.old, each.new)] for each in found.found]
    texts = [(each.old_text, each.new_text) for each in found.found]
    return [(old, one, new, other) for (old, new), (one, other) in zip(pairs, texts, strict=True)]


def test_versions_are_shown_and_compared(store: MemoryStore) -> None:
    """The comparison is a unified diff. A deletion counts as an empty text."""
    first = create(store, A, "one\ntwo\n")
    second = replace(store, A, "two", "2")
    gone = run(store, "delete", path=A)
    version, text = store.history.show(second)
    assert (version.id, version.path, text) == (second, A, "one\n2\n")
    assert store.history.show(gone)[1] is None
    assert as_text(store.history.diff(first, second)) == (
        f"--- {A}@{first}\n+++ {A}@{second}\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    )
    assert as_text(store.history.diff(second, gone)).endswith("@@ -1,2 +0,0 @@\n-one\n-2\n")
    assert sides(store.history.differences(change=second)) == [(first, "one\ntwo\n", second, "one\n2\n")]
    assert sides(store.history.differences(change=first)) == [(None, None, first, "one\ntwo\n")]
    assert sides(store.history.differences(change=gone)) == [(second, "one\n2\n", None, None)]
    assert sides(store.history.differences(A, since=second)) == [(second, "one\n2\n", None, None)]
    store.history.redact(first)
    with pytest.raises(InvalidInput, match=f"{first} was redacted"):
        store.history.diff(first, second)
    (left,) = store.history.differences(change=second).found
    assert (left.old_text, left.reason) == (None, f"{first} was redacted; its text no longer exists")
    with pytest.raises(NotFound):
        store.history.show("memver_nothing")


def test_every_line_has_its_author(store: MemoryStore) -> None:
    """The blame follows renames."""
    create(store, A, "one\ntwo\nthree\n", "user:ann")
    run(store, "insert", "session:s", path=A, insert_line=1, insert_text="new")
    run(store, "rename", "session:t", old_path=A, new_path=B)
    replace(store, B, "three", "3", "session:t")
    blamed = [(line.number, line.text, str(line.version.actor)) for line in store.history.blame(B)]
    assert blamed == [
        (1, "one\n", "user:ann"),
        (2, "new\n", "session:s"),
        (3, "two\n", "user:ann"),
        (4, "3\n", "session:t"),
    ]
    with pytest.raises(NotFound):
        store.history.blame(A)


def test_external_edits_are_in_the_history(tmp_path: Path) -> None:
    """Reading the history records external edits first. An external edit can be undone like any other change."""
    with opened("directory", tmp_path) as place:
        store = place.store()
        create(store, A, "one")
        (Path(str(store.directory())) / "a").write_text("by hand")
        assert [str(version.actor) for version in store.history.log(limit=1)] == ["job:external"]
        (Path(str(store.directory())) / "b").write_text("by hand")
        assert store.history.undo_by("job:external").done
        assert {memory.path: store.read(memory.path) for memory in store.memories()} == {A: "one"}


def test_a_pruned_moment_is_reported(tmp_path: Path) -> None:
    """A moment cannot be read if versions that it needs were pruned. The error says so."""
    now = [1_800_000_000.0]
    with opened("memory", tmp_path, clock=lambda: now[0], keep_versions=1, keep_versions_days=30) as place:
        store = place.store()
        create(store, A, "one", "user:ann")
        create(store, B, "two")
        early = store.load(B)[0].created_at
        run(store, "delete", path=B)
        now[0] += 40 * 86_400
        replace(store, A, "one", "1")
        create(store, C, "three")
        replace(store, C, "three", "3")
        now[0] += 1
        assert store.sweep(accept_clock=True).versions_pruned == 1
        with pytest.raises(InvalidInput, match="were pruned"):
            store.history.restore("/memories", early)
        with pytest.raises(InvalidInput, match="were pruned"):
            store.history.text_at(B, early)
        with pytest.raises(InvalidInput, match="were pruned"):
            store.history.text_at(A, early)
        late = datetime.fromtimestamp(now[0] - 2, UTC)
        assert store.history.text_at(A, late)[1] == "one"
        assert store.history.log(actor="user:ann")[0].actor == Actor("user", "ann")


def test_memories_of_the_past_are_read_unchanged(store: MemoryStore) -> None:
    """Present, renamed, deleted and recreated memories are read as they were, with their creation times."""
    create(store, A, "one", "user:ann")
    create(store, B, "two")
    create(store, C, "three")
    moment = replace(store, B, "two", "2")
    then = list(store.memories())
    run(store, "rename", old_path=A, new_path="/memories/e")
    run(store, "delete", path=C)
    replace(store, B, "2", "other")

    def of_then() -> list[Memory]:
        return store._core.read(lambda now: [memory for memory, _ in past_of(now, moment).list("/memories")])

    assert then == of_then()
    assert store.history.restore("/memories", moment).done
    assert of_then()[0].created_at == store.load(A)[0].created_at == then[0].created_at
    assert [store.history.text_at(memory.path, moment)[0].id for memory in then] == [each.version_id for each in then]


def test_a_moment_never_shows_half_a_change(store: MemoryStore) -> None:
    """The moment of any version of a directory rename shows the whole directory at its new path."""
    for number in range(4):
        create(store, f"/memories/old/{number}", str(number))
    before = run(store, "rename", old_path="/memories/old/0", new_path="/memories/old/zero")
    run(store, "rename", old_path="/memories/old", new_path="/memories/new")
    moved = [version for version in store.versions() if version.path.startswith("/memories/new")]
    run(store, "delete", path="/memories/new/zero")
    assert len(moved) == 4

    def tree(at: str | datetime) -> list[str]:
        return store._core.read(lambda found: [memory.path for memory, _ in past_of(found, at).list("/memories")])

    whole = [f"/memories/new/{name}" for name in ("1", "2", "3", "zero")]
    assert tree(before) == [f"/memories/old/{name}" for name in ("1", "2", "3", "zero")]
    for version in moved:
        assert tree(version.id) == tree(version.created_at) == whole
        assert store.history.restore("/memories", version.id, dry_run=True, mode="force").steps
        assert store.history.text_at("/memories/new/zero", version.id)[1] == "0"
    assert store.history.restore("/memories", moved[-1].id).done
    assert [memory.path for memory in store.memories()] == whole
