"""A command that is sent again under its id gets its first answer and changes nothing more, through each door."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from .doors import DOORS, Doors
from .table import NEW, A, Scene, state_of

COMMANDS: dict[str, dict[str, object]] = {
    "create": {"path": NEW, "file_text": "x\n"},
    "str_replace": {"path": A, "old_str": "two", "new_str": "2"},
    "insert": {"path": A, "insert_line": 0, "insert_text": "zero"},
    "delete": {"path": "/memories/d"},
    "rename": {"old_path": A, "new_path": "/memories/e.md"},
}


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door.takes_id])
def test_a_repeated_command_gets_its_first_reply(name: str, scene: Scene, closing: ExitStack) -> None:
    """Also after other commands. With another id it is a new command."""
    door, doors = DOORS[name], Doors(scene, closing)
    first = {}
    for number, (command, fields) in enumerate(COMMANDS.items()):
        call_id = f"toolu_{number:024}"
        first[call_id] = door.send(doors, {"command": command, **fields}, call_id)
        assert "Error" not in first[call_id]
        before = state_of(scene.store)
        assert door.send(doors, {"command": command, **fields}, call_id) == first[call_id]
        assert state_of(scene.store) == before
    scene.store.create("/memories/later.md", "later")
    before = state_of(scene.store)
    for number, (command, fields) in enumerate(COMMANDS.items()):
        assert door.send(doors, {"command": command, **fields}, f"toolu_{number:024}") == first[f"toolu_{number:024}"]
    assert state_of(scene.store) == before
    again = door.send(doors, {"command": "create", **COMMANDS["create"]}, f"toolu_{99:024}")
    assert "already exists" in again
