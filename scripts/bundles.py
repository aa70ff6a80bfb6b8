"""Bundles for MCP clients, made from pyproject.toml: `python scripts/bundles.py`.

Writes `retentive-VERSION.mcpb`, a bundle for Claude Desktop and other clients, and `server.json`, the entry of the MCP
registry. The bundle has no code of retentive: its client installs the package from PyPI with uv. This script also puts
the version into the Claude Code plugin.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = ROOT / "plugins" / "retentive" / ".claude-plugin"
SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
AUTHOR = "retentive contributors"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same input gives the same bytes
_START = '''"""Starts `retentive mcp`, with the settings that the client passes in environment variables."""

import sys

from retentive.cli import main

sys.argv[1:] = ["mcp"]
sys.exit(main())
'''
SETTINGS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "location": (
        "RETENTIVE_AT",
        {
            "title": "Location",
            "description": "URL of a retentive server (https://...), or a directory or database of this machine",
            "default": "~/.retentive",
        },
    ),
    "store": (
        "RETENTIVE_STORE",
        {
            "title": "Memory store",
            "description": "Key of the memory store. Clients with the same one share its memories",
            "default": "default",
        },
    ),
    "token": (
        "RETENTIVE_API_KEY",
        {
            "title": "API key",
            "description": "API key of the server; empty for a directory or database",
            "default": "",
            "sensitive": True,
        },
    ),
}
"""Environment variable of each setting that a person is asked for, and how the client shows it."""


def project() -> dict[str, Any]:
    """The project table of pyproject.toml, with `registry_name` from the README, where the registry looks for it."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    name = re.search(r"<!-- mcp-name: (\S+) -->", (ROOT / "README.md").read_text("utf-8"))
    if name is None:
        raise SystemExit("README.md needs a line <!-- mcp-name: io.github.OWNER/retentive -->")
    return {**found, "registry_name": name[1]}


def manifest(project: Mapping[str, Any]) -> dict[str, object]:
    """The manifest of the bundle."""
    return {
        "manifest_version": "0.4",
        "name": project["name"],
        "version": project["version"],
        "description": project["description"],
        "author": {"name": AUTHOR},
        "license": project["license"],
        "icon": "icon.png",
        "server": {
            "type": "uv",
            "entry_point": "src/server.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", "src/server.py"],
                "env": {variable: f"${{user_config.{name}}}" for name, (variable, _) in SETTINGS.items()},
            },
        },
        "user_config": {name: {"type": "string", "required": False, **shown} for name, (_, shown) in SETTINGS.items()},
    }


def dependencies(project: Mapping[str, Any]) -> str:
    """The pyproject.toml of the bundle."""
    return (
        f'[project]\nname = "{project["name"]}-bundle"\nversion = "{project["version"]}"\n'
        f'requires-python = "{project["requires-python"]}"\n'
        f'dependencies = ["{project["name"]}[mcp,client]=={project["version"]}"]\n'
    )


def registry_entry(project: Mapping[str, Any]) -> dict[str, object]:
    """The entry of the MCP registry."""
    package = f"{project['name']}[mcp,client]=={project['version']}"
    variables = [
        {
            "name": variable,
            "description": shown["description"],
            "isSecret": bool(shown.get("sensitive")),
            **({"default": shown["default"]} if shown["default"] else {}),
        }
        for variable, shown in SETTINGS.values()
    ]
    return {
        "$schema": SERVER_SCHEMA,
        "name": project["registry_name"],
        "title": project["name"],
        "description": project["description"],
        "version": project["version"],
        "packages": [
            {
                "registryType": "pypi",
                "identifier": project["name"],
                "version": project["version"],
                "runtimeHint": "uvx",
                "runtimeArguments": [{"type": "named", "name": "--from", "value": package}],
                "packageArguments": [{"type": "positional", "value": "mcp"}],
                "transport": {"type": "stdio"},
                "environmentVariables": variables,
            }
        ],
    }


def as_json(value: object) -> str:
    """JSON for a file that people read."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write(folder: Path) -> tuple[Path, Path]:
    """Write the bundle and the registry entry to a folder. Returns their paths."""
    found = project()
    folder.mkdir(parents=True, exist_ok=True)
    bundle, entry = folder / f"{found['name']}-{found['version']}.mcpb", folder / "server.json"
    files = {
        "manifest.json": as_json(manifest(found)).encode(),
        "pyproject.toml": dependencies(found).encode(),
        "src/server.py": _START.encode(),
        "icon.png": (PLUGIN / "icon.png").read_bytes(),
    }
    with zipfile.ZipFile(bundle, "w") as archive:
        for name, data in files.items():
            member = zipfile.ZipInfo(name, _EPOCH)
            member.external_attr = 0o644 << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    entry.write_text(as_json(registry_entry(found)), "utf-8")
    return bundle, entry


def set_version(path: Path, version: str) -> None:
    """Put the version into the manifest of the plugin, and leave its other lines as they are."""
    text = path.read_text("utf-8")
    path.write_text(re.sub(r'("version": ")[^"]*', rf"\g<1>{version}", text, count=1), "utf-8")


def main(folder: str = "dist") -> None:
    """Write everything, and print the paths."""
    set_version(PLUGIN / "plugin.json", project()["version"])
    for path in write(Path(folder)):
        print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
