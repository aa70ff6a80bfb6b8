"""The long checks, by name: `make check NAME=sample`, or this file with names. All run in .venv; `frameworks` and
`release` need other versions of packages, which they keep below it.

sample         what CI runs after `make test`: the cases of the same tests that it leaves out, and a third of the cases
               of all other tests of the long profile, with faults and histories
long, full     all tests with all backends, more rounds and longer histories: some 20 minutes, and some hours
drill          lose a server with everything on it, restore a backup, and go on with the same API keys
frameworks     the integrations with Google ADK and Strands, which need older packages than the other frameworks do
audit          bandit over the code, and pip-audit of the packages, which needs the network: without it, it says so
clusters       Galera, Patroni and Ceph, of Debian's packages mariadb-server, galera-4 and rsync; postgresql, patroni,
               python3-etcd and etcd-server; radosgw, ceph-mon, ceph-osd and ceph-common
image          the image of the server, built without network; needs root, buildah and debootstrap
file-systems   a directory on ext4, XFS, Btrfs, exFAT, tmpfs and overlays; needs root, loop devices, xfsprogs,
               btrfs-progs, exfat-fuse and exfatprogs
extras         each extra alone in an environment of its own, on this Python and on 3.14
lowest         the same with the lowest versions that pyproject.toml allows
packages       the files of a release: equal builds, offline installation, each Python that is installed, and what
               Windows and macOS lack
newest-python  the newest Python of Debian, in .cache/python, for extras and packages; needs root, debootstrap and
               patchelf
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTEST = [sys.executable, "-m", "pytest"]
ADK = ["src/retentive/integrations/adk.py", "src/retentive/integrations/strands.py", "tests/frameworks"]
SELECTIONS = {
    "drill": ("tests/features/server/test_drill.py",),
    "clusters": ("-m", "clusters"),
    "image": ("-m", "environments", "tests/environments/test_image.py"),
    "file-systems": ("-m", "environments", "tests/environments/test_file_systems.py"),
    "extras": ("-m", "environments", "tests/environments/test_extras.py", "-k", "not lowest"),
    "lowest": ("-m", "environments", "tests/environments/test_extras.py", "-k", "lowest or every_extra"),
    "packages": ("-m", "not clusters", "tests/features/packages", "tests/features/platforms"),
}
QUICK = ROOT / ".venv" / ".quick-tests"


def run(*command: str | Path, **environment: str) -> None:
    """Run a command in the root of the project. Ends this process if it fails."""
    done = subprocess.run(list(map(str, command)), cwd=ROOT, env=os.environ | environment, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(done.returncode)


def tests(*arguments: str | Path, **environment: str) -> None:
    """Run tests with three processes: in the longer profiles, each has larger stores than in `make test`."""
    run(*PYTEST, "-n", "3", "--dist", "worksteal", "--durations=20", *arguments, **environment)


def environment_of(name: str, *packages: str) -> Path:
    """A virtual environment beside that of the project, with packages. Returns its Python."""
    home = ROOT / ".venv" / f".{name}"
    python, wanted = home / "bin" / "python", home / "installed"
    if not wanted.exists() or wanted.read_text() != "\n".join(packages):
        run(sys.executable, "-m", "venv", home)
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
        wanted.write_text("\n".join(packages))
    return python


def check(name: str) -> None:
    """Run one check."""
    if name in SELECTIONS:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where uv is
        tests(*SELECTIONS[name], PATH=path, RETENTIVE_PROFILE="long" if name == "packages" else "quick")
    elif name == "sample":
        listed = subprocess.run(  # noqa: S603
            [*PYTEST, "--collect-only", "--quiet"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        QUICK.write_text(listed.stdout)
        tests(f"--after={QUICK}", RETENTIVE_PROFILE="long")
    elif name in {"long", "full"}:
        tests(RETENTIVE_PROFILE=name)
    elif name == "frameworks":
        python = environment_of("frameworks", "--requirement", "tests/frameworks/requirements.txt", "--editable", ".")
        run(python, "-m", "pytest", "tests/frameworks")
        run(python, "-m", "mypy", "--cache-dir", ".venv/.frameworks/.mypy_cache", *ADK)
    elif name == "audit":
        run(sys.executable, "-m", "bandit", "--quiet", "--configfile", "pyproject.toml", "--recursive", "src")
        run(sys.executable, "scripts/audit_packages.py")
    elif name == "release":
        python = environment_of("release", "--no-deps", "--requirement", "scripts/release-requirements.txt")
        run(python, "scripts/release.py")
    elif name == "newest-python":
        run("tests/environments/newest-python.sh")
    else:
        sys.exit(f"there is no check {name}\n\n{__doc__}")


if __name__ == "__main__":
    for given in sys.argv[1:] or [""]:
        check(given)
