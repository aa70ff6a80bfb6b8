"""The fault library counts the calls of SQLite and Python, and injects its faults at the given call."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .injector import FAULTS, build, parse_log, why_not

TESTS = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

SQLITE = """
import sqlite3
with sqlite3.connect(root / "a.db", isolation_level=None) as db:
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE t (x)")
"""
FILES = """
import os
os.mkdir(root / "d")
at = os.open(root / "d", os.O_RDONLY)
fd = os.open("a", os.O_WRONLY | os.O_CREAT, dir_fd=at)
written = os.write(fd, b"12345678")
written += os.write(fd, b"12345678"[written:])
os.fsync(fd)
os.close(fd)
os.rename("a", "b", src_dir_fd=at, dst_dir_fd=at)
os.unlink("b", dir_fd=at)
os.rmdir(root / "d")
open(os.path.join(str(root) + "-beside"), "w").close()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"))


def under(library: Path, place: Path, body: str, fault: str = "count", number: int = 0) -> tuple[str, str, int]:
    """Run a short Python program with a fault armed, and return the log, stderr and the return code."""
    log = place / "log"
    root = place / "root"
    root.mkdir()
    program = f"""
import os, pathlib
from faults.process.injector import Injector
root = pathlib.Path({str(root)!r})
log = os.open({str(log)!r}, os.O_WRONLY | os.O_CREAT)
Injector().arm(root, fault={fault!r}, number={number}, log_fd=log)
{body}
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=TESTS,
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    return log.read_text(), done.stderr, done.returncode


def test_the_calls_of_sqlite_are_counted(library: Path, tmp_path: Path) -> None:
    """Writes, syncs and locks are counted. This needs a Python whose sqlite3 is linked to a shared SQLite."""
    log, stderr, code = under(library, tmp_path, SQLITE)
    assert (stderr, code) == ("", 0)
    calls = parse_log(log)
    assert {"w", "m", "s", "l", "x", "r"} <= {call.kind for call in calls}
    assert any("sync" in call.name and call.path == "/a.db-wal" for call in calls)
    assert [call.number for call in calls] == list(range(1, len(calls) + 1))


def test_the_calls_of_python_are_counted(library: Path, tmp_path: Path) -> None:
    """Calls relative to a directory descriptor are counted too. Calls on a path that only shares the prefix are not."""
    log, stderr, code = under(library, tmp_path, FILES)
    assert (stderr, code) == ("", 0)
    changes = [f"{call.kind} {call.path}" for call in parse_log(log) if call.kind not in "rx"]
    assert changes == ["m /d", "m /d/a", "w /d/a", "w /d/a", "s /d/a", "m /d/b", "c /d/b", "c /d"]


@pytest.mark.parametrize("fault", FAULTS[1:])
def test_every_fault_is_injected(library: Path, tmp_path: Path, fault: str) -> None:
    """The fault is injected at the first write or, if it is a fault of syncs, at the sync."""
    kind = "s" if fault == "sync_eio_from" else "w"
    (tmp_path / "count").mkdir()
    log, _, _ = under(library, tmp_path / "count", FILES)
    number = next(call.number for call in parse_log(log) if call.kind == kind)
    (tmp_path / "strike").mkdir()
    _, stderr, code = under(library, tmp_path / "strike", FILES, fault, number)
    match fault:
        case "kill_before" | "kill_after":
            assert code == -9
            written = (tmp_path / "strike/root/d/a").stat().st_size
            assert written == (8 if fault == "kill_after" else 0)
        case "short":
            assert (stderr, code) == ("", 0)
        case _:
            assert code == 1
            assert f"[Errno {28 if 'enospc' in fault else 5}]" in stderr
