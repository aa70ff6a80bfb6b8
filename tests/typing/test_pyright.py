"""Users check their programs with pyright too, which judges protocols in another way than mypy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.profiles import REQUIRED

PYRIGHT = Path(os.environ.get("RETENTIVE_PYRIGHT", ".cache/pyright")) / "node_modules/pyright/index.js"


@pytest.mark.long
@pytest.mark.skipif(not PYRIGHT.exists() and not REQUIRED, reason="pyright is not installed: see .ci/run")
def test_pyright_accepts_what_users_write(tmp_path: Path) -> None:
    """In the mode `basic`. An error that is marked as expected in the file must be one."""
    settings = {
        "include": ["library.py"],
        "typeCheckingMode": "basic",
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    shutil.copy(Path(__file__).with_name("library.py"), tmp_path)  # pyright checks only what lies below its settings
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["node", str(PYRIGHT), "--project", str(tmp_path), "--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "0 errors, 0 warnings" in done.stdout
