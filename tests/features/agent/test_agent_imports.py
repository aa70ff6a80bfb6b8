"""Importing the package is cheap. Only the two agents need the SDK, and their error names it if it is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from retentive import agent

WITHOUT_SDK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"anthropic", "httpx2"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


def test_only_the_agents_need_the_sdk() -> None:
    names = [name for name in agent.__all__ if name not in {"Agent", "AsyncAgent"}]
    code = f"""
import retentive, retentive.agent as agent
for name in {names!r}: getattr(agent, name)
store = retentive.open("sqlite://").store()
print(agent.betas_of(agent.memory_context()), agent.function_tool(store).reply("{{}}").is_error)
"""
    assert run(WITHOUT_SDK + code) == "['context-management-2025-06-27', 'compact-2026-01-12'] True"


@pytest.mark.parametrize("name", ["Agent", "AsyncAgent"])
def test_without_the_sdk_the_error_names_the_package(name: str) -> None:
    code = f"""
try:
    from retentive.agent import {name}
except ImportError as error:
    print(error)
"""
    assert run(WITHOUT_SDK + code).startswith("Agent needs the SDK: pip install 'anthropic")
