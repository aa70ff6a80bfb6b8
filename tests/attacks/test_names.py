"""Files with invalid names and trees that are too deep, both created directly in the memory directory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .scene import Scene, every_command, listing

UNUSABLE = [
    b"cafe\xcc\x81.md",  # not in NFC
    b"%2e%2e",
    b"%2e%2e%2fcanary.txt",
    "．．".encode(),
    "a／b".encode(),
    b"a\\b",
    b"..\\..\\canary.txt",
    b"a\nb",
    b"\x01",
    b"\x1b[2J",
    b"\x7f",
    b"\xc2\x85",
    b"a\xe2\x80\x8bb",  # zero width space
    b"\xe2\x80\xa8",
    b"\xff\xfe",
    b"latin-1 \xe9",
    b"\xc0\xae\xc0\xae",
    b"\xed\xa0\x80",
]
TEXT = "written by hand\n"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    with made.opened() as store:
        store.execute({"command": "create", "path": "/memories/a.txt", "file_text": "text"})
    return made


@pytest.mark.parametrize("directory", [False, True], ids=["file", "directory"])
def test_a_file_with_an_invalid_name_is_ignored(scene: Scene, *, directory: bool) -> None:
    """The file is not listed, read or removed, and neither are the files below it. Other files work normally."""
    inside = [os.fsencode(scene.memories) + b"/" + name for name in UNUSABLE]
    for path in inside:
        if directory:
            os.mkdir(path)
        with open(path + (b"/x.txt" if directory else b""), "w") as file:
            file.write(TEXT)
    names = sorted(os.listdir(os.fsencode(scene.memories)))
    with scene.calling() as call, scene.opened() as store:
        assert listing(call) == ["/memories/a.txt"]
        for name in UNUSABLE[1:]:  # here the first name is normalized to another name
            for command in every_command("/memories/" + os.fsdecode(name)):
                assert TEXT not in call(command)
        assert listing(call) == ["/memories/a.txt"]
        assert [version.path for version in store.versions()] == ["/memories/a.txt"]
        store.clear()
    assert sorted(os.listdir(os.fsencode(scene.memories))) == sorted(set(names) - {b"a.txt"})
    scene.check_outside()


def test_names_of_255_and_256_bytes(scene: Scene) -> None:
    """The longest name that the file system allows is accepted.

    A longer name is rejected before any access to the disk.
    """
    names = ["x" * 255, "é" * 127 + "x", "😀" * 63 + "abc"]
    with scene.calling() as call:
        for name in names:
            assert len(name.encode()) == 255
            (scene.memories / name).write_text(TEXT)
            assert call({"command": "view", "path": f"/memories/{name}"}).endswith(f"\t{TEXT.strip()}")
            path = f"/memories/d/{name}"
            assert call({"command": "create", "path": path, "file_text": "mine"}).startswith("File created")
            assert (scene.memories / "d" / name).read_text() == "mine"
            for command in every_command(f"/memories/{name}x"):
                assert call(command).endswith("has a name longer than 255 bytes")
        assert len(listing(call)) == 1 + len(names) + 1 + len(names)


@pytest.fixture
def deep(scene: Scene) -> Iterator[int]:
    """Create a tree of 5,000 levels with a file on every hundredth level.

    `rmtree` would exceed the recursion limit on it.
    """
    depth = 5_000
    directory = os.open(scene.memories, os.O_RDONLY)
    for level in range(depth):
        os.mkdir("x", dir_fd=directory)
        directory, above = os.open("x", os.O_RDONLY, dir_fd=directory), directory
        os.close(above)
        if level % 100 == 99:
            os.close(os.open("deep.txt", os.O_CREAT | os.O_WRONLY, dir_fd=directory))
    os.close(directory)
    yield depth
    subprocess.run(["rm", "-rf", scene.memories / "x"], check=True)


def levels(count: int) -> str:
    return "/memories" + "/x" * count


@pytest.mark.usefixtures("deep")
def test_a_tree_of_5000_levels(scene: Scene) -> None:
    """No command fails. Files with a valid path are memories, and all other files are ignored."""
    with scene.calling() as call:
        assert listing(call) == ["/memories/a.txt"]
        for count in (1, 2, 19, 20, 21, 22, 200):
            for command in every_command(levels(count)):
                call(command)
        path = levels(19) + "/mine.txt"
        assert call({"command": "create", "path": path, "file_text": "mine"}).startswith("File created")
        said = call({"command": "rename", "old_path": "/memories/x", "new_path": "/memories/y"})
        assert said == "Successfully renamed /memories/x to /memories/y"
        assert call({"command": "delete", "path": "/memories/y"}) == "Successfully deleted /memories/y"
        assert listing(call) == ["/memories/a.txt"]
        assert (scene.memories / Path(*["x"] * 100) / "deep.txt").exists()
    scene.check_outside()


def test_a_tree_of_21_levels(scene: Scene) -> None:
    """Files up to level 20 are memories. A file on level 21 is ignored and survives deletion of the rest."""
    bottom = scene.memories.joinpath(*["x"] * 20)
    bottom.mkdir(parents=True)
    (bottom / "too-deep.txt").write_text(TEXT)
    (bottom.parent / "deep.txt").write_text(TEXT)
    with scene.calling() as call, scene.opened() as store:
        assert [memory.path for memory in store.memories()] == ["/memories/a.txt", levels(19) + "/deep.txt"]
        for command in every_command(levels(20) + "/too-deep.txt"):
            assert call(command).endswith("more than 20 levels deep")
        said = call({"command": "rename", "old_path": "/memories/x", "new_path": "/memories/y/y"})
        assert said.endswith("is more than 20 levels deep")
        assert call({"command": "delete", "path": "/memories/x"}) == "Successfully deleted /memories/x"
        assert not (bottom.parent / "deep.txt").exists()
        assert (bottom / "too-deep.txt").read_text() == TEXT
        assert listing(call) == ["/memories/a.txt"]
    scene.check_outside()
