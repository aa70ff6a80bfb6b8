"""What the files hold after a power cut: nothing that was acknowledged is lost, and nothing that they hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from retentive import MemoryStore
from support.commands import create, delete, edit, view
from support.targets import opened_on

TESTS = Path(__file__).resolve().parents[2]
KILLED = """
import json, os, sys
from retentive.storage.files import backend
from support.targets import opened_on
backend.SYNC_AFTER_S = 1_000.0  # what was synced before the power cut needs no recovery
store = opened_on(sys.argv[1], "first").store()
for command in json.loads(sys.argv[2]):
    assert not store.execute(command, actor="session:1").is_error
os._exit(0)
"""
OLDER, NOW = "first text\nsecond line\n", "other text\nsecond line\n"
NAMES = ("older", "empty", "beginning", "missing", "zeros", "edited")
COMMANDS = [
    *(create(f"/memories/{name}.md", OLDER) for name in (*NAMES, "gone")),
    *(edit("first", "other", f"/memories/{name}.md") for name in (*NAMES, "gone")),
    delete("/memories/gone.md"),
]
LEFT: dict[str, bytes | None] = {
    "older": OLDER.encode(),
    "empty": b"",
    "beginning": NOW.encode()[:5],
    "missing": None,
    "zeros": NOW.encode()[:5] + bytes(len(NOW) - 5),
    "edited": b"by hand\n",
    "gone": OLDER.encode(),
}
AFTER = {f"{name}.md": "by hand\n" if name == "edited" else NOW for name in NAMES}
STALE = ["beginning", "empty", "older"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory whose process was killed, and whose files hold what a power cut can leave, and one edit."""
    found = tmp_path / "memory"
    arguments = [sys.executable, "-c", KILLED, str(found), json.dumps(COMMANDS)]
    subprocess.run(arguments, cwd=TESTS, check=True)
    for name, left in LEFT.items():
        path = found / "memories" / f"{name}.md"
        path.unlink(missing_ok=True)
        if left is not None:
            path.write_bytes(left)
    return found


def files(place: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (place / "memories").iterdir()}


def of_jobs(store: MemoryStore) -> list[str]:
    found = [f"{version.actor} {version.operation} {version.path[10:-3]}" for version in store.versions()]
    return sorted(each.removeprefix("job:") for each in found if each.startswith("job:"))


def ids(store: MemoryStore) -> dict[str, str]:
    return {version.path: version.memory_id for version in store.versions() if str(version.actor) == "session:1"}


RECOVERED = sorted(
    [
        *(f"{who} modified {name}" for name in STALE for who in ("external", "recovery")),
        "external deleted missing",
        "recovery created missing",
        "external created gone",
        "recovery deleted gone",
        "external modified edited",
    ]
)


@pytest.mark.parametrize("cause", ["another mount", "no journal", "unknown mount"])
def test_what_the_files_hold_becomes_a_version_before_it_is_rewritten(cause: str, place: Path) -> None:
    """After that, the memories and files have what was acknowledged, with their ids. An edit stays."""
    if cause == "no journal":
        (place / ".retentive" / "journal").unlink()
    mount = {"another mount": "second", "no journal": "first", "unknown mount": None}[cause]
    with opened_on(str(place), mount) as opened:
        store = opened.store()
        assert files(place) == AFTER
        before = ids(store)
        assert {memory.path[10:]: store.read(memory.path) for memory in store.memories()} == AFTER
        assert of_jobs(store) == RECOVERED
        assert {memory.path: memory.id for memory in store.memories()} == {
            path: key for path, key in before.items() if path != "/memories/gone.md"
        }
        texts = {store.version_text(version.id) for version in store.versions() if version.operation != "deleted"}
        assert {left.decode() for name, left in LEFT.items() if left is not None and name != "zeros"} <= texts
    with opened_on(str(place), "third") as opened:
        assert of_jobs(opened.store()) == RECOVERED
        assert files(place) == AFTER


def test_an_undo_brings_back_what_the_files_held(place: Path) -> None:
    with opened_on(str(place), "second") as opened:
        store = opened.store()
        (recovery,) = {version.revision for version in store.versions() if str(version.actor) == "job:recovery"}
        store.undo(f"r{recovery}")
        held = {f"{name}.md": left.decode() for name, left in LEFT.items() if left is not None and name != "zeros"}
        assert files(place) == held | {"zeros.md": NOW}


def test_the_same_mount_leaves_every_difference(place: Path) -> None:
    """A process that was killed is no power cut: all differences are edits."""
    with opened_on(str(place), "first") as opened:
        store = opened.store()
        store.execute(view("/memories"))
        held = {f"{name}.md": left.decode() for name, left in LEFT.items() if left is not None}
        assert files(place) == held
        assert of_jobs(store) == sorted(
            [
                *(f"external modified {name}" for name in (*STALE, "edited")),
                "external deleted missing",
                "external deleted zeros",
                "external created gone",
            ]
        )
