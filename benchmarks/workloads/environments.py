"""Environments of the peers: one for each, made once in the user's cache directory from the package registries."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workloads.adapters.base import System

INSTALL_S = 900
DONE = "installed"


class Unavailable(Exception):
    """A peer cannot run here; the message says why."""


def cache() -> Path:
    """Folder of all environments."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "retentive-benchmarks"


def interpreter(system: System) -> str:
    """Python that runs the worker of a system. Installs the system at the first use. Raises `Unavailable`."""
    if system.npm:
        _install_npm(system)
    if not system.packages:
        return sys.executable
    home = cache() / system.adapter
    python = home / "bin" / "python"
    if not (home / DONE).exists():
        shutil.rmtree(home, ignore_errors=True)
        _run(system, [_base_python(system.python), "-m", "venv", str(home)])
        _run(system, [str(python), "-m", "pip", "install", "--quiet", *system.packages])
        (home / DONE).touch()
    return str(python)


def version(system: System) -> str:
    """Installed version of a system; empty if it is not installed."""
    if system.npm:
        manifest = npm_folder(system.adapter) / "node_modules" / system.npm[0] / "package.json"
        return str(json.loads(manifest.read_text(encoding="utf-8"))["version"]) if manifest.exists() else ""
    name = re.split("[<>=\\[]", system.packages[0])[0] if system.packages else system.distribution
    places = sys.path if not system.packages else map(str, (cache() / system.adapter).glob("lib/python*/site-packages"))
    return next((each.version for each in importlib.metadata.distributions(name=name, path=list(places))), "")


def npm_folder(adapter: str) -> Path:
    """Folder with the `node_modules` of a system."""
    return cache() / f"{adapter}-npm"


def _install_npm(system: System) -> None:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise Unavailable(f"{program} is not installed")
    home = npm_folder(system.adapter)
    if not (home / DONE).exists():
        home.mkdir(parents=True, exist_ok=True)
        _run(system, ["npm", "install", "--silent", "--no-save", "--prefix", str(home), *system.npm])
        (home / DONE).touch()


def _base_python(least: tuple[int, int]) -> str:
    if sys.version_info[:2] >= least:
        return sys.executable
    for found in _pythons(least):
        try:
            subprocess.run([found, "-c", "import venv"], check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.SubprocessError):
            continue  # pyenv has shims for versions that are not active
        return found
    raise Unavailable(f"needs Python {least[0]}.{least[1]} or newer, and none was found")


def _pythons(least: tuple[int, int]) -> Iterator[str]:
    for minor in range(least[1], least[1] + 4):
        name = f"python{least[0]}.{minor}"
        if found := shutil.which(name):
            yield found
        yield from map(str, sorted(Path.home().glob(f".pyenv/versions/{least[0]}.{minor}.*/bin/{name}")))


def _run(system: System, command: list[str]) -> None:
    print(f"{system.name}: {' '.join(command[1:])}", file=sys.stderr)
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"not installed within {INSTALL_S} s") from None
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or ["no message"]
        raise Unavailable(f"does not install: {next((line for line in lines if 'ERROR' in line), lines[-1])[:200]}")
