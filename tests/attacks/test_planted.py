"""Special files planted in the memory directory: commands never follow, read, remove or wait for such a file."""

from __future__ import annotations

import gc
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import retentive
from retentive import RetentiveError
from retentive.storage.files.backend import DirectoryBackend
from support.profiles import LONG

from .scene import CANARY, Scene, every_command, listing

pytestmark = pytest.mark.timeout(40)  # opening a pipe would block

TAKEN = "Error: The path {path} is taken by something that is not a memory"
Plant = Callable[[Scene, Path], object]


def bound_socket(at: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(at.parent, os.O_RDONLY)  # the whole path can exceed the limit of a socket address
        try:
            listening.bind(f"/proc/self/fd/{here}/{at.name}")
        finally:
            os.close(here)


PLANTS: dict[str, Plant] = {
    "link_to_file": lambda scene, at: at.symlink_to(scene.outside / "canary.txt"),
    "relative_link": lambda scene, at: at.symlink_to(os.path.relpath(scene.outside / "canary.txt", at.parent)),
    "link_to_directory": lambda scene, at: at.symlink_to(scene.outside),
    "link_to_nothing": lambda scene, at: at.symlink_to(scene.outside / "not-there.txt"),
    "link_to_itself": lambda _, at: at.symlink_to(at),
    "link_to_memory": lambda scene, at: at.symlink_to(scene.memories / "a.txt"),
    "link_to_root": lambda _, at: at.symlink_to("/"),
    "link_to_device": lambda _, at: at.symlink_to("/dev/zero"),
    "pipe": lambda _, at: os.mkfifo(at),
    "bound_socket": lambda _, at: bound_socket(at),
    "hard_link": lambda scene, at: at.hardlink_to(scene.outside / "canary.txt"),
    "binary": lambda _, at: at.write_bytes(b"\x89PNG\r\n\xff\xfe\x00\x01"),
    "text_with_nul": lambda _, at: at.write_bytes(b"text\0more"),
    "latin_1": lambda _, at: at.write_bytes("à la carte".encode("latin-1")),
    "surrogates": lambda _, at: at.write_bytes(b"\xed\xa0\x80"),
}
WHEN = [True, False] if LONG else [True]  # planted while the memory is open, or before it opens


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def begun(scene: Scene, *paths: str) -> None:
    with scene.opened() as store:
        for path in ("/memories/a.txt", *paths):
            assert not store.execute({"command": "create", "path": path, "file_text": "text"}).is_error


def standing(at: Path) -> object:
    status = at.lstat()
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("opened", WHEN)
def test_at_a_new_path(scene: Scene, plant: str, *, opened: bool) -> None:
    """If a special file is planted at a path without a memory, every command replies that the path is taken.

    Nothing can be created below the path.
    """
    begun(scene)
    at = scene.memories / "x"
    if not opened:
        PLANTS[plant](scene, at)
    with scene.calling() as call:
        assert listing(call) == ["/memories/a.txt"]
        if opened:
            PLANTS[plant](scene, at)
        scene.accept_outside()
        before = standing(at)
        for command in every_command("/memories/x"):
            said = call(command)
            assert said == TAKEN.format(path="/memories/x"), command
        for command in every_command("/memories/x/canary.txt", other="/memories/x/other.txt"):
            assert "taken by" in call(command) or "does not exist" in call(command), command
        assert listing(call) == ["/memories/a.txt"]
        assert standing(at) == before
    scene.check_outside()


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("opened", WHEN)
def test_in_place_of_a_memory(scene: Scene, plant: str, *, opened: bool) -> None:
    """The memory counts as deleted externally and keeps its versions.

    After the planted file is removed, it can be created again.
    """
    begun(scene, "/memories/x")
    at = scene.memories / "x"
    if not opened:
        at.unlink()
        PLANTS[plant](scene, at)
    with scene.calling() as call, scene.opened() as store:
        if opened:
            call({"command": "view", "path": "/memories/x"})
            at.unlink()
            PLANTS[plant](scene, at)
        scene.accept_outside()
        before = standing(at)
        for command in every_command("/memories/x"):
            said = call(command)
            assert said == TAKEN.format(path="/memories/x"), command
        assert standing(at) == before
        assert [version.operation for version in store.versions("/memories/x")] == ["deleted", "created"]
        assert str(store.versions("/memories/x")[0].actor) == "job:external"
        at.unlink()
        assert call({"command": "create", "path": "/memories/x", "file_text": "new"}).startswith("File created")
        assert at.read_text() == "new"
    refresh_links(scene, plant)
    scene.check_outside()


def refresh_links(scene: Scene, plant: str) -> None:
    if plant == "hard_link":
        assert (scene.outside / "canary.txt").read_text() == CANARY
        scene.accept_outside()


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("deep", ["d", "d/e"])
def test_in_place_of_a_directory(scene: Scene, plant: str, deep: str) -> None:
    """Memories below the directory count as deleted externally.

    A linked outside directory with the same names is not read.
    """
    begun(scene, "/memories/d/e/canary.txt", "/memories/d/canary.txt")
    at = scene.memories / deep
    with scene.calling() as call, scene.opened() as store:
        call({"command": "view", "path": "/memories"})
        aside = scene.tmp / "aside"
        at.rename(aside)
        PLANTS[plant](scene, at)
        scene.accept_outside()
        before = standing(at)
        for command in every_command(f"/memories/{deep}/canary.txt", other=f"/memories/{deep}/other.txt"):
            call(command)
        for command in every_command(f"/memories/{deep}"):
            assert call(command) == TAKEN.format(path=f"/memories/{deep}"), command
        assert f"/memories/{deep}/canary.txt" not in listing(call)
        assert standing(at) == before
        at.unlink()
        aside.rename(at)
        assert call({"command": "view", "path": f"/memories/{deep}/canary.txt"}).endswith("\ttext")
        history = [version.operation for version in store.versions(f"/memories/{deep}/canary.txt")]
        assert history == ["created", "deleted", "created"]
    shutil.rmtree(aside, ignore_errors=True)
    scene._before = {key: value for key, value in scene._before.items() if not key.startswith("aside")}
    refresh_links(scene, plant)
    scene.check_outside()


@pytest.mark.parametrize("plant", PLANTS)
def test_below_a_directory_that_is_moved_or_deleted(scene: Scene, plant: str) -> None:
    """The memories of the directory are moved or deleted, and the planted file stays where it is."""
    begun(scene, "/memories/d/a.txt", "/memories/d/b.txt")
    at = scene.memories / "d" / "x"
    PLANTS[plant](scene, at)
    scene.accept_outside()
    before = standing(at)
    with scene.calling() as call:
        assert call({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/f"}).startswith("Success")
        assert sorted(os.listdir(scene.memories / "f")) == ["a.txt", "b.txt"]
        assert os.listdir(scene.memories / "d") == ["x"]
        assert call({"command": "create", "path": "/memories/d/c.txt", "file_text": "c"}).startswith("File created")
        assert call({"command": "delete", "path": "/memories/d"}) == "Successfully deleted /memories/d"
        assert os.listdir(scene.memories / "d") == ["x"]
        assert listing(call) == ["/memories/a.txt", "/memories/f/", "/memories/f/a.txt", "/memories/f/b.txt"]
        assert standing(at) == before
    with scene.opened() as store:
        assert store.clear().text == "All memory cleared"
    assert standing(at) == before
    scene.check_outside()


@pytest.mark.parametrize("plant", [*PLANTS][:9])
def test_planted_between_lookup_and_read(scene: Scene, plant: str) -> None:
    """A file planted after the lookup is safe too: the read follows no link and does not block on a pipe."""
    begun(scene)
    PLANTS[plant](scene, scene.memories / "x")
    with scene.opened() as store:
        backend = store._core.backend
        assert isinstance(backend, DirectoryBackend)
        tree = backend.with_reader(lambda connection: backend._tree(connection, store.id))
        assert tree is not None
        assert tree.read("/memories/x") is None
        assert tree.read("/memories/x/canary.txt") is None


MARKS = ["memories", ".retentive", "stores", ".retentive/tmp"]
INNER = [f".retentive/{name}" for name in ("journal", "live", "memory.db", "memory.db-wal", "memory.db-shm")]
LINKS = ["link_to_directory", "link_to_nothing", "link_to_itself", "link_to_file"]
INNER_CASES = [(name, plant) for name in INNER for plant in LINKS]


def try_everything(scene: Scene) -> None:
    """Open the location and its second store, and write to both stores. Errors are expected."""
    said: list[str] = []
    gc.freeze()  # keeps later garbage collections fast
    for key in ("default", "second"):
        try:
            with retentive.open(scene.place) as opened:
                store = opened.store(key)
                for command in (
                    {"command": "create", "path": "/memories/new.txt", "file_text": "new"},
                    {"command": "create", "path": "/memories/canary.txt", "file_text": "new"},
                    *every_command("/memories/canary.txt"),
                    *every_command("/memories/d"),
                    {"command": "view", "path": "/memories"},
                ):
                    scene.check_reply(store.execute(command).text, command)
                store.clear()
        except RetentiveError as error:
            said.append(str(error))
        if said:
            gc.collect()  # a failed opening can keep its lock for as long as its exception is referenced
    gc.unfreeze()
    assert [text for text in said if scene.tmp.name in text] == []


@pytest.mark.parametrize("name", MARKS)
@pytest.mark.parametrize("plant", [*LINKS, "pipe", "binary"])
@pytest.mark.parametrize("made", [False, True], ids=["before_the_first_opening", "afterwards"])
def test_in_place_of_a_directory_of_the_root(scene: Scene, name: str, plant: str, *, made: bool) -> None:
    """The location fails to open, or replies say that the store is unavailable. The link is never followed."""
    if made:
        begun(scene)
        with retentive.open(scene.place) as opened:
            opened.store("second").execute({"command": "create", "path": "/memories/a", "file_text": "a"})
        if (scene.root / name).exists():
            (scene.root / name).rename(scene.tmp / "aside")
    else:
        (scene.root / name).parent.mkdir(parents=True)
    PLANTS[plant](scene, scene.root / name)
    scene.accept_outside()
    before = standing(scene.root / name)
    try_everything(scene)
    assert standing(scene.root / name) == before
    scene.check_outside()


@pytest.mark.parametrize("name", [*MARKS[:3], "stores/second", "stores/second/memories"])
@pytest.mark.parametrize("plant", ["link_to_directory", "link_to_nothing", "link_to_file", "pipe"])
def test_in_place_of_a_directory_of_the_root_while_it_is_open(scene: Scene, name: str, plant: str) -> None:
    """No command follows the link, and every reply is one of the expected replies."""
    begun(scene)
    with retentive.open(scene.place) as opened:
        stores = [opened.store(), opened.store("second")]
        for store in stores:
            store.execute({"command": "create", "path": "/memories/canary.txt", "file_text": "mine"})
        (scene.root / name).rename(scene.tmp / "aside")
        PLANTS[plant](scene, scene.root / name)
        scene.accept_outside()
        changed = {"aside"}
        for store in stores:
            for command in (*every_command("/memories/canary.txt"), *every_command("/memories/d/canary.txt")):
                scene.check_reply(store.execute(command).text, command)
            store.execute({"command": "view", "path": "/memories"})
            store.clear()
    shutil.rmtree(scene.tmp / "aside")
    scene._before = {key: value for key, value in scene._before.items() if key.split("/")[0] not in changed}
    scene.check_outside()


@pytest.mark.parametrize(("name", "plant"), INNER_CASES)
@pytest.mark.parametrize("made", [False, True], ids=["before_the_first_opening", "afterwards"])
def test_in_place_of_an_internal_file(scene: Scene, name: str, plant: str, *, made: bool) -> None:
    """A link in place of the database, its journal or its reserve file neither changes nor creates a file outside."""
    if made:
        begun(scene)
    at = scene.root / name
    at.parent.mkdir(parents=True, exist_ok=True)
    at.unlink(missing_ok=True)
    PLANTS[plant](scene, at)
    scene.accept_outside()
    try_everything(scene)
    scene.check_outside()


def test_the_root_can_be_a_link(scene: Scene) -> None:
    """The root may be a link, because the user chooses the location of the memory."""
    real = scene.room / "memory-real"
    real.mkdir()
    scene.root.symlink_to(real)
    begun(scene)
    assert (real / "memories" / "a.txt").read_text() == "text"
