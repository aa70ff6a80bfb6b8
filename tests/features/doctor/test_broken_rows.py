"""A violation of any invariant is found and named, and a damaged file too. It is repaired where the docs say so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from retentive.cli.exits import PROBLEMS
from retentive.doctor import check
from retentive.errors import Damaged
from retentive.storage.findings import KINDS
from retentive.storage.sql.connection import Value
from retentive.storage.sqlite.backend import SqliteBackend
from support.command_line import here
from support.damage import A, C, E, codes, fill, inner, keys_of, look, sql, walked
from support.places import opened, place_of
from support.profiles import LONG

BACKENDS = ["sqlite", "postgresql", "mariadb"] if LONG else ["sqlite"]
OTHER = b"other"
LATER_US = 4_000_000_000_000_000  # in 2096


@dataclass(frozen=True)
class Case:
    """A statement that violates an invariant, and the expected findings: code -> part of the subject.

    Names in braces, such as `{a}`, stand for ids.
    """

    name: str
    statement: str
    values: tuple[Value, ...]
    found: Mapping[str, str]
    is_repaired: bool = False


_TEXT = "UPDATE versions SET text = ? WHERE id = ?"
_STORE = "UPDATE stores SET {} = ? WHERE store_key = 'default'"
_NOTE = "INSERT INTO records (store, kind, name, value) VALUES (1, ?, ?, ?)"
_VERSION = "UPDATE versions SET {} = ? WHERE id = ?"
OLD = "{a.old}"

CASES = [
    Case("text", _TEXT, (OTHER, "{e.version}"), {"text_wrong": E, "old_text_wrong": E}),
    Case("no text", _TEXT, (None, "{c.text}"), {"text_wrong": C, "old_text_wrong": C}),
    Case("old text", _TEXT, (OTHER, OLD), {"old_text_wrong": OLD}),
    Case("size", _VERSION.format("size_bytes"), (7, OLD), {"old_text_wrong": OLD}),
    Case("index", "DELETE FROM memories WHERE path = ?", (E,), {"index_wrong": E, "usage_wrong": "3 memories"}, True),
    Case("stale index", "UPDATE memories SET newest = ? WHERE path = ?", (OLD, A), {"index_wrong": A}, True),
    Case("clock", _VERSION.format("created_at"), (LATER_US, OLD), {"version_wrong": OLD}),
    Case("revision", _VERSION.format("revision"), (700, OLD), {"version_wrong": OLD}),
    Case("provenance", _VERSION.format("provenance"), ("{", OLD), {"version_wrong": OLD}),
    Case("operation", _VERSION.format("operation"), ("exploded", OLD), {"version_wrong": OLD}),
    Case("half redacted", _VERSION.format("redacted_at"), (1, OLD), {"redaction_left": OLD, "text_left": OLD}),
    Case("a path left", _VERSION.format("path"), (A, "{x.redacted}"), {"redaction_left": "{x.redacted}"}),
    Case("an origin left", _VERSION.format("provenance"), ("{}", "{x.redacted}"), {"redaction_left": "{x.redacted}"}),
    Case("form", _VERSION.format("path"), ("/memories/e\u0301", OLD), {"version_wrong": OLD}),
    Case("settings", _STORE.format("settings"), ('{"nothing": 1}',), {"settings_wrong": ""}),
    Case("no settings", _STORE.format("settings"), ("{",), {"settings_wrong": ""}),
    Case("nobody's note", _NOTE.replace("(1,", "(999,"), ("a", "b", "c"), {"rows_left": "1 rows of records"}),
    Case("tombstone", _NOTE, ("tombstone", "k", "{"), {"record_wrong": "tombstone k"}),
    Case("view", _NOTE, ("accessed", "k", "never"), {"record_wrong": "accessed k"}),
    Case("proposal", _NOTE, ("proposal", "prop_1", "[]"), {"record_wrong": "proposal prop_1"}),
    Case("decision", _NOTE, ("reviewed", "prop_1", '{"at": 1}'), {"record_wrong": "reviewed prop_1"}),
    Case("erasing", _NOTE, ("erasing", "mem_1", "?"), {"record_wrong": "erasing mem_1"}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("backend", BACKENDS)
def test_damage_is_found(backend: str, case: Case, tmp_path: Path) -> None:
    """The findings have the expected codes and names, and there are no others. Only an index can be rebuilt."""
    place, names = filled(backend, tmp_path)
    sql(place, case.statement, [named(value, names) for value in case.values])
    findings = look(place)
    assert codes(findings) == set(case.found)
    for code, subject in case.found.items():
        assert any(str(named(subject, names)) in one.subject for one in findings if one.code == code), findings
    redacted = [one.subject for one in findings if one.code == "redaction_left"]
    assert not any("/" in subject for subject in redacted), "what was redacted is not shown"
    assert codes(look(place, repair=True)) == (set() if case.is_repaired else set(case.found))
    assert not case.is_repaired or all(KINDS[code].mends for code in case.found)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("table", ["versions", "memories", "records", "stores"])
def test_a_missing_table_is_reported(backend: str, table: str, tmp_path: Path) -> None:
    """The check reports that the location is unreadable and creates no table. Every command reports the damage."""
    place, _ = filled(backend, tmp_path)
    sql(place, f"DROP TABLE {table}")
    for repair in (False, True):
        findings = look(place, repair=repair)
        whole = [(one.code, one.severity, one.subject) for one in findings if one.store_id is None]
        assert whole == [("unreadable", "problem", f"tables of the database are missing: {table}")]
    for command in (["view"], ["log"], ["ls"], ["stores"]):
        done = here(place, *command)
        assert done.exit_code == 13
        error, location = done.stderr.splitlines()
        assert error == f"Error: tables of the database are missing: {table}"
        assert location.startswith("Location: ")


def filled(backend: str, directory: Path) -> tuple[str, dict[str, str]]:
    """Create a location, and return it with the ids in it by name."""
    place = place_of(backend, directory)
    with opened(backend, directory) as found:
        store = found.store()
        fill(store)
        old = list(store.versions(A))[-1].id
        first = store.versions(memory_id=store.load(C)[0].id)[-1].id
        redacted = next(version.id for version in store.versions() if version.redacted_at is not None)
        present = {memory.path: memory for memory in store.memories()}
    names = {"a": present[A].id, "a.old": old, "x.redacted": redacted, "e.version": present[E].version_id}
    return place, names | {"c.text": first}


def named(value: Value, names: Mapping[str, str]) -> Value:
    """Return the id for a name in braces, and any other value unchanged."""
    return names.get(value[1:-1], value) if isinstance(value, str) else value


EVERY = ["sqlite", *(["sealed s3", "sealed sqlite", "s3", "directory", "sealed directory"] if LONG else [])]


@pytest.mark.long
@pytest.mark.parametrize("backend", EVERY)
def test_interrupted_removals_are_completed(backend: str, tmp_path: Path) -> None:
    """The removals are an erasure after its deletion, and a redaction before its purge."""
    with opened(backend, tmp_path) as place:
        store = place.store()
        fill(store)
        memory = store.load(E)[0]
        store.execute({"command": "delete", "path": E})
        store._core.backend.write(
            store.id, lambda tx: tx.put_record("erasing", memory.id, json.dumps({"by": "user:ann"}))
        )
        findings = list(check(place.backend))
        assert codes(findings, severity="note") == {"removal_pending"}
        assert "1 memories to erase" in {one.subject for one in findings}
        store.history.redact([])
        assert {one.code for one in check(place.backend)} == {"healthy"}
        assert list(store.versions(memory_id=memory.id)) == []
        assert store._core.read(lambda found: found.get_record("tombstone", memory.id)) is not None


@pytest.mark.parametrize("backend", EVERY)
def test_a_proposal_without_its_own_text_is_damaged(backend: str, tmp_path: Path) -> None:
    with opened(backend, tmp_path) as place:
        store = place.store()
        fill(store)
        store.change_settings({"review": ["session:*"]})
        given = {"command": "create", "path": "/memories/new.md", "file_text": "new"}
        assert not store.execute(given, actor="session:s1").is_error
        assert {one.code for one in check(place.backend)} == {"healthy"}
        waiting = store.review.pending()[0].id
        for text in ("another", None):
            store._core.backend.write(
                store.id,
                lambda tx, text=text: tx.put_record("proposal.after", f"{waiting}.0", text),  # type: ignore[misc]
            )
            findings = list(check(place.backend))
            assert codes(findings) == {"record_wrong"}
            assert any(waiting in one.subject for one in findings)
            with pytest.raises(Damaged):
                store.review.accept([waiting], actor="user:ann")


def test_a_moved_encrypted_record_is_reported(tmp_path: Path) -> None:
    """The finding names the id, since no other field can be trusted. The other memories can still be read."""
    with opened("sealed sqlite", tmp_path) as place:
        store = place.store()
        fill(store)
        memories = {memory.path: memory for memory in store.memories()}
        backend = inner(place)
        assert isinstance(backend, SqliteBackend)
        backend.transact(
            lambda connection: connection.run(
                "UPDATE versions SET seal = (SELECT seal FROM versions WHERE id = ?) WHERE id = ?",
                (memories[E].version_id, memories[A].version_id),
            )
        )
    findings = look(place_of("sealed sqlite", tmp_path), keys=keys_of("sealed sqlite"))
    assert any(one.code == "unreadable" and memories[A].version_id in one.subject for one in findings)
    assert not any(memories[E].version_id in one.subject for one in findings)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Database with a history."""
    directory = tmp_path_factory.mktemp("whole")
    with opened("sqlite", directory) as place:
        walked(place.store(), 11, 150)
        fill(place.store("second"))
    return directory / "memory.db"


