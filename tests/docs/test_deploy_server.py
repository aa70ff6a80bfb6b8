"""The files to deploy are valid, name settings that exist, run without rights that they do not need, and work."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

import retentive
from retentive.cli.server import serve
from retentive.errors import InvalidInput
from retentive.server.health import is_healthy, served
from retentive.server.options import CONFIG, PREFIX, ServeOptions, read_configuration, settings
from support.pages import ROOT
from support.tls import self_signed
from support.waiting import until

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "retentive"
KNOWN = {PREFIX + each.name.upper() for each in settings()} | {CONFIG}
TLS = {"locationSecret": "db", "tlsSecret": "tls"}


def variables(text: str) -> set[str]:
    """Names of settings in a file. A name that a template completes is left out."""
    return set(re.findall(r"RETENTIVE_SERVE_[A-Z_]+(?![A-Z_]| *\{)", text))


@pytest.mark.parametrize("file", [each for each in sorted(DEPLOY.rglob("*")) if each.is_file()], ids=lambda f: f.name)
def test_settings_in_the_files_exist(file: Path) -> None:
    assert variables(file.read_text("utf-8")) - {"RETENTIVE_SERVE_"} <= KNOWN


def steps(folder: Path) -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (folder / "Containerfile").read_text("utf-8"))
    rows = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    return [(step, rest) for step, rest in rows]


def image_environment() -> dict[str, str]:
    """Variables that the image sets."""
    return dict(each.split("=", 1) for each in dict(steps(DEPLOY))["ENV"].split())


def test_the_image_starts_with_tls_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="TLS"):
        parsed(image_environment(), monkeypatch)


def test_the_image_has_the_server_and_runs_as_a_user() -> None:
    """Its extras exist, it copies wheels only, no step as root follows the change of user, and it starts the server."""
    found = steps(DEPLOY)
    copied = [name for step, rest in found if step == "COPY" and "--from" not in rest for name in rest.split()[:-1]]
    assert copied == ["dist/wheels"]
    (extras,) = re.findall(r'"retentive\[([a-z,]+)\]"', str(found))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {"server", "postgres"} <= set(extras.split(",")) <= set(project["optional-dependencies"])
    order = [step for step, _ in found]
    assert order.index("USER") > max(place for place, step in enumerate(order) if step in {"RUN", "COPY"})
    last = dict(found)
    assert (last["USER"], last["ENTRYPOINT"], last["CMD"]) == ("10001", '["retentive"]', '["serve"]')
    assert '"python", "-m", "retentive.server.health"' in last["HEALTHCHECK"]


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


@pytest.mark.parametrize("where", ["environment", "flag", "file"])
@pytest.mark.parametrize("tls", [False, True])
def test_the_health_check_follows_the_server(where: str, tls: bool, tmp_path: Path) -> None:
    """It asks the address of the running server, wherever this was set, and fails when nobody answers there."""
    port, other, pems = free_port(), free_port(), {}
    if tls:
        pems = dict(zip(("tls_cert", "tls_key"), self_signed(tmp_path), strict=True))
    settings = {"port": int(port), **pems}
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()] if where == "file" else []
    (tmp_path / "server.toml").write_text("\n".join([f'at = "sqlite:///{tmp_path}/memory.db"', *lines]), "utf-8")
    variables = {CONFIG: str(tmp_path / "server.toml")}
    if where != "file":
        variables |= {PREFIX + name.upper(): str(value) for name, value in settings.items()}
    flags = [each for name, value in settings.items() for each in (f"--{name.replace('_', '-')}", str(value))]
    if where == "flag":
        variables |= {f"{PREFIX}PORT": other}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RETENTIVE_")}
    serve = [sys.executable, "-m", "retentive", "serve", *(flags if where == "flag" else [])]
    health = partial(subprocess.run, [sys.executable, "-m", "retentive.server.health"], env=clean | variables)
    with subprocess.Popen(serve, env=clean | variables, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert any(line.startswith("Serving ") for line in process.stdout or ())
            until(lambda: is_healthy("127.0.0.1", int(port), tls=tls))
            assert health(check=False).returncode == 0
            assert not is_healthy("127.0.0.1", int(port), tls=not tls)
        finally:
            process.terminate()
    assert health(check=False).returncode == 1


def test_the_health_check_follows_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags as `--name=value` count, the last one wins, and a malformed file is a failure."""
    monkeypatch.setenv(f"{PREFIX}HOST", "10.0.0.5")
    flags = ["--port", "1", "--port=2"]
    assert [served(name, flags) for name in ("host", "port", "tls_cert")] == ["10.0.0.5", "2", None]
    monkeypatch.setenv(CONFIG, __file__)
    with pytest.raises(InvalidInput, match="TOML"):
        served("tls_cert", [])


