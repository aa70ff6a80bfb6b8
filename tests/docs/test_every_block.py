"""Every block of the documentation is run, compared or checked. Those that no test runs are listed with the reason."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from support.pages import MEASURED, ROOT, WRITTEN, Block, blocks

from .test_examples_run import RUNNABLE

HOST = "needs a host of its own: users, services, certificates or a domain"
SERVER = "`tests/docs/test_server_page.py` runs it"
NOT_RUN: dict[str, dict[str, str]] = {
    "CONTRIBUTING": {"make lint test": "these are the tests"},
    "README": {"make run": "the demo; `tests/features/cli/test_demo.py` runs it"},
    "cli": {
        "retentive create": "`tests/features/cli/test_process.py` and `test_writing.py` run these commands",
        "eval": "`tests/features/cli/test_completion.py` runs the script",
    },
    "console": {
        "pip install": "installs; `tests/environments/test_uvx.py` runs the console with its extra alone",
    },
    "deployment": {
        "useradd": HOST,
        "make release": "`tests/features/packages/test_release.py` and `make check NAME=image` run it",
        "POSTGRES_PASSWORD": "needs Docker; `tests/docs/test_deploy_server.py` checks the file",
        "kubectl": "needs Kubernetes; `tests/docs/test_deploy_server.py` checks the chart",
        "podman": "needs Podman; `make check NAME=image` builds the image of the server",
    },
    "frameworks": {"pip install": "installs packages of cloud providers"},
    "security": {"podman": "needs Podman"},
    "history": {"-- PostgreSQL.": "rewrites whole tables of a server in use"},
    "mcp": {"claude mcp add": "needs Claude Code; the tests start `retentive mcp` themselves"},
    "moving": {"tar c": "`tests/features/server/test_our_routes.py` sends such a body"},
    "operations": {
        "createdb": HOST,
        "mariadb": HOST,
        "export AWS": "needs an account at AWS",
        "retentive --at": "a job of a schedule on a host; `tests/features/audit` runs the commands",
        "retentive serve": "serves until it is stopped; `tests/features/server/test_cli.py` runs it with these options",
        "curl": "`tests/features/server/test_webhooks.py` sends such requests",
    },
    "remote": {
        "export RETENTIVE_API_KEY": "`tests/docs/test_remote_page.py` runs the program of the page",
        "export MEMORY_URL": "`tests/features/server/test_typescript.py` runs the program",
        "retentive --at": "needs a server; `tests/features/sync/test_command.py` runs it",
    },
    "server": dict.fromkeys(("# memory.example.com", "# host", "retentive serve", "curl", "// sdk.mts"), SERVER),
    "tutorial": {"python3 -m venv": "`tests/features/packages/test_packages.py` installs into new environments"},
    "web-service": {"pip install": "installs"},
}
"""Reason for each block that `test_examples_run.py` does not run, by page and the begin of the block."""
COMMENTED = re.compile(r"\s+# .*")


def remaining(page: Path) -> list[Block]:
    """The blocks of a page that no other test of this folder runs or compares."""
    found, before = [], ""
    for block in blocks(page):
        is_run = page in RUNNABLE and block.language in {"python", "console"}
        is_output = block.language == "text" and before == "python"
        is_sentence = block.language in {"", "text"} and "$ " not in block.body
        if not (is_run or is_output or is_sentence or block.language in {"py", "toml", "json"}):
            found.append(block)
        before = block.language
    return found


def test_each_block_is_run_or_has_a_reason() -> None:
    unused = {(page, begin) for page, begins in NOT_RUN.items() for begin in begins}
    unexplained = []
    for page in WRITTEN:
        for block in remaining(page):
            begins = [begin for begin in NOT_RUN.get(page.stem, {}) if block.body.startswith(begin)]
            unused -= {(page.stem, begin) for begin in begins}
            if not begins:
                unexplained.append((page.stem, block.line, block.body[:40]))
    assert unexplained == []
    assert unused == set(), "run now, or gone"


@pytest.mark.parametrize("page", [page for page in WRITTEN if page != MEASURED], ids=lambda page: page.stem)
def test_blocks_of_a_shell_are_valid(page: Path) -> None:
    """The syntax is that of bash, and the targets of make exist."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for block in blocks(page):
        if block.language in {"sh", "bash"}:
            done = subprocess.run(["bash", "-n"], input=block.body, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{page.name}, line {block.line}: {done.stderr}"
            for line in block.body.splitlines():
                if line.startswith("make "):
                    named = [word for word in COMMENTED.sub("", line).split()[1:] if "=" not in word]
                    assert set(named) <= targets, f"{page.name}, line {block.line}: {line}"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_blocks_of_data_can_be_parsed(page: Path) -> None:
    for block in blocks(page):
        if block.language == "json":
            json.loads(block.body)
        elif block.language == "toml":
            tomllib.loads(block.body)


def test_no_fence_is_missed() -> None:
    """A fence with attributes, or indented, would not be a block for these tests."""
    for page in WRITTEN:
        fences = re.findall(r"^\s*(?:```|~~~)", page.read_text("utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len(blocks(page)), page.name


def test_the_tests_that_are_named_exist() -> None:
    reasons = " ".join(reason for page in NOT_RUN.values() for reason in page.values())
    for name in re.findall(r"`(tests/[^`]+)`", reasons):
        assert (ROOT / name).exists(), name
