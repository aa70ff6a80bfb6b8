"""Files of the Claude Code plugin, the bundle and the registry entry."""

from __future__ import annotations

import io
import json
import tomllib
import zipfile
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonschema.validators import validator_for

from retentive.cli.hook import EVENTS
from retentive.cli.hook_settings import DEFAULTS
from support.modules import run as run_code
from support.pages import ROOT
from support.profiles import REQUIRED

PLUGIN = ROOT / "plugins" / "retentive"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SCHEMA = "schemas/mcp_registry/v2025_12_11/server.schema.json"


@pytest.fixture(scope="module")
def bundles() -> ModuleType:
    spec = spec_from_file_location("bundles", ROOT / "scripts" / "bundles.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parsed(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_the_marketplace_names_the_plugin() -> None:
    market = parsed(ROOT / ".claude-plugin" / "marketplace.json")
    plugin = parsed(PLUGIN / ".claude-plugin" / "plugin.json")
    assert [(each["name"], ROOT / each["source"]) for each in market["plugins"]] == [(plugin["name"], PLUGIN)]
    assert plugin["version"] == PROJECT["version"], "run: python scripts/bundles.py"


def test_each_hook_calls_an_event_of_the_command() -> None:
    """In exec form: no shell parses a setting. Claude Code waits at most the timeout, and not at all after an edit."""
    hooks = parsed(PLUGIN / "hooks" / "hooks.json")["hooks"]
    called = [hook for entries in hooks.values() for entry in entries for hook in entry["hooks"]]
    assert {(hook["type"], hook["command"], hook["args"][0]) for hook in called} == {("command", "retentive", "hook")}
    assert {hook["args"][1] for hook in called} == set(EVENTS)
    assert all(hook["timeout"] <= 15 for hook in called)
    assert hooks["PostToolUse"][0]["hooks"][0]["async"] is True


def test_hooks_and_tools_have_the_same_defaults() -> None:
    settings = parsed(PLUGIN / ".claude-plugin" / "plugin.json")["userConfig"]
    assert {name.upper(): given["default"] for name, given in settings.items() if "default" in given} == DEFAULTS


def test_no_argument_of_the_plugin_has_the_key() -> None:
    """Other users of a machine see arguments of processes."""
    server = parsed(PLUGIN / ".mcp.json")["mcpServers"]["memory"]
    assert server["args"] == ["hook", "mcp"]
    assert "token" not in (PLUGIN / "hooks" / "hooks.json").read_text()
    assert parsed(PLUGIN / ".claude-plugin" / "plugin.json")["userConfig"]["token"]["sensitive"] is True


def test_the_bundle_starts_the_mcp_server(bundles: ModuleType, tmp_path: Path) -> None:
    bundle, _ = bundles.write(tmp_path / "dist")
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(tmp_path / "bundle")
    manifest = parsed(tmp_path / "bundle" / "manifest.json")
    assert (manifest["name"], manifest["version"]) == (PROJECT["name"], PROJECT["version"])
    needed = tomllib.loads((tmp_path / "bundle" / "pyproject.toml").read_text())["project"]["dependencies"]
    assert needed == [f"retentive[mcp,client]=={PROJECT['version']}"]
    assert {"mcp", "client"} <= PROJECT["optional-dependencies"].keys()
    start = tmp_path / "bundle" / manifest["server"]["entry_point"]
    code = f"""
import runpy, sys
import retentive.cli
retentive.cli.main = lambda: print(sys.argv[1:])
runpy.run_path({str(start)!r}, run_name="__main__")
"""
    assert run_code(code).startswith("['mcp']")


def test_the_same_input_makes_the_same_bundle(bundles: ModuleType, tmp_path: Path) -> None:
    first, second = (bundles.write(tmp_path / name)[0].read_bytes() for name in ("a", "b"))
    assert first == second
    assert {each.date_time for each in zipfile.ZipFile(io.BytesIO(first)).infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_version_of_the_plugin_is_replaced_alone(bundles: ModuleType, tmp_path: Path) -> None:
    copy = tmp_path / "plugin.json"
    copy.write_text((PLUGIN / ".claude-plugin" / "plugin.json").read_text())
    before = parsed(copy)
    bundles.set_version(copy, "9.8.7")
    assert parsed(copy) == {**before, "version": "9.8.7"}


def test_the_registry_entry_fits_its_schema(bundles: ModuleType) -> None:
    """The schema comes with the linter `skillsaw`."""
    spec = find_spec("skillsaw")
    if spec is None or spec.origin is None:
        assert not REQUIRED, "skillsaw is not installed"
        pytest.skip("skillsaw is not installed")
    schema = parsed(Path(spec.origin).parent / SCHEMA)
    entry = bundles.registry_entry(bundles.project())
    assert entry["$schema"] == schema["$id"]
    check = validator_for(schema)(schema)
    check.validate(entry)
    assert not check.is_valid({**entry, "description": "x" * 101})


def test_the_registry_finds_its_name_in_the_readme(bundles: ModuleType) -> None:
    entry = bundles.registry_entry(bundles.project())
    assert f"<!-- mcp-name: {entry['name']} -->" in (ROOT / PROJECT["readme"]).read_text()
    assert len(entry["description"]) <= 100
