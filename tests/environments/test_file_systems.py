"""A directory of memories on other file systems, on loop devices and in memory. Needs root.

Each file system runs the backend suite, `kill -9` of a writer, and its own rules about names. It is a loop device of
its own, or memory, and is removed afterwards.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive.doctor import check_location
from support.pages import ROOT

pytestmark = [pytest.mark.environments, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
SIZE_MB = {"xfs": 320, "btrfs": 160}
MADE = {
    "ext4": ("mkfs.ext4", "-q", "-F"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
    "exfat": ("mkfs.exfat",),
}
"""Commands that make the file systems on disks."""
NAMES = [*MADE, "tmpfs", "overlay", "overlay on xfs"]
FOLDING = {"exfat"}
"""File systems that ignore case."""
NOT_RUN = ("longest_paths", "lists_are_those_of_a_model")
LEFT_OUT = ("-k", " and ".join(f"not {name}" for name in NOT_RUN))
"""Without the tests that store paths which differ in case only, or whose names are longer in the other Unicode form."""
WRITER = """
import sys, retentive
with retentive.open(sys.argv[1]) as place:
    for number in range(100_000):
        place.store().write(f"/memories/{number % 7}.md", f"{number}\\n" * 50)
        print(number, flush=True)
"""


def run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["failed"]
        pytest.skip(f"{command[0]}: {said[0].rpartition(': ')[2].rstrip('.')}")


def disk(name: str, folder: Path) -> Path:
    """Mount a file system on a loop device, and return a new directory in it."""
    if shutil.which(MADE[name][0]) is None:
        pytest.skip(f"{MADE[name][0]} is not installed")
    image, mount = folder / f"{name}.img", folder / name
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(SIZE_MB.get(name, 128) << 20)
    run(*MADE[name], image)
    if name == "exfat":
        device = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=True)
        run("mount.exfat-fuse", device.stdout.strip(), mount)
        subprocess.run(["losetup", "--detach", device.stdout.strip()], check=False)  # when it is unmounted
    else:
        run("mount", "-o", "loop", image, mount)
    within = mount / "in"
    within.mkdir()
    return within


def overlay(below: Path, folder: Path) -> Path:
    """Mount an overlay with a lower directory and an upper one on another file system, as containers do."""
    for name in ("lower", "upper", "work"):
        (below / name).mkdir(parents=True)
    (below / "lower" / "from-the-image").write_text("x", "utf-8")
    mount = folder / "overlay"
    mount.mkdir()
    run("mount", "-t", "overlay", "overlay", "-o",
        f"lowerdir={below}/lower,upperdir={below}/upper,workdir={below}/work", mount)  # fmt: skip
    return mount


def mounted(name: str, folder: Path) -> Path:
    if name in MADE:
        return disk(name, folder)
    if name == "tmpfs":
        (folder / "tmpfs").mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", folder / "tmpfs")
        return folder / "tmpfs"
    return overlay(disk("xfs" if "xfs" in name else "ext4", folder), folder)


@pytest.fixture(params=NAMES, scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Name of a file system, and a directory on it."""
    tmp_path = tmp_path_factory.mktemp("disk")
    try:
        yield request.param, mounted(request.param, tmp_path)
    finally:
        for each in (tmp_path / "overlay", *tmp_path.iterdir()):
            if os.path.ismount(each):
                subprocess.run(["umount", "--lazy", each], check=False)


def test_the_backend_suite_passes(place: tuple[str, Path]) -> None:
    name, folder = place
    tests = "tests/contract/backends/test_suites.py::TestDirectory"
    options = (
        *(LEFT_OUT if name in FOLDING else ()),
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        folder / "t",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, tests],
        cwd=ROOT, capture_output=True, text=True, timeout=1400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


def test_a_killed_writer_loses_nothing(place: tuple[str, Path]) -> None:
    """Every change that was acknowledged is there after `kill -9`, in the history and in the file."""
    _, folder = place
    at = folder / "memory"
    with subprocess.Popen([sys.executable, "-c", WRITER, at], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        last = max(int(next(writer.stdout)) for _ in range(40))
        writer.send_signal(signal.SIGKILL)
        last = max([last, *(int(line) for line in writer.stdout if line.endswith("\n"))])
    with retentive.open(at) as opened:
        store = opened.store()
        for number in range(last - 6, last + 1):
            text = store.read(f"/memories/{number % 7}.md")
            assert int(text.split("\n", 1)[0]) in (number, number + 7)  # one more may have been written, unacknowledged
            assert (at / "memories" / f"{number % 7}.md").read_text("utf-8") == text
    assert [each.code for each in check_location(at) if each.severity != "ok"] == []


def test_names_that_the_file_system_joins_are_refused(place: tuple[str, Path]) -> None:
    """Where two paths would be one file, the second one is refused; elsewhere both are memories."""
    name, folder = place
    composed = unicodedata.normalize("NFC", "/memories/Café.md")
    with retentive.open(folder / "names") as opened:
        store = opened.store()
        for path in ("/memories/Notes.md", composed):
            store.write(path, "first\n")
            other = path.swapcase().replace("/MEMORIES", "/memories")
            reply = store.execute({"command": "create", "path": other, "file_text": "second\n"})
            assert ("ignores case" in reply.text) == reply.is_error == (name in FOLDING), reply.text
            assert store.read(path) == "first\n"
            assert (folder / "names" / path[1:]).read_text("utf-8") == "first\n"
