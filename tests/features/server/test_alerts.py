"""Alert rules and dashboard: they name metrics that exist, and a real Prometheus fires the alerts at a real server."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml  # type: ignore[import-untyped]

import retentive
from support.command_line import here
from support.http_api import Api, api_of, serving
from support.pages import ROOT
from support.profiles import REQUIRED
from support.served_process import started
from support.waiting import until

RULES = ROOT / "deploy" / "prometheus-rules.yaml"
DASHBOARD = ROOT / "deploy" / "grafana-dashboard.json"
HOUR_S = 3_600
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None and not REQUIRED, reason="prometheus is not installed"
)


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return found


QUERIES = [target["expr"] for panel in panels() for target in panel["targets"]]
EXPRESSIONS = [*QUERIES, *(rule["expr"] for rule in rules())]


def test_all_metrics_are_shown_and_those_shown_exist(api: Api) -> None:
    """Each query and rule names metrics and labels of the server, and each metric has a panel."""
    api.get("/v1/memory_stores")
    text = api.get("/metrics").body.decode()
    declared = dict(re.findall(r"^# TYPE (\w+) (\w+)", text, re.MULTILINE))
    families = {name for name in declared if not name.endswith("_created")}
    known = families | {f"{name}_bucket" for name in families if declared[name] == "histogram"}
    assert set(re.findall(r"retentive_\w+", " ".join(EXPRESSIONS))) <= known
    shown = set(re.findall(r"retentive_\w+", " ".join(QUERIES)))
    assert {name for name in families if not {name, f"{name}_bucket"} & shown} == set()
    labels = {each for query in EXPRESSIONS for each in re.findall(r"\bby \(([^)]*)\)", query)}
    named = {name.strip() for each in labels for name in each.split(",")}
    assert named == {"route", "method", "status", "code", "le", "state", "outcome", "kind", "version", "job"}
    assert all(name in text for name in named - {"job"})


def test_each_rule_says_what_to_do() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"].keys() == {"summary", "description"}
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len({panel["id"] for panel in panels()}) == len(set(places)) == len(places)


class Prometheus:
    """A running Prometheus that scrapes one server several times a second, with our rules."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **query: str) -> Any:
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(query)}", timeout=30) as answer:
            return json.load(answer)["data"]

    def evaluated(self) -> list[dict[str, Any]]:
        """The rules, after an evaluation that began after this call: the second one that ends from now on."""
        for _ in range(2):
            before = self.ask("rules")["groups"][0]["lastEvaluation"]
            until(partial(self._is_newer, before))
        found: list[dict[str, Any]] = self.ask("rules")["groups"][0]["rules"]
        return found

    def _is_newer(self, before: str) -> bool:
        return bool(self.ask("rules")["groups"][0]["lastEvaluation"] != before)

    def firing(self) -> set[str]:
        return {rule["name"] for rule in self.evaluated() if rule["state"] == "firing"}


