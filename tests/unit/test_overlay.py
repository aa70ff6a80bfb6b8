"""Overlays give the answers of the wrapped snapshot, except for methods that a subclass overrides."""

from __future__ import annotations

from pathlib import Path

import retentive
from retentive.storage.contract import Selection, Snapshot
from retentive.storage.overlay import Overlay
from retentive.storage.sealed.snapshot import SealedSnapshot

METHODS = {name for name in vars(Snapshot) if not name.startswith("_")}


def test_an_overlay_delegates_every_method() -> None:
    """Derived methods are delegated too, because the wrapped snapshot may have a faster version."""
    assert METHODS - vars(Overlay).keys() == set()


def test_a_decrypting_snapshot_inherits_only_plain_values() -> None:
    """A method that is added to the contract must not return ciphertext, so the list of inherited methods is fixed."""
    assert METHODS - vars(SealedSnapshot).keys() == {"revision", "seal", "usage"}


def test_the_selection_of_versions_has_the_arguments_of_the_contract() -> None:
    annotations = Snapshot.versions.__annotations__
    assert {name: annotations[name] for name in Selection.__annotations__} == {
        name: kind.__forward_arg__ for name, kind in Selection.__annotations__.items()
    }
    assert annotations.keys() - Selection.__annotations__.keys() == {"return"}


def test_an_overlay_answers_as_the_snapshot_below(tmp_path: Path) -> None:
    with retentive.open(tmp_path / "memory") as opened:
        store = opened.store()
        for path in ("/memories/a", "/memories/b/c"):
            store.execute({"command": "create", "path": path, "file_text": f"text of {path}\n"})
        memory = next(iter(store.memories()))

        def answers(snapshot: Snapshot) -> list[object]:
            return [
                (snapshot.revision, snapshot.seal, snapshot.settings, snapshot.usage()),
                (snapshot.get("/memories/a"), snapshot.find(memory.id), snapshot.version(memory.version_id)),
                (snapshot.text(memory.version_id), snapshot.get_record("kind", "key"), list(snapshot.records("kind"))),
                list(snapshot.memories("/memories")),
                list(snapshot.versions(path="/memories/a", limit=1)),
                list(snapshot.sizes("/memories")),
                list(snapshot.texts("/memories")),
                list(snapshot.as_of("memver_g")),
            ]

        assert store._core.read(lambda snapshot: answers(Overlay(snapshot)) == answers(snapshot))
        assert store._core.read(lambda snapshot: Overlay(snapshot).text(memory.version_id)) == b"text of /memories/a\n"
