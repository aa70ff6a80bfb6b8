"""After a redaction or an erasure, no read operation and no stored byte contains the contents."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive import Actor, InvalidInput, MemoryStore, NotFound, Retentive
from retentive.engine.access_times import KIND
from retentive.engine.visibility import CONFIRMED
from retentive.errors import PermissionDenied
from retentive.history import removal
from retentive.storage.contract import Created, Moved, Transaction
from retentive.transfer.copies import read_records
from support.command_line import here
from support.commands import tree
from support.http_api import serving
from support.places import EVERYWHERE, opened, place_of

from .changes import A, B, C, create, replace, run

SECRET = "correct horse battery staple"
PATH_OF_SECRET = "/memories/clandestine/affair"


@pytest.fixture(params=EVERYWHERE)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Retentive]:
    with opened(str(request.param), tmp_path) as made:
        yield made


@pytest.fixture
def store(place: Retentive) -> MemoryStore:
    return place.store()


def test_a_redacted_version_shows_its_actor_and_time(store: MemoryStore) -> None:
    """All other fields are removed. The newest version of a present memory cannot be redacted."""
    first = create(store, PATH_OF_SECRET, SECRET, "session:s")
    moved = run(store, "rename", old_path=PATH_OF_SECRET, new_path=A)
    present = replace(store, A, SECRET, "nothing")
    with pytest.raises(InvalidInput, match="is the newest version"):
        store.history.redact([first, present])
    with pytest.raises(NotFound):
        store.history.redact([first, "memver_nothing"])
    assert store.history.show(first)[1] == SECRET
    removed = store.history.redact([first, moved], actor="user:ann")
    assert (removed.versions, removed.pending) == (2, False)
    version, text = store.history.show(first)
    assert (text, version.path, version.size_bytes, version.sha256) == (None, "", None, None)
    assert (version.actor, version.redacted_by) == (Actor("session", "s"), Actor("user", "ann"))
    assert store.history.redact(first).versions == 0  # a call of its own has redacted one of the versions already
    assert tree(store) == {A: "nothing"}
    assert [line.version.id for line in store.history.blame(A)] == [present]
    outcome = store.history.undo(present)
    assert [conflict.reason for conflict in outcome.conflicts] == ["the previous version was redacted"]


def test_an_erased_memory_leaves_a_tombstone(store: MemoryStore) -> None:
    """The memory is present, or was deleted before the erasure. Other memories keep their history."""
    create(store, A, SECRET)
    replace(store, A, SECRET, SECRET + SECRET)
    run(store, "rename", old_path=A, new_path=PATH_OF_SECRET)
    create(store, B, "other")
    erased = store.load(PATH_OF_SECRET)[0].id
    removed = store.history.erase(PATH_OF_SECRET, actor="user:ann")
    assert (removed.versions, removed.pending) == (4, False)
    assert tree(store) == {B: "other"}
    assert [version.path for version in store.history.log()] == [B]
    tombstones = store._core.read(lambda found: dict(found.records(removal.TOMBSTONE)))
    assert list(tombstones) == [erased]
    assert '"by": "user:ann"' in tombstones[erased]
    with pytest.raises(NotFound):
        store.history.erase(memory_id=erased)
    with pytest.raises(NotFound):
        store.history.erase(A)
    deleted = store.load(B)[0].id
    run(store, "delete", path=B)
    assert store.history.erase(memory_id=deleted).versions == 2
    assert store.history.log() == []
    create(store, A, "again")
    assert tree(store) == {A: "again"}


def test_a_memory_cannot_be_restored_during_its_erasure(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore between the two steps of the erasure would leave the text in a memory without history."""
    version = create(store, A, SECRET)

    def killed(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(removal, "_erase", killed)
        with pytest.raises(KeyboardInterrupt):
            store.history.erase(A)
    deleted = store.history.log()[0].id
    with pytest.raises(InvalidInput, match="being erased"):
        store.history.restore(A, version)
    with pytest.raises(InvalidInput, match="being erased"):
        store.history.undo(deleted)
    assert removal.finish(store._core)
    assert (tree(store), store.history.log()) == ({}, [])


def test_a_removal_during_another_stays_pending(
    store: MemoryStore, place: Retentive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleanup after the first removal does not complete the second removal."""
    versions = [create(store, path, SECRET) for path in (A, B)]
    store.clear()
    purge = place.backend.purge
    inner: list[removal.Removed] = []
    calls: list[bool] = []

    def purging() -> bool:
        calls.append(True)
        if len(calls) == 1:
            done = purge()
            inner.append(store.history.redact([versions[1]]))
            return done
        return len(calls) > 2 and purge()  # a reader blocks the cleanup of the inner removal

    monkeypatch.setattr(place.backend, "purge", purging)
    assert not store.history.redact([versions[0]]).pending
    assert inner[0].pending
    assert store._core.read(lambda found: found.get_record(removal.PENDING, "since")) is not None
    assert removal.finish(store._core)
    assert store._core.read(lambda found: found.get_record(removal.PENDING, "since")) is None


def test_an_erased_store_is_gone(place: Retentive) -> None:
    """The key of the erased store can be used for a new store. Other stores stay the same."""
    one, other = place.store("one"), place.store("other")
    create(one, A, SECRET)
    create(other, A, "stays")
    assert not place.erase("one", actor="user:ann").pending
    assert [info.key for info in place.stores()] == ["other"]
    with pytest.raises(NotFound):
        place.store(one.id)
    assert one.execute({"command": "view", "path": A}).is_error
    assert tree(place.store("one")) == {}
    assert tree(other) == {A: "stays"}
    with pytest.raises(NotFound):
        place.erase("nothing")


def test_scan_redacts_the_history_too(store: MemoryStore) -> None:
    """The scan also redacts old versions and the versions of deleted memories."""
    key = "AKIAQ3EGVSNB6RTKX2ZP"
    store.change_settings({"sensitive": "off"})
    create(store, A, f"the key is {key}\n")
    create(store, B, f"another is {key}\n")
    run(store, "delete", path=B)
    replace(store, A, key, "gone")
    create(store, C, f"{key}\n")
    assert [one.path for one in store.scan()] == [C]
    assert [one.path for one in store.scan(history=True)] == [C, B, A]
    assert [one.path for one in store.scan(history=True, redact=True)] == [C, B, A]
    assert store.scan(history=True) == []
    assert tree(store) == {A: "the key is gone\n", C: "[REDACTED:aws_access_key_id]\n"}
    assert sum(version.redacted_at is not None for version in store.versions()) == 3


def test_a_scan_by_an_actor_under_review_redacts_nothing(store: MemoryStore) -> None:
    """The scan redacts neither present memories, which would bypass the review, nor the history."""
    store.change_settings({"sensitive": "off"})
    create(store, A, "password: Kx9#mQ2$vL7p and AKIAQ3EGVSNB6RTKX2ZP\n")
    before = tree(store)
    store.change_settings({"review": ["session:*"]})
    for history in (False, True):
        with pytest.raises(PermissionDenied, match="need review"):
            store.scan(redact=True, history=history, actor="session:s")
    assert tree(store) == before
    assert [one.path for one in store.scan(actor="session:s")] == [A]


def test_deleted_memories_of_a_read_only_store_are_not_erased(store: MemoryStore) -> None:
    """An erasure by id and a redaction by version are both refused, also if only the actor may not write."""
    first = create(store, A, "kept")
    memory_id = store.load(A)[0].id
    run(store, "delete", path=A)
    for setting in ({"read_only": True}, {"read_only_paths": [A]}, {"allow_write": {"user:ann": ["/memories/b/**"]}}):
        store.change_settings(setting)
        with pytest.raises(InvalidInput, match="read-only"):
            store.history.erase(memory_id=memory_id, actor="user:ann")
        with pytest.raises(InvalidInput, match="read-only"):
            store.history.redact(first, actor="user:ann")
        store.change_settings(dict.fromkeys(setting))
    assert (store.history.show(first)[1], len(store.history.log())) == ("kept", 2)


def test_a_scan_blocked_by_a_read_only_memory_writes_nothing(store: MemoryStore) -> None:
    """A scan redacts either all memories or none."""
    store.change_settings({"sensitive": "off"})
    create(store, A, "AKIAQ3EGVSNB6RTKX2ZP\n")
    create(store, B, "AKIAQ3EGVSNB6RTKX2ZP\n")
    before = tree(store)
    store.change_settings({"read_only_paths": [B]})
    with pytest.raises(InvalidInput, match=f"{B} is read-only"):
        store.scan(redact=True, history=True)
    assert tree(store) == before


@pytest.mark.long
def test_more_versions_than_one_statement_takes_are_redacted(store: MemoryStore) -> None:
    """Renames make many versions share one text. The number of versions exceeds the parameters of a statement."""

    def many(tx: Transaction) -> None:
        made = tx.record([Created(A, SECRET.encode())], None)[0].memory_id
        for number in range(230):
            memory = tx.find(made)
            assert memory is not None
            tx.record([Moved(memory, f"/memories/{number}")], None)

    store._core.backend.write(store.id, many)
    oldest_first = [version.id for version in store.versions()][::-1]
    present = oldest_first.pop()
    assert store.history.redact(oldest_first).versions == 230
    assert {version.path for version in store.versions()} == {"", "/memories/229"}
    assert store.history.show(present)[1] == store.read("/memories/229") == SECRET
    assert {store.history.show(version)[1] for version in oldest_first} == {None}
    store.clear()
    assert store.history.redact([present]).versions == 1
    assert store.history.show(present)[1] is None


# -- stored bytes ------------------------------------------------------------------------------------------------


def rests(directory: Path) -> list[str]:
    """Return the files whose name or contents have the secret or part of its path."""
    wanted = (SECRET, "clandestine")
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [str(path) for path in files if any(one.encode() in path.read_bytes() or one in str(path) for one in wanted)]


@pytest.mark.parametrize("backend", ["sqlite", "directory"])
@pytest.mark.parametrize("how", ["redact", "erase", "erase store"])
def test_no_file_contains_a_removed_text(tmp_path: Path, backend: str, how: str) -> None:
    """The database with its free pages, its log and all other files are searched, before and after closing."""
    with opened(backend, tmp_path) as place:
        store = place.store("tested")
        for number in range(40):
            create(store, f"/memories/fill/{number}", "fill " * 300)
        first = create(store, PATH_OF_SECRET, SECRET * 300)
        store.search(SECRET)
        second = replace(store, PATH_OF_SECRET, SECRET * 300, f"short {SECRET}")
        store.execute({"command": "view", "path": PATH_OF_SECRET})
        deleted = run(store, "delete", path="/memories/clandestine")
        run(store, "delete", path="/memories/fill")
        assert rests(tmp_path) != []
        if how == "redact":
            assert not store.history.redact([first, second, deleted]).pending
        elif how == "erase":
            assert not store.history.erase(memory_id=store.history.show(first)[0].memory_id).pending
        else:
            assert not place.erase("tested").pending
        assert rests(tmp_path) == []
    assert rests(tmp_path) == []


def test_a_removal_waits_for_an_open_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader may still need the pages in the log. `pending` is true until the reader ends."""
    monkeypatch.setattr("retentive.storage.sqlite.backend.PURGE_WAIT_S", 0.05)
    with opened("sqlite", tmp_path) as place:
        store = place.store()
        first = create(store, A, SECRET)
        replace(store, A, SECRET, "nothing")
        reader = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM versions").fetchone()
        assert store.history.redact([first]).pending
        assert not removal.finish(store._core)
        assert rests(tmp_path) != []
        reader.close()
        assert removal.finish(store._core)
        assert rests(tmp_path) == []
        assert removal.finish(store._core)


def test_an_erasure_removes_the_accesses_of_a_memory(tmp_path: Path) -> None:
    """After the erasure, only the tombstone contains the id of the memory, neither an access nor a confirmation."""
    now = [1_800_000_000.0]
    with opened("sqlite", tmp_path, clock=lambda: now[0]) as place:
        store = place.store()
        create(store, A, SECRET)
        assert store.trust.confirm(A) == [A]
        now[0] += 86_400
        store.execute({"command": "view", "path": A})
        store._core.accesses.flush()
        assert len(place.backend.read(store.id, lambda found: list(found.records(KIND)))) == 1
        store.history.erase(A)
        create(store, B, SECRET)
        store.execute({"command": "view", "path": B})  # waits to be recorded during the erasure
        store.history.erase(B)
        store._core.accesses.flush()
        for kind in (KIND, CONFIRMED):
            assert place.backend.read(store.id, lambda found, kind=kind: list(found.records(kind))) == []  # type: ignore[misc]


@pytest.mark.parametrize("how", ["erase", "erase store"])
def test_an_erasure_does_not_reuse_revisions(tmp_path: Path, how: str) -> None:
    """A recovery compares revisions to find outdated files, so a revision must be used only once."""
    database = tmp_path / "memory" / ".retentive" / "memory.db"

    def number(sql: str) -> int:
        connection = sqlite3.connect(database)
        try:
            return int(connection.execute(sql).fetchone()[0])
        finally:
            connection.close()

    for _ in range(3):
        with opened("directory", tmp_path) as place:
            store = place.store("tested")
            for path in (A, B, C):
                create(store, path, "text")
        synced = number("SELECT seq FROM synced")
        with opened("directory", tmp_path) as place:
            store = place.store("tested")
            if how == "erase":
                for path in (A, B, C):
                    store.history.erase(path)
            else:
                place.erase("tested")
            create(place.store("tested"), "/memories/new", "text")
            assert number("SELECT max(seq) FROM versions WHERE store <> 0") > synced
            run(place.store("tested"), "delete", path="/memories/new")


def test_a_write_during_a_store_erasure_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new store with the same name finds no files of the erased store."""
    with opened("directory", tmp_path) as place, opened("directory", tmp_path) as other:
        create(place.store("tested"), A, SECRET)
        writer, write, written = other.store("tested"), place.backend.write, list[str]()

        def written_meanwhile(*given: Any, **options: Any) -> Any:
            """Write right after the memories were deleted, before their versions are."""
            result = write(*given, **options)
            if not written and tree(writer) == {}:
                written.append(create(writer, B, SECRET))
            return result

        monkeypatch.setattr(place.backend, "write", written_meanwhile)
        place.erase("tested")
        assert len(written) == 1
        assert tree(place.store("tested")) == {}
        assert rests(tmp_path) == []


def used_directory(place: Retentive) -> MemoryStore:
    """Run operations of many kinds that leave something about a directory in the records of its store."""
    store, inside = place.store(), "/memories/clandestine"
    store.change_settings({"audit": True, "review": ["session:reviewed"], "trust": {"user:x": "unconfirmed"}})
    create(store, PATH_OF_SECRET, SECRET)
    create(store, f"{inside}/deleted", SECRET)
    create(store, A, "other")
    run(store, "delete", path=f"{inside}/deleted")
    call = {"command": "create", "path": f"{inside}/more", "file_text": SECRET}
    assert not store.execute(call, tool_use_id="toolu_" + 24 * "a").is_error
    store.execute(call, tool_use_id="toolu_" + 24 * "a")
    store.execute({"command": "view", "path": f"{inside}//"})
    for path in (f"{inside}/none", f"{inside}/none/deeper", f"{PATH_OF_SECRET}/below"):
        store.execute({"command": "view", "path": path}, tool_use_id="call_0", actor="session:s")
        store.execute({"command": "rename", "old_path": A, "new_path": f"{path}/"})
    store.execute({"command": "str_replace", "path": PATH_OF_SECRET, "old_str": f"no {SECRET}", "new_str": SECRET})
    reviewed = partial(store.execute, actor="session:reviewed")
    for text in ("accepted", "refused", "pending"):
        reviewed({"command": "create", "path": f"{inside}/{text}", "file_text": f"{SECRET} {text}"})
    reviewed({"command": "rename", "old_path": A, "new_path": f"{inside}/renamed"})
    reviewed({"command": "create", "path": "/memories/unrelated", "file_text": "stays"})
    reviewed({"command": "str_replace", "path": PATH_OF_SECRET, "old_str": SECRET, "new_str": f"{SECRET} edited"})
    waiting = store.review.pending()
    store.review.accept([waiting[0].id], actor="user:ann")
    store.review.refuse([waiting[1].id], actor="user:ann")
    store.history.undo(store.history.log(f"{inside}/more")[0].id)
    store.search(SECRET, under=inside)
    store.history.blame(PATH_OF_SECRET)
    store._core.accesses.flush()
    return store


def everything(place: Retentive, store: MemoryStore) -> str:
    """Return all that the backend can read of a store: memories, versions, texts and records."""
    backend, what = place.backend, list[object]()
    what += backend.read(
        store.id, lambda found: [*(memory for memory, _ in found.list("/memories")), *found.versions()]
    )
    what += backend.read(store.id, lambda found: [found.version(version.id)[1] for version in found.versions()])
    what += backend.read(store.id, lambda found: list(read_records(found)))
    what += [list(store.audit.export()), store.review.pending()]
    return str(what)


def test_an_erased_directory_leaves_nothing(place: Retentive) -> None:
    """Proposals of new memories and paths of refused commands go too. Other memories and proposals stay."""
    store = used_directory(place)
    assert "clandestine" in everything(place, store)
    assert not store.history.erase("/memories/clandestine").pending
    rest = everything(place, store)
    assert [word for word in ("clandestine", SECRET) if word in rest] == []
    assert tree(store) == {A: "other"}
    assert [str(proposal.changes[0]) for proposal in store.review.pending()] == ["created /memories/unrelated"]
    verified = store.audit.verify()
    assert (verified.problem, verified.unaudited) == (None, ())


@pytest.mark.parametrize("backend", ["sqlite", "directory"])
@pytest.mark.parametrize("how", ["command", "library", "store"])
def test_no_file_contains_anything_of_an_erased_directory(tmp_path: Path, backend: str, how: str) -> None:
    """The raw bytes and the names of all files are searched."""
    with opened(backend, tmp_path) as place:
        store = used_directory(place)
        assert rests(tmp_path) != []
        if how == "library":
            assert not store.history.erase("/memories/clandestine").pending
        elif how == "store":
            assert not place.erase("default").pending
    if how == "command":
        erased = here(place_of(backend, tmp_path), "erase", "clandestine", "--yes")
        assert (erased.exit_code, erased.stderr) == (0, "")
    assert rests(tmp_path) == []


def test_one_read_only_memory_keeps_a_whole_directory(store: MemoryStore) -> None:
    """An erasure of a directory removes all of its memories or none."""
    create(store, "/memories/d/one", "kept")
    create(store, "/memories/d/two", "kept")
    store.change_settings({"read_only_paths": ["/memories/d/two"]})
    with pytest.raises(InvalidInput, match="read-only"):
        store.history.erase("/memories/d")
    assert len(tree(store)) == len(store.history.log()) == 2


@pytest.mark.parametrize("door", ["library", "client", "route", "command line"])
def test_the_reason_of_an_erasure_stays(door: str, tmp_path: Path) -> None:
    """In the audit log and the tombstone, without sensitive values. It is one line."""
    at, reason = f"sqlite:///{tmp_path}/memory.db", "request 4711 of 4111 1111 1111 1111"
    with retentive.open(at) as place, serving(place) as api:
        store = place.store()
        store.change_settings({"audit": True})
        store.create(A, SECRET)
        memory_id = store.load(A)[0].id
        match door:
            case "library":
                store.history.erase(A, reason=reason)
            case "client":
                with retentive.open(api.url, api_key=api.key) as client:
                    client.store().history.erase(A, reason=reason)
            case "route":
                route = f"/v1/memory_stores/{store.id}/memories/{memory_id}/erase"
                assert api.post(route, {"reason": "two\nlines"}).status == 400
                assert api.post(route, {"reason": ""}).status == 400
                assert api.post(route, {"reason": reason}).body["versions"] == 2
            case _:
                assert here(at, "erase", A, "--yes", "--reason", reason).exit_code == 0
                refused = here(at, "--store", "default", "erase", "--whole-store", "--yes", "--reason", reason)
                assert refused.exit_code == 2
        entry = [each for each in store.audit.entries() if each.operation == "erase" and each.outcome == "ok"][-1]
        assert str(entry.facts["reason"]).startswith("request 4711 of ")
        assert "1111" not in str(entry)
        assert store.audit.verify().is_sound
        tombstone = store._core.read(lambda found: dict(found.records(removal.TOMBSTONE)))[memory_id]
        assert json.loads(tombstone)["reason"] == entry.facts["reason"]
        listed = api.get(f"/v1/memory_stores/{store.id}/audit_entries?limit=100").body["data"]
        assert [each["reason"] for each in listed if each["reason"]] == [entry.facts["reason"]]
        assert f"reason={entry.facts['reason']}" in here(at, "admin", "audit", "show").output
