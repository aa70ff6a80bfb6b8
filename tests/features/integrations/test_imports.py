"""Import rules: layers import only lower layers, drivers are imported in one file each, and startup imports little."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive.values.extras import pip_install
from support.modules import ROOT, imported, modules, run

HEAVY = (
    "anthropic", "click", "rich", "starlette", "uvicorn", "httpx", "httpx2", "pydantic", "pytest", "hypothesis",
    "psycopg", "pymysql", "obstore", "cryptography", "langchain", "langgraph", "agents", "google", "strands",
    "pydantic_ai", "mcp",
)  # fmt: skip

# A module must not import from a higher layer. Modules on one line must not import each other, except in a package.
LAYERS: list[set[str]] = [
    {"errors", "extras"},
    {"values"},
    {"storage"},
    {"redaction"},
    {"search"},
    {"review.proposals", "audit.chain", "gateway.records"},  # forms of records, which the road writes
    {"engine"},
    {"audit"},
    {"history"},
    {"review"},
    {"locations"},
    {"store"},
    {"evidence"},
    {"wire"},
    {"remote"},
    {"mounted"},
    {"mounts"},
    {"opening"},
    {"aio"},
    {"transfer", "doctor"},
    {"evidence_page"},
    {"stats"},  # the public name of figures of the doctor
    {"sync"},
    {"tidy_lease"},
    {"integrations"},
    {"agent"},
    {"testing"},
    {"mcp"},
    {"claude_agent"},
    {"server"},
    {"console", "gateway"},
    {"cli"},  # `demo` runs the scripted Claude
    {"__main__"},
]
DRIVERS = {
    "sqlite3": {"storage/sqlite/connection.py", "search/index.py", "transfer/formats.py"},
    "psycopg": {"storage/server/postgresql"},
    "pymysql": {"storage/server/mariadb.py"},
    "obstore": {"storage/objects"},
    "cryptography": {"storage/sealed", "cli/keys.py"},
    "anthropic": {
        "integrations/anthropic",
        "agent",
        "cli/demo.py",
        "testing/scripted_claude/requests.py",
        "server/dreams.py",
    },
    "langchain": {"integrations/langchain.py"},
    "langchain_core": {"integrations/langchain.py"},
    "langgraph": {"integrations/langgraph.py"},
    "agents": {"integrations/openai_agents.py"},
    "google": {"integrations/adk.py"},
    "strands": {"integrations/strands.py"},
    "pydantic_ai": {"integrations/pydantic_ai.py"},
    "anyio": {
        "aio.py",
        "remote/client.py",
        "integrations/anthropic",
        "agent",
        "mcp",
        "claude_agent.py",
        "server/application.py",
        "server/dreams.py",
        "server/requests.py",
    },
    "click": {"cli"},
    "re2": {"redaction", "search/literal.py"},
    "pytest": {"testing/backend_suite", "testing/pytest_plugin.py"},
    "starlette": {"testing/scripted_claude", "server", "console", "gateway/endpoint.py"},
    "uvicorn": {"testing/scripted_claude", "server/serve.py", "server/protocol.py"},
    "mcp": {"mcp", "server/mcp.py"},
    "deepagents": {"integrations/deepagents.py"},
    "claude_agent_sdk": {"claude_agent.py"},
    "watchfiles": {"sync/session.py"},
    "joserfc": {"server/oauth.py", "server/openid.py"},
    "jinja2": {"console/rendering.py", "evidence_page.py"},
    "markdown_it": {"console/markdown.py"},
    "nh3": {"console/markdown.py"},
    "prometheus_client": {"server/telemetry.py", "server/metrics.py", "server/location_metrics.py"},
    "opentelemetry": {"server/telemetry.py"},
}


def layer(name: str) -> int | None:
    """Return the layer of a module of this package, given by the longest prefix in the list."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        for level, names in enumerate(LAYERS):
            if ".".join(parts[:end]) in names:
                return level
    return None


