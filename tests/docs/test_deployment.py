"""The units of systemd and the files in examples/deploy are valid, and their commands do what they say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import retentive
from support.pages import ROOT

DEPLOY = ROOT / "examples" / "deploy"
UNITS = sorted(
    unit
    for folder in (DEPLOY, ROOT / "deploy")
    for unit in folder.iterdir()
    if unit.suffix in {".service", ".timer"} and unit.name != "retentive.service"
)
UNIT = {unit.name: unit for unit in UNITS}
BIN = Path(sys.executable).parent
INSTALLED = "/opt/retentive/bin"


def values(unit: str, key: str) -> list[str]:
    """Return the values of a key of a unit file, in order."""
    lines = UNIT[unit].read_text("utf-8").splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]


def run_service(unit: str, place: str, state: Path) -> list[str]:
    """Run the commands of a oneshot service like systemd, and return their output."""
    printed = []
    specifiers = {"%%": "%", "%S": str(state)}
    key = "/etc/retentive/anchor.key"
    for command in values(unit, "ExecStart") + values(unit, "ExecStartPost"):
        expanded = re.sub("%.", lambda found: specifiers[found[0]], command.replace(INSTALLED, str(BIN)))
        expanded = expanded.replace(key, str(state / "anchor.key"))
        environment = {"PATH": os.environ["PATH"], "RETENTIVE_AT": place}
        done = subprocess.run(shlex.split(expanded), env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), command
        printed.append(done.stdout)
    return printed


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """No warning about an unknown key or value, a missing program or a missing service of a timer."""
    for unit in UNITS:
        (tmp_path / unit.name).write_text(unit.read_text("utf-8").replace(INSTALLED, str(BIN)), "utf-8")
    command = ["systemd-analyze", "verify", *[str(tmp_path / unit.name) for unit in UNITS]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", [unit.name for unit in UNITS if unit.suffix == ".service"])
def test_no_service_runs_as_root(unit: str) -> None:
    assert values(unit, "User") == ["retentive"]
    assert "yes" in values(unit, "NoNewPrivileges")


@pytest.mark.parametrize("timer", [unit.name for unit in UNITS if unit.suffix == ".timer"])
def test_every_timer_has_its_service(timer: str) -> None:
    assert UNIT[timer].with_suffix(".service").is_file()


def test_the_commands_of_the_services_work(tmp_path: Path) -> None:
    """Maintenance reaches each store, the backup can be restored, and each audit log is anchored."""
    place = f"sqlite:///{tmp_path / 'memory.db'}"
    key = tmp_path / "anchor.key"
    subprocess.run([BIN / "retentive", "admin", "audit", "key", key], check=True, capture_output=True)
    for name in ("ann", "ben"):
        with retentive.open(place) as opened:
            store = opened.store(f"user-{name}")
            store.change_settings({"audit": True})
            store.create("/memories/notes.md", f"about {name}\n")
    assert run_service("retentive-maintain.service", place, tmp_path)[0].startswith("2 memory stores: 0 memories")

    backups, anchors = tmp_path / "retentive" / "backups", tmp_path / "retentive" / "anchors"
    for folder in (backups, anchors):
        folder.mkdir(parents=True)
    run_service("retentive-backup.service", place, tmp_path)
    (saved,) = backups.iterdir()
    restored = f"sqlite:///{tmp_path / 'restored.db'}"
    subprocess.run(
        [BIN / "retentive", "--at", restored, "admin", "restore-backup", saved], check=True, capture_output=True
    )
    with retentive.open(restored) as opened:
        assert opened.store("user-ben").read("/memories/notes.md") == "about ben\n"

    assert "Anchored the head" in run_service("retentive-anchor.service", place, tmp_path)[0]
    with retentive.open(place) as opened:
        for info in opened.stores():
            found = opened.store(info.id).audit.verify(anchor=str(anchors / f"{info.id}.anchors"), key=str(key))
            assert found.is_sound


def test_the_image_is_made_from_files_that_exist() -> None:
    """The sources, extras and Python version match the project, and the service does not run as root."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text("utf-8"))
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    for source in (name for step, rest in steps if step == "COPY" for name in rest.split()[:-1]):
        assert (ROOT / source).exists(), source
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (extras,) = re.findall(r'"\.\[([a-z,]+)\]"', text)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (version,) = re.findall(r"python:3\.(\d+)", text)
    assert f"Programming Language :: Python :: 3.{version}" in project["classifiers"]
    order = [step for step, _ in steps]
    assert order.index("USER") > max(place for place, step in enumerate(order) if step == "RUN")
    assert "web_service:app" in dict(steps)["CMD"]
