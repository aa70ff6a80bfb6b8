"""Deletes of many memories, which the person at the client confirms, or the model with their number."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import types

from retentive import MemoryStore
from support.mcp_clients import MODES, connected, replies

FOLDER = "/memories/d"


@pytest.fixture
def filled(store: MemoryStore) -> MemoryStore:
    """A memory store with six memories in a directory, and one beside it."""
    for n in range(6):
        store.create(f"{FOLDER}/{n}", "x")
    store.create("/memories/beside", "x")
    return store


class Person:
    """Answers questions, and keeps them."""

    def __init__(self, action: str, content: dict[str, Any] | None = None) -> None:
        self.asked: list[str] = []
        self._answer = types.ElicitResult.model_validate({"action": action, "content": content})

    async def __call__(self, context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params.message)
        return self._answer


def delete(store: MemoryStore, mode: str, person: Person | None, **arguments: object) -> tuple[str, bool]:
    (reply,) = replies(connected(store, mode=mode, asked=person), ("memory_delete", {"path": FOLDER, **arguments}))
    return reply


@pytest.mark.parametrize("mode", MODES)
def test_a_mass_delete_runs_if_the_person_agrees(filled: MemoryStore, mode: str) -> None:
    person = Person("accept", {"confirm": True})
    assert delete(filled, mode, person) == (f"Successfully deleted {FOLDER}", False)
    assert person.asked == [f"Delete 6 memories below {FOLDER}?"]
    assert [memory.path for memory in filled.memories()] == ["/memories/beside"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "person", [("accept", {"confirm": False}), ("accept", {}), ("decline", None), ("cancel", None)], ids=str
)
def test_otherwise_nothing_is_deleted(filled: MemoryStore, mode: str, person: tuple[str, dict[str, Any]]) -> None:
    """A number in the arguments does not replace the answer of a person who can be asked."""
    refused = ("Error: Nothing was deleted: the user did not agree to delete 6 memories.", True)
    assert delete(filled, mode, Person(*person), expected_count=6) == refused
    assert len(filled.memories()) == 7


@pytest.mark.parametrize("mode", MODES)
def test_a_client_without_forms_needs_the_number(filled: MemoryStore, mode: str) -> None:
    hint = (
        f"Error: Nothing was deleted: {FOLDER} contains 6 memories. To delete them all, ask the user and repeat the"
        " call with expected_count 6."
    )
    assert delete(filled, mode, None) == (hint, True)
    assert delete(filled, mode, None, expected_count=5) == (hint, True)
    assert delete(filled, mode, None, expected_count=6) == (f"Successfully deleted {FOLDER}", False)


@pytest.mark.parametrize("mode", MODES)
def test_the_person_is_asked_again_if_the_number_changes(filled: MemoryStore, mode: str) -> None:
    """A memory is created while the person reads the first question."""

    class Slow(Person):
        async def __call__(self, context: Any, params: Any) -> types.ElicitResult:
            if not self.asked:
                filled.create(f"{FOLDER}/new", "x")
            return await super().__call__(context, params)

    person = Slow("accept", {"confirm": True})
    assert delete(filled, mode, person) == (f"Successfully deleted {FOLDER}", False)
    assert person.asked == [f"Delete {count} memories below {FOLDER}?" for count in (6, 7)]


@pytest.mark.parametrize("path", ["/memories", "/memories/beside", "/memories/none", "/etc"])
def test_nobody_is_asked_about_other_deletes(filled: MemoryStore, path: str) -> None:
    person = Person("decline")

    reply = delete(filled, MODES[0], person, path=path)
    assert not person.asked
    assert reply[1] == (path != "/memories/beside")


@pytest.mark.parametrize(("count", "is_asked"), [(4, False), (5, True)])
def test_a_delete_is_confirmed_from_five_memories_on(store: MemoryStore, count: int, is_asked: bool) -> None:
    for n in range(count):
        store.create(f"{FOLDER}/{n}", "x")
    person = Person("accept", {"confirm": True})
    assert delete(store, MODES[0], person) == (f"Successfully deleted {FOLDER}", False)
    assert len(person.asked) == is_asked


def test_a_repeated_mass_delete_gives_its_first_reply(filled: MemoryStore) -> None:
    """The second call finds nothing to ask about."""
    person = Person("accept", {"confirm": True})
    meta, call = {"claudecode/toolUseId": "toolu_01A09q90qw90lq917835lq9a"}, ("memory_delete", {"path": FOLDER})
    found = replies(connected(filled, asked=person), call, call, meta=meta)
    assert found == [(f"Successfully deleted {FOLDER}", False)] * 2
    assert len(person.asked) == 1


@pytest.mark.parametrize("mode", MODES)
def test_progress_is_reported(filled: MemoryStore, mode: str) -> None:
    reported: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reported.append((progress, total))

    replies(connected(filled, mode=mode), ("memory_delete", {"path": FOLDER}), progress_callback=note)
    assert reported == [(0, 6), (6, 6)]
