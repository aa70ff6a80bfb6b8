"""Searches while other threads and processes write: each answer is that of one state of the store, and none is old."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random

import pytest

import retentive
from retentive import MemoryStore
from retentive.search.results import Results
from support.commands import create, delete, edit, rename
from support.places import LASTING, opened, place_of
from support.profiles import sized
from support.second_process import SecondProcess

READERS, WRITERS = sized(quick=(8, 2), long=(64, 8), full=(64, 8))
CHANGES, SEARCHES = sized(quick=(12, 6), long=(30, 10), full=(60, 20))
QUERIES = [
    "common",
    "blue whales",
    '"common blue" whale',
    "+heron common -blue",
    "hreon",
    "by:user:w0 heron",
    "path:w1 green",
]
TEXTS = [
    "A common blue whale.\n",
    "Common herons.\n\n# Blue\n\nwhales\n",
    "green and blue\n",
    "nothing\n",
    "heron heron\n",
]


def change(store: MemoryStore, writer: int, count: int) -> None:
    """Create, edit, rename and delete memories of one writer."""
    random, actor = Random(writer), f"user:w{writer}"
    for number in range(count):
        path = f"/memories/w{writer}/{random.randrange(4)}"
        commands = [
            create(path, random.choice(TEXTS)),
            edit("blue", "red", path),
            delete(path),
            rename(path, f"/memories/w{writer}/{number}.md"),
        ]
        store.execute(random.choices(commands, weights=(6, 2, 1, 1))[0], actor=actor)


@pytest.mark.parametrize("hidden", [None, ["user:w1"]], ids=["all", "some hidden"])
def test_each_answer_is_that_of_a_state_between_call_and_return(hidden: list[str] | None, tmp_path: Path) -> None:
    """Compared with a scan of the store as of each version that a search could have seen."""
    answers: list[tuple[str, str, str, Results]] = []
    with retentive.open(f"sqlite:///{tmp_path}/memory.db", create_overwrites=True) as place:
        store = place.store()
        store.create("/memories/first", "A common blue heron.\n")
        store.change_settings({"quarantine": hidden})

        def look(reader: int) -> None:
            for query in Random(reader).choices(QUERIES, k=SEARCHES):
                (before,) = store.versions(limit=1)
                found = store.search(query, limit=3)
                (after,) = store.versions(limit=1)
                answers.append((query, before.id, after.id, found))

        with ThreadPoolExecutor(READERS + WRITERS) as pool:
            running = [pool.submit(change, store, each, CHANGES) for each in range(WRITERS)]
            running += [pool.submit(look, each) for each in range(READERS)]
            for each in running:
                each.result()

        order = [version.id for version in reversed(store.versions())]

        @cache
        def scanned(query: str, at: str) -> Results:
            return store.search(query, limit=3, at=at)

        for query, before, after, found in answers:
            possible = order[order.index(before) : order.index(after) + 1]
            assert any(scanned(query, each) == found for each in possible), (query, before, after, found)
    assert len(answers) == READERS * SEARCHES


@pytest.mark.parametrize("backend", LASTING)
def test_the_next_search_finds_the_changes_of_another_process(backend: str, tmp_path: Path) -> None:
    with opened(backend, tmp_path) as place, SecondProcess() as other:
        store = place.store()
        store.create("/memories/a", "first words\n")
        assert [hit.path for hit in store.search("words").hits] == ["/memories/a"]
        other.open(place_of(backend, tmp_path))
        for command, paths in (
            (create("/memories/b", "words of another\n"), {"/memories/a", "/memories/b"}),
            (edit("first words", "nothing", "/memories/a"), {"/memories/b"}),
            (rename("/memories/b", "/memories/c"), {"/memories/c"}),
            (delete("/memories/c"), set()),
        ):
            other.execute(command)
            found = store.search("words")
            assert {hit.path for hit in found.hits} == paths
            assert store.search("words").unknown == (() if paths else ("words",))


def test_a_database_that_is_restored_while_it_is_open_is_searched_anew(tmp_path: Path) -> None:
    """Another program restores an older state, also one of the same size. A later change is found too."""
    file = tmp_path / "memory.db"
    with (
        retentive.open(f"sqlite:///{file}") as place,
        closing(sqlite3.connect(file)) as database,
        closing(sqlite3.connect(tmp_path / "backup.db")) as backup,
    ):
        store = place.store()
        store.create("/memories/kept", "apple\n")
        database.backup(backup)
        store.write("/memories/kept", "grape\n")
        assert store.search("grape").total == 1
        backup.backup(database)
        assert (store.search("grape").total, store.search("apple").total) == (0, 1)
        for name in ("lost", "lost too"):
            store.create(f"/memories/{name}", "apple\n")
        assert store.search("apple").total == 3
        backup.backup(database)
        store.create("/memories/new", "apple\n")
        assert {hit.path for hit in store.search("apple").hits} == {"/memories/kept", "/memories/new"}
        view = store.execute({"command": "view", "path": "/memories"}).text
        assert "lost" not in view
