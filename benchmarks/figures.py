"""Shared parts of the benchmark scripts: statistics, environment, tables, JSON and common options."""

from __future__ import annotations

import argparse
import fcntl
import importlib.metadata
import json
import math
import os
import platform
import re
import sqlite3
import statistics
import struct
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PREFIX = ".benchmark-"
# linux/fs.h, for the 64-bit `long` it is declared with
FS_IOC_GETFLAGS = 0x80086601
FS_IOC_SETFLAGS = 0x40086602
FS_TOPDIR_FL = 0x00020000
_TARGET = re.compile(r"bar\b|at most\b|p99 <=")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Statistics of repeated measurements: times in milliseconds, the rate in calls per second."""

    calls: int
    median_ms: float
    p99_ms: float
    per_second: float


def figures(times_ns: Sequence[int], *, span_ns: int | None = None) -> Figures:
    """Statistics of single times. `span_ns` is the elapsed time if the calls ran concurrently."""
    ordered = sorted(times_ns)
    rank = math.ceil(0.99 * len(ordered)) - 1
    return Figures(
        calls=len(ordered),
        median_ms=statistics.median(ordered) / 1e6,
        p99_ms=ordered[rank] / 1e6,
        per_second=len(ordered) * 1e9 / (span_ns or sum(ordered)),
    )


def judged(value: float, bar: float | None, *, at_most: bool = False) -> str:
    """`met` or `short`; empty without a bar."""
    if bar is None:
        return ""
    return "met" if (value <= bar if at_most else value >= bar) else "short"


def duration(ms: float) -> str:
    """Duration with three or four digits in a suitable unit."""
    if ms < 1:
        return f"{ms * 1000:.0f} µs"
    return f"{ms:.2f} ms" if ms < 100 else f"{ms:,.0f} ms"


def rate(per_second: float) -> str:
    """Rate with its significant digits."""
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2f}"


@dataclass(frozen=True)
class Sheet:
    """Table of results: a heading, rows of formatted cells, and the records behind them."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    records: Sequence[dict[str, object]]

    def show(self) -> None:
        """Print the table with borders on a terminal, as aligned text in a pipe."""
        console = Console()
        if console.is_terminal:
            table = Table(title=self.title, title_justify="left")
            for position, name in enumerate(self.columns):
                table.add_column(name, justify="left" if position < 2 else "right", no_wrap=True)
            for row in self.rows:
                table.add_row(*row)
            console.print(table)
            return
        lines = [self.columns, *self.rows]
        widths = [max(len(line[at]) for line in lines) for at in range(len(self.columns))]
        print(self.title)
        for line in lines:
            cells = [
                cell.ljust(width) if at < 2 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            print("  ".join(cells).rstrip())

    def markdown(self) -> str:
        """Table in Markdown, without the columns that compare with a target."""
        kept = [at for at, name in enumerate(self.columns) if at < 2 or not (name == "" or _TARGET.match(name))]
        marks = [":--" if at < 2 else "--:" for at in range(len(self.columns))]
        lines = [self.columns, marks, *self.rows]
        return "\n".join(f"| {' | '.join(line[at] for at in kept)} |" for line in lines)


def file_system(path: Path) -> str:
    """File system type of a path, such as `ext4`, or `unknown` if the system does not report it."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    best, kind = "", "unknown"
    real = path.resolve()
    for line in mounts:
        _, point, found, *_ = line.split(" ")
        if len(point) >= len(best) and real.is_relative_to(point):
            best, kind = point, found
    return kind


def surroundings(where: Path) -> dict[str, object]:
    """Date, machine and versions of a run."""
    return {
        "when": datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "file_system": file_system(where),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "anthropic": importlib.metadata.version("anthropic"),
        "retentive": importlib.metadata.version("retentive"),
    }


@contextmanager
def workplace(parent: Path) -> Iterator[Path]:
    """Folder below `parent` for one run, deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True) as made:
        _spread(Path(made))
        yield Path(made)


def own_folder(place: Path, name: str) -> Path:
    """A new folder of the workplace: of several in different parts of the disk the one where files are made fastest.

    ext4 does not reuse an inode within minutes of its deletion and looks past each such inode when it makes a
    file. Where much was deleted, by another tool or by the run before, making a file takes 0.6 ms and not 0.03: the
    same tool, measured thrice in one run, differed by half.
    """
    tried = [place / f"{name}-{attempt}-{place.name.removeprefix(PREFIX)}" for attempt in range(8)]
    for folder in tried:
        folder.mkdir()
    return min(tried, key=_making_files_ns)


def _making_files_ns(folder: Path) -> int:
    probe = folder / "probe"
    probe.mkdir()
    start = perf_counter_ns()
    for number in range(20):
        (probe / str(number)).touch()
    return perf_counter_ns() - start


def _spread(folder: Path) -> None:
    """Ask ext4 to place each folder below this one in its own block group, chosen by its name."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, FS_IOC_GETFLAGS, struct.pack("l", 0)))
            fcntl.ioctl(descriptor, FS_IOC_SETFLAGS, struct.pack("l", flags | FS_TOPDIR_FL))
        finally:
            os.close(descriptor)


@contextmanager
def steps(total: int, what: str) -> Iterator[Callable[[str], None]]:
    """Progress bar on a terminal, nothing elsewhere. Yields a function to call with the name of each step."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)

        def step(name: str) -> None:
            progress.update(task, advance=1, description=name)

        yield step


def parser(text: str | None) -> argparse.ArgumentParser:
    """Parser with the common options."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--dir",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="measure in a new folder below this one, removed afterwards (default: the working directory)",
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    size = made.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", help="a shorter run")
    size.add_argument(
        "--tiny",
        dest="size",
        action="store_const",
        const="tiny",
        help="only see whether everything still runs",
    )
    made.set_defaults(size="full")
    return made


def announce(around: dict[str, object]) -> None:
    """Print the environment, with a warning if it makes the figures unreliable."""
    print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in around.items()))
    if around["file_system"] in {"tmpfs", "ramfs"}:
        print(
            "Warning: this file system lives in memory, where nothing has to be made durable.",
            file=sys.stderr,
        )


def write_json(path: Path, name: str, size: str, around: dict[str, object], sheets: Sequence[Sheet]) -> None:
    """Write a run to a file: its environment, records and formatted tables."""
    whole = {"benchmark": name, "size": size, "on": around, "sheets": [asdict(sheet) for sheet in sheets]}
    path.write_text(json.dumps(whole, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
