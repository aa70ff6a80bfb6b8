"""Laws of what a search may show: nothing that is hidden, redacted, erased, expired, proposed by others or covered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retentive
from retentive import MemoryStore
from retentive.errors import InvalidInput, NotFound
from retentive.mounts import Mounts
from retentive.search.results import Results
from support.clock import Clock
from support.commands import create, view
from support.places import opened
from support.profiles import LONG, sized

ANN, WEB, READER, PROPOSER, OTHER = "user:ann", "session:web", "session:reader", "session:p1", "session:p2"
PATHS = [f"/memories/{name}" for name in ("one", "two", "sub/three", "sub/four")]
SETTINGS = {"review": [PROPOSER, OTHER], "expire_after_days": 30, "create_overwrites": True, "sensitive": "off"}
_WORD = re.compile(r"z[aeiou][bdfgkl][aeiou][bdfgkl]\w+")
PROPOSERS = (PROPOSER, OTHER)


@dataclass(frozen=True, slots=True)
class Search:
    """Search, and the words that its results may show; if it `is_exact`, all of them."""

    query: str
    allowed: set[str]
    options: dict[str, Any] = field(default_factory=dict)
    is_exact: bool = False


def word(number: int) -> str:
    """Word of a write. Many differ by one or two letters, so that each may be suggested for another."""
    vowels, others = "aeiou", "bdfgkl"
    return f"z{vowels[number % 5]}{others[number % 6]}{vowels[number // 5 % 5]}{others[number // 6 % 6]}umo"


class Words:
    """Actions on a store, and the words that they made visible or hid."""

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.authors: dict[str, str] = {}
        self._of_version: dict[str, str] = {}
        self._quarantined = self._is_web_doubted = False
        store.change_settings(SETTINGS)

    # -- actions ------------------------------------------------------------------------------------------------------

    def act(self, action: str, number: int) -> None:
        """Perform an action; `number` selects what it applies to. Refusals are ordinary."""
        self.clock.now += 1
        with suppress(NotFound, InvalidInput):
            getattr(self, action)(number)
        for version in self.store.versions():
            if version.id not in self._of_version and version.operation != "deleted":
                self._of_version[version.id] = _WORD.findall(self.store.version_text(version.id))[0]

    def write(self, number: int) -> None:
        new, author = word(len(self.authors)), (ANN, WEB, PROPOSER, OTHER)[number // 4 % 4]
        self.authors[new] = author
        text = f"# Common notes\n\nThe common word is {new}.\n"
        self.store.execute(create(PATHS[number % 4], text), actor=author)

    def delete(self, number: int) -> None:
        self.store.execute({"command": "delete", "path": PATHS[number % 4]}, actor=ANN)

    def redact(self, number: int) -> None:
        self.store.history.redact(all_of=PATHS[number % 4])

    def erase(self, number: int) -> None:
        self.store.history.erase(PATHS[number % 4])

    def expire(self, number: int) -> None:
        self.clock.pass_days(31 if number % 2 else 10)
        self.store.sweep(accept_clock=True)

    def quarantine(self, number: int) -> None:
        self._quarantined = number % 2 == 1
        self.store.change_settings({"quarantine": [WEB] if self._quarantined else None})

    def doubt(self, number: int) -> None:
        self._is_web_doubted = number % 2 == 1
        doubted = {"trust": {WEB: "unconfirmed"}, "hide_unconfirmed": [READER]}
        self.store.change_settings(doubted if self._is_web_doubted else dict.fromkeys(doubted))

    def decide(self, number: int) -> None:
        for proposal in self.store.review.pending()[:1]:
            decide = self.store.review.accept if number % 2 else self.store.review.refuse
            decide([proposal.id], actor=ANN)

    # -- what may be shown --------------------------------------------------------------------------------------------

    def hidden(self, who: str) -> set[str]:
        """Words that no search may show to an actor, since their author is hidden from it."""
        is_hidden = self._quarantined or (self._is_web_doubted and who == READER)
        return {each for each, author in self.authors.items() if author == WEB and is_hidden}

    def in_versions(self, who: str) -> set[str]:
        """Words of the versions that are neither redacted, pruned nor erased, at most."""
        kept = {version.id for version in self.store.versions() if version.redacted_at is None}
        return {known for version, known in self._of_version.items() if version in kept} - self.hidden(who)

    def at(self, revision: str, who: str) -> set[str]:
        """Words of the memories at a version, at most."""
        present: dict[str, str] = {}
        for version in reversed(self.store.versions()):
            present[version.memory_id] = self._of_version.get(version.id, "")
            if version.id == revision:
                break
        return set(present.values()) & self.in_versions(who)

    def now(self, who: str) -> set[str]:
        """Words of the memories that an actor can view, without its proposals."""
        viewer = ANN if who in PROPOSERS else who
        views = (self.store.execute(view(path), actor=viewer) for path in PATHS)
        return {known for reply in views if not reply.is_error for known in _WORD.findall(reply.text)}

    def proposed(self, who: str) -> set[str]:
        """Words of the pending proposals that an actor may see."""
        pending = self.store.review.pending(actor=who if who in PROPOSERS else None)
        texts = (after or "" for each in pending for _, _, after in self.store.review.show(each.id)[1])
        return {known for text in texts for known in _WORD.findall(text)}


def shown(results: Results) -> set[str]:
    """Words in results and in their snippets."""
    texts = [snippet.text for hit in results.hits for snippet in hit.snippets]
    texts += [heading for hit in results.hits for snippet in hit.snippets for heading in snippet.headings]
    return {known for text in texts for known in _WORD.findall(text)}


def searches(words: Words, who: str) -> Iterator[tuple[Search, Results]]:
    """Results of each kind of search, for all words at once and for a word of all memories."""
    store, every = words.store, list(words.authors)
    every_word = "common " + " ".join(every)
    now, proposed = words.now(who), words.proposed(who)
    kinds = [
        Search(every_word, now, is_exact=True),
        Search(f"{every_word} is:proposed", proposed, is_exact=True),
        Search("common", now, {"mode": "all"}, is_exact=True),
        Search("common|" + "|".join(every), now, {"regex": True}, is_exact=True),
        Search(every_word, words.in_versions(who), {"history": True}),
        *(Search(every_word, words.at(each.id, who), {"at": each.id}) for each in store.versions()[::3]),
    ]
    for kind in kinds:
        yield kind, store.search(kind.query, limit=None, actor=who, **kind.options)


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


@settings(max_examples=sized(quick=6, long=150, full=600))
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
