"""Callers limited to some paths: for them, a memory store has nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore, errors
from retentive.store import with_options

OWN = ("/memories/team/**", "/memories/shared.md", "/memories/*/open/*.txt")
INSIDE = ("/memories/team/a.md", "/memories/team/deep/b.md", "/memories/shared.md", "/memories/x/open/c.txt")
OUTSIDE = ("/memories/private.md", "/memories/teams/a.md", "/memories/x/closed.txt", "/memories/x/open/c.md")
MARKER = "MARKER"


@pytest.fixture
def whole() -> MemoryStore:
    """A store with memories inside and outside, some of which were moved, changed and deleted."""
    store = retentive.open("sqlite://").store()
    for path in INSIDE:
        store.create(path, f"inside {path}\n")
    for path in OUTSIDE:
        store.create(path, f"{MARKER} text of {path}\n")
        store.write(path, f"{MARKER} later text\nof {path}\n")
    store.create("/memories/team/moved.md", "was inside\n")
    store.rename("/memories/team/moved.md", f"/memories/{MARKER}.md")
    store.create("/memories/gone.md", f"{MARKER} deleted\n")
    store.delete("/memories/gone.md")
    store.create(f"/memories/{MARKER}/now-inside.md", f"{MARKER} before\n")
    store.rename(f"/memories/{MARKER}/now-inside.md", "/memories/team/now-inside.md")
    store.write("/memories/team/now-inside.md", "after\n")
    return store


@pytest.fixture
def limited(whole: MemoryStore) -> MemoryStore:
    return with_options(whole, scope=OWN)


def test_changes_inside_are_made(whole: MemoryStore, limited: MemoryStore) -> None:
    limited.create("/memories/team/new.md", "new\n")
    limited.rename("/memories/team/new.md", "/memories/team/newer.md")
    limited.batch([{"command": "append", "path": "/memories/team/newer.md", "file_text": "more\n"}])
    assert whole.read("/memories/team/newer.md") == "new\nmore\n"
    limited.delete("/memories/x")
    assert {"/memories/x/closed.txt", "/memories/x/open/c.md"} <= {each.path for each in whole.memories()}
    assert "/memories/x/open/c.txt" not in {each.path for each in whole.memories()}


def test_an_undo_reverts_what_is_inside(whole: MemoryStore, limited: MemoryStore) -> None:
    for path in (INSIDE[0], OUTSIDE[0]):
        whole.write(path, "changed\n", actor="session:s1")
    limited.undo_by("session:s1")
    assert whole.read(INSIDE[0]) == f"inside {INSIDE[0]}\n"
    assert whole.read(OUTSIDE[0]) == "changed\n"


@pytest.mark.parametrize("seed", range(3))
def test_a_limited_store_is_like_a_store_with_only_these_paths(seed: int, tmp_path: Path) -> None:
    """Random commands of the limited caller give the same replies as in a store that others never wrote to."""
    chosen = random.Random(seed)
    whole, alone = (retentive.open("sqlite://").store() for _ in range(2))
    limited, expected = with_options(whole, scope=OWN), with_options(alone, scope=OWN)
    for number in range(60):
        if chosen.random() < 0.4:
            whole.execute({"command": "create", "path": chosen.choice(OUTSIDE), "file_text": f"{MARKER} {number}\n"})
        command = random_command(chosen, number)
        assert limited.execute(command).text == expected.execute(command).text, command
    assert [(each.path, each.operation, each.sha256) for each in limited.versions()] == [
        (each.path, each.operation, each.sha256) for each in alone.versions()
    ]


def random_command(chosen: random.Random, number: int) -> dict[str, object]:
    path, other = chosen.choice([*INSIDE, *OUTSIDE]), chosen.choice([*INSIDE, *OUTSIDE])
    return chosen.choice(
        [
            {"command": "view", "path": chosen.choice(["/memories", "/memories/x", "/memories/x/open", path])},
            {"command": "create", "path": path, "file_text": f"text {number}\n"},
            {"command": "str_replace", "path": path, "old_str": "text", "new_str": "word"},
            {"command": "insert", "path": path, "insert_line": 0, "insert_text": "first\n"},
            {"command": "delete", "path": chosen.choice([path, "/memories/x"])},
            {"command": "rename", "old_path": path, "new_path": other},
        ]
    )


def test_an_undo_does_not_create_a_memory_that_was_moved_outside(whole: MemoryStore, limited: MemoryStore) -> None:
    """The limited caller sees the memory as deleted. Created again, two memories would have one id."""
    path = INSIDE[0]
    whole.write(path, "edited\n", actor="session:edits")
    whole.rename(path, f"/memories/{MARKER}/moved.md")
    before, before_move = whole.memories(), whole.versions(limit=2)[1].id
    works: list[Callable[[], object]] = [
        lambda: limited.undo_by("session:edits"),
        lambda: limited.history.restore("/memories/team", before_move),
    ]
    for work in works:
        with pytest.raises(errors.RetentiveError, match="read-only") as raised:
            work()
        assert MARKER not in str(raised.value)
    assert whole.memories() == before


def test_words_outside_do_not_change_the_order() -> None:
    """A word is rare or frequent among the memories that the caller may see. Others do not count."""
    orders = set()
    for hidden in ("apple", "pears"):
        store = retentive.open("sqlite://").store()
        store.create("/memories/team/a.md", "apple\n")
        store.create("/memories/team/p.md", "pears\n")
        for number in range(5):
            store.create(f"/memories/private/{number}.md", f"{hidden}\n")
        limited = with_options(store, scope=OWN)
        for _ in range(2):  # without an index, and with one
            orders.add(tuple((hit.path, hit.score) for hit in limited.search("apple pears").hits))
    assert len(orders) == 1


READ, WRITE = "/memories/team/a.md", "/memories/team/deep/b.md"


@pytest.mark.parametrize(
    ("scope", "write_scope", "seen", "changed"),
    [
        ((), ("/memories/team/deep",), {READ, WRITE, *OUTSIDE}, {WRITE}),
        (("/memories/team/**",), ("/memories/team/deep",), {READ, WRITE}, {WRITE}),
        (("/memories/team/a.md",), ("/memories/team/deep",), {READ}, {WRITE}),
        (("/memories/team/a.md",), (), {READ}, {READ, WRITE, *OUTSIDE}),
    ],
)
def test_other_paths_to_see_than_to_change(
    whole: MemoryStore, scope: tuple[str, ...], write_scope: tuple[str, ...], seen: set[str], changed: set[str]
) -> None:
    """Each read sees what it may, each change the same or more: every other path is answered as if it were not."""
    limited = with_options(whole, scope=scope, write_scope=write_scope)
    for path in (READ, WRITE, *OUTSIDE):
        viewed = limited.execute({"command": "view", "path": path})
        absent = limited.execute({"command": "view", "path": "/memories/zzz"}).text.replace("/memories/zzz", path)
        assert (viewed.text == absent) == (path not in seen)
        reply = limited.execute({"command": "insert", "path": path, "insert_line": 0, "insert_text": "x\n"})
        assert (reply.is_error, "read-only" in reply.text) == ((False, False) if path in changed else (True, True))
        assert limited.execute({"command": "delete", "path": path}).is_error == (path not in changed)
    assert {each.path for each in limited.memories()} & {READ, WRITE, *OUTSIDE} <= seen
    with pytest.raises(errors.PermissionDenied, match="needs access to the whole memory store"):
        with_options(whole, scope=scope, write_scope=("/memories/x",)).history.redact(all_of="/memories/x")


def test_a_citation_tells_nothing_about_a_memory_outside() -> None:
    """Whether it exists, is what it was, or never was: all is answered alike, also after others verified it."""
    store, outside = retentive.open("sqlite://").store(), ["/memories/b.md", "/memories/c.md", "/memories/none.md"]
    for path in (*outside[:2], "/memories/team/d.md"):
        store.create(path, "the number is 4711\n")
    store.create("/memories/team/a.md", "".join(f"walrus [source: {path}#L1]\n" for path in outside))
    store.create("/memories/team/e.md", "walrus [source: /memories/team/d.md]\n")
    limited = with_options(store, scope=OWN)
    for verifier in (limited, store, limited):
        verifier.verify()
        store.write(outside[1], "another\n")
        store.edit("/memories/team/d.md", "the", "The")
        *hidden, seen = limited.citations()
        assert [(each.state, each.sha256, each.moved_to) for each in hidden] == [("unverified", "", "")] * 3
        assert seen.state == "drifted"
        assert limited.view("/memories/team/a.md").endswith("Note: 3 cited source(s) were never verified.")
        assert {hit.freshness for hit in limited.search("walrus")} == {"unverified", "drifted"}
        store.edit("/memories/team/d.md", "The", "the")
    assert [each.state for each in store.citations("/memories/team/a.md")] == ["fresh", "fresh", "orphaned"]
    with pytest.raises(errors.PermissionDenied, match="may not change"):
        with_options(store, write_scope=("/memories/x/**",)).verify()
