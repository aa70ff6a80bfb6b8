"""Every version records the call that made it, and everybody who contributed to its text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retentive import MemoryStore
from retentive.values.provenance import Provenance
from support.commands import create, delete, edit, rename
from support.places import EVERYWHERE, opened

A, B = "/memories/a", "/memories/b"
ANN, BOB, S1 = "user:ann", "user:bob", "session:s1"
WEB = "web:https://example.org/page?id=1"


@pytest.fixture(params=EVERYWHERE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStore]:
    with opened(str(request.param), tmp_path, actor=ANN) as place:
        yield place.store()


def newest(store: MemoryStore) -> Provenance:
    return store.versions(limit=1)[0].provenance


def authors(store: MemoryStore, path: str = A) -> list[tuple[str, str, str]]:
    """Actor, session and source of the contributors to the present text."""
    return [(each.actor, each.session, each.source) for each in store.load(path)[0].provenance.contributors]


def test_a_change_records_its_call(store: MemoryStore) -> None:
    assert not store.execute(create(), tool_use_id="toolu_1", source=WEB, session="s9").is_error
    found = newest(store)
    assert (found.integration, found.tool_use_id, found.session, found.source) == ("python", "toolu_1", "s9", WEB)
    store.through("somewhere").execute(edit("two", "2"), actor=BOB)
    found = newest(store)
    assert (found.integration, found.tool_use_id, found.session, found.source) == ("somewhere", "", "", "")
    store.execute(rename(A, B), source="user")
    assert newest(store).source == "user"
    store.execute(delete(B), source="tool:cleanup")
    assert newest(store).source == "tool:cleanup"
    store.create(B, "text", source="tool:editor", session="s2")
    assert (newest(store).source, newest(store).session) == ("tool:editor", "s2")


def test_contributors_travel_with_the_text(store: MemoryStore) -> None:
    """Through edits, renames, restores and undos, each once; a restored text has those of its version."""
    store.execute(create(), actor=S1, source=WEB)
    store.execute(edit("two", "2"), actor=BOB)
    store.execute(rename(A, B))
    assert authors(store, B) == [(S1, "", WEB), (BOB, "", ""), (ANN, "", "")]
    store.execute(edit("2", "3", B), actor=BOB)
    assert authors(store, B) == [(S1, "", WEB), (ANN, "", ""), (BOB, "", "")]
    store.execute(delete(B))
    assert store.history.undo(store.versions(limit=1)[0].id, actor="user:cem").done
    assert authors(store, B) == [(S1, "", WEB), (ANN, "", ""), (BOB, "", ""), ("user:cem", "", "")]
    store.history.restore(B, store.history.log(B)[-1].id, actor=ANN)
    assert authors(store, B) == [(S1, "", WEB), (ANN, "", "")]


def test_undoing_a_change_removes_its_contribution(store: MemoryStore) -> None:
    store.execute(create())
    store.execute(edit("two", "poison"), actor=S1)
    store.history.undo_by(S1, actor=BOB)
    assert authors(store) == [(ANN, "", ""), (BOB, "", "")]


def test_an_accepted_proposal_names_its_author_and_source(store: MemoryStore) -> None:
    store.execute(create())
    store.change_settings({"review": ["session:*"]})
    store.execute(edit("two", "2"), actor=S1, source=WEB, session="run 1")
    store.review.accept(None, actor=BOB)
    assert authors(store) == [(ANN, "", ""), (S1, "run 1", WEB)]
    assert newest(store).source == WEB


def test_redaction_removes_the_provenance(store: MemoryStore) -> None:
    store.execute(create(), source=WEB)
    store.execute(delete())
    first = store.history.log()[-1]
    store.history.redact([first.id])
    assert store.history.show(first.id)[0].provenance == Provenance()


@pytest.mark.parametrize("rule", [{"quarantine": ["session:evil"]}, {"trust": {"source:web:*": "quarantined"}}])
def test_no_number_of_edits_launders_a_planted_line(rule: dict[str, Any], store: MemoryStore) -> None:
    """No contributor is dropped that a rule may match later, however many others edit the memory after it."""
    store.create(A, "planted\n", actor="session:evil", source=WEB)
    for number in range(250):
        store.append(A, f"{number}\n", actor=f"session:{number:032x}")
    assert store.execute({"command": "view", "path": A}, actor="session:reader").is_error is False
    store.change_settings(rule)
    assert store.execute({"command": "view", "path": A}, actor="session:reader").code == "not_found"
    assert store.search("planted", actor="session:reader").hits == ()


def test_many_contributors_are_all_named(store: MemoryStore) -> None:
    """A provenance names only the newest of more than 16; all can be had for a version and for a memory."""
    sessions = [f"session:{number}" for number in range(20)]
    store.create(A, "", actor=sessions[0])
    for session in sessions[1:]:
        store.append(A, "x\n", actor=session)
    memory, first = store.load(A)[0], store.versions()[-1]
    assert [each.actor for each in memory.provenance.contributors] == sessions[16:]
    for recorded in (memory, store.versions(limit=1)[0]):
        assert [each.actor for each in store.trust.contributors(recorded)] == sessions
    assert [each.actor for each in store.trust.contributors(first)] == sessions[:1]


def test_a_confirmation_does_not_cover_a_later_change_by_one_of_many(store: MemoryStore) -> None:
    """The newest contribution of each contributor counts, also if older records name it."""
    store.change_settings({"trust": {"session:*": "unconfirmed"}})
    sessions = [f"session:{number}" for number in range(40)]
    for session in sessions:
        store.append(A, "x\n", actor=session)
    store.trust.confirm(A)
    assert store.trust.doubted() == []
    store.append(A, "x\n", actor=sessions[0])
    for session in sessions[10:30]:
        store.append(A, "y\n", actor=f"user:{session}")
    assert [each.path for each in store.trust.doubted()] == [A]


def test_an_external_edit_keeps_all_contributors(tmp_path: Path) -> None:
    """More contributors than a version names itself stay known after an edit by hand, and after the next command."""
    rule = {"quarantine": ["session:evil"]}
    with opened("directory", tmp_path) as place:
        store = place.store()
        store.create(A, "planted\n", actor="session:evil")
        for number in range(20):
            store.append(A, f"{number}\n", actor=f"session:{number}")
        file = Path(str(store.directory())) / "a"
        file.write_text(f"{file.read_text()}by hand\n")
        for _ in range(2):
            store.change_settings(rule)
            assert store.execute({"command": "view", "path": A}, actor="session:reader").code == "not_found"
            store.change_settings({"quarantine": None})
            store.append(A, "more\n", actor=S1)
        store.change_settings({"quarantine": ["job:external"]})
        assert store.execute({"command": "view", "path": A}, actor="session:reader").code == "not_found"
