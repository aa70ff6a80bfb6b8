"""The Python interpreters of this machine: on the path, in pyenv, and in .cache/python."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from support.pages import ROOT

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
_NEWEST = ROOT / ".cache" / "python" / "usr" / "bin"


def python(version: str) -> str:
    """Return the interpreter of this version. The test is skipped if it is not installed."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = [str(path) for path in sorted(_PYENV.glob(f"{version}.*/bin/python"))]
    found += [str(path) for path in _NEWEST.glob(f"python{version}")]
    on_path = shutil.which(f"python{version}")
    if not found and (on_path is None or "/shims/" in on_path):  # a shim may have no version
        pytest.skip(f"Python {version} is not installed")
    return found[-1] if found else str(on_path)