def upwards(path: Path) -> Iterator[str]:
    """Yield the imports of a module that do not go to a lower layer."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    own = layer(name)
    assert own is not None, f"{name} has no layer"
    for other in imported(path):
        ours = other.removeprefix("retentive.")
        if ours == other or ours.split(".")[0] == "__version__":
            continue
        level = layer(ours)
        same_package = ours.split(".")[0] == name.split(".")[0]
        if level is None or level > own or (level == own and not same_package):
            yield f"{name} imports {other} of layer {level}"


def test_imports_go_downwards_only() -> None:
    assert [problem for path in modules() for problem in upwards(path)] == []


def test_a_driver_is_imported_in_its_own_file_only() -> None:
    found = [(str(path.relative_to(ROOT)), name) for path in modules() for name in imported(path)]
    drivers = {(where, name.split(".")[0]) for where, name in found if name.split(".")[0] in DRIVERS}
    assert {name for _, name in drivers} >= {"sqlite3", "anthropic", "starlette"}
    assert [(where, name) for where, name in drivers if not where.startswith(tuple(DRIVERS[name]))] == []


def test_importing_retentive_imports_no_heavy_modules() -> None:
    """Opening and using a store does not import any heavy module either."""
    code = """
import sys, retentive
def heavy(): return [name for name in {heavy!r} if name in sys.modules]
first = heavy()
with retentive.open("sqlite://") as opened:
    opened.store().execute({{"command": "view", "path": "/memories"}})
print(first, heavy())
"""
    assert run(code.format(heavy=HEAVY)) == "[] []"


WITHOUT_SDK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"anthropic", "httpx2"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


def test_only_the_agents_and_tools_of_the_sdk_need_it() -> None:
    code = """
import retentive, retentive.agent as agent
for name in agent.__all__:
    name in ("Agent", "AsyncAgent") or getattr(agent, name)
with retentive.open("sqlite://") as opened:
    block = {"type": "tool_use", "id": "t", "name": "memory", "input": {"command": "view", "path": "/memories"}}
    print(retentive.tool_result(opened.store(), block)["tool_use_id"], retentive.TOOL["name"])
for name in ("MemoryTool", "AsyncMemoryTool", "Agent", "AsyncAgent"):
    try:
        getattr(agent if "Agent" in name else retentive, name)
    except ImportError as error:
        print("pip install 'anthropic" in str(error))
"""
    assert run(WITHOUT_SDK + code).splitlines() == ["t memory", *["True"] * 4]


NEEDED = {
    ("langchain_core", "langchain"): "'langchain",
    ("langgraph.store.base", "langgraph"): "'langgraph",
    ("agents", "openai_agents"): "'openai-agents",
    ("pydantic_ai", "pydantic_ai"): "'pydantic-ai-slim",
}


@pytest.mark.parametrize(("package", "name"), NEEDED)
def test_without_its_package_an_integration_names_it(package: str, name: str) -> None:
    code = f"""
import sys
sys.modules["{package}"] = None
try:
    import retentive.integrations.{name}
except ImportError as error:
    print(error)
"""
    assert f"pip install {NEEDED[package, name]}" in run(code)


def test_public_names_are_exported() -> None:
    for name in retentive.__all__:
        assert getattr(retentive, name) is not None
    assert retentive.__all__ == sorted(
        retentive.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name)
    )
    with pytest.raises(AttributeError):
        _ = retentive.nothing  # type: ignore[attr-defined]


def test_errors_name_the_packages_of_an_extra() -> None:
    """Messages name the packages themselves, because retentive may not be installed from a registry."""
    assert pip_install("crypto", "sync") == "pip install 'cryptography>=45' 'watchfiles>=1.3'"
    assert "'psycopg[binary]" in pip_install("postgres")
    named = [path for path in modules() if "pip install" in path.read_text("utf-8")]
    assert named == [ROOT / "values" / "extras.py"]
