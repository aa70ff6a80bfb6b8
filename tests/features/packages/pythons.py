"""The Python interpreters of this machine: on the path, and of pyenv."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


def python(version: str) -> str:
    """The interpreter of this version; the test is skipped if it is not installed."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = [str(path) for path in sorted(_PYENV.glob(f"{version}.*/bin/python"))]
    on_path = shutil.which(f"python{version}")
    if not found and (on_path is None or "/shims/" in on_path):  # pyenv has shims for missing versions too
        pytest.skip(f"Python {version} is not installed")
    return found[-1] if found else str(on_path)