def parsed(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> ServeOptions:
    """The options with which `retentive serve` would start in this environment. Files of TLS exist."""
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))
    given = serve.make_context("serve", list(arguments)).params
    options = ServeOptions("", **given | {name: __file__ for name in ("tls_cert", "tls_key") if given[name]})
    options.check()
    return options


def test_compose_starts_the_server_with_tls_over_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    services: dict[str, Any] = compose["services"]
    server = services["server"]
    options = parsed(image_environment() | server["environment"], monkeypatch)
    assert (options.host, options.port, options.workers, options.tls_key) == ("0.0.0.0", 8443, 2, __file__)
    assert server["ports"] == [f"{options.port}:{options.port}"]
    assert server["environment"]["RETENTIVE_AT"].startswith("postgresql://retentive@database/")
    assert {Path(options_path).name for options_path in server["secrets"]} == compose["secrets"].keys()
    for name in ("server", "schema"):
        assert (services[name]["read_only"], services[name]["cap_drop"]) == (True, ["ALL"])
        assert services[name]["depends_on"].keys() <= services.keys()
    assert (ROOT / "deploy" / server["build"]["context"] / server["build"]["dockerfile"]).is_file()
    assert set(compose["volumes"]) == {"database"}


def unit() -> list[tuple[str, str]]:
    lines = (DEPLOY / "retentive.service").read_text("utf-8").splitlines()
    return [(key, value) for key, found, value in (line.partition("=") for line in lines) if found]


def test_the_unit_starts_the_server_with_its_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    values = dict(unit())
    command = values["ExecStart"].split()
    assert command[:2] == ["/opt/retentive/bin/retentive", "serve"]
    shutil.copy(DEPLOY / "server.toml", tmp_path)
    arguments = [each.replace("%d", str(tmp_path)) for each in command[2:]]
    environment = dict(each.split("=") for each in values["Environment"].split())
    options = parsed(environment, monkeypatch, *arguments)
    assert (options.host, options.port, options.tls_cert) == ("0.0.0.0", 8443, __file__)
    at = read_configuration(str(DEPLOY / "server.toml"))["at"]
    assert at.startswith(f"sqlite:////var/lib/{values['StateDirectory']}/")
    credentials = {value.partition(":")[0] for key, value in unit() if key == "LoadCredential"}
    assert {Path(value).name for value in environment.values()} | {"server.toml"} == credentials
    assert (values["User"], values["NoNewPrivileges"], values["CapabilityBoundingSet"]) == ("retentive", "yes", "")


def test_the_chart_belongs_to_this_version_and_names_settings() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert (chart["name"], chart["appVersion"]) == ("retentive", retentive.__version__)
    assert values["settings"].keys() <= {each.name for each in settings()}
    templates = "".join(each.read_text("utf-8") for each in (CHART / "templates").iterdir())
    for name in re.findall(r"\.Values\.([A-Za-z.]+)", templates):
        at: Any = values
        for key in name.split("."):
            assert key in at, name
            at = at[key]


EXAMPLES = ROOT / "examples" / "deploy"
UNITS = sorted(
    unit
    for folder in (EXAMPLES, DEPLOY)
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
    units = [*UNITS, DEPLOY / "retentive.service"]
    for unit in units:
        (tmp_path / unit.name).write_text(unit.read_text("utf-8").replace(INSTALLED, str(BIN)), "utf-8")
    hardened = ["security", "--offline=true", "--threshold=20", "--no-pager", "retentive.service"]
    for check in (["verify", *[unit.name for unit in units]], hardened):
        done = subprocess.run(["systemd-analyze", *check], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), check


@pytest.mark.parametrize("unit", [unit.name for unit in UNITS if unit.suffix == ".service"])
def test_no_service_runs_as_root(unit: str) -> None:
    assert values(unit, "User") == ["retentive"]
    assert "yes" in values(unit, "NoNewPrivileges")


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
    assert run_service("retentive-maintain.service", place, tmp_path)[0].startswith("stores\t2\nexpired\t0\n")

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


def test_the_image_of_the_web_service_runs_as_a_user() -> None:
    """The sources, extras and Python version match the project."""
    found = steps(EXAMPLES)
    for source in (name for step, rest in found if step == "COPY" for name in rest.split()[:-1]):
        assert (ROOT / source).exists(), source
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (extras,) = re.findall(r'"\.\[([a-z,]+)\]"', str(found))
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (version,) = re.findall(r"python:3\.(\d+)", (EXAMPLES / "Containerfile").read_text("utf-8"))
    assert f"Programming Language :: Python :: 3.{version}" in project["classifiers"]
    order = [step for step, _ in found]
    assert order.index("USER") > max(place for place, step in enumerate(order) if step == "RUN")
    assert "web_service:app" in dict(found)["CMD"]
