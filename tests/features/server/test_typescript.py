"""The programs of examples/typescript run against a server and a scripted Claude."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import retentive
from retentive.testing.scripted_claude import scripted_claude
from support import node
from support.http_api import serving
from support.pages import ROOT
from support.printed import environment
from support.scripts import SCRIPTS


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A copy of the examples beside the packages."""
    folder = node.modules(node.SDK)
    for path in (ROOT / "examples" / "typescript").iterdir():
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


def test_a_call_that_is_sent_again_is_carried_out_once(programs: Path, tmp_path: Path) -> None:
    """Errors of the tool reach the model as errors, and a repeated id changes nothing."""
    (programs / "twice.mts").write_text(
        """
import { memoryTool } from "./memory.mts";
const { MEMORY_URL, MEMORY_KEY, STORE } = process.env;
const tool = memoryTool({ url: MEMORY_URL, key: MEMORY_KEY, store: STORE });
const create = { command: "create", path: "/memories/a.md", file_text: "a" };
const context = { toolUse: { id: "toolu_" + "a".repeat(24) } };
for (const each of [context, context, undefined]) {
  try { console.log(await tool.run(create, each)); } catch (error) { console.log(error.name, error.message); }
}
"""
    )
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened) as api:
        store = opened.store("team")
        printed = run(programs, "twice.mts", MEMORY_URL=api.url, MEMORY_KEY=api.key, STORE=store.id)
        made = "File created successfully at: /memories/a.md"
        assert printed.splitlines() == [made, made, "ToolError Error: File /memories/a.md already exists"]
        assert len(store.versions()) == 1
