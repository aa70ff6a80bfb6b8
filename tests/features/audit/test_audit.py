"""The audit log: its entries, the data that it omits, and operations that fail because no entry can be written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import retentive
from features.audit.logs import Faulty, once
from retentive import MemoryStore, Mounts
from retentive.audit.chain import (
    ENTRY,
    AuditEntry,
    entries_page,
)
from retentive.errors import Damaged, OutcomeUnknown, StoreFull, Unavailable
from retentive.storage.contract import Transaction
from support.commands import create, edit
from support.places import opened

A, B = "/memories/a.md", "/memories/b.md"
SECRET = "unmistakable"


VIEW = {"command": "view", "path": A}
LISTING = {"command": "view", "path": "/memories"}


def audited(backend: str, directory: Path, **options: Any) -> retentive.Retentive:
    place = opened(backend, directory, **options)
    place.store().change_settings({"audit": True})
    return place


def seen(store: MemoryStore) -> list[tuple[str | None, str]]:
    return [(entry.operation, entry.outcome) for entry in store.audit.entries()]


def records_of(store: MemoryStore, *kinds: str) -> list[tuple[str, str]]:
    return store._core.read(lambda found: [record for kind in kinds for record in found.records(kind)])


def test_the_log_contains_no_text(store: MemoryStore) -> None:
    """Neither line of a record contains a text. Only the second line contains paths."""
    store.change_settings({"audit": True})
    path = "/memories/marked"
    for command in (
        create(path, SECRET),
        {"command": SECRET},
        {"command": "view", "path": path, SECRET: SECRET},
        {"command": "str_replace", "path": path, "old_str": SECRET, "new_str": SECRET * 2},
        {"command": "insert", "path": path, "insert_line": SECRET, "insert_text": SECRET},
        {"command": [SECRET]},
        SECRET,
    ):
        store.execute(command, tool_use_id=SECRET)
    store.search(SECRET)
    assert len(list(store.audit.entries())) == 9
    lines = [value.partition("\n") for _, value in records_of(store, ENTRY)]
    assert SECRET not in str(lines)
    assert path not in str([entry for entry, _, _ in lines])
    assert path in str([detail for _, _, detail in lines])


def test_the_log_is_off_by_default(store: MemoryStore) -> None:
    """While the log is off, it gets no entries. Switching it on or off has an entry."""
    store.execute(create(A, "one\n"))
    assert list(store.audit.entries()) == []
    found = store.audit.verify()
    assert (found.entries, found.problem, found.head, found.unaudited) == (0, None, None, ())
    store.change_settings({"audit": True})
    store.execute(VIEW)
    store.change_settings({"audit": False})
    store.execute(VIEW)
    store.execute(create(B, "one\n"))
    store.change_settings({"view_chars": 7})
    store.change_settings({"audit": True})
    assert [(entry.operation, entry.audit) for entry in store.audit.entries()] == [
        ("settings", True),
        ("view", None),
        ("settings", False),
        ("settings", True),
    ]
    assert store.audit.verify().unaudited == ()


def test_versions_without_an_entry_are_listed(store: MemoryStore) -> None:
    """Another process that overrides the setting for itself creates versions without entries."""
    store.change_settings({"audit": True})
    silent = MemoryStore(store._core.backend, store._core.info, pins={"audit": False})
    silent.execute(create(A, "one\n"))
    store.execute(create(B, "one\n"))
    found = store.audit.verify()
    assert (found.problem, [version.path for version in found.unaudited]) == (None, [A])


def test_a_process_can_pin_the_setting(place: str) -> None:
    """The settings of the store cannot switch the log off in this process."""
    with retentive.open(place, audit=True) as memory:
        store = memory.store()
        store.change_settings({"audit": False})
        store.execute(VIEW)
        store.read_only().execute(create(A, "one\n"))
        assert seen(store) == [("settings", "ok"), ("view", "not_found"), ("create", "read_only")]


def test_a_repeated_command_is_marked(store: MemoryStore) -> None:
    store.change_settings({"audit": True})
    for _ in range(2):
        store.execute(create(A, "one\n"), tool_use_id="t", run="r")
        store.execute(create(B, ""), tool_use_id="u", run="r")
        store.execute({"command": "delete", "path": "/memories/none"}, tool_use_id="v", run="r")
    entries = list(store.audit.entries())[1:]
    assert [entry.repeated for entry in entries] == [False] * 3 + [True, True, False]
    assert [entry.changes for entry in entries[:3]] == [entry.changes for entry in entries[3:]]
    assert [entry.outcome for entry in entries] == ["ok", "ok", "not_found"] * 2
    assert [len(entry.changes) for entry in entries[:3]] == [1, 1, 0]


@pytest.mark.long
def test_an_entry_lists_all_its_changes() -> None:
    with retentive.open("sqlite://", audit=True) as memory:
        store = memory.store()
        for number in range(700):
            store.execute(create(f"/memories/d/{number}", ""))
        store.execute({"command": "delete", "path": "/memories/d"})
        *_, last = store.audit.entries()
        ids = sorted(version.id for version in store.versions(limit=700))
        assert sorted(change.version_id for change in last.changes) == ids
        found = store.audit.verify()
        assert (found.problem, found.unaudited) == (None, ())


def test_since_a_time(store: MemoryStore) -> None:
    store.change_settings({"audit": True})
    store.execute(create(A, "one\n"))
    memory = store.memories()[0]
    store.execute(VIEW)
    assert list(store.audit.entries())[-1].read == (memory.id, memory.version_id)
    middle = datetime.now(UTC)
    store.execute(LISTING)
    assert [entry.listed for entry in store.audit.entries(middle)] == [True]
    assert [json.loads(line)["seq"] for line in store.audit.export(middle)] == [5]
    assert list(store.audit.entries(middle + timedelta(days=1))) == []


def test_each_store_has_one_chain(lasting_place: str) -> None:
    """Every process that opens the store appends to the same chain."""
    for _ in range(3):
        with retentive.open(lasting_place, audit=True) as memory:
            for key in ("one", "two"):
                memory.store(key).execute(VIEW)
                memory.store(key).execute(VIEW)
    with retentive.open(lasting_place) as memory:
        for key in ("one", "two"):
            found = memory.store(key).audit.verify()
            assert (found.entries, found.problem) == (6, None)
            entries = [json.loads(line) for line in memory.store(key).audit.export()]
            assert [each["prev"] for each in entries[1:]] == [each["hash"] for each in entries[:-1]]


def test_a_failed_audit_entry_fails_the_operation(tmp_path: Path) -> None:
    """The change is not made, and the result is not shown. This also applies to the methods for programs."""
    backend = Faulty(str(tmp_path / "memory.db"))
    store = MemoryStore(backend, backend.create_store(key="k", name="k"), pins={"audit": True})
    store.execute(create(A, "one\n"))
    before, count = list(store.versions()), len(records_of(store, ENTRY))

    def refuse(tx: Transaction, _: bool) -> None:
        if len(list(tx.records(ENTRY))) > count:
            raise Unavailable("no entry can be written at present")

    backend.at_commit = refuse
    for command in (
        VIEW,
        LISTING,
        create(A, "one\n"),
        create(B, "one\n"),
        {"command": "delete", "path": A},
        {"command": "crate"},
    ):
        reply = store.execute(command, tool_use_id="t")
        assert (reply.code, "one" in reply.text) == ("unavailable", False)
    actions: list[Callable[[], object]] = [
        lambda: store.read(A),
        lambda: list(store.memories()),
        lambda: store.search("one"),
        store.history.log,
        lambda: store.history.undo(before[0].id),
        lambda: store.history.erase(A),
        lambda: store.change_settings({"view_chars": 7}),
        lambda: store.scan(redact=True),
    ]
    for action in actions:
        with pytest.raises(Unavailable):
            action()
    backend.at_commit = lambda *_: None
    assert list(store.versions()) == before
    assert store.settings().view_chars != 7
    assert (
        store.execute(create(B, "one\n"), tool_use_id="t").is_error is False
    )  # the failed call left no record of its id either
    found = store.audit.verify()
    assert (found.problem, found.unaudited) == (None, ())
    assert {outcome for _, outcome in seen(store)} == {"ok"}
    backend.close()


def test_failures_of_storage_have_entries_too(tmp_path: Path) -> None:
    """The entry is written when the storage works again for it. The caller gets the error of the storage."""
    failing = Faulty(str(tmp_path / "memory.db"))
    store = MemoryStore(failing, failing.create_store(key="k", name="k"), pins={"audit": True})
    failing.at_commit = once(OutcomeUnknown("lost"))
    assert store.execute(create(A, "one\n")).code == "outcome_unknown"
    failing.at_read = once(Unavailable("away"))
    assert store.execute(VIEW).code == "unavailable"
    failing.at_read = once(Damaged("not the text of its version"))
    with pytest.raises(Damaged):
        store.read(A)
    assert seen(store) == [("create", "outcome_unknown"), ("view", "unavailable"), ("load", "damaged")]
    assert store.audit.verify().problem is None
    failing.close()


def test_a_command_on_a_tree_is_in_the_log_of_each_affected_store(tmp_path: Path) -> None:
    """A command that only the tree can answer has an entry in each store concerned, with the paths of that store."""
    with opened("sqlite", tmp_path, audit=True) as place:
        root, team = place.store("root"), place.store("team")
        tree = Mounts({"/memories": root, "/memories/team": team})
        tree.execute(create("/memories/team/a", "one\n"))
        tree.execute(LISTING)
        tree.execute({"command": "nothing"})
        tree.execute({"command": "rename", "old_path": "/memories/team/a", "new_path": "/memories/b"})
        tree.execute({"command": "delete", "path": "/memories/team"})
        tree.execute({"command": "view", "path": "/memories/team"})
        tree.clear()
        top = ("/memories",)
        assert [(entry.operation, entry.outcome, entry.paths) for entry in team.audit.entries()] == [
            ("create", "ok", ("/memories/a",)),
            ("view", "ok", top),
            ("rename", "across_mounts", ("/memories/a",)),
            ("delete", "root_protected", top),
            ("view", "ok", top),
            ("clear", "ok", top),
        ]
        assert [(entry.operation, entry.outcome, entry.paths) for entry in root.audit.entries()] == [
            ("view", "ok", top),
            (None, "invalid_input", ()),
            ("rename", "across_mounts", ("/memories/b",)),
            ("clear", "ok", top),
        ]
        assert [entry.listed for entry in root.audit.entries()] == [True, False, False, False]
        for store in (root, team):
            found = store.audit.verify()
            assert (found.problem, found.unaudited) == (None, ())


@pytest.mark.parametrize("limit", [1, 5, 13])
def test_the_log_is_read_in_pages(limit: int, tmp_path: Path) -> None:
    """Pages have the entries of the whole log with their paths, newest first."""
    with audited("sqlite", tmp_path) as place:
        store = place.store()
        for number in range(6):
            store.create(f"/memories/{number}.md", "x\n")
            store.execute({"command": "insert"})
        whole = list(store.audit.entries())
        assert len(whole) == 13
        found = list[AuditEntry]()
        cursor: str | None = ""
        while cursor is not None:
            page = place.backend.read(store.id, partial(entries_page, cursor=cursor, limit=limit))
            found, cursor = [*found, *page.items], page.next
        assert found == whole[::-1]


AGENT = "session:s"


@pytest.fixture
def reviewed(store: MemoryStore) -> MemoryStore:
    store.change_settings({"audit": True, "review": ["session:*"], "max_proposals": 2})
    return store


def outcomes(store: MemoryStore) -> list[tuple[str | None, str]]:
    """Check that the log is valid and complete, and return its entries except the first."""
    verified = store.audit.verify()
    assert (verified.problem, verified.unaudited) == (None, ())
    return [(entry.operation, entry.outcome) for entry in store.audit.entries()][1:]


def test_a_proposal_and_its_decision(reviewed: MemoryStore) -> None:
    """The entry of the proposal is marked and names the proposed change.

    The entry of the decision names the versions.
    """
    first = reviewed.execute(create(A, "one\n"), actor=AGENT, tool_use_id="toolu_01A09q90qw90lq917835lq9a")
    again = reviewed.execute(create(A, "one\n"), actor=AGENT, tool_use_id="toolu_01A09q90qw90lq917835lq9a")
    assert first == again
    (proposal,) = (each.id for each in reviewed.review.pending())
    reviewed.review.accept([proposal], actor="user:ann")
    proposed, repeated, _, accepted = list(reviewed.audit.entries())[1:]
    assert [(each.proposed, each.repeated) for each in (proposed, repeated, accepted)] == [
        (True, False),
        (True, True),
        (False, False),
    ]
    assert proposed.changes == repeated.changes
    assert proposed.changes[0].version_id.startswith(proposal)
    assert [change.version_id for change in accepted.changes] == [version.id for version in reviewed.versions()]
    assert accepted.facts == {"proposals": [proposal]}
    assert outcomes(reviewed)[-2:] == [("review.accept", "ok"), ("versions", "ok")]


def test_a_refusal_by_the_storage_has_an_entry(tmp_path: Path) -> None:
    """The path is taken by a file that is not a memory.

    The storage finds it when it makes the change, which is undone.
    """
    with retentive.open(tmp_path / "memory", audit=True) as place:
        store = place.store()
        store.execute(create(B, "one\n"))
        directory = store.directory()
        assert directory is not None
        (Path(directory) / "a.md").symlink_to("elsewhere")
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
                edit("one", "two", A),
                edit("none", "two", A),
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
