"""The audit log: what stands in it, and what does not; and that no reply goes out before its entry rests."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from retentive.audit.entries import KIND

import retentive
from backends.places import EVERYWHERE, opened
from retentive import MemoryStore, Mounts
from retentive.errors import Unavailable
from retentive.storage.sqlite.backend import SqliteBackend

A, B = "/memories/a.md", "/memories/b.md"
SECRET = "unmistakable"


def create(path: str = A, text: str = "one\n") -> dict[str, Any]:
    return {"command": "create", "path": path, "file_text": text}


VIEW = {"command": "view", "path": A}
LISTING = {"command": "view", "path": "/memories"}


def audited(backend: str, directory: Path, **options: Any) -> retentive.Retentive:
    place = opened(backend, directory, **options)
    place.store().change_settings({"audit": True})
    return place


def seen(store: MemoryStore) -> list[tuple[str | None, str]]:
    return [(entry.command, entry.outcome) for entry in store.audit.entries()]


@pytest.mark.parametrize("backend", EVERYWHERE)
def test_every_command_has_its_entry(backend: str, tmp_path: Path) -> None:
    """With who, when, what came of it, and what was changed or read; refused and malformed ones too."""
    with audited(backend, tmp_path, actor="user:ann") as place:
        store = place.store()
        before = datetime.now(UTC)
        store.execute(create(), actor="session:s")
        memory = next(store.memories())
        store.execute(VIEW)
        store.execute(LISTING)
        store.execute({"command": "insert", "path": A, "insert_line": 7, "insert_text": "x"})
        store.execute({"command": "crate", "path": A})
        store.execute({"command": "view"})
        store.execute("no object")
        store.execute({"command": "rename", "old_path": A, "new_path": B})
        store.execute({"command": "view", "path": "/memories/gone"})
        store.save(B, "two\n", if_version=None)
        store.save(B, "two\n", if_version=store.load(B)[0].version_id)
        store.clear()
        entries = list(store.audit.entries())
        versions = list(store.versions())[::-1]
        assert [(entry.command, entry.outcome) for entry in entries] == [
            (None, "ok"),
            ("create", "ok"),
            ("view", "ok"),
            ("view", "ok"),
            ("insert", "out_of_range"),
            (None, "invalid_input"),
            ("view", "invalid_input"),
            (None, "invalid_input"),
            ("rename", "ok"),
            ("view", "not_found"),
            ("save", "conflict"),
            ("save", "ok"),
            ("clear", "ok"),
        ]
        assert [entry.actor for entry in entries] == ["user:ann", "session:s", *["user:ann"] * 11]
        assert all(before <= entry.time <= datetime.now(UTC) for entry in entries[1:])
        assert entries[2].read == (memory.id, memory.version_id)
        assert [entry.listed for entry in entries].index(True) == 3
        changed = [change for entry in entries for change in entry.changes]
        assert changed == [(version.memory_id, version.id) for version in versions]
        assert {entry.chain for entry in entries} == {entries[0].chain}
        assert [entry.seq for entry in entries] == list(range(1, 14))
        found = store.audit.verify()
        assert (found.entries, found.chains, found.problem, found.unaudited) == (13, 1, None, ())
        assert [str(end) for end in found.ends] == [f"{entries[-1].chain}:13:{entries[-1].hash}"]


def test_nothing_of_contents_is_in_it(tmp_path: Path) -> None:
    """No path, no text, no value of an input, whatever it is."""
    with audited("sqlite", tmp_path) as place:
        store = place.store()
        for command in (
            create(f"/memories/{SECRET}", SECRET),
            {"command": SECRET},
            {"command": "view", "path": SECRET, SECRET: SECRET},
            {"command": "str_replace", "path": f"/memories/{SECRET}", "old_str": SECRET, "new_str": SECRET * 2},
            {"command": "insert", "path": f"/memories/{SECRET}", "insert_line": SECRET, "insert_text": SECRET},
            {"command": "view", "path": f"/memories/{SECRET}"},
            {"command": [SECRET]},
            SECRET,
        ):
            store.execute(command, tool_use_id=SECRET)
        log = [*store.audit.export(), *(key for key, _ in store.backend.side_records(store.id, KIND))]
        assert len(list(store.audit.entries())) == 9
        assert SECRET not in "".join(log)


def test_it_is_off_unless_it_is_switched_on(store: MemoryStore) -> None:
    """And stands still while it is off; that it was switched stands in it."""
    store.execute(create())
    assert list(store.audit.entries()) == []
    found = store.audit.verify()
    assert (found.entries, found.chains, found.problem, found.unaudited) == (0, 0, None, ())
    store.change_settings({"audit": True})
    store.execute(VIEW)
    store.change_settings({"audit": False})
    store.execute(VIEW)
    store.execute(create(B))
    store.change_settings({"view_chars": 7})
    store.change_settings({"audit": True})
    assert [(entry.command, entry.audit) for entry in store.audit.entries()] == [
        (None, True),
        ("view", None),
        (None, False),
        (None, True),
    ]
    assert store.audit.verify().unaudited == ()


def test_a_process_may_pin_it(place: str) -> None:
    """So that the settings of the store cannot switch it off there."""
    with retentive.open(place, audit=True) as memory:
        store = memory.store()
        store.change_settings({"audit": False})
        store.execute(VIEW)
        store.read_only().execute(create())
        assert seen(store) == [("view", "not_found"), ("create", "read_only")]


def test_a_command_that_comes_again_is_told_as_such(store: MemoryStore) -> None:
    store.change_settings({"audit": True})
    for _ in range(2):
        store.execute(create(), tool_use_id="t")
    first, again = list(store.audit.entries())[1:]
    assert (first.repeated, again.repeated) == (False, True)
    assert first.changes == again.changes
    assert len(first.changes) == 1


def test_what_changes_much_takes_several_entries(tmp_path: Path) -> None:
    with retentive.open("sqlite://", audit=True) as memory:
        store = memory.store()
        for number in range(501):
            store.execute(create(f"/memories/d/{number}", ""))
        store.execute({"command": "delete", "path": "/memories/d"})
        *_, last, rest = store.audit.entries()
        assert (len(last.changes), len(rest.changes)) == (500, 1)
        assert store.audit.verify().unaudited == ()
        assert store.audit.verify().problem is None


def test_since_a_time(store: MemoryStore) -> None:
    store.change_settings({"audit": True})
    store.execute(VIEW)
    middle = datetime.now(UTC)
    store.execute(LISTING)
    assert [entry.listed for entry in store.audit.entries(middle)] == [True]
    assert [json.loads(line)["seq"] for line in store.audit.export(middle)] == [3]
    assert list(store.audit.entries(middle + timedelta(days=1))) == []


def test_stores_and_openings_have_chains_of_their_own(lasting_place: str) -> None:
    """One for each process and store; each begins by naming where those before ended."""
    for _ in range(3):
        with retentive.open(lasting_place, audit=True) as memory:
            for key in ("one", "two"):
                memory.store(key).execute(VIEW)
                memory.store(key).execute(VIEW)
    with retentive.open(lasting_place) as memory:
        for key in ("one", "two"):
            found = memory.store(key).audit.verify()
            assert (found.entries, found.chains, found.problem, len(found.ends)) == (6, 3, None, 1)
        firsts = [json.loads(line) for line in memory.store("one").audit.export()]
        named = [each["after"] for each in firsts if each["seq"] == 1]
        assert [len(each) for each in named] == [0, 1, 1]
        ends = [[each["chain"], 2, each["hash"]] for each in firsts if each["seq"] == 2]
        assert named[1:] == [[end] for end in ends[:2]]


class Forgetful(SqliteBackend):
    """A backend that now and then keeps nothing beside the stores."""

    fails = False

    def put_side_records(self, store_id: str, kind: str, values: Mapping[str, str | None]) -> None:
        if self.fails:
            raise Unavailable("nothing is kept beside the store at present")
        super().put_side_records(store_id, kind, values)


def test_without_an_entry_there_is_no_reply(tmp_path: Path) -> None:
    """A view and a refusal become the failure; of what was changed the reply says that it is unknown."""
    backend = Forgetful(str(tmp_path / "memory.db"))
    store = MemoryStore(backend, backend.create_store(key="k", name="k"), pins={"audit": True})
    store.execute(create())
    backend.fails = True
    for command in (VIEW, create(), {"command": "delete", "path": B}, {"command": "crate"}):
        assert store.execute(command).code == "unavailable"
    told = store.execute(create(B))
    assert told.code == "outcome_unknown"
    assert told.text == f"Error: The outcome of this command is unknown; view {B} before trying again"
    assert store.text(B) == "one\n"
    backend.fails = False
    store.execute(VIEW)
    found = store.audit.verify()
    assert (found.problem, found.chains, found.entries) == (None, 2, 2)
    assert [version.path for version in found.unaudited] == [B]
    backend.close()


def test_a_tree_of_stores_writes_into_the_logs_of_those_concerned(tmp_path: Path) -> None:
    """What only the tree can answer stands with the stores it is about."""
    with opened("sqlite", tmp_path, audit=True) as place:
        root, team = place.store("root"), place.store("team")
        tree = Mounts({"/memories": root, "/memories/team": team})
        tree.execute(create("/memories/team/a"))
        tree.execute(LISTING)
        tree.execute({"command": "nothing"})
        tree.execute({"command": "rename", "old_path": "/memories/team/a", "new_path": "/memories/a"})
        tree.execute({"command": "delete", "path": "/memories/team"})
        tree.execute({"command": "view", "path": "/memories/team"})
        tree.clear()
        shared = [("view", "ok"), ("rename", "across_mounts")]
        assert seen(team) == [("create", "ok"), *shared, ("delete", "root_protected"), ("view", "ok"), ("clear", "ok")]
        assert seen(root) == [shared[0], (None, "invalid_input"), shared[1], ("clear", "ok")]
        for store in (root, team):
            found = store.audit.verify()
            assert (found.problem, found.unaudited) == (None, ())


@pytest.mark.parametrize("backend", ["sqlite", "postgresql", "mariadb"])
def test_threads_share_a_chain(backend: str, tmp_path: Path) -> None:
    """In whatever order; entries that wait together are written together."""
    with audited(backend, tmp_path) as place, ThreadPoolExecutor(8) as threads:
        store = place.store()
        for reply in threads.map(lambda number: store.execute(create(f"/memories/{number}")), range(80)):
            assert not reply.is_error
        found = store.audit.verify()
        assert (found.entries, found.chains, found.problem, found.unaudited) == (81, 1, None, ())
        assert {change.version_id for entry in store.audit.entries() for change in entry.changes} == {
            version.id for version in store.versions()
        }


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_begins_a_chain(tmp_path: Path) -> None:
    with audited("sqlite", tmp_path) as place:
        store = place.store()
        store.execute(VIEW)
        pid = os.fork()
        store.execute(VIEW)
        if pid == 0:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        store.execute(VIEW)
        found = store.audit.verify()
        assert (found.entries, found.chains, found.problem) == (5, 2, None)


@pytest.mark.parametrize("backend", ["postgresql", "mariadb"])
def test_a_view_waits_for_no_writer(backend: str, tmp_path: Path) -> None:
    """It is answered, and its entry written, while somebody else holds the store in a write."""
    inside, leave = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        inside.set()
        assert leave.wait(60)

    with audited(backend, tmp_path) as place, opened(backend, tmp_path) as other:
        store = place.store()
        store.execute(create())
        writer = threading.Thread(target=other.backend.write, args=(store.id, hold))
        writer.start()
        assert inside.wait(60)
        try:
            assert store.execute(VIEW).is_error is False
            assert seen(store)[-1] == ("view", "ok")
        finally:
            leave.set()
            writer.join()
