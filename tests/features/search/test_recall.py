"""Recall: the best lines for a question, within a budget, as a block that changes only for a reason."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retentive
from retentive import InvalidInput, MemoryStore, Mounts
from support.http_api import serving
from support.profiles import sized

REFUNDS = "# Refunds\n\nHow we refund orders.\n\n## Rules\n\n1. In full within 30 days.\n2. Later: store credit.\n"
LEAST_TOKENS = 50
QUESTION = "Within how many days do customers get a refund?"
WORDS = [
    "refund",
    "days",
    "customer",
    "credit",
    "lager",
    "予算会議",
    "книга",
    "é",
    "x" * 90,
    "/memories/a.md",
    "##",
    "[x]",
]


def tokens_of(text: str) -> int:
    plain = sum(map(str.isascii, text))
    return ceil(plain / 3 + (len(text.encode()) - plain) / 2)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with retentive.open("sqlite://", sensitive="off") as place:
        store = place.store()
        store.create("/memories/refunds.md", REFUNDS)
        store.create("/memories/shipping.md", "# Shipping\n\nWe ship within 2 days.\n")
        store.create("/memories/team.md", "Ada leads support.\n")
        yield store


def test_the_block_has_the_best_lines_below_their_paths_and_headings(store: MemoryStore) -> None:
    found = store.recall(QUESTION)
    assert found.text == (
        "/memories/refunds.md\n  [Refunds]\n  How we refund orders.\n  [Refunds > Rules]\n"
        "  1. In full within 30 days.\n  2. Later: store credit.\n"
        "/memories/shipping.md\n  [Shipping]\n  We ship within 2 days.\n"
    )
    assert [(each.path, each.line) for each in found.passages] == [
        ("/memories/refunds.md", 3), ("/memories/refunds.md", 7), ("/memories/refunds.md", 8),
        ("/memories/shipping.md", 3),
    ]  # fmt: skip
    assert found.tokens == tokens_of(found.text) <= 400
    assert str(store.recall("zebra")) == ""


@settings(max_examples=sized(quick=15, long=400, full=2_000), deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30).map(" ".join), min_size=1, max_size=12),
    st.lists(st.sampled_from(WORDS[:6]), min_size=1, max_size=4).map(" ".join),
    st.integers(LEAST_TOKENS, 300),
)
def test_a_block_never_exceeds_its_budget_and_is_empty_only_if_nothing_matches(
    rows: list[str], question: str, budget: int
) -> None:
    with retentive.open("sqlite://", sensitive="off") as place:
        store = place.store()
        for number, row in enumerate(rows):
            store.create(f"/memories/{number % 3}/{number}.md", row.replace(" ## ", "\n## ") + "\n")
        found = store.recall(question, budget_tokens=budget)
        assert tokens_of(found.text) == found.tokens <= budget
        assert bool(found.passages) == bool(store.search(question)) == bool(found.text)
        paths = [each.path for each in found.passages]
        assert paths == sorted(paths)
        text_of = {memory.path: store.read(memory.path).split("\n") for memory in store.memories()}
        assert all(each.text in text_of[each.path][each.line - 1] for each in found.passages)


def test_writes_without_a_word_of_the_question_leave_the_block_as_it_is(store: MemoryStore) -> None:
    """A thousand in the benchmark; here new memories, and lines in the memories of the block."""
    chance, changes, before = random.Random(1), 0, store.recall(QUESTION).text
    count = sized(quick=60, long=300, full=1_000)
    for number in range(count):
        line = " ".join(f"w{chance.randrange(900)}z" for _ in range(chance.randrange(3, 30)))
        if number % 3:
            store.create(f"/memories/n/{number}.md", line)
        else:
            store.insert("/memories/refunds.md", 0, line)
        after = store.recall(QUESTION).text
        changes, before = changes + (after != before), after
    assert changes <= count // 100 + 1
    store.edit("/memories/refunds.md", "30 days", "60 days")
    assert "60 days" in store.recall(QUESTION).text
    store.create("/memories/answer.md", "Customers get a refund within how many days: 90 days, customers.\n")
    assert "90 days" in store.recall(QUESTION).text
    store.delete("/memories/refunds.md")
    assert "60 days" not in store.recall(QUESTION).text


def test_hidden_memories_are_not_recalled_and_levels_of_trust_are_shown(store: MemoryStore) -> None:
    store.create("/memories/web.md", "Refund within 3 days.\n", actor="session:web-1")
    store.change_settings({"trust": {"session:web-*": "unconfirmed"}})
    assert "/memories/web.md (unconfirmed)\n  Refund within 3 days.\n" in store.recall(QUESTION).text
    store.change_settings({"quarantine": ["session:web-*"]})
    assert "web.md" not in store.recall(QUESTION).text
    store.execute({"command": "create", "path": "/memories/r.md", "file_text": "refund"}, actor="session:s")
    store.change_settings({"review": ["session:*"]})
    store.execute({"command": "create", "path": "/memories/p.md", "file_text": "refund days"}, actor="session:s")
    assert "/memories/p.md" not in store.recall(QUESTION, actor="session:s").text


def test_a_question_has_no_operators_and_a_poor_one_is_refused(store: MemoryStore) -> None:
    assert store.recall('-refund is:what since:noon "30 days').passages
    assert store.recall("refund " * 1_000).passages
    assert not store.recall("???").passages
    assert [each.path for each in store.recall("days", under="/memories/shipping.md").passages] == [
        "/memories/shipping.md"
    ]
    for question, budget in ((" ", 400), ("\ud800", 400), ("refund", LEAST_TOKENS - 1)):
        with pytest.raises(InvalidInput):
            store.recall(question, budget_tokens=budget)


def test_mounts_and_servers_recall_the_same(store: MemoryStore, tmp_path: Path) -> None:
    with retentive.open(str(tmp_path / "there")) as location, retentive.open("sqlite://") as own:
        there, mine = location.store(), own.store()
        there.create("/memories/refunds.md", REFUNDS)
        mine.create("/memories/note.md", "Refund after 5 days at most.\n")
        expected = Mounts({"/memories": mine, "/memories/team": there}).recall(QUESTION)
        assert [each.path for each in expected.passages][::3] == ["/memories/note.md", "/memories/team/refunds.md"]
        with serving(location) as api, retentive.open(api.url, api_key=api.key) as remote:
            assert remote.store().recall(QUESTION) == there.recall(QUESTION)
            assert (
                Mounts({"/memories": mine, "/memories/team": remote.store().read_only()}).recall(QUESTION) == expected
            )
