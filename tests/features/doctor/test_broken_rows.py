"""A violation of any invariant of the database is found and named. It is repaired where the documentation says so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from retentive.errors import Damaged, InvalidInput
from retentive.storage.findings import KINDS
from retentive.storage.sql.connection import Value
from support.command_line import here
from support.damage import A, C, E, codes, fill, look, opened, sql
from support.places import place_of
from support.profiles import LONG

BACKENDS = ["sqlite", "postgresql", "mariadb"] if LONG else ["sqlite"]
_BY_MEMORY = {"versions_by_memory": "DROP INDEX versions_by_memory"}
DROPS = {
    "sqlite": {"versions_by_id": "DROP INDEX versions_by_id", **_BY_MEMORY},
    "postgresql": {"versions_pkey": "ALTER TABLE versions DROP CONSTRAINT versions_pkey", **_BY_MEMORY},
    "mariadb": {
        "PRIMARY": "ALTER TABLE versions DROP PRIMARY KEY",
        "versions_by_memory": "DROP INDEX versions_by_memory ON versions",
    },
}
OTHER = b"other"
ALWAYS_REPAIRED = {"age_wrong", "usage_wrong", "revision_wrong"}
NONE: frozenset[str] = frozenset()
ONLY_ROWS, REVISION = frozenset({"rows_left"}), frozenset({"order_wrong", "revision_wrong"})
NO_TIME = 1 << 61
ONE = hashlib.sha256(b"one\n").hexdigest()
LATER_US = 4_000_000_000_000_000  # in 2096


@dataclass(frozen=True)
class Case:
    """A statement that violates an invariant, and the expected findings.

    Names in braces, such as `{a}`, stand for ids.
    """

    name: str
    statement: str
    values: tuple[Value, ...]
    found: Mapping[str, str]
    """Code -> part of the subject."""
    left: frozenset[str] | None = None
    """Codes after a repair; None: all that are not always repaired."""

    @property
    def unrepaired(self) -> set[str]:
        return set(self.found) - ALWAYS_REPAIRED if self.left is None else set(self.left)


_TEXT = "UPDATE versions SET text = ? WHERE id = ?"
_STORE = "UPDATE stores SET {} = ? WHERE store_key = 'default'"
_NOTE = "INSERT INTO records (store, kind, name, value) VALUES (1, ?, ?, ?)"
_VERSION = "UPDATE versions SET {} = ? WHERE id = ?"
_MEMORY = "UPDATE memories SET {} = ? WHERE path = ?"
OLD = "{a.old}"

CASES = [
    Case("text", _TEXT, (OTHER, "{e.text}"), {"text_wrong": E, "old_text_wrong": E}),
    Case("no text", _TEXT, (None, "{c.text}"), {"text_wrong": C, "old_text_wrong": C}),
    Case("old text", _TEXT, (OTHER, OLD), {"old_text_wrong": OLD}),
    Case("redacted", _TEXT, (OTHER, "{x.redacted}"), {"text_left": "{x.redacted}"}),
    Case("hash", _MEMORY.format("sha256"), ("0" * 64, A), {"text_wrong": A, "version_differs": A}, NONE),
    Case("size", _VERSION.format("size_bytes"), (7, OLD), {"old_text_wrong": OLD}),
    Case("time", _MEMORY.format("updated_at"), (LATER_US, A), {"version_differs": A}, NONE),
    Case("age", _MEMORY.format("created_at"), (LATER_US, A), {"age_wrong": A}),
    Case("older", _MEMORY.format("created_at"), (5, C), {"age_wrong": C}),
    Case("newest", _MEMORY.format("version"), (OLD, A), {"version_differs": A}, NONE),
    Case("version", "DELETE FROM versions WHERE id = ?", ("{e.version}",), {"version_missing": E, "text_wrong": E}),
    Case("memory", "DELETE FROM memories WHERE path = ?", (E,), {"memory_lost": E, "usage_wrong": "3 memories"}, NONE),
    Case("id", _MEMORY.format("id"), ("{a}", C), {"id_twice": "{a}", "version_differs": C, "memory_lost": C}),
    Case("clock", _VERSION.format("created_at"), (LATER_US, OLD), {"order_wrong": OLD, "time_wrong": OLD}),
    Case(
        "revision",
        _VERSION.format("revision"),
        (700, OLD),
        {"order_wrong": OLD, "revision_wrong": "700"},
        frozenset({"order_wrong", "revision_wrong"}),
    ),
    Case("its time", _STORE.format("last_at"), (1,), {"revision_wrong": "its time"}),
    Case("its future", _STORE.format("last_at"), (NO_TIME,), {"revision_wrong": "its time"}),
    Case("its creation", _STORE.format("created_at"), (NO_TIME,), {"time_wrong": "the memory store itself"}, NONE),
    Case("no time", _VERSION.format("created_at"), (NO_TIME, OLD), {"unreadable": OLD}, NONE),
    Case(
        "hash of another",
        _VERSION.format("sha256"),
        (ONE, "{a.new}"),
        {"version_differs": A, "old_text_wrong": A},
        NONE,
    ),
    Case("provenance", _VERSION.format("provenance"), ("{", OLD), {"provenance_wrong": OLD}),
    Case("never created", _VERSION.format("operation"), ("modified", OLD), {"sequence_wrong": OLD}),
    Case("behind", _STORE.format("revision"), (1,), {"revision_wrong": "1, "}),
    Case("operation", _VERSION.format("operation"), ("exploded", OLD), {"operation_wrong": OLD}),
    Case("half redacted", _VERSION.format("redacted_at"), (1, OLD), {"redaction_left": OLD}),
    Case("a path left", _VERSION.format("path"), (A, "{x.redacted}"), {"redaction_left": "{x.redacted}"}),
    Case("path", _MEMORY.format("path"), ("/memories/../e", E), {"path_wrong": "/memories/..", "version_differs": ""}),
    Case("form", _VERSION.format("path"), ("/memories/e\u0301", OLD), {"path_wrong": OLD}),
    Case("below", _MEMORY.format("path"), (A + "/z", E), {"path_below": A + "/z", "version_differs": A + "/z"}),
    Case("count", _STORE.format("memories"), (77,), {"usage_wrong": "77 memories"}),
    Case("sum", _STORE.format("size_bytes"), (1,), {"usage_wrong": "of 1 bytes"}),
    Case("settings", _STORE.format("settings"), ('{"nothing": 1}',), {"settings_wrong": ""}),
    Case("no settings", _STORE.format("settings"), ("{",), {"settings_wrong": ""}),
    Case("nobody's note", _NOTE.replace("(1,", "(999,"), ("a", "b", "c"), {"rows_left": "1 rows of records"}),
    Case(
        "nobody's memory",
        _MEMORY.format("store"),
        (999, E),
        {"rows_left": "", "memory_lost": E, "usage_wrong": ""},
        frozenset({"rows_left"}),
    ),
    Case("tombstone", _NOTE, ("tombstone", "k", "{"), {"record_wrong": "tombstone k"}),
    Case("view", _NOTE, ("accessed", "k", "never"), {"record_wrong": "accessed k"}),
    Case("proposal", _NOTE, ("proposal", "prop_1", "[]"), {"record_wrong": "proposal prop_1"}),
    Case("decision", _NOTE, ("reviewed", "prop_1", '{"at": 1}'), {"record_wrong": "reviewed prop_1"}),
    Case("idempotency", _NOTE, ("idempotency", "r", '{"time": "x"}'), {"record_wrong": "idempotency r"}),
    Case("erasing", _NOTE, ("erasing", "mem_1", "?"), {"record_wrong": "erasing mem_1"}),
]
EVERYWHERE = {
    "text",
    "redacted",
    "half redacted",
    "older",
    "its time",
    "memory",
    "count",
    "nobody's note",
    "nobody's memory",
}
"""Cases that have statements of their own for servers. A quick run on servers has only these."""


def cases() -> list[Any]:
    return [
        pytest.param(
            backend,
            case,
            id=f"{backend}-{case.name}",
            marks=() if backend == "sqlite" or case.name in EVERYWHERE else (pytest.mark.long,),
        )
        for backend in BACKENDS
        for case in CASES
    ]


@pytest.mark.parametrize(("backend", "case"), cases())
def test_damage_is_found_and_repaired_where_documented(backend: str, case: Case, tmp_path: Path) -> None:
    """The findings have the expected codes and names, and there are no others.

    After a repair, only the damage that the repair cannot fix is found.
    """
    place, names = filled(backend, tmp_path)
    sql(place, case.statement, [named(value, names) for value in case.values])
    findings = look(place)
    assert codes(findings) == set(case.found)
    for code, subject in case.found.items():
        assert any(str(named(subject, names)) in one.subject for one in findings if one.code == code), findings
    repaired = look(place, repair=True)
    assert codes(repaired) == case.unrepaired
    assert codes(repaired, severity="repaired") == set(case.found) - case.unrepaired
    assert all(KINDS[code].mends for code in set(case.found) - case.unrepaired)
    assert codes(look(place)) == case.unrepaired


@pytest.mark.parametrize("data", [b"\xff", b"a\0b"])
@pytest.mark.parametrize(("which", "code"), [("e.text", "text_wrong"), ("a.old", "old_text_wrong")])
def test_bytes_that_are_not_a_text_are_found_although_hash_and_size_match(
    data: bytes, which: str, code: str, tmp_path: Path
) -> None:
    """Views and searches cannot read such bytes."""
    place, names = filled("sqlite", tmp_path)
    fitting = (len(data), hashlib.sha256(data).hexdigest(), names[which])
    sql(place, "UPDATE versions SET text = ?, size_bytes = ?, sha256 = ? WHERE id = ?", (data, *fitting))
    sql(place, "UPDATE memories SET size_bytes = ?, sha256 = ? WHERE text_of = ?", fitting)
    sql(place, "UPDATE stores SET size_bytes = (SELECT sum(size_bytes) FROM memories)")
    assert codes(look(place)) == {code, "old_text_wrong"}
    assert codes(look(place, repair=True)) == {code, "old_text_wrong"}


def test_a_version_marked_as_redacted_keeps_its_text_until_it_is_discarded(tmp_path: Path) -> None:
    """A repair removes nothing. After a discard the storage holds nothing of the text. A present memory keeps it."""
    place, names = filled("sqlite", tmp_path)
    secret = b"a text that was to go"
    sql(place, "UPDATE versions SET text = ?, redacted_at = 1 WHERE id = ?", (secret, names["a.old"]))
    (finding,) = [one for one in look(place, repair=True) if one.severity == "problem"]
    assert finding.name == f"redaction_left/{names['a.old']}"
    assert sql(place, "SELECT text FROM versions WHERE id = ?", (names["a.old"],)) == [(secret,)]
    found = look(place, discarded=[finding.name])
    assert (codes(found), codes(found, severity="repaired")) == (set(), {"redaction_left"})
    assert [path.name for path in tmp_path.glob("*.db*") if path.is_file() and secret in path.read_bytes()] == []
    sql(place, "UPDATE versions SET redacted_at = 1 WHERE id = ?", (names["e.version"],))
    with pytest.raises(InvalidInput, match="a memory uses its text"):
        look(place, discarded=[f"redaction_left/{names['e.version']}"])
    assert codes(look(place, repair=True)) == {"redaction_left"}
    with opened("sqlite", tmp_path) as found_place:
        assert found_place.store().read(E) == "deep é\n"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_missing_index_is_created(backend: str, tmp_path: Path) -> None:
    """The test drops each unique index, and each index that avoids a scan of all versions."""
    place, _ = filled(backend, tmp_path)
    for name, drop in DROPS[backend].items():
        sql(place, drop)
        findings = look(place)
        assert codes(findings) == {"index_missing"}
        assert [one.subject for one in findings if one.code == "index_missing"] == [name]
        assert codes(look(place, repair=True), severity="repaired") == {"index_missing"}
        assert codes(look(place)) == set()


def test_an_uncertain_creation_time_is_not_repaired(tmp_path: Path) -> None:
    """A version whose id encodes a time other than its recorded time does not prove the age of its memory."""
    place, names = filled("sqlite", tmp_path)
    sql(place, "UPDATE versions SET created_at = 1 WHERE id = ?", (names["a.old"],))
    assert codes(look(place)) == {"age_wrong", "time_wrong"}
    assert codes(look(place, repair=True)) == {"age_wrong", "time_wrong"}


def test_no_index_is_created_while_an_id_is_not_unique(tmp_path: Path) -> None:
    place, names = filled("sqlite", tmp_path)
    sql(place, "DROP INDEX versions_by_id")
    columns = "store, id, memory, operation, path, size_bytes, sha256, actor, created_at, revision, text_of, text"
    sql(place, f"INSERT INTO versions ({columns}) SELECT {columns} FROM versions WHERE id = ?", (names["a.old"],))
    assert codes(look(place)) >= {"index_missing", "id_twice"}
    assert codes(look(place, repair=True)) >= {"index_missing", "id_twice"}


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


def test_a_table_that_disappears_while_open_is_damage(tmp_path: Path) -> None:
    """The command gets the error `damaged` and not an error of the driver."""
    for backend in BACKENDS:
        directory = tmp_path / backend
        directory.mkdir()
        place, _ = filled(backend, directory)
        with opened(backend, directory) as found:
            store = found.store()
            sql(place, "DROP TABLE versions")
            assert store.execute({"command": "view", "path": A}).code == "damaged"
            with pytest.raises(Damaged):
                list(store.versions())


def filled(backend: str, directory: Path) -> tuple[str, dict[str, str]]:
    """Create a location, and return it with the ids in it by name."""
    place = place_of(backend, directory)
    with opened(backend, directory) as found:
        store = found.store()
        fill(store)
        old = list(store.versions(A))[-1].id
        redacted = next(version.id for version in store.versions() if version.redacted_at is not None)
        present = {memory.path: memory for memory in store.memories()}
    rows = sql(place, "SELECT path, text_of FROM memories")
    texts = {str(path): str(text) for path, text in rows}
    names = {"a": present[A].id, "a.old": old, "x.redacted": redacted, "e.version": present[E].version_id}
    names["a.new"] = present[A].version_id
    return place, names | {"c.text": texts[C], "e.text": texts[E]}


def named(value: Value, names: Mapping[str, str]) -> Value:
    """Return the id for a name in braces, and any other value unchanged."""
    return names.get(value[1:-1], value) if isinstance(value, str) else value


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_schema_of_a_newer_retentive_is_reported(backend: str, tmp_path: Path) -> None:
    """The check reports the schema, and a repair does nothing."""
    place, _ = filled(backend, tmp_path)
    newer = "INSERT INTO retentive_schema (number, applied_at) VALUES (999, 0)"
    sql(place, "PRAGMA user_version = 999" if backend == "sqlite" else newer)
    for repair in (False, True):
        assert codes(look(place, repair=repair)) == {"schema_new"}
