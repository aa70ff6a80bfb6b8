"""The wheel and the sdist are complete, and the installed wheel runs the first example of the README."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from retentive.testing.scripted_claude import scripted_claude
from support.outward import outward
from support.pages import ROOT, blocks
from support.printed import assert_prints
from support.scripts import SCRIPTS

from .pythons import VERSIONS, python

pytestmark = pytest.mark.long
INSTALL_S = 600
ALONE = """
import retentive
with retentive.open("sqlite:///m.db") as opened:
    print(opened.store().execute({"command": "view", "path": "/memories"}).text)
"""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=outward(), capture_output=True, text=True, timeout=INSTALL_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sdist, and with the wheel built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def test_the_wheel_contains_the_package_and_nothing_else(wheel: Path) -> None:
    """The wheel contains all modules, the tables and py.typed, but no tests."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    there = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert names == {str(path.relative_to(ROOT / "src")) for path in there}
    assert "retentive/py.typed" in names
    assert "retentive/storage/sql/schema.sql" in names


def test_the_sdist_contains_the_sources_of_a_wheel(built: Path) -> None:
    """The sdist contains sources, README, license and changelog, but no stray file of a checkout."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [Path(name).parts[1:] for name in archive.getnames()]
    assert {parts[0] for parts in names} == {
        "src", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore",
    }  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_the_first_example_runs_with_only_the_wheel_installed(version: str, wheel: Path, tmp_path: Path) -> None:
    """The wheel is installed first without extras and then with the extra that the example needs."""
    run(python(version), "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    programs = tmp_path / "venv" / "bin"
    pip = (sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet")
    run(*pip, wheel, cwd=tmp_path)
    assert run(programs / "retentive", "--version", cwd=tmp_path).startswith("retentive")
    said = run(programs / "python", "-W", "error", "-c", ALONE, cwd=tmp_path)
    assert said.endswith("0B\t/memories\n")
    run(*pip, f"{wheel}[anthropic]", cwd=tmp_path)
    program, session = blocks(ROOT / "README.md")[:2]
    assert program.file_name is not None
    (tmp_path / program.file_name).write_text(program.body, "utf-8")
    with scripted_claude(*SCRIPTS) as claude:
        for command, printed in session.commands:
            assert_prints(f"PATH={programs}:$PATH; {command}", printed, tmp_path, claude.url, f"Python {version}")
        assert claude.failures == []
