"""Methods for people: they return values, raise the error of the reply, and write through the same pipeline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retentive import MemoryStore, Mounts, RetentiveError, errors
from support.commands import A, create, delete, edit, insert, rename, tree
from support.places import OpenPlace

B, D = "/memories/b", "/memories/d"
Act = Callable[[Any], object]


@pytest.fixture(params=["store", "mounts", "a mounted store"])
def memories(request: pytest.FixtureRequest, store: MemoryStore, open_place: OpenPlace) -> MemoryStore | Mounts:
    """The classes that have these methods. Their memories are in the store, or in one mounted above its paths."""
    if request.param == "store":
        return store
    if request.param == "mounts":
        return Mounts({"/memories": store, "/memories/team": open_place("sqlite://").store()})
    return Mounts({"/memories": open_place("sqlite://").store(), D: store})


def test_what_a_write_returns(store: MemoryStore) -> None:
    """The path, the newest version, and the number of changed memories."""
    first = store.create(f"{D}/one", "1", source="web:x", session="s1", actor="user:ann")
    assert store.load(f"{D}/one")[0].version_id == first.version_id
    version = store.versions()[0]
    found = version.provenance
    assert (str(version.actor), found.source, found.session, found.integration) == ("user:ann", "web:x", "s1", "python")
    assert (first.path, first.memories, first.is_proposed, first.notes) == (f"{D}/one", 1, False, ())
    store.create(f"{D}/two", "2")
    again = store.write(f"{D}/one", "1")
    assert (again.version_id, again.memories) == (first.version_id, 0)
    same = store.edit(f"{D}/one", "1", "1")
    assert (same.version_id, same.memories) == (first.version_id, 0)
    moved = store.rename(D, "/memories/e/")
    assert (moved.path, moved.memories) == ("/memories/e", 2)
    gone = store.delete("/memories/e")
    assert (gone.path, gone.memories) == ("/memories/e", 2)
    assert store.undo(gone.version_id).done
    assert store.undo(moved.version_id).done
    assert tree(store) == {f"{D}/one": "1", f"{D}/two": "2"}


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        (None, "a", "a\n"),
        ("", "a", "a\n"),
        ("one", "a\n", "one\na\n"),
        ("one\n", "a\nb", "one\na\nb\n"),
        ("o\r", "", "o\r\n\n"),
    ],
)
def test_append_adds_lines(store: MemoryStore, before: str | None, text: str, after: str) -> None:
    """The text starts on a line of its own, and the memory ends with a newline."""
    if before is not None:
        store.create(A, before)
    store.append(A, text)
    assert store.read(A) == after


SAME: list[tuple[Act, dict[str, object]]] = [
    (lambda it: it.create(A, "x"), create(A, "x")),
    (lambda it: it.create(D, "x"), create(D, "x")),
    (lambda it: it.create(f"{A}/x", "x"), create(f"{A}/x", "x")),
    (lambda it: it.create("/memories/n/", "x"), create("/memories/n/", "x")),
    (lambda it: it.create("/etc/passwd", "x"), create("/etc/passwd", "x")),
    (lambda it: it.create("/memories/../x", "x"), create("/memories/../x", "x")),
    (lambda it: it.edit(A, "no", "x"), edit("no", "x")),
    (lambda it: it.edit(A, "o", "x"), edit("o", "x")),
    (lambda it: it.edit(A, "", "x"), edit("", "x")),
    (lambda it: it.edit(D, "o", "x"), edit("o", "x", D)),
    (lambda it: it.insert(A, 9, "x"), insert(9)),
    (lambda it: it.insert(A, -1, "x"), insert(-1)),
    (lambda it: it.insert("/memories/gone", 0, "x"), insert(0, path="/memories/gone")),
    (lambda it: it.delete("/memories/gone"), delete("/memories/gone")),
    (lambda it: it.delete("/memories"), delete("/memories")),
    (lambda it: it.rename("/memories/gone", B), rename("/memories/gone", B)),
    (lambda it: it.rename(A, B), rename(A, B)),
    (lambda it: it.rename(D, f"{D}/below"), rename(D, f"{D}/below")),
    (lambda it: it.rename("/memories", B), rename("/memories", B)),
    (lambda it: it.view("/memories/gone"), {"command": "view", "path": "/memories/gone"}),
    (lambda it: it.view(A, view_range=(9, 9)), {"command": "view", "path": A, "view_range": [9, 9]}),
]


@pytest.mark.parametrize(("act", "command"), SAME, ids=[str(number) for number in range(len(SAME))])
def test_an_error_has_the_sentence_and_the_code_of_the_reply(
    memories: MemoryStore | Mounts, act: Act, command: dict[str, object]
) -> None:
    for path in (f"{D}/in", B, A):
        memories.execute(create(path, "one\ntwo\n"))
    reply = memories.execute(command)
    assert reply.is_error
    with pytest.raises(RetentiveError) as raised:
        act(memories)
    assert (str(raised.value), raised.value.code) == (reply.text.removeprefix("Error: "), reply.code)
    assert isinstance(raised.value, RetentiveError)
    assert not isinstance(raised.value, errors.Refused)


WRITES: dict[str, Callable[[Any, str | None], object]] = {
    "write": lambda it, version: it.write(A, "new", if_version=version),
    "append": lambda it, version: it.append(A, "new", if_version=version),
    "edit": lambda it, version: it.edit(A, "one", "1", if_version=version),
    "insert": lambda it, version: it.insert(A, 0, "new", if_version=version),
    "delete": lambda it, version: it.delete(A, if_version=version),
    "rename": lambda it, version: it.rename(A, B, if_version=version),
}


@pytest.mark.parametrize("name", WRITES)
def test_with_a_stale_version_nothing_changes(store: MemoryStore, name: str) -> None:
    """`if_version` must be the newest version of the memory. It is optional."""
    stale = store.create(A, "zero\n").version_id
    store.write(A, "one\n")
    before, versions = tree(store), store.versions()
    for wrong in (stale, "", "memver_1"):
        with pytest.raises(errors.Conflict, match="has changed since it was read"):
            WRITES[name](store, wrong)
    assert (tree(store), store.versions()) == (before, versions)
    WRITES[name](store, versions[0].id)
    assert tree(store) != before


def test_if_version_without_a_memory(store: MemoryStore) -> None:
    """An empty `if_version` means that there must be no memory; another one, that there must be one."""
    for write in (store.write, store.append):
        with pytest.raises(errors.Conflict):
            write(A, "x", if_version="memver_1")
        store.clear()
        write(A, "x", if_version="")
    store.create(f"{D}/in", "x")
    with pytest.raises(errors.Conflict):
        store.delete(D, if_version="memver_1")
    with pytest.raises(errors.AlreadyExists):
        store.write(D, "x", if_version="memver_1")
    with pytest.raises(errors.NotADirectory):
        store.write(f"{A}/x", "x", if_version="memver_1")


WRONG: list[Act] = [
    lambda it: it.create(7, "x"),
    lambda it: it.create(Path(A), "x"),
    lambda it: it.create(A, b"x"),
    lambda it: it.create(A, "a\0b"),
    lambda it: it.write(A, "\ud800"),
    lambda it: it.append(A, None),
    lambda it: it.edit(A, "one", None),
    lambda it: it.edit(A, 1, "x"),
    lambda it: it.insert(A, "one", "x"),
    lambda it: it.insert(A, True, "x"),
    lambda it: it.write(A, "x", if_version=3),
    lambda it: it.write(A, "x", actor="ann"),
    lambda it: it.write(A, "x", source=""),
    lambda it: it.write(A, "x", session=7),
    lambda it: it.read(Path(A)),
    lambda it: it.memories(7),
    lambda it: it.load("/memories/a\0"),
]


@pytest.mark.parametrize("act", WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_wrong_arguments_raise_invalid_input(memories: MemoryStore | Mounts, act: Act) -> None:
    memories.execute(create(A, "one\n"))
    before = [memory.version_id for memory in memories.memories()]
    with pytest.raises(errors.InvalidInput):
        act(memories)
    assert [memory.version_id for memory in memories.memories()] == before
