"""Each extra alone, with its newest and its lowest versions. `make check NAME=extras` and `make check NAME=lowest`.

Each set of extras has an environment of its own, in which uv installs the project and what the tests themselves need.
Where a test needs more than one extra, the set has more.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from features.packages.pythons import VERSIONS, python
from support.outward import outward
from support.pages import ROOT

UV = shutil.which("uv")
pytestmark = [pytest.mark.environments, pytest.mark.skipif(UV is None, reason="needs uv")]
TOOLS = ("pytest>=9.0", "pytest-timeout>=2.4", "hypothesis>=6.150", "jsonschema>=4", "trio")
LOCAL = "not postgresql and not mariadb and not s3"
ALONE = f"{LOCAL} and not sealed and not hidden"
SMOKE = "tests/contract/backends/test_smoke.py"
SUITES = "tests/contract/backends/test_suites.py"
TESTS: dict[str, tuple[str, ...]] = {
    "": ("tests/unit/test_paths.py", "tests/unit/test_settings.py", "tests/features/cli/test_reference.py",
         "tests/features/history/test_pages.py", SMOKE, f"{SUITES}::TestSqlite",
         f"{SUITES}::TestDirectory", "-k", ALONE),
    "adk": ("tests/frameworks/test_adk.py",),
    "anthropic": ("tests/features/integrations/test_sdk_tools.py", "tests/features/agent/test_scripted_claude.py"),
    "claude-agent": ("tests/features/claude_agent/test_memory_server.py",),
    "client,server": ("tests/features/console/test_pages.py", "tests/features/remote/test_methods.py"),
    "crypto": ("tests/contract/backends/test_sealed_codec.py", SMOKE, "-k", LOCAL),
    "deepagents": ("tests/features/integrations/test_deepagents.py",),
    "guards": ("tests/features/guards/test_sensitive.py", "tests/features/guards/test_sensitive_bounds.py"),
    "langchain": ("tests/features/integrations/test_langchain.py",),
    "langgraph": ("tests/features/integrations/test_langgraph.py",),
    "mariadb": (SMOKE, "-k", "mariadb and not sealed and not hidden"),
    "mcp,server": ("tests/features/server/test_oauth.py",),
    "mcp": ("tests/features/mcp/test_tools.py", "tests/features/mcp/test_resources.py"),
    "objects": (f"{SUITES}::TestObjectsInMemory",),
    "anthropic,openai-agents": ("tests/features/integrations/test_openai_agents.py",),
    "postgres": (SMOKE, "-k", "postgresql and not sealed and not hidden"),
    "pydantic-ai": ("tests/features/integrations/test_pydantic_ai.py",),
    "server": ("tests/features/server/test_openapi.py", "tests/features/server/test_our_routes.py",
               "tests/features/server/test_our_routes.py", "tests/features/server/test_telemetry.py"),
    "anthropic,strands": ("tests/frameworks/test_strands.py",),
    "sync": ("tests/features/sync/test_failures.py",),
}  # fmt: skip
"""Extras of an environment, and the tests that run there."""
SOME = ("", "crypto", "mcp", "postgres", "server")


def run(*command: str | Path, **variables: str) -> str:
    environment = {name: value for name, value in outward().items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=environment | variables, capture_output=True, text=True, timeout=900,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def test_every_extra_has_an_environment() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {name for extra in TESTS for name in extra.split(",") if name} == set(extras) - {"all"}


def check_environment(python: str, resolution: str, extras: str, folder: Path) -> None:
    """Make an environment with these extras only, and run their tests in it."""
    assert UV is not None
    own = folder / "venv" / "bin" / "python"
    run(UV, "venv", "--quiet", "--python", python, folder / "venv")
    install = (UV, "pip", "install", "--quiet", "--python", own)
    run(*install, "--resolution", resolution, "--editable", f".[{extras}]" if extras else ".")
    before = run(UV, "pip", "freeze", "--python", own).splitlines()
    run(*install, *TOOLS)
    after = run(UV, "pip", "freeze", "--python", own).splitlines()
    assert set(before) <= set(after)  # the tools replaced nothing
    said = run(own, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS[extras], RETENTIVE_PROFILE="quick")
    (passed,) = re.findall(r"(\d+) passed", said)
    assert int(passed) > 0


@pytest.mark.parametrize("extras", TESTS, ids=lambda extras: extras or "none")
@pytest.mark.parametrize("resolution", ["highest", "lowest-direct"])
def test_an_environment_with_these_extras_only(resolution: str, extras: str, tmp_path: Path) -> None:
    """`lowest-direct` installs the lowest versions that pyproject.toml allows, also those of the core."""
    check_environment(sys.executable, resolution, extras, tmp_path)


@pytest.mark.parametrize(
    ("version", "extras"),
    [
        pytest.param(version, extras, id=f"{version}-{extras or 'none'}")
        for version in VERSIONS
        for extras in (TESTS if version == VERSIONS[-1] else SOME)
        if not sys.version.startswith(f"{version}.")
    ],
)
def test_another_version_of_python(version: str, extras: str, tmp_path: Path) -> None:
    """The newest version with all sets of extras, the versions between it and the oldest with some."""
    check_environment(python(version), "highest", extras, tmp_path)
