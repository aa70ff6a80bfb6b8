"""The audit log together with reviews, tool_use ids, refusals by the storage, and a full disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from features.audit.logs import Faulty
from retentive import MemoryStore
from retentive.errors import StoreFull
from retentive.storage.contract import Transaction
from support.commands import create, edit

A, B = "/memories/a", "/memories/b"
AGENT = "session:s"
VIEW = {"command": "view", "path": A}


@pytest.fixture
def audited(store: MemoryStore) -> MemoryStore:
    store.change_settings({"audit": True, "review": ["session:*"], "max_proposals": 2})
    return store


def outcomes(store: MemoryStore) -> list[tuple[str | None, str]]:
    """Check that the log is valid and complete, and return its entries except the first."""
    verified = store.audit.verify()
    assert (verified.problem, verified.unaudited) == (None, ())
    return [(entry.operation, entry.outcome) for entry in store.audit.entries()][1:]


def test_a_proposal_and_its_decision(audited: MemoryStore) -> None:
    """The entry of the proposal is marked and names the proposed change.

    The entry of the decision names the versions.
    """
    first = audited.execute(create(A, "one\n"), actor=AGENT, tool_use_id="toolu_01A09q90qw90lq917835lq9a")
    again = audited.execute(create(A, "one\n"), actor=AGENT, tool_use_id="toolu_01A09q90qw90lq917835lq9a")
    assert first == again
    (proposal,) = (each.id for each in audited.review.pending())
    audited.review.accept([proposal], actor="user:ann")
    proposed, repeated, _, accepted = list(audited.audit.entries())[1:]
    assert [(each.proposed, each.repeated) for each in (proposed, repeated, accepted)] == [
        (True, False),
        (True, True),
        (False, False),
    ]
    assert proposed.changes == repeated.changes
    assert proposed.changes[0].version_id.startswith(proposal)
    assert [change.version_id for change in accepted.changes] == [version.id for version in audited.versions()]
    assert accepted.facts == {"proposals": [proposal]}
    assert outcomes(audited)[-2:] == [("review.accept", "ok"), ("versions", "ok")]


def test_a_refusal_by_the_storage_has_an_entry(tmp_path: Path) -> None:
    """The path is taken by a file that is not a memory.

    The storage finds it when it makes the change, which is undone.
    """
    with retentive.open(tmp_path / "memory", audit=True) as place:
        store = place.store()
        store.execute(create(B, "one\n"))
        directory = store.directory()
        assert directory is not None
        (Path(directory) / "a").symlink_to("elsewhere")
        replies = [store.execute(create(A, "one\n"), tool_use_id="toolu_01A09q90qw90lq917835lq9a") for _ in range(2)]
        assert [reply.code for reply in replies] == ["path_taken"] * 2
        assert replies[0] == replies[1]
        found = [(entry.operation, entry.outcome, entry.changes) for entry in store.audit.entries()][1:]
        assert found == [("create", "path_taken", ())] * 2
        assert store.audit.verify().problem is None


@pytest.fixture
def full(tmp_path: Path) -> Iterator[MemoryStore]:
    """A store on a full disk: every write is refused that may not use the reserve."""
    backend = Faulty(str(tmp_path / "memory.db"))
    store = MemoryStore(backend, backend.create_store(key="k", name="k"))
    store.change_settings({"audit": True})
    store.execute(create(A, "one\n"))

    def refuse(_: Transaction, may_use_reserve: bool) -> None:
        if not may_use_reserve:
            raise StoreFull("no space is left")

    backend.at_commit = refuse
    yield store
    backend.close()


def test_a_full_disk(full: MemoryStore) -> None:
    """Views and deletions work and have entries. Refused commands keep their own error and have entries too."""
    codes = [
        full.execute(command, tool_use_id=str(number)).code
        for number, command in enumerate(
            (
                create(A, "one\n"),
                create(B, "one\n"),
                edit("one", "two"),
                edit("none", "two"),
                VIEW,
                {"command": "delete", "path": A},
                VIEW,
            )
        )
    ]
    assert codes == ["already_exists", "store_full", "store_full", "no_match", None, None, "not_found"]
    assert outcomes(full) == [
        ("create", "ok"),
        ("create", "already_exists"),
        ("create", "store_full"),
        ("str_replace", "store_full"),
        ("str_replace", "no_match"),
        ("view", "ok"),
        ("delete", "ok"),
        ("view", "not_found"),
    ]
