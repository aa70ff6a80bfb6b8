"""Power cuts on a real file system: every acknowledged change is present after the next boot."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from retentive.storage.files.following import mount_id
from support.commands import create, rename
from support.profiles import sized
from support.targets import BACKENDS, CONTROL, MOUNT, open_target, url_of

from .ext4 import Disk, disk, why_not
from .rounds import judge, look, work_until, writers_for

ROUNDS = sized(quick=3, long=20, full=200)
ROUNDS_PER_STORE = 10

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_power_cut_loses_no_acknowledged_change(backend: str, tmp_path: Path) -> None:
    """Three threads write until the cut.

    After the reboot, acknowledged changes are present, and no change is partial.
    """
    rng = random.Random(backend)
    acknowledged = 0
    with disk(tmp_path) as hardware:
        for number in range(ROUNDS):
            directory = hardware.mount_point / str(number // ROUNDS_PER_STORE)
            directory.mkdir(exist_ok=True)
            problems, count = one_cut(backend, directory, number, rng, hardware)
            assert (number, problems) == (number, [])
            acknowledged += count
    assert acknowledged > ROUNDS


def test_the_kernel_tells_one_mount_from_the_next(tmp_path: Path) -> None:
    """The same with the names of the kernel. Before Linux 6.8, it may use them again."""
    rng = random.Random("kernel")
    with disk(tmp_path) as hardware:
        descriptor = os.open(hardware.mount_point, os.O_RDONLY)
        name = mount_id(descriptor)
        os.close(descriptor)
        if name is None or name.split()[2] == "0":
            pytest.skip("the kernel has no unique names of mounts")
        for number in range(ROUNDS // 3):
            hardware.recover()
            del os.environ[MOUNT]
            problems, _ = one_cut("directory", hardware.mount_point, number, rng, hardware, has_name=False)
            assert (number, problems) == (number, [])


def test_the_simulated_cuts_lose_unsynced_data(tmp_path: Path) -> None:
    """The SDK's local tool is the control.

    It does not sync its directories, so it loses renames that it acknowledged.
    """
    names = [f"{number}.md" for number in range(20)]
    with disk(tmp_path) as hardware:
        tool = open_target(url_of(CONTROL, hardware.mount_point))
        for name in names:
            tool.execute("default", create(f"/memories/{name}", name))
        os.sync()
        for name in names:
            assert not tool.execute("default", rename(f"/memories/{name}", f"/memories/new-{name}")).is_error
        hardware.cut()
        hardware.recover()
        kept = tool.state("default").tree
    assert [name for name in names if f"/memories/new-{name}" not in kept] != []


def one_cut(
    backend: str, directory: Path, seed: int, rng: random.Random, hardware: Disk, *, has_name: bool = True
) -> tuple[list[str], int]:
    """Cut the power at a random moment of a busy loop. Returns the problems and the number of acknowledged changes.

    If `has_name` is false, the next mount has only the name that the kernel gives it.
    """
    start, _ = look(backend, directory)
    os.sync()  # calls of the judge's own opening and closing are not counted
    writers = writers_for(seed)
    stories = work_until(url_of(backend, directory), writers, rng, cut=hardware.cut)
    hardware.recover()
    if not has_name:
        del os.environ[MOUNT]
    found, faults = look(backend, directory)
    return judge(start, writers, stories, found) + faults, sum(story.acknowledged for story in stories)
