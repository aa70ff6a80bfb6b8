"""`source` and `session` mean the same everywhere: each operation and each door records them with its change."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from retentive import InvalidInput

from .doors import DOORS, Doors
from .table import NEW, OPERATIONS, Scene, state_of

ORIGIN = {"source": "web:https://example.org", "session": "run-1"}
INVALID = ({"source": "a\nb"}, {"session": ""})
CREATE = {"command": "create", "path": NEW, "file_text": "x"}


def origins_after(scene: Scene, last: str) -> set[tuple[str, str]]:
    made = [version.provenance for version in scene.store.versions() if version.id > last]
    return {(found.source, found.session) for found in made}


@pytest.mark.parametrize("name", [name for name, case in OPERATIONS.items() if case.origin])
def test_a_change_records_its_origin(name: str, scene: Scene) -> None:
    """An invalid origin is refused, and changes nothing."""
    before, last = state_of(scene.store), scene.store.versions(limit=1)[0].id
    for invalid in INVALID:
        with pytest.raises(InvalidInput, match=r"a source must|a session"):
            OPERATIONS[name](scene, scene.store, **invalid)
    assert state_of(scene.store) == before
    OPERATIONS[name](scene, scene.store, **ORIGIN)
    assert origins_after(scene, last) == {(ORIGIN["source"], ORIGIN["session"])}


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door.takes_origin])
def test_each_door_passes_the_origin_on(name: str, scene: Scene, closing: ExitStack) -> None:
    last = scene.store.versions(limit=1)[0].id
    DOORS[name].send(Doors(scene, closing), CREATE, None, **ORIGIN)
    assert origins_after(scene, last) == {(ORIGIN["source"], ORIGIN["session"])}
