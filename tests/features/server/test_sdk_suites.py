"""The tests of the official SDK against this server: those of each route, and those of directory synchronisation.

They are in the source archive of the SDK, which is downloaded. docs/server.md lists the tests that cannot apply.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from support.http_api import Api
from support.profiles import LONG

from . import sdk_placeholders

SDK = "anthropic==2.12.0"
TOOLS = (
    "pytest pytest-asyncio respx inline-snapshot dirty-equals aiohttp rich time-machine nest_asyncio"
    " http-snapshot[httpx]==0.1.9 opentelemetry-sdk hypothesis standardwebhooks"
)
OPTIONS = "-q -p tests._alias_httpx -o addopts= -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=session"
CANNOT_APPLY = {
    "test_final_flush.py::test_a_flush_cut_off_part_way_logs_how_many_files_it_had_not_uploaded",
    "test_memory_sync.py::test_paths_that_escape_the_store_are_refused",
}
"""The first counts requests of the fake before they are sent; the second needs a server that stores such paths."""

pytestmark = pytest.mark.skipif(not LONG, reason="downloads the SDK and takes a minute; runs in the long profile")


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the SDK's sources, and an environment `venv` with what their tests need."""
    folder = tmp_path_factory.mktemp("sdk")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", SDK, *TOOLS.split()], check=True)
    subprocess.run([*pip, "download", "--no-deps", "--no-binary", "anthropic", SDK], cwd=folder, check=True)
    (archive,) = folder.glob("anthropic-*.tar.gz")
    with tarfile.open(archive) as found:
        found.extractall(folder, filter="data")
    (source,) = (each for each in folder.glob("anthropic-*") if each.is_dir())
    return source


def outcome(sdk: Path, *arguments: str, **variables: str) -> tuple[dict[str, int], set[str]]:
    """Counts of the outcomes of a run, such as `passed`, and the names of the failed tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON", "RETENTIVE"))}
    command = [str(sdk.parent / "venv" / "bin" / "python"), "-m", "pytest", *OPTIONS.split(), *arguments]
    done = subprocess.run(command, cwd=sdk, env=kept | variables, capture_output=True, text=True, check=False)
    *lines, last = done.stdout.splitlines()
    failed = {line.split()[1].rpartition("/")[2] for line in lines if line.startswith(("FAILED ", "ERROR "))}
    return {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed|skipped|errors?)", last)}, failed


def test_the_tests_of_each_route(sdk: Path, api: Api) -> None:
    """They send placeholders for ids and values; a proxy puts in real ones."""
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), sdk_placeholders.handler(api.url, api.key))
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        found = outcome(
            sdk,
            "tests/api_resources/beta/memory_stores",
            "tests/api_resources/beta/test_memory_stores.py",
            TEST_API_BASE_URL=f"http://127.0.0.1:{proxy.server_port}",
        )
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()
    assert found == ({"passed": 340}, set())


def test_the_tests_of_directory_synchronisation(sdk: Path, api: Api) -> None:
    """Their memory in a process is replaced by one on this server."""
    suite = sdk / "tests" / "lib" / "tools" / "memory_sync"
    (suite / "_fake_anthropic.py").write_text(
        Path(sdk_placeholders.__file__).with_name("sdk_live_memory.py").read_text("utf-8")
    )
    variables = {"RETENTIVE_TEST_URL": api.url, "RETENTIVE_TEST_KEY": api.key}
    counts, failed = outcome(sdk, "-o", "filterwarnings=ignore", str(suite.relative_to(sdk)), **variables)
    assert failed == CANNOT_APPLY
    assert counts == {"passed": 105, "skipped": 2, "failed": 2}
