"""The files to deploy are valid, name settings that exist, run without rights that they do not need, and work."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml  # type: ignore[import-untyped]
from jsonschema import Draft7Validator

import retentive
from retentive.cli.server import serve
from retentive.errors import InvalidInput
from retentive.server.health import is_healthy, served
from retentive.server.options import CONFIG, PREFIX, ServeOptions, kind_of, read_configuration, settings
from support import servers
from support.pages import ROOT
from support.profiles import some
from support.served_process import started
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


@pytest.mark.parametrize("where", some(["file", "environment", "flag"], 3))
@pytest.mark.parametrize("tls", some([True, False], 2))
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


def compose() -> dict[str, Any]:
    """The file of compose, whose variable SITE is not set."""
    text = (DEPLOY / "compose.yaml").read_text("utf-8").replace("${SITE:-localhost}", "localhost")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_compose_starts_the_server_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the proxy publishes ports, only the database has no way out, and our containers have no rights."""
    services: dict[str, Any] = compose()["services"]
    options = parsed(image_environment() | services["server"]["environment"], monkeypatch)
    assert (options.host, options.port, options.workers, options.insecure_no_tls) == ("0.0.0.0", 8080, 2, True)
    assert options.proxies
    assert {name for name, each in services.items() if "ports" in each} == {"proxy"}
    assert services["database"]["networks"] == ["data"]
    assert compose()["networks"]["data"] == {"internal": True}
    for each in services.values():
        assert each.get("depends_on", {}).keys() <= services.keys()
        if each["image"] == "retentive":
            assert (each["read_only"], each["cap_drop"]) == (True, ["ALL"])
            assert each["environment"]["RETENTIVE_AT"].startswith("postgresql://retentive@database/")
    assert (DEPLOY / services["server"]["build"]["context"] / services["server"]["build"]["dockerfile"]).is_file()
    volumes = {each.partition(":")[0] for service in services.values() for each in service.get("volumes", ())}
    assert {each for each in volumes if not each.startswith(".")} == set(compose()["volumes"])


