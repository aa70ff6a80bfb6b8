"""File system with power cuts: ext4 in an image file on a loop device. It needs root."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from support.targets import MOUNT

# Linux, fs/ext4/ext4.h: EXT4_IOC_SHUTDOWN is _IOR('X', 125, __u32). NOLOGFLUSH drops all data that was
# not synced, like a power cut; the next mount replays the journal.
FS_IOC_SHUTDOWN = 0x8004587D
GOING_FLAGS_NOLOGFLUSH = 2
# By default ext4 flushes a file that replaces another by rename. No standard promises this, so it is turned off.
OPTIONS = "noauto_da_alloc"


class Disk:
    """A mounted ext4 file system.

    Each mount gets a new name in the environment, which directories of `open_target` take for that of the kernel:
    a number of the kernel may be used again before Linux 6.8.
    """

    def __init__(self, directory: Path, *, size_mb: int, block_bytes: int, inode_bytes: int) -> None:
        self.mount_point = directory / "mount"
        self._image = directory / "disk.img"
        self.mount_point.mkdir()
        with self._image.open("wb") as file:
            file.truncate(size_mb << 20)
        blocks, inodes = str(block_bytes), str(inode_bytes)
        _run("mkfs.ext4", "-q", "-F", "-b", blocks, "-I", inodes, str(self._image))
        self.mount()

    def mount(self) -> None:
        """Mount the disk. After a power cut, this replays the journal."""
        _run("mount", "-o", f"loop,{OPTIONS}", str(self._image), str(self.mount_point))
        os.environ[MOUNT] = str(uuid4())

    def unmount(self) -> None:
        _run("umount", str(self.mount_point))

    def cut(self) -> None:
        """Cut the power: no later write reaches the disk."""
        import fcntl

        fd = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, FS_IOC_SHUTDOWN, struct.pack("I", GOING_FLAGS_NOLOGFLUSH))
        finally:
            os.close(fd)

    def recover(self) -> None:
        """Unmount and mount the disk, like the next boot."""
        self.unmount()
        self.mount()


@contextlib.contextmanager
def disk(directory: Path, *, size_mb: int = 256, block_bytes: int = 4_096, inode_bytes: int = 256) -> Iterator[Disk]:
    """A disk that is removed at the end, even if a failed test still has one of its files open.

    By default, blocks and inodes have the size on most disks.
    """
    made = Disk(directory, size_mb=size_mb, block_bytes=block_bytes, inode_bytes=inode_bytes)
    try:
        yield made
    finally:
        os.environ.pop(MOUNT, None)
        subprocess.run(["umount", "--lazy", str(made.mount_point)], check=False)
        (directory / "disk.img").unlink()


@contextlib.contextmanager
def memory_disk(directory: Path, *, size_kb: int) -> Iterator[Path]:
    """A small tmpfs."""
    mount_point = directory / "mount"
    mount_point.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", str(mount_point))
    try:
        yield mount_point
    finally:
        subprocess.run(["umount", "--lazy", str(mount_point)], check=False)


def why_not() -> str | None:
    """Return the reason why disks cannot be mounted here, or None. A container may forbid it, so this mounts one."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "mounting a disk needs Linux and root"
    missing = [name for name in ("mkfs.ext4", "mount", "umount", "losetup") if shutil.which(name) is None]
    if missing:
        return f"mounting a disk needs {', '.join(missing)}"
    free = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False)
    return None if free.returncode == 0 else f"no loop device: {free.stderr.strip()}"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
