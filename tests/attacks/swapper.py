"""Swaps a directory or file with a link in a loop: `python -m attacks.swapper PATH OUTSIDE ASIDE SECONDS`.

The swaps alternate between an atomic exchange of names and two renames with a gap between them. The program prints
`ready` to stdout. When it ends, the original directory or file is back at PATH, and no link remains.
"""

from __future__ import annotations

import os
import random
import select
import shutil
import sys
from contextlib import suppress

from retentive.storage.disk import exchange


def main(directory: str, outside: str, aside: str) -> None:
    """Swap PATH and the link until SECONDS have passed."""
    rng = random.Random(directory)
    above, name = os.path.split(directory)
    there = os.open(aside, os.O_RDONLY)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        with suppress(OSError):  # a command removed the empty parent directory
            here = os.open(above, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                _swap(name, here, outside, there, rng.randrange(200))
            finally:
                os.close(here)
        if os.path.isdir(f"{aside}/real"):  # a command recreated it
            shutil.rmtree(f"{aside}/real")
        elif os.path.exists(f"{aside}/real"):
            os.unlink(f"{aside}/real")


def _swap(name: str, here: int, outside: str, there: int, yields: int) -> None:
    os.symlink(outside, "link", dir_fd=there)
    with suppress(OSError):
        if exchange("link", there, name, here):
            for _ in range(yields):
                os.sched_yield()
            exchange("link", there, name, here)
    os.unlink("link", dir_fd=there)
    with suppress(OSError):
        os.rename(name, "real", src_dir_fd=here, dst_dir_fd=there)
        os.symlink(outside, name, dir_fd=here)
        os.unlink(name, dir_fd=here)
    with suppress(OSError):
        os.rename("real", name, src_dir_fd=there, dst_dir_fd=here)


if __name__ == "__main__":
    main(*sys.argv[1:])
