"""Shared parts of the benchmark scripts: options, a folder to work in, statistics, and tables."""

from __future__ import annotations

import argparse
import fcntl
import importlib.metadata
import math
import os
import platform
import sqlite3
import statistics
import struct
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

README = Path(__file__).with_name("README.md")
PREFIX = ".benchmark-"
# linux/fs.h, for the 64-bit `long` it is declared with
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_TOPDIR_FL = 0x80086601, 0x40086602, 0x00020000


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Statistics of repeated measurements: times in milliseconds, the rate in calls per second."""

    median_ms: float
    p99_ms: float
    per_second: float

    @property
    def cells(self) -> tuple[str, str, str]:
        """Rate, median and p99 as the tables show them."""
        return rate(self.per_second), duration(self.median_ms), duration(self.p99_ms)


def figures(times_ns: Sequence[int], *, span_ns: int | None = None) -> Figures:
    """Statistics of single times. `span_ns` is the elapsed time if the calls ran concurrently."""
    ordered = sorted(times_ns)
    return Figures(
        median_ms=statistics.median(ordered) / 1e6,
        p99_ms=ordered[math.ceil(0.99 * len(ordered)) - 1] / 1e6,
        per_second=len(ordered) * 1e9 / (span_ns or sum(ordered)),
    )


def duration(ms: float) -> str:
    """Duration with three or four digits in a suitable unit."""
    if ms < 1:
        return f"{ms * 1000:.0f} µs"
    return f"{ms:.2f} ms" if ms < 100 else f"{ms:,.0f} ms"


def rate(per_second: float) -> str:
    """Rate with its significant digits."""
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2f}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Table in Markdown. The first column has names, the others figures."""
    marks = [":--", *["--:"] * (len(columns) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, marks, *rows))


def parser(text: str | None) -> argparse.ArgumentParser:
    """Parser with the common options."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--dir", type=Path, default=Path(), help="measure in a new folder below this one")
    made.add_argument("--publish", action="store_true", help="put the tables into benchmarks/README.md")
    size = made.add_mutually_exclusive_group()
    for name, what in (("quick", "a shorter run"), ("tiny", "only see whether everything still runs")):
        size.add_argument(f"--{name}", dest="size", action="store_const", const=name, help=what)
    made.set_defaults(size="full")
    return made


def report(chosen: argparse.Namespace, *tables: str) -> None:
    """Print the tables with the conditions of the run. `--publish` puts them into the page, at the script's name."""
    name = Path(sys.argv[0]).stem
    block = "\n\n".join([conditions(chosen.dir), *tables])
    print(block)
    if chosen.publish:
        README.write_text(inserted(README.read_text(encoding="utf-8"), name, block), encoding="utf-8")


def inserted(page: str, name: str, block: str) -> str:
    """The page with a block at the place of a script."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"no place in the page: it lacks {begin} or {end}")
    return f"{before}{begin}{block}\n{end}{after}"


def conditions(where: Path) -> str:
    """Date, machine and versions of a run. In a file system in memory, syncs are free and figures mean little."""
    return (
        f"Measured {datetime.now(tz=UTC):%Y-%m-%d %H:%M} UTC: {platform.system()}, {os.cpu_count()} cores,"
        f" {file_system(where)}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version},"
        f" anthropic {importlib.metadata.version('anthropic')}."
    )


def file_system(path: Path) -> str:
    """File system type of a path, such as `ext4`, or `unknown` if the system does not report it."""
    best, kind = "", "unknown"
    with suppress(OSError):
        for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
            _, point, found, *_ = line.split(" ")
            if len(point) >= len(best) and path.resolve().is_relative_to(point):
                best, kind = point, found
    return kind


@contextmanager
def workplace(parent: Path) -> Iterator[Path]:
    """Folder below `parent` for one run, deleted afterwards. ext4 is asked to spread the folders below it."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True) as made:
        with suppress(OSError):
            descriptor = os.open(made, os.O_RDONLY)
            try:
                (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, FS_IOC_GETFLAGS, struct.pack("l", 0)))
                fcntl.ioctl(descriptor, FS_IOC_SETFLAGS, struct.pack("l", flags | FS_TOPDIR_FL))
            finally:
                os.close(descriptor)
        yield Path(made).resolve()


def own_folder(place: Path, name: str) -> Path:
    """A new folder of the workplace: of several in different parts of the disk the one where files are made fastest.

    ext4 does not reuse an inode within minutes of its deletion and looks past each such inode when it makes a
    file. Where much was deleted, by another tool or by the run before, making a file takes 0.6 ms and not 0.03: the
    same tool, measured thrice in one run, differed by half.
    """

    def making_files_ns(folder: Path) -> int:
        (folder / "probe").mkdir()
        start = perf_counter_ns()
        for number in range(20):
            (folder / "probe" / str(number)).touch()
        return perf_counter_ns() - start

    tried = [place / f"{name}-{attempt}-{place.name.removeprefix(PREFIX)}" for attempt in range(8)]
    for folder in tried:
        folder.mkdir()
    return min(tried, key=making_files_ns)
