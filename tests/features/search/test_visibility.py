"""Laws of what a search may show: nothing that is hidden, redacted, erased, expired, proposed by others or covered."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retentive
from retentive.mounts import Mounts
from support.clock import Clock
from support.places import opened
from support.profiles import LONG, sized

from .words import ANN, PROPOSER, READER, Words, searches, shown

SEVERAL = ["write"] * 6  # so that most actions have something to act on
ACTIONS = [*SEVERAL, "delete", "redact", "erase", "expire", "quarantine", "doubt", "decide"]
actions = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 15)), min_size=3, max_size=20)


def check(words: Words) -> None:
    """Every search shows only words that it may show, and those that it must show."""
    for who in (ANN, READER, PROPOSER):
        for search, results in searches(words, who):
            found = shown(results)
            assert found <= search.allowed, (who, search)
            assert not search.is_exact or found == search.allowed, (who, search)


@settings(max_examples=sized(quick=12, long=150, full=600))
@given(actions)
def test_a_search_shows_only_what_the_actor_may_see(done: list[tuple[str, int]]) -> None:
    """The index follows all actions, since it is searched after each third of them."""
    clock = Clock()
    with retentive.open("sqlite://", clock=clock) as place:
        words = Words(place.store(), clock)
        for at, (action, number) in enumerate(done):
            words.act(action, number)
            if words.authors and at % 3 == 0:
                words.store.search(" ".join(words.authors))
        if words.authors:
            check(words)


BACKENDS = [
    "sqlite",
    *(pytest.param(each, marks=[] if LONG else pytest.mark.long) for each in ("sealed sqlite", "sealed directory")),
    *(pytest.param(each, marks=pytest.mark.long) for each in ("directory", "postgresql", "mariadb", "s3")),
]


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_holds_on_each_backend(backend: str, tmp_path: Path) -> None:
    """One sequence with every action."""
    clock = Clock()
    with opened(backend, tmp_path, clock=clock) as place:
        words = Words(place.store(), clock)
        for number in (0, 5, 10, 15, 0, 6, 1, 9, 2, 3):
            words.act("write", number)
        for action, number in (("decide", 1), ("redact", 0), ("doubt", 1), ("erase", 3), ("delete", 2)):
            words.act(action, number)
            check(words)
        for action, number in (("quarantine", 1), ("expire", 0), ("write", 0), ("expire", 0), ("expire", 1)):
            words.act(action, number)
        check(words)


def test_words_of_memories_covered_by_a_mount_are_unknown() -> None:
    """A memory below the mount point of another store is not in the tree, so its words are unknown there."""
    with retentive.open("sqlite://") as place:
        mine, team = place.store("mine"), place.store("team")
        mine.create("/memories/team/a", "zebrafish in the covered memory\n")
        mine.create("/memories/b", "visible\n")
        team.create("/memories/c", "shared\n")
        tree = Mounts({"/memories": mine, "/memories/team": team})
        found = tree.search("zebrafish")
        assert (found.hits, found.total, found.unknown) == ((), 0, ("zebrafish",))
        assert tree.search("visible").unknown == mine.search("zebrafish").unknown == ()
