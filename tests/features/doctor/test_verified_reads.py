"""A text that differs from the hash of its version is never shown, edited or copied."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retentive import MemoryStore, Retentive
from retentive.errors import Damaged
from support.commands import create, delete, edit, insert, rename, view
from support.damage import codes, look, sql
from support.places import opened, place_of
from support.profiles import LONG

BACKENDS = ["sqlite", "directory", "postgresql", "mariadb"] if LONG else ["sqlite", "directory"]
A, B = "/memories/a.md", "/memories/b.md"
SAID = f"Error: The memory {A} is damaged"


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with a memory of two versions, of which the newest has another text of the same length."""
    with opened(request.param, tmp_path) as found:
        store = found.store()
        for command in (create(A, "one\n"), create(B, "bee\n"), edit("one", "two", path=A)):
            assert not store.execute(command).is_error
    place = place_of(request.param, tmp_path)
    sql(place, "UPDATE versions SET text = ? WHERE text = ?", (b"owt\n", b"two\n"))
    return place


def reopened(place: str) -> Retentive:
    import retentive

    return retentive.open(place)


def texts_stored(place: str) -> list[object]:
    return [row[0] for row in sql(place, "SELECT text FROM versions ORDER BY id")]


def test_every_reply_says_that_the_memory_is_damaged_and_nothing_changes(place: str) -> None:
    """View, edits, and a create that may replace. Other memories and listings are as before."""
    before = texts_stored(place)
    with reopened(place) as found:
        store = found.store()
        for command in (
            view(A),
            edit("owt", "x", path=A),
            edit("two", "x", path=A),
            insert(0, path=A),
            rename(A, B + "x"),
        ):
            reply = store.execute(command)
            assert (reply.is_error, reply.code, reply.text) == (True, "damaged", SAID)
        with pytest.raises(Damaged):
            store.read(A)
        with pytest.raises(Damaged):
            store.version_text(versions(store)[0])
        store.change_settings({"create_overwrites": True})
        assert store.execute(create(A, "three\n")).code == "damaged"
        assert store.read(B) == "bee\n"
        assert "a.md" in store.execute(view("/memories")).text
    assert texts_stored(place) == before


def test_search_and_scan_answer_for_the_others_and_name_it(place: str) -> None:
    """A redaction changes the others too."""
    key = "AKIAQ3EGVSNB6RTKX2ZP"
    with reopened(place) as found:
        store = found.store()
        store.change_settings({"sensitive": "off"})
        assert not store.execute(create("/memories/c.md", f"bee {key}\n")).is_error
        results = store.search("bee")
        assert ({hit.path for hit in results.hits}, results.damaged) == ({"/memories/c.md", B}, (A,))
        for redact in (False, True):
            scanned = {one.path: (one.damaged, bool(one.kinds)) for one in store.scan(redact=redact, history=True)}
            assert scanned == {A: (True, False), "/memories/c.md": (False, True)}
        assert key not in store.read("/memories/c.md")


@pytest.mark.parametrize("how", ["restore", "undo"])
def test_an_earlier_good_version_can_be_restored(place: str, how: str) -> None:
    """Then the memory is readable and editable. Its damaged version is still named."""
    with reopened(place) as found:
        store = found.store()
        damaged, good = versions(store)
        done = store.history.restore(A, good) if how == "restore" else store.history.undo(damaged)
        assert not done.conflicts
        assert store.read(A) == "one\n"
        assert not store.execute(edit("one", "1", path=A)).is_error
    assert codes(look(place)) == {"old_text_wrong"}


def test_it_can_be_deleted_and_its_versions_redacted(place: str) -> None:
    with reopened(place) as found:
        store = found.store()
        ids = versions(store)
        assert not store.execute(delete(A)).is_error
        store.history.redact(ids)
    assert codes(look(place)) == set()


def test_a_good_file_of_a_damaged_record_is_no_external_edit(tmp_path: Path) -> None:
    """The file keeps its text, and no version is recorded."""
    with opened("directory", tmp_path) as found:
        found.store().execute(create(A, "one\n"))
    place = place_of("directory", tmp_path)
    file = Path(place) / "memories" / "a.md"
    for damaged in (b"neo\n", b"", b"longer text\n"):
        sql(place, "UPDATE versions SET text = ?", (damaged,))
        os.utime(file, (1, 1))  # its mark is no longer trusted
        with reopened(place) as found:
            store = found.store()
            assert store.execute(view("/memories")).text.endswith("a.md")
            assert store.execute(view(A)).text == SAID
            assert len(list(store.versions(A))) == 1
        assert file.read_text() == "one\n"


def versions(store: MemoryStore) -> list[str]:
    return [version.id for version in store.versions(A)]
