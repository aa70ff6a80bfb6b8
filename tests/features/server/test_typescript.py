"""TypeScript: the programs of examples/languages, and the official SDK over every route that Anthropic hosts."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import retentive
from retentive.server.handlers import ROUTES
from retentive.testing.scripted_claude import scripted_claude
from support import node
from support.http_api import serving
from support.pages import ROOT
from support.printed import environment
from support.scripts import SCRIPTS
from support.served_process import started


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A copy of the examples beside the packages."""
    folder = node.modules(node.SDK)
    for path in (ROOT / "examples" / "languages").iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "node_modules").symlink_to(folder)
    return tmp_path


def run(programs: Path, name: str, *arguments: str, **variables: str) -> str:
    command = [node.executable(programs / "node_modules"), "--disable-warning=ExperimentalWarning", name, *arguments]
    done = subprocess.run(
        command, cwd=programs, env=environment("") | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_an_agent_in_typescript_remembers(programs: Path, tmp_path: Path) -> None:
    """Two sessions; then the hosted-API client edits the memory, and lists its versions."""
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened) as api:
        store = opened.store("team")
        given = {"MEMORY_URL": api.url, "MEMORY_KEY": api.key, "STORE": store.id}
        with scripted_claude(*SCRIPTS) as claude:
            given |= {"ANTHROPIC_BASE_URL": claude.url, "ANTHROPIC_API_KEY": "test"}
            first = run(programs, "agent.mts", "Please remember: Ada prefers e-mail and pays in euros.", **given)
            assert first == "I will remember: Ada prefers e-mail and pays in euros.\n"
            assert claude.failures == []
        assert [each.path for each in store.memories()] == ["/memories/customers/ada.md"]
        printed = run(programs, "history.mts", **given)
        assert printed.splitlines() == ["/customers/ada.md modified 51", "/customers/ada.md created 39"]


@pytest.mark.long
def test_the_programs_fit_the_types_of_the_sdk(programs: Path) -> None:
    compiler = node.modules("typescript") / "typescript" / "bin" / "tsc"
    options = "--noEmit --strict --module nodenext --target es2023 --lib es2023,dom,dom.iterable --types node"
    command = [node.executable(programs / "node_modules"), str(compiler), *options.split(), "--skipLibCheck"]
    command += ["--allowImportingTsExtensions", *sorted(each.name for each in programs.glob("*.mts"))]
    done = subprocess.run(command, cwd=programs, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


DRIVER = Path(__file__).parent / "every_route.mjs"
HOSTED = re.compile(
    r"/v1/memory_stores(/\{memory_store_id\}(/archive|/(memories|memory_versions)(/\{\w+\}(/redact)?)?)?)?"
)
KEYS = "/v1/organizations/api_keys"


def hosted() -> set[tuple[str, str]]:
    """Routes of the SDK. It has none that creates a key."""
    found = {(route.method, route.path) for route in ROUTES if HOSTED.fullmatch(route.path)}
    return found | {("GET", KEYS), ("GET", f"{KEYS}/{{api_key_id}}"), ("POST", f"{KEYS}/{{api_key_id}}")}


@pytest.mark.long
def test_the_typescript_sdk_drives_every_hosted_route(tmp_path: Path) -> None:
    """Each route answers with success at least once, and no answer is an error of the server."""
    folder = node.modules(node.SDK)
    with started("--at", f"sqlite:///{tmp_path}/memory.db", directory=tmp_path) as (_, lines):
        key, url = (line.rpartition(" ")[2] for line in (lines[0], lines[-1]))
        printed = node.output(DRIVER, tmp_path, folder, MEMORY_URL=url, MEMORY_KEY=key)
    requests = [line.split() for line in printed.splitlines()]
    assert [request for request in requests if int(request[2]) >= 500] == []
    answered = {(method, path) for method, path, status in requests if status == "200"}
    assert {route for route in hosted() if not any(fits(route, sent) for sent in answered)} == set()
    assert len(hosted()) == 17


def fits(route: tuple[str, str], request: tuple[str, str]) -> bool:
    """True if a request is one of the route."""
    return route[0] == request[0] and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route[1]), request[1]) is not None
