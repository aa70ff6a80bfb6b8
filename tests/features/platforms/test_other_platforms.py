"""Without what only POSIX or only Linux has, memories work as far as docs/platforms.md says, and the rest is refused.

The tests run in a Python without the modules and functions that Windows or macOS lack. This finds imports and calls
that would fail there. It shows nothing of their kernels and file systems.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from support.pages import ROOT

pytestmark = [pytest.mark.long, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="takes from Linux")]
SAMPLE = (
    "tests/contract/backends/test_smoke.py",
    "tests/contract/backends/test_suites.py::TestSqlite",
    "tests/contract/backends/test_suites.py::TestSqliteInMemory",
    "tests/contract/backends/test_suites.py::TestDirectory",
    "tests/contract/backends/test_suites.py::TestObjectsInMemory",
    "tests/features/history/test_pages.py",
    "tests/features/platforms/refusals.py",
)
LEAST = 130
"""Tests that pass at least: an empty selection would pass too."""
LEFT_OUT = {"windows": "not directory and not Directory", "macos": "not (TestDirectory and of_a_model)"}
"""On Windows there is no directory of memories. On macOS it cannot have both `A` and `a/b`, as the models do."""


@pytest.mark.parametrize("platform", sorted(LEFT_OUT))
def test_the_sample_passes_without_what_the_platform_lacks(platform: str) -> None:
    """All backends but the directory on both, bare and encrypted; on macOS a directory too."""
    paths = [str(ROOT / "src"), str(ROOT), str(ROOT / "tests")]
    environment = {**os.environ, "RETENTIVE_PLATFORM": platform, "PYTHONPATH": os.pathsep.join(paths)}
    environment |= {"RETENTIVE_PROFILE": "quick", "USERNAME": "ann"}
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    options = ("-q", "-p", "support.other_platforms", "-p", "no:xdist", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-k", LEFT_OUT[platform], *SAMPLE],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) >= LEAST