@pytest.mark.long
@pytest.mark.skipif(shutil.which("caddy") is None, reason="caddy is not installed")
def test_the_proxy_leads_to_the_console(tmp_path: Path) -> None:
    """With the environment of compose, the commands of its other services, and a real PostgreSQL and Caddy."""
    services: dict[str, Any] = compose()["services"]
    at = servers.postgresql().new_database("compose")
    run = partial(subprocess.run, env={"PATH": os.environ["PATH"], "RETENTIVE_AT": at}, check=True, capture_output=True)
    run([BIN / "retentive", *services["schema"]["command"]])
    given = services["server"]["environment"]
    given |= {f"{PREFIX}HOST": "127.0.0.1", f"{PREFIX}TRUSTED_PROXIES": "127.0.0.1", f"{PREFIX}WORKERS": "1"}
    with started("--at", at, directory=tmp_path, **{name: str(each) for name, each in given.items()}) as (_, lines):
        upstream, port = lines[-1].rpartition("//")[2], free_port()
        where = {"SITE": f"https://localhost:{port}", "UPSTREAM": upstream, "HOME": str(tmp_path)}
        where |= {"XDG_DATA_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
        text = f"{{\n\tadmin off\n\tskip_install_trust\n\thttp_port {free_port()}\n}}\n"
        (tmp_path / "Caddyfile").write_text(text + (DEPLOY / "Caddyfile").read_text("utf-8"), "utf-8")
        command = ["caddy", "run", "--config", str(tmp_path / "Caddyfile"), "--adapter", "caddyfile"]
        with subprocess.Popen(command, env=where, stderr=subprocess.DEVNULL) as caddy:
            try:
                root = tmp_path / "data/caddy/pki/authorities/local/root.crt"
                until(lambda: root.exists() and is_healthy("localhost", int(port), tls=True))
                context = ssl.create_default_context(cafile=str(root))
                with urlopen(f"https://localhost:{port}/console/", context=context) as page:
                    assert "Sign in" in page.read().decode()
                    assert page.url.endswith("/console/login")
                    assert page.headers["strict-transport-security"] == "max-age=31536000"
                    assert "__Host-retentive_form=" in page.headers["set-cookie"]
                with pytest.raises(HTTPError, match="404"):
                    urlopen(f"https://localhost:{port}/metrics", context=context)
            finally:
                caddy.terminate()
    assert '"client": "127.0.0.1"' in (tmp_path / "log").read_text()
    (words,) = re.findall(r"retentive (admin backup [^;]+);", services["backup"]["command"][0])
    run([BIN / "retentive", *words.replace("/var/lib/retentive", str(tmp_path)).split()])
    assert len(list(tmp_path.glob("retentive-*.tar.zst"))) == 1


def unit(file: Path = DEPLOY / "retentive.service") -> list[tuple[str, str]]:
    lines = file.read_text("utf-8").splitlines()
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
    assert "at" not in read_configuration(str(DEPLOY / "server.toml"))
    (at,) = re.findall("^RETENTIVE_AT=(.+)$", (DEPLOY / "environment").read_text("utf-8"), re.MULTILINE)
    assert at.startswith(f"sqlite:////var/lib/{values['StateDirectory']}/")
    used = {each.name: dict(unit(each))["EnvironmentFile"] for each in DEPLOY.glob("*.service")}
    assert set(used.values()) == {"/etc/retentive/environment"}  # the backups are those of the location that is served
    credentials = {value.partition(":")[0] for key, value in unit() if key == "LoadCredential"}
    assert {Path(value).name for value in environment.values()} | {"server.toml"} == credentials
    assert (values["User"], values["NoNewPrivileges"], values["CapabilityBoundingSet"]) == ("retentive", "yes", "")


def test_the_chart_belongs_to_this_version_and_names_settings() -> None:
    """The schema has all values, with the settings of the server that the chart does not set itself.

    RETENTIVE_PIN=1 writes the settings into it.
    """
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    assert (chart["name"], chart["appVersion"]) == ("retentive", retentive.__version__)
    assert schema["properties"].keys() == values.keys() | {"global"}
    Draft7Validator.check_schema(schema)
    Draft7Validator(schema).validate(values)
    own = {"host", "port", "tls_cert", "tls_key", "insecure_no_tls"}
    kinds = {str: "string", int: "integer", bool: "boolean"}
    wanted: dict[str, dict[str, Any]] = {}
    for each in settings():
        if each.name not in own:
            kind, most = kind_of(each), each.metadata["high"]
            bounds = {"minimum": each.metadata["low"]} | ({} if most is None else {"maximum": most})
            wanted[each.name] = {"type": kinds[kind]} | (bounds if kind is int else {})
    if os.environ.get("RETENTIVE_PIN"):
        file, known = CHART / "values.schema.json", schema["properties"]["settings"]
        new = json.dumps(known | {"properties": wanted})
        file.write_text(file.read_text("utf-8").replace(json.dumps(known), new), "utf-8")
        schema["properties"]["settings"]["properties"] = wanted
    assert schema["properties"]["settings"]["properties"] == wanted


HELM = os.environ.get("RETENTIVE_HELM") or shutil.which("helm")
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed")
NAME = "m-retentive"
ALL = {
    "locationSecret": "db",
    "insecureNoTls": True,
    "env": [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://otel"}],
    "envFrom": [{"configMapRef": {"name": "more"}}],
    "extraVolumes": [{"name": "oauth", "secret": {"secretName": "oauth"}}],
    "extraVolumeMounts": [{"name": "oauth", "mountPath": "/run/secrets/oauth"}],
    "settings": {"workers": 2, "rate": "50/s", "oauth": "/run/secrets/oauth/oauth.toml"},
    "ingress": {"enabled": True, "className": "nginx", "host": "memory.example.com", "tlsSecret": "names"},
    "serviceAccount": {"annotations": {"cloud": "role"}},
    "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}], "egress": [{"to": [{"podSelector": {}}]}]},
    "backup": {"enabled": True, "existingClaim": "kept"},
    "anchor": {"enabled": True},
    **{name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule", "dashboard")},
}


def rendered(**values: Any) -> dict[tuple[str, str], Any]:
    """The objects of the chart with these values, by kind and name."""
    done = helm("template", **values)
    assert done.returncode == 0, done.stderr
    found = [each for each in yaml.safe_load_all(done.stdout) if each]
    objects = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(objects) == len(found)
    return objects


def helm(*command: str, **values: Any) -> subprocess.CompletedProcess[str]:
    name = ["m"] if command == ("template",) else []
    return subprocess.run(
        [str(HELM), *command, *name, str(CHART), "-f", "-"],
        input=json.dumps(values), capture_output=True, text=True, check=False,
    )  # fmt: skip


@needs_helm
def test_the_chart_renders_all_that_it_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert helm("lint", **ALL).returncode == 0
    found = rendered(**ALL)
    jobs = [("CronJob", f"{NAME}-backup"), ("CronJob", f"{NAME}-anchor"), ("PersistentVolumeClaim", f"{NAME}-anchor")]
    kinds = ("Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "Ingress", "NetworkPolicy")
    operated = [("ServiceMonitor", NAME), ("PrometheusRule", NAME), ("ConfigMap", f"{NAME}-dashboard")]
    assert found.keys() == {*((kind, NAME) for kind in kinds), *jobs, *operated}
    pods = [found["Deployment", NAME]["spec"]["template"]["spec"]]
    pods += [found[job]["spec"]["jobTemplate"]["spec"]["template"]["spec"] for job in jobs[:2]]
    for pod in pods:
        assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (NAME, False)
        volumes = {each["name"] for each in pod["volumes"]}
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            assert {each["name"] for each in container["volumeMounts"]} <= volumes
            assert "oauth" in volumes
            assert {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://otel"} in container["env"]
            assert container["envFrom"] == [{"secretRef": {"name": "db"}}, {"configMapRef": {"name": "more"}}]
            assert container["securityContext"]["readOnlyRootFilesystem"]
    (server,) = pods[0]["containers"]
    given = {each["name"]: each["value"] for each in server["env"]}
    options = parsed(given, monkeypatch)
    assert (options.workers, options.rate, options.public_url) == (2, "50/s", "https://memory.example.com")
    labels = found["Deployment", NAME]["spec"]["template"]["metadata"]["labels"].items()
    others = [found[job]["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"].items() for job in jobs[:2]]
    chosen = found["Service", NAME]["spec"]["selector"].items()
    assert chosen <= labels
    assert not any(chosen <= each for each in others)  # a job must get no request
    assert found["PodDisruptionBudget", NAME]["spec"]["selector"]["matchLabels"].items() == chosen
    backup, anchor = ([each for each in pod["volumes"] if each["name"] == "kept"] for pod in pods[1:])
    assert [backup[0]["persistentVolumeClaim"], anchor[0]["persistentVolumeClaim"]] == [
        {"claimName": "kept"},
        {"claimName": f"{NAME}-anchor"},
    ]
    assert found["PrometheusRule", NAME]["spec"] == yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())
    shown = json.loads(found["ConfigMap", f"{NAME}-dashboard"]["data"]["retentive.json"])
    assert shown == json.loads((DEPLOY / "grafana-dashboard.json").read_text())


@needs_helm
def test_the_chart_serves_and_backs_up_sqlite() -> None:
    """The backup mounts the volume of the server, so it runs on the same node."""
    values = {"persistence": {"enabled": True}, "replicas": 1, "tlsSecret": "tls", "backup": {"enabled": True}}
    found = rendered(**values)
    assert ("PodDisruptionBudget", NAME) not in found
    assert {name for kind, name in found if kind == "PersistentVolumeClaim"} == {NAME, f"{NAME}-backup"}
    job = found["CronJob", f"{NAME}-backup"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (near,) = job["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    server = found["Deployment", NAME]["spec"]["template"]
    assert near["labelSelector"]["matchLabels"].items() <= server["metadata"]["labels"].items()
    memory = [each for each in server["spec"]["volumes"] if each["name"] == "memory"]
    assert memory == [each for each in job["volumes"] if each["name"] == "memory"]
    assert job["containers"][0]["env"] == [{"name": "RETENTIVE_AT", "value": "sqlite:////var/lib/retentive/memory.db"}]
    mine = rendered(**values | {"persistence": {"enabled": True, "existingClaim": "mine"}})
    assert {name for kind, name in mine if kind == "PersistentVolumeClaim"} == {f"{NAME}-backup"}


@needs_helm
@pytest.mark.parametrize(
    "wrong",
    [{"replica": 2}, {"replicas": 0}, {"settings": {"rates": "1/s"}}, {"settings": {"workers": "two"}},
     {"ingress": {"enabled": "yes"}}, {"persistence": {"size": "much"}}, {"env": {"A": "b"}}, {"tlsSecret": ""},
     {"locationSecret": ""}, {"backup": {"schedule": "daily"}}],
)  # fmt: skip
def test_the_chart_refuses_wrong_values(wrong: dict[str, Any]) -> None:
    done = helm("template", **{"locationSecret": "db", "tlsSecret": "tls", **wrong})
    assert done.returncode != 0
    assert next(iter(wrong)) in done.stderr


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


@pytest.mark.long
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
