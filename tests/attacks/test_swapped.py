"""Commands run while another process swaps a directory or file with a link again and again."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from support.profiles import LONG, sized
from support.second_process import TESTS

from .scene import Call, Scene, every_command

ROUNDS = sized(quick=8, long=400, full=1_500)
PATIENCE_S = 300.0
COMPONENTS = ["memories/d", "memories/d/e", "memories", "memories/d/canary.txt"]


@pytest.mark.parametrize("component", COMPONENTS[: None if LONG else 2])
def test_no_command_follows_the_link(tmp_path: Path, component: str) -> None:
    """No outside file is read, changed, removed or created.

    Every reply is one of the expected replies, and no written text is lost.
    """
    scene = Scene(tmp_path)
    (scene.outside / "d" / "e").mkdir()
    for name in ("canary.txt", "e/canary.txt", "d/canary.txt", "d/e/canary.txt"):
        (scene.outside / name).parent.mkdir(exist_ok=True)
        (scene.outside / name).write_text((scene.outside / "canary.txt").read_text())
    aside = scene.room / "aside"
    aside.mkdir()
    scene.accept_outside()
    with scene.calling() as call:
        call({"command": "create", "path": "/memories/d/e/canary.txt", "file_text": "mine"})
        call({"command": "create", "path": "/memories/d/canary.txt", "file_text": "mine"})
        elsewhere = scene.outside / ("canary.txt" if component.endswith(".txt") else "")
        arguments = [str(each) for each in (scene.root / component, elsewhere, aside)]
        with subprocess.Popen(
            [sys.executable, "-m", "attacks.swapper", *arguments],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as swapper:
            assert swapper.stdout is not None
            assert swapper.stdin is not None
            assert swapper.stdout.readline() == b"ready\n"
            said = attack(call, both_sides=not component.endswith(".txt"))
            swapper.stdin.close()
        assert swapper.returncode == 0
        assert call({"command": "view", "path": "/memories"}).startswith("Here're the files")
        assert call({"command": "create", "path": "/memories/d/e/end.txt", "file_text": "x"}).startswith("File created")
    assert list(aside.iterdir()) == []
    scene.check_outside()
    written = {int(text.split()[1]) for text in every_text(scene) if text.startswith("number ")}
    assert written == set(range(len(said["created"])))


def attack(call: Call, *, both_sides: bool) -> dict[str, list[str]]:
    """Run all commands below the path until the swapping ends. Returns the successful replies and the error replies."""
    said: dict[str, list[str]] = {"created": [], "refused": []}
    rounds, end = 0, time.monotonic() + PATIENCE_S
    while rounds < ROUNDS or not said["created"] or (both_sides and not said["refused"]):
        assert time.monotonic() < end, {name: len(replies) for name, replies in said.items()}
        above = ("/memories/d", "/memories/d/e")[rounds % 2]
        for command in every_command(f"{above}/canary.txt", other=f"{above}/other{rounds}.txt"):
            call(command)
        text = f"number {len(said['created'])} "
        reply = call({"command": "create", "path": f"{above}/new{rounds}.txt", "file_text": text})
        said["created" if reply.startswith("File created") else "refused"].append(reply)
        call({"command": "view", "path": "/memories"})
        call({"command": "delete", "path": f"{above}/new{rounds}.txt"})
        call({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/f"})
        call({"command": "rename", "old_path": "/memories/f", "new_path": "/memories/d"})
        rounds += 1
    return said


def every_text(scene: Scene) -> Counter[str]:
    """Return the texts of all versions."""
    with scene.opened() as store:
        return Counter(store.version_text(version.id) for version in store.versions())
