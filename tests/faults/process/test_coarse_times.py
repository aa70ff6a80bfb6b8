"""A synchronised directory on a file system whose times are whole seconds (ext4 with small inodes)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import retentive
from retentive.sync.session import SyncOptions, opened

from .ext4 import disk, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def test_an_edit_of_equal_size_in_the_same_second_is_synchronised(tmp_path: Path) -> None:
    """The file has the same size, times and inode as at the synchronisation before."""
    with disk(tmp_path, inode_bytes=128) as hardware, retentive.open("sqlite://") as place:
        path, options = hardware.mount_point / "notes" / "a.md", SyncOptions(states=str(tmp_path / "states"))
        path.parent.mkdir()

        def sync() -> None:
            with opened(place.store(), str(path.parent), options) as session:
                session.run()

        sync()
        for text in ("aaaa\n", "cccc\n", "eeee\n", "gggg\n"):  # again, if the second ended between the edits
            time.sleep(1.25 - time.time() % 1)  # a file that changed within 0.2 s may be incomplete
            path.write_text(text)
            before = path.stat()
            sync()
            with path.open("r+") as file:
                file.write(text.replace(text[0], chr(ord(text[0]) + 1)))
            after = path.stat()
            sync()
            assert place.store().read("/memories/a.md") == path.read_text()
            if (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns):
                break
        else:
            raise AssertionError("no two edits were made within one second")