@contextmanager
def prometheus(target: str, directory: Path) -> Iterator[Prometheus]:
    """Run Prometheus with the shipped rules, without their `for`: a test does not wait for minutes."""
    found = yaml.safe_load(RULES.read_text("utf-8"))
    for rule in found["groups"][0]["rules"]:
        rule.pop("for", None)
    (directory / "rules.yaml").write_text(yaml.safe_dump(found), "utf-8")
    often = {"scrape_interval": "300ms", "scrape_timeout": "300ms", "evaluation_interval": "300ms"}
    job = {"job_name": "retentive", "static_configs": [{"targets": [target.removeprefix("http://")]}]}
    config = {"global": often, "rule_files": ["rules.yaml"], "scrape_configs": [job]}
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(config), "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    paths = [f"--config.file={directory}/prometheus.yaml", f"--storage.tsdb.path={directory}/data"]
    command = ["prometheus", *paths, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    with subprocess.Popen(command, env={**os.environ, "GOMAXPROCS": "1"}) as process:
        try:
            until(lambda: _answers(port))
            yield Prometheus(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def break_everything(api: Api, opened: retentive.Retentive, at: str) -> None:
    """A backup that fails, a delivery that is given up, maintenance that stops, a full store, and guessed keys."""
    assert here(at, "admin", "backup", "/no/such/directory", "--keep", "2").exit_code != 0
    wanted = {"url": "https://no.invalid/", "enabled_events": ["memory_store.archived"]}
    hook = api.post("/v1/webhook_endpoints", wanted)
    api.post(f"/v1/webhook_endpoints/{hook.body['id']}/test")
    ((name, text),) = opened.records.list("webhook_pending")
    dead = json.loads(text) | {"state": "dead", "due": datetime.now(UTC).isoformat()}
    opened.records.put("webhook_dead", name, json.dumps(dead))
    opened.records.put("webhook_pending", name, None)
    store = opened.store("full")
    store.change_settings({"max_memories": 1})
    store.create("/memories/a", "")
    assert here(at, "admin", "maintain").exit_code == 0
    run = json.loads(opened.records.get("maintenance", "last") or "")
    late = {name: run[name] - 3 * HOUR_S for name in ("started_at", "finished_at", "succeeded_at")}
    opened.records.put("maintenance", "last", json.dumps(run | late))
    wrong = Api(api.url, api.key[:-1] + "x", api.place)
    assert {wrong.get("/v1/memory_stores").status for _ in range(25)} == {401}


@pytest.mark.long
@needs_prometheus
def test_alerts_fire_and_only_then(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    with started("--at", at, directory=tmp_path) as (_, lines), retentive.open(at) as opened:
        url, key = lines[-1].rpartition(" ")[2], lines[0].rpartition(" ")[2]
        api = api_of(url, key, opened)
        opened.store().create("/memories/a", "tea")
        assert here(at, "admin", "backup", str(tmp_path / "whole.tar")).exit_code == 0
        until(lambda: b"retentive_maintenance_last_ok 1.0" in api.get("/metrics").body)
        with prometheus(url, tmp_path) as monitor:
            until(lambda: len(monitor.ask("query", query="retentive_build_info[1m]")["result"]) > 0)
            assert {(rule["name"], rule["health"]) for rule in monitor.evaluated()} == {
                (rule["alert"], "ok") for rule in rules()
            }
            assert monitor.firing() == set()
            break_everything(api, opened, at)
            expected = {
                "RetentiveBackupFailed",
                "RetentiveKeysGuessed",
                "RetentiveMaintenanceMissing",
                "RetentiveStoreFull",
                "RetentiveStoreNearLimit",
                "RetentiveWebhookDead",
            }
            until(lambda: monitor.firing() >= expected)
            assert monitor.firing() == expected
            for query in QUERIES:
                asked = query.replace("$job", "retentive").replace("$__rate_interval", "1m")
                monitor.ask("query", query=asked)
            shown = monitor.ask("query", query="max by (state) (retentive_webhook_deliveries)")["result"]
            assert {each["metric"]["state"]: each["value"][1] for each in shown} == {"pending": "0", "dead": "1"}
            assert monitor.ask("query", query="retentive_backup_last_success_timestamp_seconds")["result"]


@pytest.mark.parametrize("encrypted", [False, True])
def test_each_whole_backup_is_recorded(encrypted: bool, tmp_path: Path) -> None:
    """Also one without encryption keys; not one of some stores only, nor one before there was an API key."""
    at, whole = f"sqlite:///{tmp_path}/memory.db", str(tmp_path / "whole.tar")
    keys = tmp_path / "keys" if encrypted else None
    if keys is not None:
        assert here(at, "--keys", str(keys), "admin", "encryption", "new").exit_code == 0
    with retentive.open(at, keys=None if keys is None else str(keys)) as opened:
        opened.store("a").create("/memories/a", "tea")
        assert here(at, "admin", "backup", str(tmp_path / "early.tar")).exit_code == 0
        with serving(opened) as api:
            assert backup_of(api) == {"success_timestamp": 0, "end_timestamp": 0, "duration": 0, "ok": 0}
            assert here(at, "admin", "backup", str(tmp_path / "part.tar"), "--store", "a").exit_code == 0
            assert backup_of(api)["ok"] == 0
            assert here(at, "admin", "backup", whole).exit_code == 0
            first = backup_of(api)
            assert (first["ok"], first["success_timestamp"]) == (1, first["end_timestamp"])
            assert here(at, "admin", "backup", whole).exit_code != 0  # the file exists
            second = backup_of(api)
            assert (second["ok"], second["success_timestamp"]) == (0, first["success_timestamp"])
            assert second["end_timestamp"] > first["end_timestamp"] > 0


def backup_of(api: Api) -> dict[str, float]:
    found = re.findall(
        r"^retentive_backup_last_(\w+?)(?:_seconds)? (.+)$", api.get("/metrics").body.decode(), re.MULTILINE
    )
    return {name: float(value) for name, value in found}
