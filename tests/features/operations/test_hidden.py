"""Memories of contributors in quarantine: no operation and no door shows them to a model, and none changes them."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import pytest

from retentive import errors

from .doors import DOORS, Doors
from .table import ANN, BOB, MARKED, OPERATIONS, ROOT, TEXTS, A, B, Scene


@pytest.mark.parametrize("name", [name for name, case in OPERATIONS.items() if case.changes])
def test_no_change_touches_a_hidden_memory(name: str, scene: Scene) -> None:
    scene.store.trust.quarantine(ANN, actor=BOB)
    before = {path: scene.text(path) for path in (A, B, MARKED)}
    with suppress(errors.RetentiveError):
        OPERATIONS[name](scene, scene.store)
    after = {path: scene.text(path) for path in (A, B, MARKED)}
    assert after == before


@pytest.mark.parametrize("name", ["load", "list", "search", "view"])
def test_no_read_of_the_present_shows_one(name: str, scene: Scene) -> None:
    scene.store.trust.quarantine(ANN, actor=BOB)
    for case in OPERATIONS.values():
        if case.name == name:
            with suppress(errors.NotFound):
                seen = str(case(scene, scene.store))
                assert [text for text in (*TEXTS, B) if text in seen] == []


@pytest.mark.parametrize("name", DOORS)
def test_no_door_shows_one(name: str, scene: Scene, closing: ExitStack) -> None:
    scene.store.trust.quarantine(ANN, actor=BOB)
    door, doors = DOORS[name], Doors(scene, closing)
    for path in (A, "/memories/d", ROOT):
        said = door.send(doors, {"command": "view", "path": path}, None)
        assert [text for text in (*TEXTS, B) if text in said] == []
    for command in ({"command": "delete", "path": A}, {"command": "create", "path": A, "file_text": "x"}):
        said = door.send(doors, command, None)
        assert not door.replies or said == f"Error: {A} is read-only"
    assert scene.text(A) == "ocelot\ntwo\n"
