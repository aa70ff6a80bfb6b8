"""The files of a release, in dist/: `make release`.

Builds sdist and wheel twice, under different conditions, and fails unless both are equal byte for byte. Then writes the
wheels that the image installs (`dist/wheels`), a software bill of materials of them in CycloneDX, and `SHA256SUMS`.
Runs in an environment with the packages of `scripts/release-requirements.txt`, which are pinned: the version of
hatchling is part of the wheel.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from email import message_from_string
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("src", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", ".gitignore")
IMAGE_PYTHON = "3.13"
OTHER: Mapping[str, str] = {"TZ": "Pacific/Chatham", "LC_ALL": "C", "PYTHONHASHSEED": "7"}
"""Environment variables of the second build. Its files also have other times, permissions and a longer path."""
VENDORED = ROOT / "src" / "retentive" / "console" / "static" / "vendored.json"
"""List of files in the wheel that other projects wrote, as components of CycloneDX. Missing if there are none."""


def run(*command: str | Path, cwd: Path = ROOT, environment: Mapping[str, str] | None = None) -> str:
    """Run a command and return its output. Raises `SystemExit` with its errors."""
    variables = {**os.environ, **(environment or {})}
    done = subprocess.run(  # noqa: S603 - commands of this script
        [str(each) for each in command], cwd=cwd, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed\n{done.stdout}{done.stderr}")
    return done.stdout


def build(sources: Path, folder: Path, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Build sdist and wheel into a new folder. Returns the SHA-256 of each file."""
    variables = {"SOURCE_DATE_EPOCH": "1580601600", **(environment or {})}  # hatchling's own default, so ours always
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, sources, environment=variables)
    return digests(folder)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file below a folder, by its path in the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def disguised(folder: Path) -> Path:
    """Copy of the sources with other times and permissions, at a longer path."""
    copy = folder / "a longer path, with spaces" / "checkout"
    for name in SOURCES:
        source, target = ROOT / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
    for path in copy.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return copy


def build_twice(folder: Path) -> dict[str, str]:
    """Build into `folder`, and again under other conditions. Raises `SystemExit` if a byte differs."""
    with tempfile.TemporaryDirectory() as temporary:
        first = build(ROOT, Path(temporary) / "first")
        second = build(disguised(Path(temporary)), Path(temporary) / "second", OTHER)
        if first != second:
            raise SystemExit(f"two builds differ:\n{first}\n{second}")
        folder.mkdir(parents=True, exist_ok=True)
        for name in first:
            shutil.copyfile(Path(temporary) / "first" / name, folder / name)
    return first


def image_extras() -> str:
    """The extras that the image installs, as `crypto,server`."""
    (found,) = re.findall(r'"retentive\[([a-z,-]+)\]"', (ROOT / "deploy" / "Containerfile").read_text("utf-8"))
    return str(found)


def collect_wheels(wheel: Path, folder: Path, python: str) -> None:
    """Download the wheels of the image into `folder`: retentive, its dependencies, and nothing to compile."""
    shutil.rmtree(folder, ignore_errors=True)
    glibc = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
    platforms = [part for each in glibc for part in ("--platform", each)]
    options = ("--quiet", "--only-binary=:all:", "--python-version", python, *platforms, "--dest", str(folder))
    run(sys.executable, "-m", "pip", "download", *options, f"{wheel}[{image_extras()}]")


def declared_license(metadata: Path) -> tuple[str, str] | None:
    """Name of the package and the license that its metadata names in its own words."""
    found = message_from_string(metadata.read_text("utf-8"))
    return (found["Name"], found["License"]) if found["License"] else None


def bill_of_materials(wheels: Path, target: Path) -> None:
    """Write the components of `wheels`, and the files in our wheel that other projects wrote, as CycloneDX 1.6."""
    with tempfile.TemporaryDirectory() as temporary:
        venv, written = Path(temporary) / "venv", Path(temporary) / "bom.json"
        run(sys.executable, "-m", "venv", "--without-pip", venv)
        (site,) = venv.glob("lib/python*/site-packages")
        for wheel in sorted(wheels.glob("*.whl")):
            shutil.unpack_archive(wheel, site, "zip")
        command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--mc-type", "library"]
        command += ["--pyproject", str(ROOT / "pyproject.toml"), "--spec-version", "1.6", "--output-file", str(written)]
        run(*command, venv)
        bom: dict[str, Any] = json.loads(written.read_text("utf-8"))
        declared = dict(filter(None, map(declared_license, site.glob("*.dist-info/METADATA"))))
    for component in bom["components"]:
        if not component.get("licenses") and component["name"] in declared:  # a license without an SPDX name
            component["licenses"] = [{"license": {"name": declared[component["name"]]}}]
    bom["components"] += json.loads(VENDORED.read_text("utf-8")) if VENDORED.exists() else []
    target.write_text(json.dumps(bom, indent=2, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the release and print the digest of each file."""
    parser = argparse.ArgumentParser(description="Build the files of a release.")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where to write them (default: dist)")
    parser.add_argument("--image-python", default=IMAGE_PYTHON, help=f"Python of the image (default: {IMAGE_PYTHON})")
    options = parser.parse_args(arguments)
    folder: Path = options.folder
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    built = build_twice(folder)
    print(f"two builds are equal: {', '.join(built)}")
    collect_wheels(folder / f"retentive-{version}-py3-none-any.whl", folder / "wheels", options.image_python)
    bill_of_materials(folder / "wheels", folder / f"retentive-{version}.cdx.json")
    (folder / "SHA256SUMS").unlink(missing_ok=True)
    lines = [f"{digest}  {name}\n" for name, digest in digests(folder).items()]
    (folder / "SHA256SUMS").write_text("".join(lines), "ascii")
    print("".join(line for line in lines if "/" not in line), end="")


if __name__ == "__main__":
    main()
