"""The image of the server builds without network from the files of a release, and serves. `make check NAME=image`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.outward import outward
from support.pages import ROOT

pytestmark = [
    pytest.mark.environments,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    *(pytest.mark.skipif(shutil.which(name) is None, reason=f"needs {name}") for name in ("buildah", "debootstrap")),
]
SUITE = "bookworm"
ROOT_OF_DEBIAN = os.environ.get("RETENTIVE_DEBIAN_ROOT")
"""A directory with an unpacked Debian that has Python and venv. Without it, debootstrap downloads one."""
MIRROR = "http://deb.debian.org/debian"
SERVES = """
export RETENTIVE_SERVE_INSECURE_NO_TLS=true  # the port is a flag, which the health check must follow
retentive serve --port 9090 &
for _ in $(seq 60); do python3 -m retentive.server.health && break; sleep 1; done
python3 -m retentive.server.health && id -u && kill -TERM $! && wait $!
"""


def run(*command: str | Path) -> str:
    environment = {**outward(), "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture
def debian(tmp_path: Path) -> Path:
    """Directory with a Debian that has Python."""
    if ROOT_OF_DEBIAN:
        return Path(ROOT_OF_DEBIAN)
    run("debootstrap", "--variant=minbase", "--include=python3,python3-venv", SUITE, tmp_path / "root", MIRROR)
    return tmp_path / "root"


@pytest.fixture
def base(debian: Path, tmp_path: Path) -> Iterator[str]:
    """Name of an image of Debian with Python, made without a registry of images."""
    name = "localhost/retentive-test-base"
    run("tar", "-C", debian, "-cf", tmp_path / "root.tar", ".")
    container = run("buildah", "from", "scratch")
    try:
        run("buildah", "add", "--quiet", container, tmp_path / "root.tar", "/")
        run("buildah", "commit", "--quiet", container, name)
        yield name
    finally:
        run("buildah", "rm", container)
        run("buildah", "rmi", "--force", name)


def test_the_image_builds_without_network_and_serves(base: str, debian: Path, tmp_path: Path) -> None:
    run("make", "release")  # the environment of the release
    context = tmp_path / "context"
    (python,) = (debian / "usr" / "bin").glob("python3.*[0-9]")
    run(
        ROOT / ".venv/.release/bin/python",
        "scripts/release.py",
        "--folder",
        context / "dist",
        "--image-python",
        python.name.removeprefix("python"),
    )
    image = "localhost/retentive-test"
    options = ("--quiet", "--network", "none", "--build-arg", f"PYTHON={base}", "--format", "docker")
    run("buildah", "build", *options, "-f", ROOT / "deploy" / "Containerfile", "-t", image, context)
    container = run("buildah", "from", image)
    try:
        assert run("buildah", "run", container, "--", "retentive", "--version").startswith("retentive")
        assert run("buildah", "run", container, "--", "sh", "-c", SERVES).splitlines()[-1] == "10001"
    finally:
        run("buildah", "rm", container)
        run("buildah", "rmi", "--force", image)