def test_repairing_a_damaged_file_does_not_change_it(whole: Path, tmp_path: Path) -> None:
    """The finding says what to do."""
    data = bytearray(whole.read_bytes())
    pages = len(data) // 4096
    for page in range(3, pages, 4):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    file = tmp_path / "memory.db"
    file.write_bytes(data)
    findings = look(f"sqlite:///{file}", repair=True)
    assert "file_damaged" in codes(findings)
    assert codes(findings, severity="repaired") == set()
    assert file.read_bytes() == bytes(data)
    said = here(f"sqlite:///{file}", "doctor", "--repair")
    assert said.exit_code == PROBLEMS
    assert "restore it from a backup" in said.stdout
    assert str(tmp_path) not in said.stdout


def test_an_empty_file_differs_from_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database, but long enough to look like something" * 20)
    (tmp_path / "empty.db").write_bytes(b"")
    assert codes(look(f"sqlite:///{tmp_path}/text.db")) >= {"file_damaged"}
    for repair in (False, True):  # a lost database must not be replaced by an empty healthy one
        (only,) = look(f"sqlite:///{tmp_path}/empty.db", repair=repair)
        assert (only.code, only.severity) == ("unreadable", "problem")
        assert only.subject == "the database is empty; everything in it was lost"
        assert (tmp_path / "empty.db").read_bytes() == b""
    assert here(f"sqlite:///{tmp_path}/none.db", "doctor").exit_code == 3
    assert not (tmp_path / "none.db").exists()
