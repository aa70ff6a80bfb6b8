"""`make release`: equal builds, checksums, a bill of materials, and wheels that install without network.

It is one test, since otherwise each process that runs one makes a release, which takes more than a minute.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.outward import outward
from support.pages import ROOT

pytestmark = pytest.mark.environments
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
INSTALL_S = 600


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=outward(), capture_output=True, text=True, timeout=INSTALL_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(folder: Path, *options: str) -> Path:
    """Interpreter of a new, empty environment."""
    run(sys.executable, "-m", "venv", *options, folder, cwd=folder.parent)
    return folder / "bin" / "python"


def test_a_release(tmp_path: Path) -> None:
    """The script builds sdist and wheel twice, and fails if they differ."""
    python = environment(tmp_path / "tools")
    requirements = ROOT / "scripts" / "release-requirements.txt"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", requirements, cwd=tmp_path)
    script = ROOT / "scripts" / "release.py"
    said = run(python, script, "--folder", tmp_path / "dist", "--image-python", PYTHON, cwd=tmp_path)
    assert said.startswith("two builds are equal: retentive-")
    check_checksums(tmp_path / "dist")
    check_bill_of_materials(tmp_path / "dist")
    check_installation(tmp_path / "dist", tmp_path)


def check_checksums(release: Path) -> None:
    lines = (release / "SHA256SUMS").read_text("ascii").splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = [path for path in release.rglob("*") if path.is_file() and path.name != "SHA256SUMS"]
    assert listed == {
        path.relative_to(release).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }
    assert {Path(name).suffix for name in listed} == {".whl", ".gz", ".json"}


def check_bill_of_materials(release: Path) -> None:
    """It names each wheel with its license."""
    (bom,) = release.glob("*.cdx.json")
    found = json.loads(bom.read_text("utf-8"))
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["component"]["name"] == "retentive"
    components = {re.sub("[-.]", "_", each["name"].lower()): each for each in found["components"]}
    wheels = {path.name.split("-")[0].lower() for path in (release / "wheels").glob("*.whl")}
    assert wheels - {"retentive"} <= set(components)
    assert [name for name in sorted(wheels - {"retentive"}) if not components[name].get("licenses")] == []


def check_installation(release: Path, tmp_path: Path) -> None:
    """The wheels install without an index, as in the image. The sdist installs by itself."""
    (sdist,) = release.glob("*.tar.gz")
    extras = "crypto,guards,mariadb,mcp,objects,postgres,server"
    assert f"retentive[{extras}]" in (ROOT / "deploy" / "Containerfile").read_text("utf-8")
    offline = ("--no-index", "--find-links", release / "wheels", f"retentive[{extras}]")
    for name, what in {"wheels": offline, "sdist": (sdist,)}.items():
        python = environment(tmp_path / name, "--without-pip")
        pip = (sys.executable, "-m", "pip", "--python", python)
        run(*pip, "install", "--quiet", *what, cwd=tmp_path)
        assert run(python.with_name("retentive"), "--version", cwd=tmp_path).startswith("retentive")
        run(
            python.with_name("retentive"), "--at", f"sqlite:///{name}.db", "create", "/memories/a.md", "x", cwd=tmp_path
        )
        run(*pip, "check", cwd=tmp_path)
    for console in ("retentive.server.serve", "retentive.console.web", "retentive.mcp.service"):
        run(tmp_path / "wheels" / "bin" / "python", "-W", "error", "-c", f"import {console}", cwd=tmp_path)
