"""Actors are recorded with a known kind, and patterns match some actor."""

from __future__ import annotations

from typing import Any, cast

import pytest

from retentive import Actor, InvalidInput, MemoryStore
from retentive.storage.contract import ACTOR_KINDS, as_actor
from retentive.values.patterns import check_actor_pattern

KINDS = "session, api_key, user, service_account, job"


@pytest.mark.parametrize("kind", ACTOR_KINDS)
def test_a_text_is_a_kind_and_a_name(kind: str) -> None:
    actor = as_actor(f"{kind}:a:b")
    assert actor is not None
    assert (actor.kind, actor.id, str(actor)) == (kind, "a:b", f"{kind}:a:b")


@pytest.mark.parametrize(
    ("actor", "said"),
    [
        ("ann", "the actor 'ann' has no kind; write KIND:NAME, such as user:ann, with one of the kinds"),
        ("", "the actor '' has no kind; write KIND:NAME, such as user:ann, with one of the kinds"),
        (
            "usr:ann",
            "the actor 'usr:ann' has an unknown kind; write KIND:NAME, such as user:ann, with one of the kinds",
        ),
        (7, "an actor must be an Actor or a string, not int; write KIND:NAME, such as user:ann, with one of the kinds"),
        (
            b"user:ann",
            "an actor must be an Actor or a string, not bytes; write KIND:NAME, such as user:ann, with one of",
        ),
    ],
)
def test_other_actors_are_refused_with_the_list_of_kinds(store: MemoryStore, actor: Any, said: str) -> None:
    """The kind of an actor decides what it may change, so it is never guessed."""
    with pytest.raises(InvalidInput) as caught:
        store.execute({"command": "create", "path": "/memories/a", "file_text": "x"}, actor=actor)
    assert str(caught.value).startswith(said)
    assert str(caught.value).endswith(KINDS)
    assert list(store.memories()) == []


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256, "\0"])
def test_a_name_has_1_to_255_characters_without_control_characters(name: str) -> None:
    with pytest.raises(InvalidInput, match="actor"):
        Actor.parse(f"user:{name}")
    with pytest.raises(InvalidInput, match="actor"):
        Actor("user", name)
    with pytest.raises(InvalidInput, match="unknown kind"):
        Actor(cast("Any", "usr"), "ann")


@pytest.mark.parametrize("pattern", ["*", "*ann", "s*", "user:*", "user:ann", "?ser:ann", "*:ann"])
def test_a_pattern_may_leave_out_the_kind_by_a_wildcard(pattern: str) -> None:
    assert check_actor_pattern(pattern) == pattern


@pytest.mark.parametrize("pattern", ["ann", "usr:*", "session", "User:ann"])
def test_a_pattern_that_matches_no_actor_is_refused(store: MemoryStore, pattern: str) -> None:
    """A guard that applies to nobody protects nothing."""
    changes: list[dict[str, object]] = [{"review": [pattern]}, {"allow_write": {pattern: []}}]
    for change in changes:
        with pytest.raises(InvalidInput, match="matches no actor.*" + KINDS):
            store.change_settings(change)
    with pytest.raises(InvalidInput, match="matches no actor"):
        store.history.undo_by(pattern)
