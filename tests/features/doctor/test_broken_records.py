"""Damage made through the backend interface is found on every backend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retentive.doctor import check
from retentive.storage.sqlite.backend import SqliteBackend
from support.damage import A, E, codes, fill, inner, keys_of, look, opened
from support.places import place_of
from support.profiles import LONG

BACKENDS = ["sqlite", "sealed s3"]
if LONG:
    BACKENDS += ["sealed sqlite", "s3", "directory", "sealed directory", "postgresql", "mariadb", "memory"]


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
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


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_proposal_without_its_text_is_reported(backend: str, tmp_path: Path) -> None:
    with opened(backend, tmp_path) as place:
        store = place.store()
        fill(store)
        store.change_settings({"review": ["session:*"]})
        given = {"command": "create", "path": "/memories/new.md", "file_text": "new"}
        assert not store.execute(given, actor="session:s1").is_error
        assert {one.code for one in check(place.backend)} == {"healthy"}
        waiting = store.review.pending()[0].id
        store._core.backend.write(store.id, lambda tx: tx.put_record("proposal.after", f"{waiting}.0", None))
        findings = list(check(place.backend))
        assert codes(findings) == {"record_wrong"}
        assert any(waiting in one.subject for one in findings)


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
