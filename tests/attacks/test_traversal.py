"""No spelling of a path leaves `/memories`, on every backend and through both SDK tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.profiles import FULL, sized

from .scene import Call, Scene, every_command
from .traversals import HARMLESS, INSIDE, OUTSIDE, mixed, scrambled

SEED = 20_250_818
REFUSALS = ("Error: Path must start with /memories, got: ", "Error: Path /", "Error: Invalid path /")
KINDS = ("sync", "async")
STEP = sized(quick=23, long=7, full=7)  # of all commands; prime, so that each command and each field occur
REFUSED = [*OUTSIDE, *INSIDE, *mixed(), *scrambled(sized(quick=75, long=1_500, full=4_000), SEED)]


@pytest.fixture
def scene(backend: str, tmp_path: Path) -> Scene:
    return Scene(tmp_path, backend)


def start(call: Call) -> None:
    for path in ("/memories/a.txt", "/memories/d/a.txt"):
        assert call({"command": "create", "path": path, "file_text": "text"}).startswith("File created")


@pytest.mark.parametrize("kind", KINDS)
def test_a_traversal_is_an_invalid_path(scene: Scene, kind: str) -> None:
    """Every command rejects a traversal in every path field and leaves the memory unchanged."""
    with scene.calling(kind) as call:
        start(call)
        whole = call({"command": "view", "path": "/memories"})
        commands = [command for path in REFUSED for command in every_command(path)]
        for command in commands[:: 1 if FULL and kind == "sync" else STEP]:
            said = call(command)
            assert said.startswith(REFUSALS), f"{command!r:.300}: {said[:300]}"
        assert call({"command": "view", "path": "/memories"}) == whole
    scene.check_outside()


def test_the_reply_explains_the_problem(scene: Scene) -> None:
    """The reply is one line of limited length, and the reason is at its end."""
    with scene.calling() as call:
        for path in REFUSED[: len(OUTSIDE) + len(INSIDE)]:
            said = call({"command": "view", "path": path})
            assert "\n" not in said
            assert len(said) < 2_300
            assert said.startswith(REFUSALS), said
            if said.startswith("Error: Invalid path "):
                reason = said.rpartition(": ")[2]
                assert reason.startswith(("may not", "has a name", "is longer than", "is more than")), said


@pytest.mark.parametrize("kind", KINDS)
def test_a_harmless_lookalike_stays_inside(scene: Scene, kind: str) -> None:
    """An unusual name is either rejected or stored under exactly this name. Nothing outside changes."""
    with scene.calling(kind) as call:
        start(call)
        for path in HARMLESS:
            for command in every_command(path):
                call(command)
            said = call({"command": "create", "path": path, "file_text": "mine"})
            if said.startswith("File created"):
                assert call({"command": "view", "path": path}).endswith("\tmine"), path
                assert call({"command": "delete", "path": path}) == f"Successfully deleted {path}"
            else:
                assert said.startswith("Error: "), said
    scene.check_outside()


@pytest.mark.parametrize("key", ["../outside", "..", "/etc", "a/../../b", "memstore_x", "%2e%2e", ".retentive", "x\\y"])
def test_a_store_key_cannot_traverse(scene: Scene, key: str) -> None:
    """The application chooses the store key, but it often derives the key from a user name."""
    with scene.calling("sync", store=key) as call:
        assert call({"command": "create", "path": "/memories/a.txt", "file_text": "text"}).startswith("File created")
        assert call({"command": "view", "path": "/memories/a.txt"}).endswith("\ttext")
    scene.check_outside()
