"""The official TypeScript client, inspector and conformance suite, over stdio and HTTP.

RETENTIVE_NODE_MODULES names a folder made by `npm install @modelcontextprotocol/inspector@2.12.0
@modelcontextprotocol/conformance@0.2.0-alpha.12` with Node 22 or newer: older ones silently install older versions.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import retentive
from support.command_line import RETENTIVE, environment
from support.http_api import Api, serving
from support.mcp_clients import MODES
from support.profiles import REQUIRED

MODULES = Path(os.environ.get("RETENTIVE_NODE_MODULES", ""))
ERAS = {"legacy": "legacy", "2026-07-28": "modern"}
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not REQUIRED and (shutil.which("node") is None or not (MODULES / "@modelcontextprotocol" / "client").is_dir()),
        reason="RETENTIVE_NODE_MODULES does not name a folder with @modelcontextprotocol/client and its tools",
    ),
]

SCENARIOS = (
    "server-initialize", "server-session-lifecycle", "ping", "tools-list@2025-11-25", "tools-list@2026-07-28",
    "resources-list@2025-11-25", "resources-list@2026-07-28", "sep-2164-resource-not-found", "dns-rebinding-protection",
    "http-header-validation", "server-stateless", "caching", "server-sse-multiple-streams@2026-07-28",
    "input-required-result-unsupported-methods",
)  # fmt: skip
NEEDS_FIXTURES = {
    "server-stateless": {
        "ServerRejectsUndeclaredCapability",
        "MissingCapabilityHttp400",
        "HttpServerNoIndependentRequestsOnStream",
        "ServerNoLogWithoutLogLevel",
    },
    "caching": {"PromptsListCachingHints"},
}
"""Checks that call tools or prompts of a server made for the suite."""


def served(directory: Path) -> Iterator[Api]:
    """A server that adds the key to each request, since the conformance suite sends none."""
    with retentive.open(f"sqlite:///{directory}/memory.db") as opened, serving(opened, adds_key=True) as found:
        opened.store().create("/memories/a.md", "tea")
        yield found


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    yield from served(tmp_path_factory.mktemp("server"))


def local(directory: Path) -> list[str]:
    return [RETENTIVE, "--at", f"sqlite:///{directory}/memory.db", "--actor", "user:ann", "mcp"]


def node(directory: Path, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    given = environment(directory, {"HOME": str(directory), **variables})
    return subprocess.run(command, capture_output=True, text=True, cwd=directory, env=given, timeout=120, check=False)


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("revision", MODES)
def test_the_typescript_client_calls_every_tool(tmp_path: Path, api: Api, transport: str, revision: str) -> None:
    (tmp_path / "node_modules").symlink_to(MODULES)
    program = tmp_path / "every_tool.mjs"
    program.write_text((Path(__file__).parent / program.name).read_text("utf-8"), "utf-8")
    store = f"{transport}{revision}"
    if transport == "http":
        api.place.opened.store(store)
    target = local(tmp_path) if transport == "stdio" else [f"{api.url}/mcp?store={store}"]
    done = node(tmp_path, "node", program, revision, *target, MEMORY_KEY=api.key)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("revision", MODES)
def test_the_inspector_finds_nothing_wrong(tmp_path: Path, api: Api, transport: str, revision: str) -> None:
    """Status 6 would be a schema that some model providers refuse, and 5 is a result with an error."""
    url = ["--server-url", f"{api.url}/mcp?store=default", "--transport", "http", "--header", f"x-api-key: {api.key}"]
    target = url if transport == "http" else ["--", *local(tmp_path)]
    inspector: list[str | Path] = [MODULES / ".bin" / "mcp-inspector", "--cli", "--format", "json"]
    inspector += ["--protocol-era", ERAS[revision], "--connect-timeout", "60000"]

    def run(*given: str, status: int = 0) -> Any:
        done = node(tmp_path, *inspector, *given, *target)
        assert done.returncode == status, done.stderr
        return json.loads(done.stdout)

    listed = run("--method", "tools/list", "--strict")
    assert len(listed.get("result", listed)["tools"]) == 13
    run("--method", "tools/call", "--tool-name", "memory_view", "--tool-arg", "path=/memories")
    run("--method", "tools/call", "--tool-name", "memory_view", "--tool-arg", "path=/memories/none", status=5)
    run("--method", "resources/list")


@pytest.fixture(scope="module")
def only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with one memory store, since a part of the suite leaves out the query of the URL."""
    yield from served(tmp_path_factory.mktemp("only"))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_conformance_suite_passes(tmp_path: Path, only: Api, scenario: str) -> None:
    name, _, revision = scenario.partition("@")
    command: list[str | Path] = [MODULES / ".bin" / "conformance", "server", "--url", f"{only.url}/mcp?store=default"]
    chosen = ["--scenario", name, *(["--spec-version", revision] if revision else [])]
    done = node(tmp_path, *command, *chosen)
    failed = set(re.findall(r"^  - (\w+): ", done.stdout.partition("=== Failed Checks ===")[2], re.MULTILINE))
    assert "Passed: " in done.stdout, done.stderr
    assert failed == NEEDS_FIXTURES.get(name, set()), done.stdout
    assert done.returncode == int(bool(failed))
