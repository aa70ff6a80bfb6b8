"""Search in a store: its cache is up to date after any change by any process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from retentive import MemoryStore
from retentive.errors import Damaged
from retentive.search import index
from retentive.search.index import CORPORA, Corpus
from retentive.storage.contract import Snapshot
from support.commands import create, run
from support.damage import sql
from support.places import opened, place_of


def found(store: MemoryStore, query: str, **options: object) -> list[str]:
    return [hit.path for hit in store.search(query, **options).hits]  # type: ignore[arg-type]


def test_an_index_of_a_later_state_goes_back_to_an_earlier_one(tmp_path: Path) -> None:
    """Trust levels come from the snapshot: a memory that became hidden since would be shown at its old path."""
    corpus = Corpus()
    with opened("sqlite", tmp_path) as one, opened("sqlite", tmp_path) as other:
        run(one.store(), create("/memories/a", "words"))

        def work(earlier: Snapshot) -> list[list[str]]:
            assert earlier.state.revision == 1  # a snapshot has the state of its first statement
            run(other.store(), create("/memories/b", "words"))
            later = other.store()._core.read(lambda snapshot: indexed(corpus, snapshot))
            return [later, indexed(corpus, earlier)]

        assert one.store()._core.read(work) == [["/memories/a", "/memories/b"], ["/memories/a"]]


def indexed(corpus: Corpus, snapshot: Snapshot) -> list[str]:
    return sorted(document.path for document in corpus.updated(snapshot)[0].documents.values())


def test_external_edits_are_found(tmp_path: Path) -> None:
    """A search finds external edits even if no command ran since the edit."""
    with opened("directory", tmp_path) as place:
        store = place.store()
        run(store, create("/memories/a", "first"))
        assert found(store, "first") == ["/memories/a"]
        root = Path(str(store.directory()))
        (root / "a").write_text("edited")
        (root / "b").write_text("edited too")
        assert sorted(found(store, "edited")) == ["/memories/a", "/memories/b"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_does_not_wait_for_threads_it_lacks(tmp_path: Path) -> None:
    """A thread of the parent may hold the lock of the cache at the moment of the fork."""
    with opened("sqlite", tmp_path) as place:
        store = place.store()
        run(store, create("/memories/a", "first"))
        assert found(store, "first") == ["/memories/a"]
        corpus = CORPORA.of(store._core.backend, store.id)
        with corpus.lock:
            child = os.fork()
            if child == 0:
                signal.alarm(30)  # instead of waiting forever
                found_there = found(store, "first") == ["/memories/a"]
                os._exit(0 if found_there else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("max_kept_bytes", [1, 1_000])
def test_damaged_memories_are_named_and_the_others_found(
    tmp_path: Path, max_kept_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unreadable text may contain the word. After a repair, the memory is searched again."""
    with opened("sqlite", tmp_path) as place:
        store = place.store()
        monkeypatch.setattr(index, "MAX_KEPT_BYTES", max_kept_bytes)
        corpus = Corpus()

        def search() -> tuple[list[str], tuple[str, ...]]:
            def work(snapshot: Snapshot) -> tuple[list[str], tuple[str, ...]]:
                return indexed(corpus, snapshot), corpus.updated(snapshot)[1]

            return store._core.read(work)

        for path in ("/memories/a", "/memories/b", "/memories/c", "/memories/d/e"):
            run(store, create(path, "two"))
        statement = "UPDATE versions SET text = ? WHERE path = '/memories/b'"
        for damaged in (b"\xff", b"twoo", b""):
            sql(place_of("sqlite", tmp_path), statement, (damaged,))
            assert search() == (["/memories/a", "/memories/c", "/memories/d/e"], ("/memories/b",))
            assert store.search("two", under="/memories/d").damaged == ()
            assert store.search("two").damaged == ("/memories/b",)
            with pytest.raises(Damaged, match="/memories/b "):
                store.load("/memories/b")
        sql(place_of("sqlite", tmp_path), statement, (b"two",))
        assert search() == (["/memories/a", "/memories/b", "/memories/c", "/memories/d/e"], ())
